//! Prepared XA transactions: their changes become visible when they are committed, which is a later
//! event of the log.

use super::event::Event;
use super::position::{Gtid, Position};
use crate::source::SourceError;
use guira_sql::Bytes;
use std::fmt::Write;

/// The limit of memory for the events of all prepared transactions, in bytes.
const KEPT_MAX: usize = 16 << 20;
/// The memory of an event without its body.
const EVENT: usize = 64;

/// An event that is reported once its transaction is committed.
#[derive(Debug)]
pub(super) struct KeptEvent {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
}

/// Events of a transaction, in order.
#[derive(Debug, Default)]
pub(super) struct KeptEvents {
    events: Vec<KeptEvent>,
    bytes: usize,
}

impl IntoIterator for KeptEvents {
    type Item = KeptEvent;
    type IntoIter = std::vec::IntoIter<KeptEvent>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.into_iter()
    }
}

#[derive(Debug)]
struct Prepared {
    xid: String,
    gtid: Gtid,
    before: Position,
    events: KeptEvents,
}

/// All prepared transactions without an end so far, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct PreparedTransactions {
    prepared: Vec<Prepared>,
    bytes: usize,
}

impl PreparedTransactions {
    /// Keeps an event of a transaction that will be prepared.
    ///
    /// # Errors
    /// A gap, if the events would take too much memory.
    pub(super) fn keep(&self, events: &mut KeptEvents, event: &Event<'_>) -> Result<(), SourceError> {
        let bytes = EVENT + event.body.len();
        if self.bytes + events.bytes + bytes > KEPT_MAX {
            return Err(SourceError::Gap(
                "the changes of prepared XA transactions exceed the limit of 16 MiB".to_owned(),
            ));
        }
        events.bytes += bytes;
        events.events.push(KeptEvent { kind: event.kind, body: event.body.to_vec() });
        Ok(())
    }

    pub(super) fn prepare(&mut self, xid: String, gtid: Gtid, before: Position, events: KeptEvents) {
        // The log may be read twice: an earlier transaction of this name is replaced.
        drop(self.end(&xid));
        self.bytes += events.bytes;
        self.prepared.push(Prepared { xid, gtid, before, events });
    }

    /// Removes a transaction that has ended; returns its events.
    pub(super) fn end(&mut self, xid: &str) -> Option<KeptEvents> {
        let at = self.prepared.iter().position(|prepared| prepared.xid == xid)?;
        let ended = self.prepared.remove(at);
        self.bytes -= ended.events.bytes;
        Some(ended.events)
    }

    /// The position from which the log has to be read after a restart, if it is before `position`.
    pub(super) fn held_back(&self, position: &Position) -> Option<Position> {
        if self.prepared.is_empty() {
            return None;
        }
        let mut held = position.clone();
        for prepared in self.prepared.iter().rev() {
            held.hold_back(&prepared.gtid, &prepared.before);
        }
        Some(held)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Preparation {
    /// In the syntax of the statement that ends the transaction.
    pub(super) xid: String,
    /// Whether the event also commits it: `XA COMMIT … ONE PHASE`.
    pub(super) is_committed: bool,
}

impl Preparation {
    /// Reads the body of the event.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let is_committed = bytes.byte()? != 0;
        let (format, first, second) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        let (first, second) = (bytes.take(first as usize)?, bytes.take(second as usize)?);
        Some(Preparation { xid: format!("X'{}',X'{}',{format}", hex(first), hex(second)), is_committed })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// The name in a statement such as `XA COMMIT X'61',X'',1`.
pub(super) fn named(statement: &[u8]) -> Option<String> {
    let text = str::from_utf8(statement).ok()?;
    let name = text.split_ascii_whitespace().nth(2)?;
    Some(name.to_ascii_uppercase())
}

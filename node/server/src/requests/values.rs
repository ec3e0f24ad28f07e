//! Stores whose values arrive in pieces, in any protocol.

use super::interpreter::Interpreter;
use super::long_value::{Announcement, LongValue};
use super::state::{Phase, ProtocolState};
use guira_commands::Data;
use guira_contract::{Key, Session};
use guira_serving::Outbox;

/// The longest value that a connection holds until all of it has arrived, while memory for connections is short. A longer
/// value is written to the engine's memory as it arrives: there is more of it.
const WHOLE_MAX_SHORT: usize = 512;

impl<S: Session> Interpreter<S> {
    /// The longest value that a connection may hold until all of it has arrived. What a datagram lacks never arrives.
    pub(crate) fn whole_max(&self, state: &ProtocolState<S>) -> usize {
        if state.sender.is_some() && self.runner.host.budget.is_short() {
            WHOLE_MAX_SHORT
        } else {
            usize::MAX
        }
    }

    /// Takes a piece of a long value. Returns how many bytes were taken.
    pub(crate) fn value(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Phase::Value(value) = &mut state.phase else {
            return 0;
        };
        let (missing, end_missing) = value.missing();
        let (piece, rest) = input.split_at(input.len().min(missing));
        if self.runner.executor.extend(&mut value.pending, piece).is_err() {
            let left = missing - piece.len() + end_missing;
            if let Phase::Value(value) = std::mem::replace(&mut state.phase, Phase::skip(left as u64)) {
                self.give_up(&value.announcement, outbox);
            }
            return piece.len();
        }
        let end = &rest[..rest.len().min(end_missing)];
        value.end.extend(end.iter().copied());
        if value.missing() == (0, 0)
            && let Phase::Value(value) = std::mem::take(&mut state.phase)
        {
            self.finish_value(*value, outbox);
        }
        piece.len() + end.len()
    }

    /// There is no memory for the rest of a value.
    fn give_up(&mut self, announcement: &Announcement, outbox: &mut Outbox<S::Pin>) {
        match announcement {
            Announcement::Line(line) => self.give_up_line(line, outbox),
            Announcement::Packet { packet, store, key } => {
                self.runner.executor.binary_give_up(*packet, store, key, outbox);
            }
        }
    }

    fn finish_value(&mut self, value: LongValue<S::Pending>, outbox: &mut Outbox<S::Pin>) {
        let LongValue { announcement, pending, end } = value;
        self.runner.begin_uses(1);
        match announcement {
            Announcement::Line(line) => self.store_line(&line, pending, &end, outbox),
            Announcement::Packet { packet, store, key } => {
                let key = Key { bytes: &key, hash: self.runner.executor.prefetch(&key) };
                let data = Data::Pending(pending);
                self.runner.executor.binary_store(packet, &store, key, S::Guess::default(), data, outbox);
            }
        }
        self.runner.end_uses();
    }
}

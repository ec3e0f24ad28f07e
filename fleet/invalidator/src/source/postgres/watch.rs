//! Watches the slot over a second connection: the log that the database retains may fill its disk.

use super::client::Options;
use super::position::Lsn;
use crate::counters::Counts;
use crate::source::{Extent, SourceError, WATCH_EVERY};
use guira_sql::postgres::{Messages, Purpose, connect, literal, query};
use guira_sync::stop::Stop;
/// The status of a slot that retains no more log than the database would keep anyway.
const RESERVED: &str = "reserved";

/// The state of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    end: Option<Lsn>,
    retained: u64,
    status: String,
    /// The bytes that may be written before the slot is lost, if there is a limit.
    left: Option<u64>,
}

/// Watches the slot until it is stopped.
pub(super) fn watch(options: &Options, counts: &Counts, stop: &Stop) {
    let (mut messages, mut before, mut is_seen) = (None, RESERVED.to_owned(), true);
    loop {
        let looked = look(options, &mut messages, stop);
        let was_seen = std::mem::replace(&mut is_seen, looked.is_ok());
        match looked {
            Ok(Some(sight)) => {
                counts.set_retained(sight.retained);
                counts.set_extent(sight.end.map(|end| Extent::new(vec![(0, end.0)])));
                if let Some(alarm) = sight.alarm(&before, &options.slot) {
                    tracing::error!("{alarm}");
                }
                before = sight.status;
            }
            Ok(None) => {
                counts.set_retained(0);
                counts.set_extent(None);
            }
            Err(error) => {
                messages = None;
                counts.set_extent(None);
                if was_seen && stop.check().is_ok() {
                    // Operator: Grant the role `pg_monitor`; only the metric is missing.
                    tracing::warn!("cannot read how much WAL slot {} retains: {error}", options.slot);
                }
            }
        }
        if stop.wait(WATCH_EVERY).is_err() {
            return;
        }
    }
}

fn look(
    options: &Options,
    messages: &mut Option<Messages>,
    stop: &Stop,
) -> Result<Option<Sight>, SourceError> {
    let messages = match messages {
        Some(messages) => messages,
        None => messages.insert(connect(&options.server, &options.database, Purpose::Statements, stop)?),
    };
    let rows = query(
        messages,
        &format!(
            "SELECT pg_current_wal_lsn(), pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, wal_status, safe_wal_size \
             FROM pg_catalog.pg_replication_slots WHERE slot_name = {}",
            literal(&options.slot)
        ),
    )?;
    Ok(rows.into_iter().next().and_then(|row| {
        let [end, retained, status, left]: [Option<String>; 4] = row.try_into().ok()?;
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        // A lost slot retains nothing.
        Some(Sight {
            end: end.and_then(|end| Lsn::read(&end)),
            retained: number(retained).unwrap_or(0),
            status: status.unwrap_or_default(),
            left: number(left),
        })
    }))
}

impl Sight {
    /// The warning for this status, unless `before` was the same status.
    fn alarm(&self, before: &str, slot: &str) -> Option<String> {
        let Sight { retained, status, left, .. } = self;
        if status == RESERVED || status == before {
            return None;
        }
        let left = left.map(|left| format!("; the slot is lost after {left} more bytes")).unwrap_or_default();
        Some(format!(
            "slot {slot} retains {retained} bytes of WAL ({status}){left}. Check the targets that are unreachable"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_holds_up_the_log_is_told_once() {
        let sight = |status: &str| Sight { end: None, retained: 7, status: status.to_owned(), left: Some(9) };
        assert_eq!(sight("reserved").alarm("reserved", "guira"), None);
        let alarm = sight("extended").alarm("reserved", "guira").unwrap();
        assert!(
            alarm.contains("retains 7 bytes of WAL (extended)") && alarm.contains("after 9 more bytes"),
            "{alarm}"
        );
        assert_eq!(sight("extended").alarm("extended", "guira"), None);
        assert!(sight("lost").alarm("extended", "guira").is_some());
    }
}

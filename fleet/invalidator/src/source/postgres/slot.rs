//! The replication slot, for which the database keeps its log.

use super::client::SlotCreation;
use super::position::{Lsn, Position};
use crate::source::SourceError;
use guira_sql::postgres::{Messages, Row, identifier, literal, query};
use std::io;
use std::time::Duration;

/// The only supported output plugin.
const PLUGIN: &str = "pgoutput";
/// The status of a slot whose WAL files were removed.
const LOST: &str = "lost";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    name: String,
    plugin: String,
    is_of_this_database: bool,
    /// The process that reads from the slot.
    reader: Option<String>,
    is_lost: bool,
    /// The position up to which the slot's reader has confirmed everything.
    confirmed: Option<Lsn>,
}

pub(super) fn find(messages: &mut Messages, name: &str) -> Result<Option<Slot>, SourceError> {
    let rows = query(
        messages,
        &format!(
            "SELECT plugin, database = current_database(), active_pid, wal_status, confirmed_flush_lsn \
             FROM pg_catalog.pg_replication_slots WHERE slot_name = {}",
            literal(name)
        ),
    )?;
    let wrong = || SourceError::Malformed("its slot");
    rows.into_iter().next().map(|row| Slot::read(name, row).ok_or_else(wrong)).transpose()
}

impl Slot {
    fn read(name: &str, row: Row) -> Option<Self> {
        let [plugin, database, reader, status, confirmed]: [Option<String>; 5] = row.try_into().ok()?;
        Some(Slot {
            name: name.to_owned(),
            plugin: plugin.unwrap_or_default(),
            is_of_this_database: database.as_deref() == Some("t"),
            reader,
            is_lost: status.as_deref() == Some(LOST),
            confirmed: match confirmed {
                Some(lsn) => Some(Lsn::read(&lsn)?),
                None => None,
            },
        })
    }

    fn check_kind(&self) -> Result<(), SourceError> {
        let name = &self.name;
        if self.plugin != PLUGIN || !self.is_of_this_database {
            return Err(SourceError::Unsuitable(format!(
                "slot {name} belongs to another database or another output plugin than {PLUGIN}: use another slot or drop this one"
            )));
        }
        Ok(())
    }

    /// Fails if another process reads from the slot.
    pub(super) fn check_reader(&self) -> Result<(), SourceError> {
        let name = &self.name;
        match &self.reader {
            Some(reader) => {
                let text = format!("slot {name} is in use by process {reader} of the database");
                Err(io::Error::other(text).into())
            }
            None => Ok(()),
        }
    }
}

/// Checks that the log has everything behind `position`; it ends at `end`.
pub(super) fn check(
    slot: Option<&Slot>,
    name: &str,
    position: Position,
    end: Position,
) -> Result<(), SourceError> {
    let gap = |text: String| Err(SourceError::Gap(text));
    if position.system != end.system {
        return gap(format!(
            "the position belongs to database {}, but this database is {}",
            position.system, end.system
        ));
    }
    let Some(slot) = slot else {
        return gap(format!("slot {name} no longer exists"));
    };
    let Some(confirmed) = slot.confirmed.filter(|_| !slot.is_lost) else {
        return gap(format!(
            "slot {name} is lost: the log for it exceeded max_slot_wal_keep_size, and the database removed parts"
        ));
    };
    slot.check_kind()?;
    if confirmed > position.lsn {
        return gap(format!("slot {name} starts at {confirmed}, after the position {}", position.lsn));
    }
    if position.lsn > end.lsn {
        return gap(format!(
            "the log ends at {}, before the position {}: the database was restored from an older state",
            end.lsn, position.lsn
        ));
    }
    Ok(())
}

/// Checks that a position of an older timeline is before the end of that timeline, which the
/// database's `history` file has.
pub(super) fn check_timeline(history: &str, position: Position) -> Result<(), SourceError> {
    let mut ends = history.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let timeline: u32 = words.next()?.parse().ok()?;
        let end = Lsn::read(words.next()?)?;
        (timeline == position.timeline).then_some(end)
    });
    match ends.next() {
        Some(end) if position.lsn <= end => Ok(()),
        _ => Err(SourceError::Gap(format!(
            "the position {} of timeline {} is not in the history of this database",
            position.lsn, position.timeline
        ))),
    }
}

/// The start of an existing slot. A lost slot is dropped, and counts as missing.
pub(super) fn begin(
    messages: &mut Messages,
    slot: Slot,
    creation: SlotCreation,
) -> Result<Option<Lsn>, SourceError> {
    slot.check_kind()?;
    slot.check_reader()?;
    match slot.confirmed {
        Some(confirmed) if !slot.is_lost => return Ok(Some(confirmed)),
        _ if creation == SlotCreation::Forbidden => {}
        _ => drop(query(messages, &format!("DROP_REPLICATION_SLOT {}", identifier(&slot.name)))?),
    }
    Ok(None)
}

/// Copies a slot for the time of the connection; returns the name of the copy.
pub(super) fn copy(messages: &mut Messages, name: &str) -> Result<String, SourceError> {
    let statement = format!(
        "SELECT slot_name FROM pg_catalog.pg_copy_logical_replication_slot({}, 'guira_replay_' || pg_backend_pid(), true)",
        literal(name)
    );
    let row = query(messages, &statement)?.into_iter().next();
    row.and_then(|row| row.into_iter().next().flatten())
        .ok_or(SourceError::Malformed("the name of the copied slot"))
}

/// Creates a slot at the present end of the log. The database waits for all running transactions.
pub(super) fn create(messages: &mut Messages, name: &str) -> Result<Lsn, SourceError> {
    tracing::info!("creating replication slot {name}; waiting for running transactions to end");
    messages.set_patience(Duration::MAX);
    let statement =
        format!("CREATE_REPLICATION_SLOT {} LOGICAL {PLUGIN} NOEXPORT_SNAPSHOT", identifier(name));
    let rows = query(messages, &statement)?;
    messages.reset_patience();
    let lsn = rows.into_iter().next().and_then(|row| row.into_iter().nth(1).flatten());
    lsn.and_then(|lsn| Lsn::read(&lsn)).ok_or(SourceError::Malformed("the position of the created slot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Position = Position { system: 7, timeline: 1, lsn: Lsn(1000) };

    fn at(lsn: u64) -> Position {
        Position { lsn: Lsn(lsn), ..END }
    }

    fn slot() -> Slot {
        Slot {
            name: "guira".to_owned(),
            plugin: PLUGIN.to_owned(),
            is_of_this_database: true,
            reader: None,
            is_lost: false,
            confirmed: Some(Lsn(500)),
        }
    }

    fn reported(slot: Option<&Slot>, position: Position) -> String {
        match check(slot, "guira", position, END) {
            Ok(()) => "good".to_owned(),
            Err(SourceError::Gap(gap)) => gap,
            Err(other) => format!("other: {other}"),
        }
    }

    #[test]
    fn a_position_that_the_slot_does_not_reach_is_a_gap() {
        for lsn in [500, 501, 1000] {
            assert_eq!(reported(Some(&slot()), at(lsn)), "good", "{lsn}");
        }
        assert_eq!(reported(Some(&slot()), at(499)), "slot guira starts at 0/1F4, after the position 0/1F3");
        assert!(reported(Some(&slot()), at(1001)).contains("restored from an older state"));
        assert!(reported(None, at(500)).contains("no longer exists"));
        assert!(reported(Some(&slot()), Position { system: 8, ..at(500) }).contains("belongs to database 8"));
        let lost = Slot { is_lost: true, ..slot() };
        assert!(reported(Some(&lost), at(500)).contains("is lost"));
        let gone = Slot { confirmed: None, ..slot() };
        assert!(reported(Some(&gone), at(500)).contains("is lost"));
    }

    #[test]
    fn a_slot_of_others_is_not_used() {
        let used = Slot { reader: Some("4242".to_owned()), ..slot() };
        assert_eq!(reported(Some(&used), at(500)), "good", "it may be copied");
        let error = used.check_reader().unwrap_err();
        assert!(error.is_passing() && error.to_string().contains("process 4242"), "{error}");
        for other in
            [Slot { plugin: "wal2json".to_owned(), ..slot() }, Slot { is_of_this_database: false, ..slot() }]
        {
            assert!(
                reported(Some(&other), at(500))
                    .starts_with("other: slot guira belongs to another database or another output plugin")
            );
        }
    }

    #[test]
    fn an_older_timeline_counts_up_to_its_end() {
        let history = "1\t0/1F4\tno recovery target specified\n\n2\t0/3E8\tafter a failover\n";
        let check = |timeline, lsn| check_timeline(history, Position { timeline, ..at(lsn) }).is_ok();
        assert!(check(1, 500) && check(2, 1000));
        assert!(!check(1, 501) && !check(2, 1001) && !check(3, 1));
    }

    #[test]
    fn a_row_of_the_database_is_read() {
        let text = |text: &str| Some(text.to_owned());
        let row = vec![text("pgoutput"), text("t"), None, text("reserved"), text("0/1F4")];
        assert_eq!(Slot::read("guira", row), Some(slot()));
        let row = vec![text("pgoutput"), text("t"), None, text("lost"), None];
        assert_eq!(Slot::read("guira", row), Some(Slot { is_lost: true, confirmed: None, ..slot() }));
        assert_eq!(Slot::read("guira", vec![text("pgoutput")]), None);
    }
}

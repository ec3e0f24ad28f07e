//! Why a database does not send its log any further.

use crate::SourceError;
use std::io;

/// The number for all fatal errors of a dump thread, which differ by their texts only.
const FATAL: u16 = 1236;
/// Needed transactions were purged, or do not exist yet (MySQL).
const MISSING_NUMBERS: [u16; 2] = [1789, 1885];
/// Another reader of this number has connected (MariaDB).
const SAME_READER_NUMBER: u16 = 4052;

/// Texts of errors about a missing part of the log. They are those of `rpl_binlog_sender.cc` and
/// `binlog.cc` of MySQL 5.7 to 9 and of `sql_repl.cc` of MariaDB, in small letters and without the
/// words that were renamed (master and source, slave and replica).
const MISSING: [&str; 12] = [
    // Purged.
    "purged required binary logs",
    "purged binary logs containing",
    "could not find gtid state requested",
    // Never existed, or no longer exist.
    "has more gtids than the",
    "requested to start from gtid",
    "gtid state not found in binlog",
    "is missing the gtid",
    "cannot replicate anonymous transaction",
    // An unknown file, or an impossible position in one.
    "could not find first log file name",
    "from impossible position",
    "from position > file size",
    "from position < 4",
];

/// Errors that the next connection may not meet, or may report with a clearer reason: `RESET
/// MASTER` removes files while they are read.
const PASSING: [&str; 3] =
    ["could not find next log", "i/o error reading log event", "memory allocation failed reading log event"];

const SAME_READER: &str = "with the same server_uuid/server_id";

/// Classifies an error of a dump thread. Only missing changes are a gap, since a gap flushes
/// caches.
pub(super) fn of_log(code: u16, text: &str) -> Option<SourceError> {
    let says = {
        let text = text.to_ascii_lowercase();
        move |expected: &[&str]| expected.iter().any(|words| text.contains(words))
    };
    match code {
        _ if MISSING_NUMBERS.contains(&code) => Some(SourceError::Gap(text.to_owned())),
        SAME_READER_NUMBER => Some(same_reader(text)),
        FATAL if says(&[SAME_READER]) => Some(same_reader(text)),
        FATAL if says(&MISSING) => Some(SourceError::Gap(text.to_owned())),
        FATAL if says(&PASSING) => Some(SourceError::Connection(io::Error::other(text.to_owned()))),
        FATAL => Some(SourceError::Refused(text.to_owned())),
        _ => None,
    }
}

fn same_reader(text: &str) -> SourceError {
    SourceError::Unsuitable(format!(
        "the database closed this connection because another reader uses the same server-id. \
         Set a server-id that no other reader or replica has: {text}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> SourceError {
        of_log(FATAL, text).expect("an error of a log")
    }

    #[test]
    fn only_what_is_missing_is_a_gap() {
        for text in [
            // As MariaDB 10.11.19 has answered.
            "Error: connecting slave requested to start from GTID 0-1-500, which is not in the master's binlog",
            "Error: connecting slave requested to start from GTID 0-7-1, which is not in the master's binlog. Since the master's binlog contains \
             GTIDs with higher sequence numbers, it probably means that the slave has diverged due to executing extra erroneous transactions",
            "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and required binlog files have \
             been purged.",
            // As its source has it, and that of MySQL.
            "Requested slave GTID state not found in binlog",
            "The binlog on the master is missing the GTID 0-1-7 requested by the slave (even though both a prior and a subsequent sequence number does \
             exist), and GTID strict mode is enabled",
            "Could not find first log file name in binary log index file",
            "Client requested master to start replication from impossible position; the first event 'b.000001' at 9, …",
            "Client requested source to start replication from position > file size",
            "The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1, but the master has purged binary logs containing GTIDs that the \
             slave requires.",
            "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from elsewhere, …",
            "Slave has more GTIDs than the master has, using the master's SERVER_UUID. …",
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID. …",
            "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file ./binlog.000007, position 157.",
        ] {
            assert!(matches!(of(text), SourceError::Gap(_)), "{text}: {}", of(text));
        }
        for code in MISSING_NUMBERS {
            assert!(matches!(of_log(code, "any"), Some(SourceError::Gap(_))));
        }
        for text in [
            "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source; the first event '' at 4, …",
            "event read from binlog did not pass crc check",
            "bogus data in log event",
            "Binary log is not open",
            "Could not open log file",
            "Slave can not handle replication events with the checksum that master is configured to log",
            "a text that nobody knows",
            "",
        ] {
            assert!(matches!(of(text), SourceError::Refused(_)), "{text}: {}", of(text));
        }
    }

    #[test]
    fn a_second_reader_is_named_as_the_reason() {
        let places = "; the first event '.' at 4, the last event read from 'b.000001' at 761, the last byte read from 'b.000001' at 792.";
        for (code, text) in [
            (FATAL, "A slave with the same server_uuid/server_id as this slave has connected to the master"),
            (
                FATAL,
                "A replica with the same server_uuid/server_id as this replica has connected to the source",
            ),
            (SAME_READER_NUMBER, "A slave with the same server_uuid/server_id is already connected"),
        ] {
            let error = of_log(code, &format!("{text}{places}")).unwrap();
            assert!(
                matches!(&error, SourceError::Unsuitable(it) if it.contains("a server-id that no other")),
                "{error}"
            );
            assert!(!error.is_passing());
        }
    }

    #[test]
    fn what_the_next_connection_tells_is_asked_again() {
        for text in [
            "could not find next log; the first event '.' at 4, the last event read from 'b.000003' at 547, the last byte read from 'b.000003' at 587.",
            "I/O error reading log event",
        ] {
            assert!(of(text).is_passing(), "{text}: {}", of(text));
        }
        assert!(of_log(1045, "purged required binary logs").is_none(), "of no log");
    }
}

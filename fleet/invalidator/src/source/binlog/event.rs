//! The heads of events, their kinds, and their checksums.

use crate::source::SourceError;
use guira_sql::Bytes;
use std::io;

/// Kinds of events, by the numbers in their heads.
pub(super) mod kind {
    pub(in super::super) const QUERY: u8 = 2;
    pub(in super::super) const ROTATE: u8 = 4;
    pub(in super::super) const FORMAT: u8 = 15;
    pub(in super::super) const XID: u8 = 16;
    pub(in super::super) const EXECUTE_LOAD_QUERY: u8 = 18;
    pub(in super::super) const TABLE_MAP: u8 = 19;
    pub(in super::super) const WRITE_ROWS_1: u8 = 23;
    pub(in super::super) const UPDATE_ROWS_1: u8 = 24;
    pub(in super::super) const DELETE_ROWS_1: u8 = 25;
    pub(in super::super) const INCIDENT: u8 = 26;
    pub(in super::super) const HEARTBEAT: u8 = 27;
    pub(in super::super) const WRITE_ROWS_2: u8 = 30;
    pub(in super::super) const UPDATE_ROWS_2: u8 = 31;
    pub(in super::super) const DELETE_ROWS_2: u8 = 32;
    pub(in super::super) const ROWS_QUERY: u8 = 29;
    pub(in super::super) const MYSQL_GTID: u8 = 33;
    pub(in super::super) const MYSQL_ANONYMOUS: u8 = 34;
    pub(in super::super) const XA_PREPARE: u8 = 38;
    pub(in super::super) const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub(in super::super) const TRANSACTION_PAYLOAD: u8 = 40;
    pub(in super::super) const MYSQL_GTID_TAGGED: u8 = 42;
    pub(in super::super) const ANNOTATE_ROWS: u8 = 160;
    pub(in super::super) const GTID: u8 = 162;
    pub(in super::super) const QUERY_COMPRESSED: u8 = 165;
    pub(in super::super) const WRITE_ROWS_COMPRESSED_1: u8 = 166;
    pub(in super::super) const DELETE_ROWS_COMPRESSED_1: u8 = 168;
    pub(in super::super) const WRITE_ROWS_COMPRESSED_2: u8 = 169;
    pub(in super::super) const DELETE_ROWS_COMPRESSED_2: u8 = 171;

    /// Kinds without data: STOP, INTVAR, APPEND_BLOCK, DELETE_FILE, RAND, USER_VAR,
    /// BEGIN_LOAD_QUERY, IGNORABLE; MySQL's PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE and
    /// HEARTBEAT_LOG_EVENT_V2; MariaDB's checkpoints, GTID lists, and the start of encryption.
    pub(in super::super) const NEUTRAL: [u8; 15] =
        [3, 5, 9, 11, 13, 14, 17, 28, 35, 36, 37, 41, 161, 163, 164];

    /// Whether events of this kind have row images.
    pub(in super::super) fn is_of_rows(kind: u8) -> bool {
        matches!(
            kind,
            WRITE_ROWS_1..=DELETE_ROWS_1
                | WRITE_ROWS_2..=DELETE_ROWS_2
                | PARTIAL_UPDATE_ROWS
                | WRITE_ROWS_COMPRESSED_1..=DELETE_ROWS_COMPRESSED_2
        )
    }
}

/// The flag of events that a reader may skip if their kind is unknown.
const IGNORABLE: u16 = 0x80;

const HEAD: usize = 19;
const SUM: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    None,
    Crc32,
}

/// An event without its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub(super) kind: u8,
    /// In seconds since 1970.
    pub(super) when: u64,
    pub(super) server: u32,
    /// The end of the event in its file; 0 for an event that is in no file.
    pub(super) end: u32,
    pub(super) is_ignorable: bool,
    pub(super) body: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads an event of a file with this kind of checksum. The end of a truncated event is not
    /// read.
    pub(super) fn read(bytes: &'a [u8], checksum: Checksum, is_whole: bool) -> Result<Self, SourceError> {
        let mut head = Bytes(bytes);
        let read = |head: &mut Bytes<'a>| {
            let (when, kind, server) = (head.u32()?, head.byte()?, head.u32()?);
            let (_length, end) = (head.u32()?, head.u32()?);
            Some((when, kind, server, end, head.u16()?))
        };
        let Some((when, kind, server, end, flags)) = read(&mut head) else {
            return Err(SourceError::Malformed("the head of an event"));
        };
        let mut body = head.0;
        let sums = checksum == Checksum::Crc32 || matches!(kind, kind::FORMAT | kind::ROTATE);
        if sums && is_whole {
            body = match without_sum(bytes) {
                Some(whole) => &whole[HEAD..],
                // The server makes some of these itself. Before the first FORMAT event MySQL adds a
                // checksum, and MariaDB does not.
                None if kind == kind::ROTATE => body,
                None => {
                    let wrong = format!("the checksum of an event of kind {kind} is wrong");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, wrong).into());
                }
            };
        }
        let is_ignorable = flags & IGNORABLE != 0;
        Ok(Event { kind, when: u64::from(when), server, end, is_ignorable, body })
    }

    /// The checksums of the events behind a FORMAT event: the last byte before its own checksum.
    pub(super) fn checksum(&self) -> Result<Checksum, SourceError> {
        match self.body.last() {
            Some(0) => Ok(Checksum::None),
            Some(1) => Ok(Checksum::Crc32),
            _ => Err(SourceError::Unsuitable("the log has checksums of an unsupported kind".to_owned())),
        }
    }
}

/// The event without its checksum, if the checksum is right.
fn without_sum(bytes: &[u8]) -> Option<&[u8]> {
    let (whole, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
    let is_right = whole.len() >= HEAD && crc32fast::hash(whole).to_le_bytes() == *sum;
    is_right.then_some(whole)
}

/// A statement, and the database in which it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query<'a> {
    pub(super) database: &'a [u8],
    pub(super) text: &'a [u8],
}

/// Reads the body of a QUERY event; an EXECUTE_LOAD_QUERY event has a head of 13 more bytes.
pub(super) fn query<'a>(event: &Event<'a>) -> Option<Query<'a>> {
    let mut bytes = Bytes(event.body);
    let (_thread, _time) = (bytes.u32()?, bytes.u32()?);
    let database = usize::from(bytes.byte()?);
    let _error = bytes.u16()?;
    let variables = usize::from(bytes.u16()?);
    if event.kind == kind::EXECUTE_LOAD_QUERY {
        bytes.take(13)?;
    }
    bytes.take(variables)?;
    let database = bytes.take(database)?;
    bytes.take(1)?;
    Some(Query { database, text: bytes.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    /// `CREATE DATABASE shop`, as MariaDB 10.11.19 has sent it.
    const CREATE: &str = "9ae6066b 02 01000000 57000000 09030000 0800
        05000000 00000000 04 0000 1a00 0000000001010000205400000000060373746404210021000800
        73686f7000 435245415445204441544142415345 2073686f70 88a80ab0";

    #[test]
    fn a_statement_is_read() {
        let bytes = unhex(CREATE);
        let event = Event::read(&bytes, Checksum::Crc32, true).unwrap();
        assert_eq!((event.kind, event.when, event.server), (kind::QUERY, 0x6b06_e69a, 1));
        assert_eq!(query(&event), Some(Query { database: b"shop", text: b"CREATE DATABASE shop" }));
        let plain = Event::read(&bytes[..bytes.len() - SUM], Checksum::None, true).unwrap();
        assert_eq!(plain.body, event.body);
    }

    #[test]
    fn an_event_that_was_damaged_is_refused() {
        let whole = unhex(CREATE);
        for at in [0, 30, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(Event::read(&bytes, Checksum::Crc32, true).unwrap_err().is_passing(), "at {at}");
        }
        for length in 0..whole.len() {
            assert!(Event::read(&whole[..length], Checksum::Crc32, true).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn the_servers_own_rotation_has_no_checksum() {
        let bytes =
            unhex("00000000 04 01000000 28000000 00000000 2000 0400000000000000 62696e6c6f672e303030303031");
        let event = Event::read(&bytes, Checksum::Crc32, true).unwrap();
        assert_eq!((event.kind, event.body.len()), (kind::ROTATE, 21));
    }

    #[test]
    fn a_format_says_how_events_end() {
        let bytes = format_event(1);
        let event = Event::read(&bytes, Checksum::None, true).unwrap();
        assert_eq!((event.kind, event.checksum().unwrap()), (kind::FORMAT, Checksum::Crc32));
        let bytes = format_event(0);
        assert_eq!(Event::read(&bytes, Checksum::None, true).unwrap().checksum().unwrap(), Checksum::None);
        let bytes = format_event(9);
        assert!(Event::read(&bytes, Checksum::None, true).unwrap().checksum().is_err());
    }

    fn format_event(ending: u8) -> Vec<u8> {
        let mut bytes = unhex("99e6066b 0f 01000000 fc000000 00010000 0000 0400");
        bytes.extend([0; 60]);
        bytes.push(ending);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }
}

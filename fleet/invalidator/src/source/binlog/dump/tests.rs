//! Events as MariaDB 10.11.19 sends them, and variants that it might send.

use super::super::options::Product;
use super::super::rows::tests::{DELETE, INSERT, UPDATE};
use super::super::table::tests::USERS;
use super::*;
use crate::source::{Image, Value};
use guira_sql::testing::unhex;
use guira_sync::stop::Stopped;
use std::fmt::Display;

/// Records the changes that the log reports.
#[derive(Debug, Default)]
struct Reported(Vec<String>);

impl Changes for Reported {
    fn wants(&self, _: &[u8], table: &[u8]) -> bool {
        table == b"users"
    }
    fn statement(&mut self, text: &[u8], when: u64) -> Result<(), Stopped> {
        self.0.push(format!("{when}: {}", text.escape_ascii()));
        Ok(())
    }
    fn message(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
        panic!("MariaDB has no messages")
    }
    fn reached(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
        panic!("positions are those of transactions")
    }
    fn row(&mut self, row: &Row<'_>) -> Result<(), Stopped> {
        let id = |image: Option<Image<'_>>| match image.map(|image| image.value("ID")) {
            Some(Value::Unsigned(id)) => id.to_string(),
            _ => "none".to_owned(),
        };
        self.0.push(format!("{} -> {}", id(row.before()), id(row.after())));
        Ok(())
    }
    fn unseen(&mut self, database: &[u8], verb: &str) {
        self.0.push(format!("unseen {verb} in {}", database.escape_ascii()));
    }
    fn committed(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped> {
        self.0.push(format!("{when}: end at {position}"));
        Ok(())
    }
    fn pause(&mut self) -> Result<(), Stopped> {
        self.0.push("pause".to_owned());
        Ok(())
    }
    fn skipped(&mut self, _: &str, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
}

/// An event of server 1 at second 7, without a checksum.
fn event(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = 7_u32.to_le_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(((19 + body.len()) as u32).to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend_from_slice(body);
    bytes
}

fn gtid(sequence: u64, flags: u8) -> Vec<u8> {
    let mut body = sequence.to_le_bytes().to_vec();
    body.extend([0, 0, 0, 0, flags, 0, 0, 0, 0, 0, 0]);
    event(kind::GTID, &body)
}

fn statement(database: &str, text: &str) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.push(database.len() as u8);
    body.extend([0; 4]);
    body.extend(database.bytes().chain([0]).chain(text.bytes()));
    event(kind::QUERY, &body)
}

fn take(dump: &mut Dump, events: &[Vec<u8>]) -> (Vec<String>, Result<(), SourceError>) {
    let mut reported = Reported::default();
    let taken = events.iter().try_for_each(|event| dump.take(event, true, &mut reported));
    (reported.0, taken)
}

fn dump() -> Dump {
    Dump::new(Start::parse(Product::MariaDb, "0-1-5,7-2-3").unwrap())
}

/// The changes of these events, all of which are valid.
fn reported(events: &[Vec<u8>]) -> Vec<String> {
    let (reported, taken) = take(&mut dump(), events);
    taken.unwrap();
    reported
}

fn error(events: &[Vec<u8>]) -> SourceError {
    take(&mut dump(), events).1.unwrap_err()
}

#[test]
fn a_transaction_is_told_with_its_statement_its_rows_and_its_end() {
    let events = [
        gtid(6, 0x0c),
        event(kind::ANNOTATE_ROWS, b"/* mc: a */ INSERT"),
        event(kind::TABLE_MAP, &unhex(USERS)),
        event(kind::WRITE_ROWS_1, &unhex(INSERT)),
        event(kind::UPDATE_ROWS_1, &unhex(UPDATE)),
        event(kind::DELETE_ROWS_1, &unhex(DELETE)),
        event(kind::XID, &[8, 0, 0, 0, 0, 0, 0, 0]),
    ];
    let expected = [
        "7: /* mc: a */ INSERT",
        "none -> 4000000000",
        "none -> 2",
        "2 -> 2",
        "2 -> none",
        "7: end at 0-1-6,7-2-3",
    ];
    assert_eq!(reported(&events), expected);
}

#[test]
fn a_transaction_of_a_simple_engine_ends_by_a_statement() {
    let events = [
        gtid(6, 0x08),
        event(kind::ANNOTATE_ROWS, b"insert"),
        statement("shop", "SAVEPOINT `a`"),
        statement("shop", "ROLLBACK TO `a`"),
        statement("shop", "COMMIT"),
        gtid(7, 0x08),
        statement("shop", "ROLLBACK"),
    ];
    assert_eq!(reported(&events), ["7: insert", "7: end at 0-1-6,7-2-3", "7: end at 0-1-7,7-2-3"]);
}

#[test]
fn statements_without_rows_are_told_as_unseen() {
    let events = [gtid(6, 0x29), statement("shop", "/* mc: a */ truncate users")];
    let expected = ["7: /* mc: a */ truncate users", "unseen TRUNCATE in shop", "7: end at 0-1-6,7-2-3"];
    assert_eq!(reported(&events), expected);
    let events = [gtid(6, 0x29), statement("shop", "CREATE TABLE t (i INT)")];
    assert_eq!(reported(&events), ["7: CREATE TABLE t (i INT)", "7: end at 0-1-6,7-2-3"]);
    // A statement in a transaction that is logged as text.
    let events = [gtid(6, 0x0c), statement("shop", "UPDATE users SET x=1"), event(kind::XID, &[0; 8])];
    let expected = ["7: UPDATE users SET x=1", "unseen UPDATE in shop", "7: end at 0-1-6,7-2-3"];
    assert_eq!(reported(&events), expected);
}

#[test]
fn a_transaction_that_was_cut_off_has_no_end() {
    let events = [
        gtid(6, 0x0c),
        event(kind::TABLE_MAP, &unhex(USERS)),
        event(kind::DELETE_ROWS_1, &unhex(DELETE)),
        gtid(6, 0x0c),
        event(kind::XID, &[0; 8]),
    ];
    let mut dump = dump();
    let (reported, taken) = take(&mut dump, &events[..4]);
    taken.unwrap();
    assert_eq!(
        (reported, dump.position().to_string()),
        (vec!["2 -> none".to_owned()], "0-1-5,7-2-3".to_owned())
    );
    let (reported, taken) = take(&mut dump, &events[4..]);
    taken.unwrap();
    assert_eq!(
        (&*reported, dump.position().to_string()),
        (&["7: end at 0-1-6,7-2-3".to_owned()][..], "0-1-6,7-2-3".to_owned())
    );
}

#[test]
fn rows_of_tables_that_nobody_wants_are_skipped_unread() {
    let other = unhex(&USERS.replace("7573657273", "7573657274"));
    let events = [
        gtid(6, 0x0c),
        event(kind::TABLE_MAP, &other),
        event(kind::DELETE_ROWS_1, &unhex("120000000000 0100 ffff")),
        event(kind::XID, &[0; 8]),
    ];
    assert_eq!(reported(&events), ["7: end at 0-1-6,7-2-3"]);
}

#[test]
fn a_table_may_have_the_number_that_stands_for_none() {
    const NONE: &str = "ffffff000000";
    let body = |hex: &str| unhex(&hex.replacen("120000000000", NONE, 1));
    let rows = event(kind::DELETE_ROWS_1, &body(DELETE));
    let with_table = [gtid(6, 0x0c), event(kind::TABLE_MAP, &body(USERS)), rows.clone()];
    assert_eq!(reported(&with_table), ["2 -> none"]);
    assert_eq!(reported(&[gtid(6, 0x0c), rows]), [""; 0]);
}

#[test]
fn keys_do_not_wait_for_the_end_of_a_long_transaction() {
    let other = unhex(&USERS.replace("7573657273", "7573657274"));
    let mut events = vec![gtid(6, 0x08), event(kind::ANNOTATE_ROWS, b"insert"), statement("shop", "COMMIT")];
    events.extend([gtid(7, 0x0c), event(kind::TABLE_MAP, &other)]);
    events.resize(EVENTS_MAX as usize, event(kind::DELETE_ROWS_1, &unhex(DELETE)));
    assert_eq!(reported(&events), ["7: insert", "7: end at 0-1-6,7-2-3", "pause"]);
}

#[test]
fn what_would_leave_something_stale_ends_the_reading() {
    for (events, expected) in [
        (vec![event(kind::INCIDENT, &[1, 0, 0])], "has a gap: the database reports missing changes"),
        (
            vec![gtid(6, 0x8d), statement("shop", "XA COMMIT X'78',X'',1")],
            "X'78',X'',1 was committed by 0-1-6, but prepared before",
        ),
        (vec![gtid(6, 0), event(kind::QUERY_COMPRESSED, &[0; 14])], "a statement"),
        (vec![event(200, &[])], "an event of the unsupported kind 200"),
        (vec![gtid(6, 0), event(kind::DELETE_ROWS_1, &unhex(DELETE))], "rows of no table"),
        (vec![event(kind::XID, &[0; 8])], "without a GTID"),
        (vec![gtid(6, 0), event(kind::TABLE_MAP, &unhex(&USERS.replacen("13 03", "13 63", 1)))], "a table"),
    ] {
        let error = error(&events);
        assert!(error.to_string().contains(expected) && !error.is_passing(), "{expected}: {error}");
    }
    assert_eq!(reported(&[gtid(6, 0x8d), statement("", "XA ROLLBACK X'78'")]), ["7: end at 0-1-6,7-2-3"]);
}

#[test]
fn of_what_is_too_long_only_what_matters_ends_the_reading() {
    let take = |event: &[u8]| {
        let mut dump = dump();
        let (_, taken) = take(&mut dump, &[gtid(6, 0), self::event(kind::TABLE_MAP, &unhex(USERS))]);
        taken.unwrap();
        dump.take(event, false, &mut Reported::default())
    };
    let error = take(&event(kind::WRITE_ROWS_1, &unhex(INSERT))).unwrap_err().to_string();
    assert!(error.contains("a row of users of over 64 MiB"), "{error}");
    let error = take(&event(kind::ANNOTATE_ROWS, b"INSERT")).unwrap_err().to_string();
    assert!(error.contains("over 64 MiB"), "{error}");
}

#[test]
fn events_that_say_nothing_of_data_are_skipped() {
    for kind in kind::NEUTRAL.into_iter().chain([kind::HEARTBEAT, kind::ROTATE]) {
        assert_eq!(reported(&[event(kind, &[1, 2, 3])]), [""; 0], "kind {kind}");
    }
    let mut unknown = event(200, &[]);
    unknown[17] = 0x80;
    assert_eq!(reported(&[unknown]), [""; 0], "it may be ignored");
}

#[test]
fn checksums_are_expected_once_a_format_says_so() {
    let mut dump = dump();
    let mut format = event(kind::FORMAT, &[0; 60]);
    format.push(1);
    let mut with_sum = event(kind::XID, &[0; 8]);
    let mut begin = gtid(6, 0x0c);
    for event in [&mut format, &mut begin, &mut with_sum] {
        event.extend(crc32fast::hash(event).to_le_bytes());
    }
    let (reported, taken) = take(&mut dump, &[format, begin, with_sum.clone()]);
    taken.unwrap();
    assert_eq!(reported, ["7: end at 0-1-6,7-2-3"]);
    with_sum[20] ^= 1;
    assert!(take(&mut dump, &[with_sum]).1.unwrap_err().is_passing());
}

#[test]
fn the_place_is_that_of_the_last_event_in_its_file() {
    let mut dump = dump();
    let rotation = |offset: u64, name: &[u8]| event(kind::ROTATE, &[&offset.to_le_bytes(), name].concat());
    let ending = |end: u32| {
        let mut bytes = event(kind::HEARTBEAT, b"");
        bytes[13..17].copy_from_slice(&end.to_le_bytes());
        bytes
    };
    let mut place = |event: Vec<u8>| {
        dump.take(&event, true, &mut Reported::default()).unwrap();
        (dump.place().file, dump.place().offset)
    };
    assert_eq!(place(rotation(4, b"binlog.000007")), (7, 4));
    assert_eq!(place(ending(300)), (7, 300));
    assert_eq!(place(ending(0)), (7, 300), "it is in no file");
    assert_eq!(place(rotation(1 << 33, b"bin.log.000008")), (8, 1 << 33));
    assert_eq!(place(rotation(4, b"something")), (8, 1 << 33));
}

/// `XA END`, and the event that prepares or commits the transaction `jk`.
fn preparation(is_committed: u8) -> [Vec<u8>; 2] {
    let body = [&[is_committed, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0][..], b"jk"].concat();
    [statement("shop", "XA END X'6a6b',X'',1"), event(kind::XA_PREPARE, &body)]
}

/// A transaction `jk` that has changed a row and is prepared.
fn prepared(sequence: u64) -> Vec<Vec<u8>> {
    let mut events = vec![
        gtid(sequence, 0x4c),
        event(kind::ANNOTATE_ROWS, b"/* mc: a */ DELETE"),
        event(kind::TABLE_MAP, &unhex(USERS)),
        event(kind::DELETE_ROWS_1, &unhex(DELETE)),
    ];
    events.extend(preparation(0));
    events
}

fn simple(sequence: u64) -> [Vec<u8>; 2] {
    [gtid(sequence, 0x0c), event(kind::XID, &[0; 8])]
}

#[test]
fn what_was_prepared_is_told_when_it_is_committed() {
    let mut dump = dump();
    let events = [&prepared(6)[..], &simple(7)].concat();
    let (reported, taken) = take(&mut dump, &events);
    taken.unwrap();
    assert_eq!(
        reported,
        ["7: end at 0-1-5,7-2-3/0-1-7,7-2-3"],
        "it is read again from before the preparation"
    );
    assert!(dump.has_reached(&Position::parse(Product::MariaDb, "0-1-7").unwrap()));
    let (reported, taken) = take(&mut dump, &[gtid(8, 0x8d), statement("", "XA COMMIT X'6a6b',X'',1")]);
    taken.unwrap();
    assert_eq!(reported, ["7: /* mc: a */ DELETE", "2 -> none", "7: end at 0-1-8,7-2-3"]);
}

#[test]
fn what_was_committed_while_another_one_is_prepared_is_no_gap_when_it_is_read_again() {
    let other = [&[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], b"k"].concat();
    let (first, second) = (prepared(6), [gtid(7, 0x4c), event(kind::XA_PREPARE, &other)]);
    let commit = [gtid(8, 0x8d), statement("", "XA COMMIT X'6a6b',X'',1")];
    let mut dump = dump();
    let (reported, taken) = take(&mut dump, &[&first[..], &second, &commit].concat());
    taken.unwrap();
    let held = "0-1-6,7-2-3/0-1-8,7-2-3";
    assert_eq!(reported[2], format!("7: end at {held}"));
    let mut again = Dump::new(Start::parse(Product::MariaDb, held).unwrap());
    let (reported, taken) = take(&mut again, &[&second[..], &commit].concat());
    taken.unwrap();
    assert_eq!(reported, [format!("7: end at {held}")]);
    let later = [gtid(9, 0x8d), statement("", "XA COMMIT X'6a6b',X'',1")];
    let error = take(&mut again, &later).1.unwrap_err();
    assert!(error.to_string().contains("was committed by 0-1-9, but prepared before"), "{error}");
}

#[test]
fn what_was_prepared_and_rolled_back_is_not_told() {
    let rollback = [gtid(7, 0x8d), statement("", "XA ROLLBACK X'6a6b',X'',1")];
    assert_eq!(reported(&[&prepared(6)[..], &rollback].concat()), ["7: end at 0-1-7,7-2-3"]);
}

#[test]
fn what_was_prepared_and_committed_at_once_is_told_at_once() {
    let mut events = prepared(6);
    events.truncate(4);
    events.extend(preparation(1));
    assert_eq!(reported(&events), ["7: /* mc: a */ DELETE", "2 -> none", "7: end at 0-1-6,7-2-3"]);
}

#[test]
fn of_what_is_prepared_no_more_is_kept_than_16_mib() {
    let mut dump = dump();
    let mut reported = Reported::default();
    let long = event(kind::ANNOTATE_ROWS, &[b'a'; 5 << 20]);
    for sequence in 6..9 {
        dump.take(&gtid(sequence, 0x4c), true, &mut reported).unwrap();
        dump.take(&long, true, &mut reported).unwrap();
        let name = sequence as u8;
        let body = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, name];
        dump.take(&event(kind::XA_PREPARE, &body), true, &mut reported).unwrap();
    }
    dump.take(&gtid(9, 0x4c), true, &mut reported).unwrap();
    let error = dump.take(&long, true, &mut reported).unwrap_err();
    assert!(matches!(&error, SourceError::Gap(text) if text.contains("16 MiB")), "{error}");
    let rollback = statement("", "XA ROLLBACK X'07',X'',1");
    [gtid(9, 0x8d), rollback].iter().for_each(|event| dump.take(event, true, &mut reported).unwrap());
    dump.take(&gtid(10, 0x4c), true, &mut reported).unwrap();
    dump.take(&long, true, &mut reported).unwrap();
    assert_eq!(dump.position().to_string(), "0-1-5,7-2-3/0-1-9,7-2-3");
}

mod mysql;

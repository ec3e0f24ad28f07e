//! Events as MySQL 9.7.4 has sent them.

use super::*;
use crate::source::binlog::payload::tests::PAYLOAD;

/// A server, and its GTIDs as they stand in events.
const SERVER: &str = "8b9875c4-e970-11f1-8f31-02fc00000001";
const GTID: &str = "00 8b9875c4e97011f18f3102fc00000001 NUMBER 00000000000000";
const TAGGED: &str = "027a000000022d026102ea1103a503e022c5033d026204f1030000000204040610736f6d655f746167081c0a200c7f3880167c296106107d131283120b";

/// `shop.users`, whose columns are those of the table of the same name of MariaDB, and a row of it.
const TABLE: &str = "6c000000000001000473686f70000575736572730013030d08080ffefef6051211130afc10fef5010912b004fe50f7010c0308030600020201f80104ffff070101d20205fcff
    00023f0431026964017901620175046e616d650163016501640166017402747302747402646102626c0262690173016a027469026d650a03fcff000505020161016206050201
    7801790c03ffffe0";
const WRITTEN: &str = "6c00000000001100020013ffffff00000000286bee7efbffffffffffffffffffffffffffffff04005a6fc3ab03616263027ffffff3fea6000000000000f83f99b8c431051a7c
    695735a50a587080a2cc22d40f0400626c6f620005030d0000000001000c000b00010005010061c890eefefeff0702000000";
fn dump() -> Dump {
    Dump::new(Start::parse(Product::MySql, &format!("{SERVER}:1-5:t:1")).unwrap())
}

fn gtid(number: u8) -> Vec<u8> {
    event(kind::MYSQL_GTID, &unhex(&GTID.replacen("NUMBER", &format!("{number:02x}"), 1)))
}

fn xid() -> Vec<u8> {
    event(kind::XID, &[0; 8])
}

fn reported(events: &[Vec<u8>]) -> Vec<String> {
    let (reported, taken) = take(&mut dump(), events);
    taken.unwrap();
    reported
}

fn end(set: &str) -> String {
    format!("7: end at {SERVER}:{set}")
}

#[test]
fn a_transaction_is_told_with_its_statement_its_rows_and_its_end() {
    let events = [
        gtid(6),
        statement("shop", "BEGIN"),
        event(kind::ROWS_QUERY, b"\x1c/* mc: a */ INSERT"),
        event(kind::TABLE_MAP, &unhex(TABLE)),
        event(kind::WRITE_ROWS_2, &unhex(WRITTEN)),
        xid(),
    ];
    let expected = ["7: /* mc: a */ INSERT", "none -> 4000000000", "none -> 2", &end("1-6:t:1")];
    assert_eq!(reported(&events), expected);
}

#[test]
fn a_statement_that_nothing_begins_is_a_transaction() {
    let events = [
        gtid(8),
        statement("shop", "TRUNCATE users"),
        gtid(7),
        statement("shop", "BEGIN"),
        statement("shop", "CREATE TABLE `copy` (id INT) START TRANSACTION"),
        xid(),
    ];
    let expected = [
        "7: TRUNCATE users",
        "unseen TRUNCATE in shop",
        &end("1-5:8:t:1"),
        "7: CREATE TABLE `copy` (id INT) START TRANSACTION",
        &end("1-5:7-8:t:1"),
    ];
    assert_eq!(reported(&events), expected);
}

#[test]
fn a_gtid_may_have_a_tag() {
    let events = [event(kind::MYSQL_GTID_TAGGED, &unhex(TAGGED)), statement("shop", "BEGIN"), xid()];
    assert_eq!(reported(&events), [end("1-5:some_tag:1:t:1")]);
}

#[test]
fn a_compressed_transaction_is_told_like_others() {
    let events = [gtid(6), event(kind::TRANSACTION_PAYLOAD, &unhex(PAYLOAD))];
    let (reported, taken) = take(&mut dump(), &events);
    taken.unwrap();
    let without_time =
        |text: &String| text.split_once(": ").map_or(text.clone(), |(_, text)| text.to_owned());
    let expected = [
        "UPDATE users SET name = \\'zip\\'",
        "4000000000 -> 4000000000",
        "/* mc: zipped */ UPDATE users SET name = repeat(\\'zap\\', 100)",
        "4000000000 -> 4000000000",
        &format!("end at {SERVER}:1-6:t:1"),
    ];
    assert_eq!(reported.iter().map(without_time).collect::<Vec<_>>(), expected);
}

#[test]
fn a_compressed_transaction_that_is_damaged_or_too_long_is_refused() {
    let mut damaged = unhex(PAYLOAD);
    damaged.truncate(60);
    let (_, taken) = take(&mut dump(), &[gtid(6), event(kind::TRANSACTION_PAYLOAD, &damaged)]);
    let error = taken.unwrap_err();
    assert!(error.to_string().contains("compressed transaction") && !error.is_passing(), "{error}");
    let long = event(kind::TRANSACTION_PAYLOAD, &unhex(PAYLOAD));
    let error = dump().take(&long, false, &mut Reported::default()).unwrap_err();
    assert!(error.to_string().contains("over 64 MiB"), "{error}");
    let nested = [&[2, 3, 0xfc, 255, 0, 0][..], &event(kind::TRANSACTION_PAYLOAD, &[])].concat();
    let (_, taken) = take(&mut dump(), &[event(kind::TRANSACTION_PAYLOAD, &nested)]);
    assert!(taken.unwrap_err().to_string().contains("kind 40"), "one is within another");
}

#[test]
fn a_transaction_without_a_gtid_is_a_gap() {
    let (_, taken) = take(&mut dump(), &[event(kind::MYSQL_ANONYMOUS, &[0; 42])]);
    assert!(matches!(taken, Err(SourceError::Gap(_))));
}

#[test]
fn gtids_of_another_kind_of_database_are_refused() {
    let (_, taken) = take(&mut dump(), &simple(7));
    assert!(taken.unwrap_err().to_string().contains("another kind of database"));
}

#[test]
fn what_was_prepared_is_told_when_it_is_committed() {
    let mut dump = dump();
    let events = [
        gtid(6),
        statement("shop", "XA START X'6a6b',X'',1"),
        event(kind::TABLE_MAP, &unhex(TABLE)),
        event(kind::WRITE_ROWS_2, &unhex(WRITTEN)),
    ];
    let events = [&events[..], &preparation(0), &[gtid(7), statement("shop", "BEGIN"), xid()]].concat();
    let (reported, taken) = take(&mut dump, &events);
    taken.unwrap();
    assert_eq!(reported, [end("1-5:7:t:1")], "the preparation is read again");
    let (reported, taken) = take(&mut dump, &[gtid(8), statement("", "XA COMMIT X'6a6b',X'',1")]);
    taken.unwrap();
    assert_eq!(reported, ["none -> 4000000000", "none -> 2", &end("1-8:t:1")]);
}

/// Whatever a server sends, it is understood or refused.
#[test]
fn damaged_events_are_understood_or_refused() {
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    const ROUNDS: u32 = 20_000;
    println!("the seed is {SEED:#x}");
    let good = [
        event(kind::MYSQL_GTID_TAGGED, &unhex(TAGGED)),
        gtid(6),
        statement("shop", "XA START X'6a6b',X'',1"),
        event(kind::TABLE_MAP, &unhex(TABLE)),
        event(kind::WRITE_ROWS_2, &unhex(WRITTEN)),
        event(kind::TRANSACTION_PAYLOAD, &unhex(PAYLOAD)),
        preparation(0)[1].clone(),
        statement("", "XA COMMIT X'6a6b',X'',1"),
    ];
    let mut state = SEED;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut understood, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let mut dump = dump();
        // A table is known, so that rows are read.
        dump.take(&good[3], true, &mut Reported::default()).unwrap();
        let mut bytes = good[random(good.len())].clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        if random(4) == 0 {
            bytes.truncate(random(bytes.len()));
        }
        match dump.take(&bytes, true, &mut Reported::default()) {
            Ok(()) => understood += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(understood > 1000 && refused > 1000, "{understood} and {refused}");
}

//! Classic lines, and what each means.

use super::*;
use crate::VALUE_MAX;

/// Parses `text`, which ends with `\r\n`.
fn read(text: &str) -> Result<Command<'_>, Fault> {
    parse(Line { text: text.as_bytes(), length: text.len() + 2 })
}

fn fault(text: &str) -> Fault {
    match read(text) {
        Err(fault) => fault,
        Ok(command) => panic!("{text} was understood as {command:?}"),
    }
}

fn assert_bad_format(lines: &[&str]) {
    for line in lines {
        assert_eq!(fault(line), Fault::Answer("CLIENT_ERROR bad command line format"), "{line}");
    }
}

fn understood_get(text: &str) -> (Vec<&[u8]>, GetForm) {
    match read(text) {
        Ok(Command::Get(get)) => (get.keys.collect(), get.form),
        other => panic!("{text} was understood as {other:?}"),
    }
}

fn understood_store(text: &str) -> Store<'_> {
    match read(text) {
        Ok(Command::Store(store)) => store,
        other => panic!("{text} was understood as {other:?}"),
    }
}

fn long(length: usize) -> String {
    "k".repeat(length)
}

#[test]
fn retrieval_takes_any_number_of_keys() {
    use Unique::{Omitted, Shown};
    type Keys = &'static [&'static [u8]];
    let touch = |unique, seconds| GetForm::Touch(unique, Exptime(seconds));
    let rows: [(&str, Keys, GetForm); 10] = [
        ("get a", &[b"a"], GetForm::Plain(Omitted)),
        ("get a bc  d ", &[b"a", b"bc", b"d"], GetForm::Plain(Omitted)),
        ("get  a", &[b"a"], GetForm::Plain(Omitted)),
        ("get a noreply", &[b"a", b"noreply"], GetForm::Plain(Omitted)),
        ("get \t\u{1}", &[b"\t\x01"], GetForm::Plain(Omitted)),
        ("gets a b", &[b"a", b"b"], GetForm::Plain(Shown)),
        ("gat 60 a", &[b"a"], touch(Omitted, 60)),
        ("gats -1 a b", &[b"a", b"b"], touch(Shown, -1)),
        ("gat -2147483648 a", &[b"a"], touch(Omitted, i32::MIN)),
        ("lease-get a b", &[b"a", b"b"], GetForm::Lease),
    ];
    for (line, keys, form) in rows {
        assert_eq!(understood_get(line), (keys.to_vec(), form), "{line}");
    }
}

#[test]
fn a_single_key_is_known_as_such() {
    for (line, single) in [("get a", Some(b"a".as_slice())), ("get  a ", Some(b"a")), ("gets a b", None)] {
        let Ok(Command::Get(get)) = read(line) else { panic!("{line} is a get") };
        assert_eq!(get.keys.single(), single, "{line}");
    }
}

#[test]
fn the_keys_that_were_not_taken_are_left_as_text() {
    let Ok(Command::Get(Get { mut keys, .. })) = read("get a b  c") else { panic!("it is a get") };
    assert_eq!(keys.next(), Some(b"a".as_slice()));
    assert_eq!(keys.rest(), b"b  c".len());
    assert!(keys.eq([b"b".as_slice(), b"c"]));
}

#[test]
fn one_key_that_is_too_long_spoils_a_retrieval() {
    let (longest, longer) = (long(250), long(251));
    assert_eq!(understood_get(&format!("get a {longest}")).0.len(), 2);
    for line in [format!("get {longer}"), format!("gets a {longer} b"), format!("gat 0 a b {longer}")] {
        assert_bad_format(&[&line]);
    }
}

#[test]
fn every_storage_command_has_its_verb() {
    let rows = [
        ("set", Verb::Set),
        ("add", Verb::Add),
        ("replace", Verb::Replace),
        ("append", Verb::Append),
        ("prepend", Verb::Prepend),
    ];
    for (word, verb) in rows {
        let expected =
            Store { verb, key: b"key", flags: 7, exptime: Exptime(60), length: 5, noreply: Noreply::No };
        assert_eq!(understood_store(&format!("{word} key 7 60 5")), expected);
        assert_eq!(understood_store(&format!("{word}  key 7  60 5 ")), expected);
        let silent = Store { noreply: Noreply::Yes, ..expected };
        assert_eq!(understood_store(&format!("{word} key 7 60 5 noreply")), silent);
    }
    let unique = understood_store("cas key 0 0 1 18446744073709551615 noreply");
    assert_eq!((unique.verb, unique.noreply), (Verb::Cas(u64::MAX), Noreply::Yes));
}

#[test]
fn numbers_of_a_store_are_read_as_memcached_reads_them() {
    let rows = [
        ("set a 4294967295 0 1", u32::MAX, 0, 1),
        ("set a 4294967296 0 1", 0, 0, 1),
        ("set a +3 +5 1", 3, 5, 1),
        ("set a 007 007 007", 7, 7, 7),
        ("set a 0 -1 0", 0, -1, 0),
        ("set a 0 2592001 1", 0, 2_592_001, 1),
        ("set a 0 0 2147483645", 0, 0, VALUE_MAX),
    ];
    for (line, flags, exptime, length) in rows {
        let store = understood_store(line);
        assert_eq!((store.flags, store.exptime, store.length), (flags, Exptime(exptime), length), "{line}");
    }
}

#[test]
fn a_store_without_a_readable_length_has_no_data_and_is_answered_in_any_case() {
    assert_bad_format(&[
        "set",
        "set a",
        "set a 0",
        "set a 0 0",
        "set a 0 0 x",
        "set a 0 0 -1",
        "set a 0 0 +1",
        "set a 0 0 1x",
        "set a 0 0 1.5",
        "set a 0 0 2147483646",
        "set a 0 0 99999999999999999999",
        "set a 0 0 x noreply",
        "set a 0 noreply",
        "add a 0",
        "cas a 0 0",
    ]);
}

#[test]
fn any_other_fault_of_a_store_passes_over_its_data() {
    let longer = long(251);
    let rows = [
        ("set a x 0 5".to_owned(), 7),
        ("set a -1 0 5".to_owned(), 7),
        ("set a 0 x 5".to_owned(), 7),
        ("set a 0 1.5 0".to_owned(), 2),
        ("set a 0 9223372036854775808 1".to_owned(), 3),
        ("add a x 0 2147483645".to_owned(), 2_147_483_647),
        (format!("replace {longer} 0 0 10"), 12),
        ("cas a 0 0 5".to_owned(), 7),
        ("cas a 0 0 5 x".to_owned(), 7),
        ("cas a 0 0 5 -1".to_owned(), 7),
        ("cas a 0 0 5 18446744073709551616".to_owned(), 7),
    ];
    let swallow = |noreply, bytes| {
        let answer = "CLIENT_ERROR bad command line format";
        Fault::Swallow { answer, noreply, bytes }
    };
    for (line, bytes) in rows {
        assert_eq!(fault(&line), swallow(Noreply::No, bytes), "{line}");
        let silent = format!("{line} noreply");
        assert_eq!(fault(&silent), swallow(Noreply::Yes, bytes), "{silent}");
    }
}

#[test]
fn noreply_is_the_last_word_and_further_words_do_not_matter() {
    let rows = [
        ("set a 0 0 1 noreply", Noreply::Yes),
        ("set a 0 0 1 x noreply ", Noreply::Yes),
        ("set a 0 0 1 noreply x", Noreply::No),
        ("set a 0 0 1 noReply", Noreply::No),
        ("set a 0 0 1 noreply2", Noreply::No),
        ("set a 0 0 1 x y", Noreply::No),
        ("set noreply 0 0 1", Noreply::No),
    ];
    for (line, noreply) in rows {
        assert_eq!(understood_store(line).noreply, noreply, "{line}");
    }
}

#[test]
fn a_delete_has_a_key() {
    let rows: [(&str, &[u8], Option<u32>, Noreply); 7] = [
        ("delete a", b"a", Some(0), Noreply::No),
        ("delete a noreply", b"a", Some(0), Noreply::Yes),
        ("delete a 0", b"a", Some(0), Noreply::No),
        ("delete a 20 noreply", b"a", Some(20), Noreply::Yes),
        ("delete a -1", b"a", None, Noreply::No),
        ("delete a b c", b"a", None, Noreply::No),
        // The key is the last word as well.
        ("delete noreply", b"noreply", Some(0), Noreply::Yes),
    ];
    for (line, key, hold_off, noreply) in rows {
        let Ok(Command::Delete(delete)) = read(line) else { panic!("{line} is a delete") };
        assert_eq!(delete, Delete { key, hold_off, noreply }, "{line}");
    }
    assert_bad_format(&["delete", "delete ", &format!("delete {}", long(251))]);
    assert_eq!(fault(&format!("delete {} noreply", long(251))), Fault::Silent);
}

#[test]
fn arithmetic_has_a_key_and_plain_digits() {
    use Direction::{Down, Up};
    let rows = [
        ("incr a 1", 1, Up, Noreply::No),
        ("decr a 1", 1, Down, Noreply::No),
        ("incr a 007 x", 7, Up, Noreply::No),
        ("incr a 18446744073709551615 noreply", u64::MAX, Up, Noreply::Yes),
    ];
    for (line, delta, direction, noreply) in rows {
        let Ok(Command::Arithmetic(command)) = read(line) else { panic!("{line} is arithmetic") };
        assert_eq!(command, Arithmetic { key: b"a", delta, direction, noreply }, "{line}");
    }
    assert_bad_format(&["incr", "incr a", "decr", "decr a", &format!("incr {} 1", long(251))]);
    for delta in ["x", "+1", "-1", "1x", "18446744073709551616", "noreply2"] {
        let line = format!("decr a {delta}");
        let answer = Fault::Answer("CLIENT_ERROR invalid numeric delta argument");
        assert_eq!(fault(&line), answer, "{line}");
        assert_eq!(fault(&format!("{line} noreply")), Fault::Silent, "{line}");
    }
}

#[test]
fn a_number_goes_around_upwards_and_stops_at_zero() {
    assert_eq!(Direction::Up.apply(u64::MAX, 2), 1);
    assert_eq!(Direction::Up.apply(5, 2), 7);
    assert_eq!(Direction::Down.apply(5, 7), 0);
    assert_eq!(Direction::Down.apply(7, 5), 2);
}

#[test]
fn a_touch_has_a_key_and_a_time() {
    let rows = [
        ("touch a 60", 60, Noreply::No),
        ("touch a -1 noreply", -1, Noreply::Yes),
        ("touch a 00000000005 no", 5, Noreply::No),
    ];
    for (line, exptime, noreply) in rows {
        let Ok(Command::Touch(touch)) = read(line) else { panic!("{line} is a touch") };
        assert_eq!(touch, Touch { key: b"a", exptime: Exptime(exptime), noreply }, "{line}");
    }
    assert_bad_format(&[
        "touch",
        "touch a",
        "gat",
        "gat 0",
        "gats",
        "gats 0 ",
        &format!("touch {} 0", long(251)),
    ]);
    let answer = Fault::Answer("CLIENT_ERROR invalid exptime argument");
    for line in [
        "touch a +5",
        "touch a 2147483648",
        "gat 99999999999 a",
        "touch a x",
        "touch a 0x5",
        "gat x a",
        "gats 1x a",
        "gat 9223372036854775808 a",
    ] {
        assert_eq!(fault(line), answer, "{line}");
    }
    assert_eq!(fault("touch a x noreply"), Fault::Silent);
    assert_eq!(fault("gat x a noreply"), answer, "retrieval is never silent");
}

#[test]
fn a_flush_may_have_a_delay() {
    let rows = [
        ("flush_all", 0, Noreply::No),
        ("flush_all ", 0, Noreply::No),
        ("flush_all noreply", 0, Noreply::Yes),
        ("flush_all 0 noreply", 0, Noreply::Yes),
        ("flush_all 100", 100, Noreply::No),
        ("flush_all 1 2", 1, Noreply::No),
        ("flush_all 1 2 3 noreply", 1, Noreply::Yes),
        ("flush_all -1", -1, Noreply::No),
    ];
    for (line, seconds, silent) in rows {
        let Ok(Command::Server(ServerCommand::FlushAll { delay, noreply })) = read(line) else {
            panic!("{line} is a flush")
        };
        assert_eq!((delay, noreply), (Some(Exptime(seconds)), silent), "{line}");
    }
    for (line, silent) in [
        ("flush_all x", Noreply::No),
        ("flush_all x noreply", Noreply::Yes),
        ("flush_all noreply 0", Noreply::No),
        ("flush_all noreply noreply", Noreply::Yes),
    ] {
        assert!(
            matches!(read(line), Ok(Command::Server(ServerCommand::FlushAll { delay: None, noreply })) if noreply == silent),
            "{line}"
        );
    }
}

#[test]
fn verbosity_has_a_level() {
    for (line, expected, silent) in [
        ("verbosity 1", 1, Noreply::No),
        ("verbosity 2 noreply", 2, Noreply::Yes),
        ("verbosity 1 2 3", 1, Noreply::No),
    ] {
        let Ok(Command::Server(ServerCommand::Verbosity { level, noreply })) = read(line) else {
            panic!("{line} sets a level")
        };
        assert_eq!((level, noreply), (expected, silent), "{line}");
    }
    assert_bad_format(&["verbosity", "verbosity x", "verbosity -1"]);
    assert_eq!(fault("verbosity noreply"), Fault::Silent);
}

#[test]
fn commands_without_arguments_ignore_them() {
    for line in ["version", "version x", "version noreply"] {
        assert!(matches!(read(line), Ok(Command::Server(ServerCommand::Version))), "{line}");
    }
    for line in ["quit", "quit x"] {
        assert!(matches!(read(line), Ok(Command::Server(ServerCommand::Quit))), "{line}");
    }
    for line in ["mn", "mn x", "mn noreply"] {
        assert!(matches!(read(line), Ok(Command::Server(ServerCommand::MetaNoop))), "{line}");
    }
    let Ok(Command::Server(ServerCommand::Admin(verb, rest))) = read("slabs reassign 1 2") else {
        panic!("it is about the server")
    };
    assert_eq!((verb, rest), (AdminVerb::Slabs, &b" reassign 1 2"[..]));
    assert!(matches!(read("shutdown"), Ok(Command::Server(ServerCommand::Admin(AdminVerb::Shutdown, b"")))));
    for (line, rest) in [("stats", ""), ("stats items", " items"), ("stats  detail on", "  detail on")] {
        let Ok(Command::Server(ServerCommand::Stats(found))) = read(line) else {
            panic!("{line} asks for statistics")
        };
        assert_eq!(found, rest.as_bytes());
    }
}

#[test]
fn unknown_words_are_an_error_unless_they_are_silent_or_of_the_web() {
    for line in [
        "foo",
        "GET a",
        "getx a",
        "ge a",
        "verb 1",
        " get a",
        "mx a",
        "MN",
        "foo HTTP/1.1 x",
        "foo noreply x",
    ] {
        assert_eq!(fault(line), Fault::Answer("ERROR"), "{line}");
    }
    assert_eq!(fault("foo noreply"), Fault::Silent);
    for line in ["GET / HTTP/1.1", "POST /x HTTP/1.0", "foo HTTP/", "foo  HTTP/ "] {
        assert_eq!(fault(line), Fault::Close, "{line}");
    }
    assert_eq!(understood_get("get HTTP/1.1").0, [b"HTTP/1.1".as_slice()], "a known word is no web");
}

#[test]
fn lines_of_less_than_four_bytes_are_a_bad_line() {
    let rows = [("", 1), ("", 2), ("x", 2), ("x", 3), ("xy", 3), ("mn", 3)];
    for (text, length) in rows {
        let parsed = parse(Line { text: text.as_bytes(), length });
        assert_eq!(parsed.err(), Some(Fault::Answer("CLIENT_ERROR bad command line format")), "{text}");
    }
    assert!(matches!(parse(Line { text: b"mn", length: 4 }), Ok(Command::Server(ServerCommand::MetaNoop))));
    assert_eq!(fault("xy"), Fault::Answer("ERROR"));
    assert_bad_format(&["get", "get ", "gets", "gets  "]);
}

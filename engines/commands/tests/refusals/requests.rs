//! All commands that read or change an item, in all their forms.

use super::items::{KEY, KEY_IN_BASE64, LONG, UNIQUE};
use guira_protocol::Exptime;
use guira_protocol::mica::{DATAGRAM_HEADER, Operation, Record, RequestWriter};

pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) value_len: Option<usize>,
    pub(crate) asks_for: AsksFor,
    pub(crate) has_reply: HasReply,
}

/// What a refused command may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsksFor {
    /// A new value: in a cache the old one may be removed when it is refused.
    Set,
    /// A removal that leaves something behind: the item is gone all the same.
    Removal,
    /// That a value is no longer valid, or no longer there: it is done, or the item is gone, and the reply is the same.
    Invalidation,
    /// Any other: the item is unchanged.
    Other,
}

/// Whether a request has a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasReply {
    Always,
    /// Never, because of noreply.
    Never,
}

/// An absolute time in the past; the text protocol also has -1.
const LONG_PAST: u32 = 100_000_000;

/// All combinations of one word of each group, joined by blanks.
fn all_of(groups: &[&[&str]]) -> Vec<String> {
    groups.iter().fold(vec![String::new()], |lines, group| {
        let longer = |line: &String| {
            let line = line.clone();
            group.iter().map(move |word| format!("{line} {word}").trim_end().to_owned())
        };
        lines.iter().flat_map(longer).collect()
    })
}

fn values() -> [Vec<u8>; 4] {
    [b"new".to_vec(), Vec::new(), b"12".to_vec(), (0..LONG).map(|at| b'A' + (at % 19) as u8).collect()]
}

fn line(line: String, value: Option<&[u8]>) -> Request {
    let mut bytes = format!("{line}\r\n").into_bytes();
    if let Some(value) = value {
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    let has_reply = if line.ends_with("noreply") { HasReply::Never } else { HasReply::Always };
    Request { name: line, bytes, value_len: value.map(<[u8]>::len), asks_for: AsksFor::Other, has_reply }
}

pub(crate) fn text() -> Vec<Request> {
    let mut requests = Vec::new();
    let reads = [
        "get k",
        "gets k",
        "gat 500 k",
        "gats 500 k",
        "gat 0 k",
        "gats 0 k",
        "gat -1 k",
        "gats -1 k",
        "lease-get k",
    ];
    let others = ["delete k", "incr k 1", "decr k 1", "touch k 500", "touch k 0", "touch k -1"];
    requests.extend(reads.iter().map(|words| line((*words).to_owned(), None)));
    requests
        .extend(all_of(&[&others, &["", "noreply"]]).iter().map(|words| line(words[1..].to_owned(), None)));
    for token in ["77", "1"] {
        for value in values() {
            let words = format!("lease-set k {token} 9 500 {}", value.len());
            requests.push(line(words, Some(&value)));
        }
    }
    let verbs = ["set", "add", "replace", "append", "prepend", "cas"];
    for words in all_of(&[&verbs, &["k 9"], &["0", "500", "-1"]]) {
        for value in values() {
            let words = words.trim();
            let (verb, _) = words.split_once(' ').unwrap_or_default();
            let uniques: &[&str] = if verb == "cas" { &[" 77", " 1"] } else { &[""] };
            for unique in uniques {
                for noreply in ["", " noreply"] {
                    let asks_for = if verb == "set" { AsksFor::Set } else { AsksFor::Other };
                    let words = format!("{words} {}{unique}{noreply}", value.len());
                    requests.push(Request { asks_for, ..line(words, Some(&value)) });
                }
            }
        }
    }
    requests
}

fn meta_line(verb: &str, flags: &str, value: Option<&[u8]>) -> Request {
    let in_base64 = flags.split(' ').any(|flag| flag == "b");
    let key = if in_base64 { KEY_IN_BASE64 } else { KEY };
    let length = value.map_or(String::new(), |value| format!(" {}", value.len()));
    line(format!("{verb} {key}{length}{flags}"), value)
}

pub(crate) fn meta() -> Vec<Request> {
    let mut requests = vec![line(format!("me {KEY}"), None), line(format!("me {KEY_IN_BASE64} b"), None)];
    let times = ["", "T500", "T0", "T-1"];
    let shown = ["", "v", "k O1 q", "t f s h l v b", "u v"];
    let gets = [&times[..], &["", "N30", "N-1"], &["", "R100"], &["", "c"], &["", "E88"], &shown];
    requests.extend(all_of(&gets).iter().map(|flags| meta_line("mg", flags, None)));
    let (uniques, unique) = (["", "C77", "C1", "C0"], ["", "E88"]);
    let held_off = ["H2", "H2 C77", "H500"].iter().map(|flags| meta_line("md", &format!(" {flags}"), None));
    requests.extend(held_off.map(|request| Request { asks_for: AsksFor::Removal, ..request }));
    let deletes = [&["", "I"][..], &["", "x"], &["", "T30"], &uniques, &unique, &["", "q k O1 b"]];
    requests.extend(all_of(&deletes).iter().map(|flags| {
        let invalidates = flags.split(' ').any(|flag| flag == "I" || flag == "x");
        let asks_for = if invalidates { AsksFor::Invalidation } else { AsksFor::Other };
        Request { asks_for, ..meta_line("md", flags, None) }
    }));
    let (modes, begins) = (["", "MI", "MD D95"], ["", "N0", "N30 J5", "N-1"]);
    let shown = ["", "v t c", "q k O1 b", "c"];
    let counts = [&modes[..], &begins, &["", "T500", "T-1"], &uniques[..3], &unique, &shown];
    requests.extend(all_of(&counts).iter().map(|flags| meta_line("ma", flags, None)));
    let modes = ["", "ME", "MA", "MP", "MR"];
    let shown = ["", "c s", "q k O1 b"];
    let sets = [&modes[..], &["", "I"], &["", "T500"], &["", "N30"], &uniques[..3], &unique, &shown];
    let all = values();
    for flags in all_of(&sets) {
        // memcached removes the item that any other mode would have replaced, or found there: see value_limits.rs of
        // the protocol tests.
        let joins = flags.contains("MA") || flags.contains("MP");
        let asks_for = if joins { AsksFor::Other } else { AsksFor::Set };
        // Few of them depend on the value.
        let values = if flags.len() < 4 { &all[..] } else { &all[2..] };
        for value in values {
            requests.push(Request { asks_for, ..meta_line("ms", &format!(" F9{flags}"), Some(value)) });
        }
    }
    requests
}

fn packet(opcode: u8, cas: u64, extras: &[u8], value: Option<&[u8]>) -> Request {
    let sent = value.unwrap_or_default();
    let body = (extras.len() + KEY.len() + sent.len()) as u32;
    let mut bytes = vec![0x80, opcode, 0, KEY.len() as u8, extras.len() as u8, 0, 0, 0];
    bytes.extend_from_slice(&body.to_be_bytes());
    bytes.extend_from_slice(&[1, 2, 3, 4]);
    bytes.extend_from_slice(&cas.to_be_bytes());
    bytes.extend_from_slice(extras);
    bytes.extend_from_slice(KEY.as_bytes());
    bytes.extend_from_slice(sent);
    let is_set = matches!(opcode, 0x01 | 0x11);
    Request {
        name: format!("packet {opcode:#04x}, cas {cas}, extras {extras:x?}, {} bytes", sent.len()),
        bytes,
        value_len: value.map(<[u8]>::len),
        asks_for: if is_set { AsksFor::Set } else { AsksFor::Other },
        has_reply: HasReply::Always,
    }
}

pub(crate) fn packets() -> Vec<Request> {
    const CREATE_NOTHING: u32 = u32::MAX;
    let times = [0, 500, LONG_PAST].map(u32::to_be_bytes);
    let uniques = [0, UNIQUE, 1];
    let mut requests = Vec::new();
    requests.extend([0x00, 0x09, 0x0c, 0x0d].map(|opcode| packet(opcode, 0, &[], None)));
    for time in times {
        requests.extend([0x1c, 0x1d, 0x1e, 0x23, 0x24].map(|opcode| packet(opcode, 0, &time, None)));
    }
    for cas in uniques {
        requests.extend([0x04, 0x14].map(|opcode| packet(opcode, cas, &[], None)));
        for begins in [0, 500, LONG_PAST, CREATE_NOTHING] {
            let extras = [&95_u64.to_be_bytes()[..], &5_u64.to_be_bytes(), &begins.to_be_bytes()].concat();
            requests.extend([0x05, 0x15, 0x06, 0x16].map(|opcode| packet(opcode, cas, &extras, None)));
        }
        for value in values() {
            let joins = [0x0e, 0x19, 0x0f, 0x1a];
            requests.extend(joins.map(|opcode| packet(opcode, cas, &[], Some(&value))));
            for time in times {
                let extras = [9_u32.to_be_bytes(), time].concat();
                let stores = [0x01, 0x11, 0x02, 0x12, 0x03, 0x13];
                requests.extend(stores.map(|opcode| packet(opcode, cas, &extras, Some(&value))));
            }
        }
    }
    requests
}

pub(crate) fn datagrams() -> Vec<Request> {
    let record = |operation: Operation, value: &[u8], exptime: i32| {
        let mut datagram = vec![0; 64 << 10];
        let mut writer = RequestWriter::new(&mut datagram);
        let (key, exptime) = (KEY.as_bytes(), Exptime(exptime));
        let operation = Some(operation);
        assert!(writer.push(&Record { operation, key, value, flags: 9, exptime, hash: 0 }));
        let end = writer.at();
        let is_set = operation == Some(Operation::Set);
        Request {
            name: format!("datagram {operation:?}, {exptime:?}, {} bytes", value.len()),
            bytes: datagram[DATAGRAM_HEADER..end].to_vec(),
            value_len: None,
            asks_for: if is_set { AsksFor::Set } else { AsksFor::Other },
            has_reply: HasReply::Always,
        }
    };
    let mut requests = vec![record(Operation::Get, &[], 0), record(Operation::Delete, &[], 0)];
    requests.extend([0, 500, -1].map(|time| record(Operation::Touch, &[], time)));
    let counts = [Operation::Increment, Operation::Decrement];
    requests.extend(counts.map(|operation| record(operation, &95_u64.to_le_bytes(), 0)));
    for value in values() {
        for time in [0, 500, -1] {
            let stores = [Operation::Set, Operation::Add, Operation::Replace];
            requests.extend(stores.map(|operation| record(operation, &value, time)));
        }
    }
    requests
}

use std::collections::HashSet;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;

use super::{Action, Format, Key, Place, Request, Trace, TraceErrorKind};

const FIRST: [u64; 8] = [
    4_026_531_841,
    2_281_701_888,
    2_281_702_400,
    2_281_702_912,
    2_281_703_424,
    2_281_702_400,
    1_207_962_112,
    1_207_962_112,
];

fn trace(text: &'static str) -> Trace {
    Trace::new(text.as_bytes(), None).unwrap()
}

fn orm_busy() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/cache2k-orm-busy.trace.zst");
    Trace::new(File::open(path).unwrap(), Some(Format::BeU32)).unwrap()
}

fn number(request: &Request) -> u64 {
    match request.key {
        Key::Number(number) => number,
        Key::Text(_) => panic!("a binary trace has numbers"),
    }
}

#[test]
fn the_real_trace_begins_as_its_bytes_do() {
    // `zstd -dc cache2k-orm-busy.trace.zst | head -c 32 | xxd`
    let first: Vec<u64> = orm_busy().take(FIRST.len()).map(|request| number(&request.unwrap())).collect();
    assert_eq!(first, FIRST);
}

#[test]
fn the_real_trace_has_the_requests_and_keys_that_its_readme_tells() {
    let mut keys = HashSet::new();
    let requests = orm_busy().inspect(|request| {
        keys.insert(number(request.as_ref().unwrap()));
    });
    assert_eq!(requests.count(), 5_000_000);
    assert_eq!(keys.len(), 76_349);
}

#[test]
fn wide_keys_and_a_cut_one() {
    let mut bytes = 7_u64.to_be_bytes().to_vec();
    bytes.extend([1, 2, 3]);
    let mut trace = Trace::new(Cursor::new(bytes), Some(Format::BeU64)).unwrap();
    assert_eq!(trace.next().unwrap().unwrap(), Request::get(Key::Number(7)));
    let error = trace.next().unwrap().unwrap_err();
    assert_eq!((error.place, error.number), (Place::Request, 2));
    assert!(matches!(error.kind, TraceErrorKind::Truncated(3)));
    assert!(trace.next().is_none(), "an error ends the trace");
}

#[test]
fn twitters_lines() {
    let mut trace = trace("0,nz:u:eeW,20,341,12,get,0\n1,a,b,9,10,3,set,3600\n2,c,1,0,3,get,0\n");
    assert_eq!(trace.format(), Format::TwitterCsv);
    let first = trace.next().unwrap().unwrap();
    assert_eq!(first.key, Key::Text(b"nz:u:eeW".to_vec()));
    assert_eq!((first.key_len, first.value_len, first.action), (Some(20), Some(341), Action::Get));
    let second = trace.next().unwrap().unwrap();
    assert_eq!(second.key, Key::Text(b"a,b".to_vec()), "a key may hold commas");
    assert_eq!((second.action, second.ttl), (Action::Set, 3600));
    assert_eq!((first.time, second.time), (0, 1));
    assert_eq!(trace.next().unwrap().unwrap().value_len, None, "a get that missed has no size");
    assert!(trace.next().is_none());
}

#[test]
fn errors_name_their_line() {
    let good = "0,key,3,10,1,get,0\n";
    for (bad, told) in [
        ("0,key,3,10", "line 2: 4 fields"),
        ("0,key,3,ten,1,get,0", "line 2: the value size \"ten\" is not a number"),
        ("0,key,3,10,1,frob,0", "line 2: the operation \"frob\" is not known"),
        ("0,,3,10,1,get,0", "line 2: the key has 0 bytes"),
        ("0,a b,3,10,1,get,0", "line 2: the key has 3 bytes"),
    ] {
        let input = Cursor::new(format!("{good}{bad}\n").into_bytes());
        let error = Trace::new(input, None).unwrap().nth(1).unwrap().unwrap_err();
        assert!(error.to_string().starts_with(told), "{bad}: {error}");
    }
}

#[test]
fn plain_text_with_comments() {
    let keys: Vec<Key> = trace("* LIRS\n17\n\n  18\r\n17").map(|request| request.unwrap().key).collect();
    let text = |key: &str| Key::Text(key.as_bytes().to_vec());
    assert_eq!(keys, [text("17"), text("18"), text("17")]);
}

#[test]
fn a_line_without_end_is_an_error_and_no_memory() {
    let input = Cursor::new(vec![b'x'; 1 << 20]);
    let error = Trace::new(input, Some(Format::Text)).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error.kind, TraceErrorKind::LineTooLong(_)));
}

#[test]
fn several_frames_and_skippable_ones_are_one_trace() {
    // Two frames with one stored block each ("17\n", "18\n"), and a skippable frame of three bytes between.
    let frame = |text: &[u8; 3]| [&super::zstd::MAGIC[..], &[0x20, 3, 0x19, 0, 0], text].concat();
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
    let bytes = [frame(b"17\n"), skipped, frame(b"18\n")].concat();
    let keys = Trace::new(Cursor::new(bytes), None).unwrap().map(|request| request.unwrap().key);
    assert_eq!(keys.collect::<Vec<_>>(), [Key::Text(b"17".to_vec()), Key::Text(b"18".to_vec())]);
}

#[test]
fn damaged_compression_is_an_error() {
    let bytes = [&super::zstd::MAGIC[..], &[0xff; 40]].concat();
    let ended =
        Trace::new(Cursor::new(bytes), Some(Format::Text)).and_then(|mut trace| trace.next().unwrap());
    assert!(matches!(ended.unwrap_err().kind, TraceErrorKind::Read(_)));
}

#[test]
fn text_keys_have_distinct_numbers() {
    let id = |text: &[u8]| Key::Text(text.to_vec()).id();
    let ids: HashSet<u64> = (0..10_000).map(|n| id(format!("key:{n}").as_bytes())).collect();
    assert_eq!(ids.len(), 10_000);
    assert_ne!(id(b"a"), id(b"a\0"));
}

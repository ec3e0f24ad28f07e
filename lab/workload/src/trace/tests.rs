use std::collections::HashSet;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;

use super::{Action, Broken, FORMATS, Format, Key, Place, Request, Trace, TraceErrorKind};

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
        ("0,key,3,10,1,frob,0", "line 2: unknown operation \"frob\""),
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

/// All requests of a text, whose format is guessed.
fn requests(text: &str) -> (Format, Vec<Request>) {
    let trace = Trace::new(Cursor::new(text.to_owned().into_bytes()), None).unwrap();
    (trace.format(), trace.map(|request| request.unwrap()).collect())
}

fn text(key: &str) -> Key {
    Key::Text(key.as_bytes().to_vec())
}

#[test]
fn a_run_of_blocks_is_a_request_for_each() {
    let (format, requests) = requests("100 3 0 0\n7 1 0 1\n9 0 0 2\n8 1 0 3\n");
    assert_eq!(format, Format::Lis);
    assert_eq!(requests.iter().map(number).collect::<Vec<_>>(), [100, 101, 102, 7, 8]);
}

#[test]
fn requests_to_disks_are_counted_in_blocks() {
    let (format, requests) = requests(
        "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,4095,2,12\n\
         128166372016382155,hm,0,Read,0,0,12\n",
    );
    assert_eq!((format, requests.len()), (Format::Msr, 8 + 2 + 1));
    assert_eq!(number(&requests[0]), 1 << 48 | (383_496_192 / 4096));
    assert_eq!(number(&requests[7]), number(&requests[0]) + 7);
    assert_eq!((requests[8].action, number(&requests[8])), (Action::Set, 1 << 48));
    assert_eq!((requests[8].value_len, requests[8].time), (Some(4096), 12_816_637_201));
    assert_eq!((requests[10].action, number(&requests[10])), (Action::Get, 0));
}

#[test]
fn requests_to_objects_may_have_a_size_and_a_range() {
    let lines = "1219008 REST.PUT.OBJECT 8d4fcda3d675bac9 1056\n1221974 REST.HEAD.OBJECT 39d177fb735ac5df\n\
                 1232437 REST.GET.OBJECT 39d177fb735ac5df 6442450944 0 528\n1233000 REST.DELETE.OBJECT 39d177fb735ac5df\n";
    let (format, from_blanks) = requests(lines);
    assert_eq!((format, requests(&lines.replace(' ', ",")).1), (Format::Ibm, from_blanks.clone()));
    let actions: Vec<Action> = from_blanks.iter().map(|request| request.action).collect();
    assert_eq!(actions, [Action::Set, Action::Get, Action::Get, Action::Delete]);
    assert_eq!((&from_blanks[0].key, from_blanks[0].value_len), (&text("8d4fcda3d675bac9"), Some(1056)));
    assert_eq!((from_blanks[1].value_len, from_blanks[2].value_len), (None, Some(u32::MAX)));
    assert_eq!(from_blanks[2].time, 1232);
}

#[test]
fn columns_are_found_by_their_names() {
    let first = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n5,k1,48,GET_LEASE,3,87,1,0\n6,k2,24,SET,1,9,0,60\n";
    let second = "op_time,key,key_size,op,op_count,size,ttl,cache_hits\n5,k1,48,GET_LEASE,3,87,0,1\n6,k2,24,SET,1,9,60,0\n";
    let (format, read) = requests(first);
    assert_eq!((format, &read), (Format::HeadedCsv, &requests(second).1));
    assert_eq!(read.len(), 4, "three requests in one line");
    assert_eq!((&read[2].key, read[2].key_len, read[2].value_len), (&text("k1"), Some(48), Some(87)));
    assert_eq!((read[3].action, read[3].ttl, read[3].time), (Action::Set, 60, 6));
    let (_, blocks) = requests("version,time,op,size,lbn\n1,77,2a,512,42\n1,78,28,4096,42\n");
    assert_eq!(
        (blocks[0].action, blocks[1].action, blocks[1].value_len),
        (Action::Set, Action::Get, Some(4096))
    );
    let (_, chunks) = requests(
        "op_time,block_id,io_size,op_name\n1,ab-c,9,getChunkData.NotInitialized\n1,d,8,putChunk.Permanent\n",
    );
    assert_eq!((chunks[0].action, &chunks[1].key, chunks[1].action), (Action::Get, &text("d"), Action::Set));
}

#[test]
fn times_keys_and_sizes() {
    let (format, requests) = requests("1 0 68\n2 1 7454\n");
    assert_eq!((format, &requests[1].key), (Format::Sized, &text("1")));
    assert_eq!((requests[1].time, requests[1].value_len), (2, Some(7454)));
    let (_, requests) = self::requests("time,key\n1.75,a\n");
    assert_eq!(requests[0].time, 1, "a fraction of a second is cut off");
}

#[test]
fn records_of_libcachesim() {
    let record = |time: u32, key: u64, size: u32, next: i64| {
        [&time.to_le_bytes()[..], &key.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let mut bytes = [
        record(0, 1 << 40, 10, 2),
        record(0, 2, 20, -1),
        record(3, 1 << 40, 10, -1),
        record(4, 9, 1, i64::MAX),
    ]
    .concat();
    bytes.extend([1, 2, 3]);
    let mut trace = Trace::new(Cursor::new(bytes), None).unwrap();
    assert_eq!(trace.format(), Format::OracleGeneral);
    let third = trace.nth(2).unwrap().unwrap();
    assert_eq!((number(&third), third.time, third.value_len), (1 << 40, 3, Some(10)));
    let error = trace.nth(1).unwrap().unwrap_err();
    assert!(matches!(
        (error.place, error.number, error.kind),
        (Place::Request, 5, TraceErrorKind::Truncated(3))
    ));
    let keys: Vec<u8> = (0..64_u32).flat_map(|n| n.wrapping_mul(77_777).to_be_bytes()).collect();
    assert_eq!(Format::guess(&keys), Some(Format::BeU32));
}

#[test]
fn what_is_no_trace_is_refused_by_its_name() {
    let told = |start: &[u8], format| {
        let padded = [start, &[7; 64][..]].concat();
        Trace::new(Cursor::new(padded), format).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (start, name) in [
        (&b"\x1f\x8b\x08\x00"[..], "gzip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"PAR1\x15\x04", "parquet"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\xff\xfea\0", "UTF-16 text"),
    ] {
        for format in [None, Some(Format::TwitterCsv)] {
            assert!(
                told(start, format).contains(&format!("the file is {name}, ")),
                "{name}: {}",
                told(start, format)
            );
        }
        assert_eq!(told(start, Some(Format::BeU32)), "", "who names it knows better: {name}");
    }
}

#[test]
fn bytes_are_keys_only_where_they_make_sense_as_such() {
    let mut rng = crate::Rng::new(7);
    let random: Vec<u8> = (0..1024).flat_map(|_| (rng.next_u64() as u32).to_be_bytes()).collect();
    for length in [64, 256, 4096] {
        assert_eq!(Format::guess(&random[..length]), None, "{length}");
        assert_eq!(Format::guess(&vec![0; length]), None, "zeroes");
    }
    let error = Trace::new(Cursor::new(random.clone()), None).unwrap_err().to_string();
    assert!(error.contains("cannot detect the format") && error.contains("--format be-u32"), "{error}");
    assert_eq!(Trace::new(Cursor::new(random.clone()), Some(Format::BeU32)).unwrap().count(), 1024);
    // A scan, hashes of which some come again, and pages of a database.
    let scan: Vec<u8> = (5_000..6_000_u32).flat_map(u32::to_be_bytes).collect();
    let hashes: Vec<u8> = (0..1024).flat_map(|n| random[n % 900 * 4..][..4].to_owned()).collect();
    let pages: Vec<u8> = (0..512_u32).flat_map(|n| ((n % 7) << 28 | n << 9).to_be_bytes()).collect();
    for keys in [scan, hashes, pages] {
        assert_eq!(Format::guess(&keys), Some(Format::BeU32));
    }
}

#[test]
fn every_text_format_tells_the_number_of_a_broken_line() {
    for (good, bad, told) in [
        ("0,k,1,10,1,get,0", "0,k,1,10", "line 2: 4 fields instead of the seven"),
        ("1 2 0 0", "1 x 0 1", "line 2: the count \"x\" is not a number"),
        ("1 2 0 0", "1 2 0", "line 2: 3 fields instead of the four"),
        ("1 2 0 0", "1 99999999999 0 1", "line 2: the line has 99999999999 requests"),
        ("1 2 3", "1 2 3 4", "line 2: 4 fields instead of the three"),
        ("9,h,0,Read,0,4096,1", "9,h,0,Trim,0,4096,1", "line 2: unknown operation \"Trim\""),
        ("9,h,0,Read,0,4096,1", "9,h,0,Read,-1,4096,1", "line 2: the offset \"-1\""),
        ("9 REST.GET.OBJECT a 1", "9 REST.GET.OBJECT", "line 2: 2 fields instead of timestamp"),
        ("9 REST.GET.OBJECT a 1", "9 REST.GET.OBJECT a b", "line 2: the size \"b\""),
        ("key,size\na,1", "b", "line 3: 1 fields instead of the 2"),
        ("key,size\na,1", "b,", "line 3: the size \"\" is not a number"),
        ("a", "b c", "line 2: the key has 3 bytes"),
        ("a", "\u{1}", "line 2: the key has 1 bytes"),
    ] {
        let lines = format!("{good}\n{bad}\n{good}\n").replace("\nkey,size", "");
        let format = Format::guess(good.as_bytes());
        let open = || Trace::new(Cursor::new(lines.clone().into_bytes()), format).unwrap();
        let error = open().find_map(Result::err).unwrap().to_string();
        assert!(error.starts_with(told), "{bad:?}: {error}");
        let mut skipping = open().on_broken(Broken::Skip);
        let of_good = Trace::new(Cursor::new(good.to_owned().into_bytes()), format).unwrap().count();
        let all: Vec<Request> = skipping.by_ref().map(|request| request.unwrap()).collect();
        assert_eq!(all.len(), 2 * of_good, "{bad:?}");
        let (count, first) = skipping.skipped();
        assert_eq!((count, first.unwrap().to_string()), (1, error));
    }
}

#[test]
fn what_cannot_be_read_at_all_is_refused_even_if_broken_lines_are_skipped() {
    let unnamed = Trace::new(&b"a,b\n1,2\n"[..], Some(Format::HeadedCsv)).unwrap().on_broken(Broken::Skip);
    let error = unnamed.map(|request| request.map(|_| ())).next().unwrap().unwrap_err();
    assert!(error.to_string().starts_with("line 1: the first line must name"), "{error}");
    let long = [vec![b'x'; 1 << 20], b"\nkey\n".to_vec()].concat();
    let mut trace = Trace::new(Cursor::new(long), Some(Format::Text)).unwrap().on_broken(Broken::Skip);
    assert_eq!(trace.next().unwrap().unwrap().key, text("key"), "a long line is skipped to its end");
}

#[test]
fn formats_are_known_by_their_names() {
    for (format, name, about) in FORMATS {
        assert_eq!((name.parse(), format.to_string().as_str()), (Ok(format), name), "{about}");
    }
    assert!("xml".parse::<Format>().unwrap_err().contains("oracle-general"));
}

#[test]
fn text_with_other_letters_is_text() {
    assert_eq!(Format::guess("clé:1\nclé:2\n".as_bytes()), Some(Format::Text));
    assert_eq!(Format::guess(&"clé:1\n".as_bytes()[..3]), Some(Format::Text), "a letter may be cut in two");
    assert_eq!(Format::guess(b"\x00\x00\x00\x01"), Some(Format::BeU32));
}

#[test]
fn no_input_stops_a_reader_from_ending() {
    let mut rng = crate::Rng::new(2015);
    let lines = [
        "0,k,1,10,1,get,0",
        "1 2 0 0",
        "9,h,0,Read,0,4096,1",
        "9 REST.GET.OBJECT a 1",
        "key,size",
        "a,1",
        "1 2 3",
    ];
    for (format, name, _) in FORMATS {
        for _ in 0..300 {
            let mut bytes: Vec<u8> =
                (0..5).flat_map(|_| [lines[rng.below(7) as usize].as_bytes(), b"\n"].concat()).collect();
            for _ in 0..rng.below(8) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = b"0189-,. \n\0\xff"[rng.below(11) as usize];
            }
            let len = bytes.len() as u64;
            let mut trace = Trace::new(Cursor::new(bytes), Some(format)).unwrap().on_broken(Broken::Skip);
            let count = trace.by_ref().take(10_000_000).filter(Result::is_ok).count();
            assert!(count < 10_000_000 && trace.skipped().0 <= len, "{name}");
        }
    }
}

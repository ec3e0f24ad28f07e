use super::*;

const MAX: u32 = 64 << 20;

fn first(input: &[u8]) -> Read<'_> {
    super::read(input, MAX)
}

#[test]
fn an_unfinished_reply_is_waited_for() {
    for whole in [
        b"VALUE key 5 3\r\nabc\r\n".as_slice(),
        b"VALUE key 5 3 77\r\nabc\r\n",
        b"LVALUE key 77 5 0\r\n\r\n",
        b"VA 3 f5 c77\r\n\r\n.\r\n",
        b"VA 0\r\n\r\n",
        b"END\r\n",
        b"STORED\r\n",
        b"HD kkey\r\n",
        b"SERVER_ERROR out of memory\r\n",
        b"STAT pid 1\r\n",
        b"\r\n",
    ] {
        for length in 0..whole.len() {
            let Read::Unfinished(wanted) = first(&whole[..length]) else {
                panic!("{:?}", whole[..length].escape_ascii());
            };
            assert!(wanted == 0 || wanted == whole.len(), "{wanted} of {length}");
            assert_eq!(value_of(&whole[..length], b"key"), None);
        }
        let more = [whole, b"END\r\n"].concat();
        let Read::Reply(reply, taken) = first(&more) else { panic!("{:?}", whole.escape_ascii()) };
        assert_eq!(taken, whole.len(), "{reply:?}");
    }
}

#[test]
fn the_parts_of_a_value_are_found() {
    let input = b"VALUE key 5 3 77\r\nabc\r\n";
    let expected = Value { key: b"key", flags: 5, number: Some(77), value: b"abc", block: input };
    assert_eq!(first(input), Read::Reply(Reply::Value(expected), input.len()));
    assert_eq!(value_of(input, b"key"), Some((expected, input.len())));
    for other in [&b"ke"[..], b"key2", b"kez"] {
        assert_eq!(value_of(input, other), None);
    }
    let input = b"VALUE key 5 3\r\nabc\r\nEND\r\n";
    let expected = Value { number: None, block: &input[..20], ..expected };
    assert_eq!(value_of(input, b"key"), Some((expected, 20)));
    let input = b"LVALUE key 77 5 2\r\nab\r\n";
    let expected = Value { key: b"key", flags: 5, number: Some(77), value: b"ab", block: input };
    assert_eq!(first(input), Read::Reply(Reply::Lease(expected), input.len()));
    let input = b"VA 2 f5\r\nab\r\n";
    let expected = Reply::MetaValue { line: b"VA 2 f5", value: b"ab" };
    assert_eq!(first(input), Read::Reply(expected, input.len()));
    let largest = b"VALUE k 18446744073709551615 0 18446744073709551615\r\n\r\n";
    let Read::Reply(Reply::Value(value), _) = first(largest) else { panic!() };
    assert_eq!((value.flags, value.number), (u64::MAX, Some(u64::MAX)));
    assert_eq!(value_of(largest, b"k"), Some((value, largest.len())));
}

#[test]
fn a_value_that_is_too_long_is_known_by_its_line() {
    for (line, taken) in [("VALUE key 5 67108865", 22), ("VA 67108865 f5", 16), ("LVALUE k 1 0 67108865", 23)]
    {
        let input = format!("{line}\r\nabc");
        let line = line.as_bytes();
        assert_eq!(first(input.as_bytes()), Read::TooLong { line, taken, block: (64 << 20) + 3 });
    }
    assert_eq!(first(b"VALUE key 5 67108864\r\n"), Read::Unfinished(22 + (64 << 20) + 2));
    assert_eq!(super::read(b"VA 4\r\n", 3), Read::TooLong { line: b"VA 4", taken: 6, block: 6 });
}

#[test]
fn a_line_may_end_with_a_line_feed() {
    let input = b"VALUE key 7 3\nabc\r\n";
    let Read::Reply(Reply::Value(value), taken) = first(input) else { panic!("{:?}", first(input)) };
    assert_eq!((value.flags, value.value, taken), (7, b"abc".as_slice(), input.len()));
    assert_eq!(first(b"STORED\n"), Read::Reply(Reply::Line(b"STORED"), 7));
    let expected = Reply::MetaValue { line: b"VA 3 f10", value: b"abc" };
    assert_eq!(first(b"VA 3 f10\nabc\r\n"), Read::Reply(expected, 14));
    let expected = Read::TooLong { line: b"VA 4", taken: 5, block: 6 };
    assert_eq!(super::read(b"VA 4\n", 3), expected);
}

#[test]
fn a_reply_that_no_server_sends_is_broken() {
    for input in [
        b"VALUE key\r\n".as_slice(),
        b"VALUE key x 3\r\n",
        b"VALUE key -1 3\r\n",
        b"VALUE key 0 -3\r\n",
        b"VALUE key 0\r\n",
        b"VALUE key 0 3 4 5\r\nabc\r\n",
        b"VALUE key 0 3 x\r\nabc\r\n",
        b"VALUE a key 0 3\r\nabc\r\n",
        b"VALUE key 18446744073709551616 3\r\nabc\r\n",
        b"VALUE key 0 3 18446744073709551616\r\nabc\r\n",
        b"VALUE key 0 3\r\nabcd\r\n",
        b"VALUE key 0 3\r\nabc\n\n",
        b"VALUE key 0 99999999999999999999999\r\n",
        b"VALUE key 0 18446744073709551615\r\n",
        b"VALUE key 0 9999999999999\r\n",
        b"VA x\r\n",
        b"VA \r\n",
        b"VA -1\r\n",
        b"VA 3f\r\nabc\r\n",
        b"VA 3\r\nabcd\r\n",
        b"VA 99999999999999\r\n",
        b"VA 18446744073709551616\r\n",
        b"LVALUE key 0 0\r\n",
        b"LVALUE key 0 0 1 1\r\na\r\n",
        b"LVALUE key -1 0 1\r\na\r\n",
    ] {
        assert_eq!(first(input), Read::Broken, "{:?}", input.escape_ascii());
        assert_eq!(value_of(input, b"key"), None, "{:?}", input.escape_ascii());
    }
    assert_eq!(first(&[b'x'; LINE_MAX + 1]), Read::Broken);
    assert_eq!(first(&[b'x'; LINE_MAX]), Read::Unfinished(0));
}

#[test]
fn the_fast_way_reads_the_same_or_nothing() {
    let seeds = [
        "VALUE key 5 3 77\r\nabc\r\nEND\r\n",
        "VALUE key 0 0\r\n\r\n",
        "VALUE key 4294967295 12\r\n0123456789ab\r\n",
    ];
    let mut taken = 0;
    for seed in seeds.map(str::as_bytes) {
        for at in 0..seed.len() {
            for byte in b" \r\n\0-+09VAkey\x7f\xff" {
                for changed in [
                    [&seed[..at], &[*byte], &seed[at + 1..]].concat(),
                    [&seed[..at], &[*byte], &seed[at..]].concat(),
                    [&seed[..at], &seed[at + 1..]].concat(),
                ] {
                    let Some((value, length)) = value_of(&changed, b"key") else { continue };
                    assert_eq!(first(&changed), Read::Reply(Reply::Value(value), length));
                    taken += 1;
                }
            }
        }
    }
    assert!(taken > 200, "only {taken} were read");
}

#[test]
fn lines_of_lists_may_end_with_a_bare_line_feed() {
    assert_eq!(line(b"key=a\nkey=b\n", 10), Ok(Some((&b"key=a"[..], 6))));
    assert_eq!(line(b"OK\r\n", 10), Ok(Some((&b"OK"[..], 4))));
    assert_eq!(
        (line(b"\n", 10), line(b"", 10), line(b"OK\r", 10)),
        (Ok(Some((&b""[..], 1))), Ok(None), Ok(None))
    );
    assert_eq!(line(&[b'x'; 9], 10), Ok(None));
    assert_eq!((line(&[b'x'; 10], 10), line(b"0123456789\n", 10)), (Err(LineTooLong), Err(LineTooLong)));
    assert_eq!(line(b"012345678\n", 10), Ok(Some((&b"012345678"[..], 10))));
}

#[test]
fn a_hit_of_a_meta_get_is_read_alike_in_both_ways() {
    for (line, value, unique) in [
        ("VA 3 f7 O5", "abc", None),
        ("VA 3 f18446744073709551615 c18446744073709551615 O4294967295", "abc", Some(u64::MAX)),
        ("VA 0 f0 O0", "", None),
    ] {
        let whole = format!("{line}\r\n{value}\r\nrest");
        let (hit, taken) = meta_hit(whole.as_bytes()).unwrap();
        let reply = Reply::MetaValue { line: line.as_bytes(), value: hit.value };
        assert_eq!(first(whole.as_bytes()), Read::Reply(reply, taken));
        let said = crate::client::MetaReply::of(line.as_bytes());
        let numbers = (said.number(b'f'), said.number(b'c'), said.number(b'O'));
        assert_eq!((Some(hit.flags), hit.unique, Some(hit.opaque.into())), numbers);
        assert_eq!((taken, hit.unique), (whole.len() - 4, unique));
        assert!((0..taken).all(|length| meta_hit(&whole.as_bytes()[..length]).is_none()));
    }
    for other in [
        "VA 3 f7 O5\r\nabcd\r\n",
        "VA 3 s3 f7 O5\r\nabc\r\n",
        "VA 3 f7 O5 W\r\nabc\r\n",
        "VA 3 f7 Ox\r\nabc\r\n",
        "VA 3 f7 O4294967296\r\nabc\r\n",
        "VA 3 f18446744073709551616 O5\r\nabc\r\n",
        "EN\r\n",
    ] {
        assert_eq!(meta_hit(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn a_reply_shows_its_first_line() {
    for whole in ["VALUE k 0 1\r\n\n\r\n", "LVALUE k 9 0 0\r\n\r\n", "VA 1 f0\r\nx\r\n", "END\r\n", "HD\r\n"]
    {
        let Read::Reply(reply, _) = first(whole.as_bytes()) else { panic!("{whole:?}") };
        assert_eq!(reply.line().escape_ascii().to_string(), whole[..whole.find('\r').unwrap()], "{whole:?}");
    }
}

use super::*;
use crate::{Command, Cut, Exptime, Line, Meta, Noreply, Store, cut, parse};

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn requests_are_written_as_memcached_reads_them() {
    let item = Item { flags: 7, exptime: 60, value: b"abc" };
    for (verb, expected) in [
        (Verb::Set, "set key 7 60 3\r\nabc\r\n"),
        (Verb::Add, "add key 7 60 3\r\nabc\r\n"),
        (Verb::Replace, "replace key 7 60 3\r\nabc\r\n"),
        (Verb::Append, "append key 7 60 3\r\nabc\r\n"),
        (Verb::Prepend, "prepend key 7 60 3\r\nabc\r\n"),
        (Verb::Cas(9), "cas key 7 60 3 9\r\nabc\r\n"),
        (Verb::Lease(9), "lease-set key 9 7 60 3\r\nabc\r\n"),
    ] {
        assert_eq!(text(|out| store(verb, b"key", item, out)), expected);
    }
    let sixty = |unique| GetForm::Touch(unique, Exptime(60));
    for (form, expected) in [
        (GetForm::Plain(Unique::Omitted), "get a b\r\n"),
        (GetForm::Plain(Unique::Shown), "gets a b\r\n"),
        (sixty(Unique::Omitted), "gat 60 a b\r\n"),
        (sixty(Unique::Shown), "gats 60 a b\r\n"),
        (GetForm::Lease, "lease-get a b\r\n"),
    ] {
        assert_eq!(text(|out| get(form, [&b"a"[..], b"b"], out)), expected);
    }
    assert_eq!(text(|out| delete(b"key", 0, out)), "delete key\r\n");
    assert_eq!(text(|out| delete(b"key", 9, out)), "delete key 9\r\n");
    assert_eq!(
        text(|out| arithmetic(Direction::Up, b"key", u64::MAX, out)),
        "incr key 18446744073709551615\r\n"
    );
    assert_eq!(text(|out| arithmetic(Direction::Down, b"key", 0, out)), "decr key 0\r\n");
    assert_eq!(text(|out| touch(b"key", -1, out)), "touch key -1\r\n");
    assert_eq!(text(|out| flush_all(0, out)), "flush_all\r\n");
    assert_eq!(text(|out| flush_all(5, out)), "flush_all 5\r\n");
    assert_eq!(text(|out| stats(b"", out)), "stats\r\n");
    assert_eq!(text(|out| stats(b"items", out)), "stats items\r\n");
    assert_eq!(text(|out| login("user", "secret", out)), "set login 0 0 11\r\nuser secret\r\n");
    assert_eq!(text(|out| debug(b"key", out).end()), "me key\r\n");
}

#[test]
fn meta_requests_have_their_flags_in_order() {
    let of = |verb, write: fn(MetaRequest<'_>)| text(|out| write(meta(verb, b"key", out)));
    assert_eq!(of(MetaVerb::Get, |get| get.end()), "mg key\r\n");
    assert_eq!(of(MetaVerb::Get, |get| get.flags(b"v f c").number(b'O', 5_u32).end()), "mg key v f c O5\r\n");
    assert_eq!(
        of(MetaVerb::Delete, |delete| delete.number(b'C', u64::MAX).end()),
        "md key C18446744073709551615\r\n"
    );
    assert_eq!(
        of(MetaVerb::Arithmetic, |count| count.flags(b"MD").number(b'T', -1).end()),
        "ma key MD T-1\r\n"
    );
    let store = text(|out| meta_store(b"key", 3, out).flags(b"ME").number(b'F', 7_u32).end_with(b"abc"));
    assert_eq!(store, "ms key 3 ME F7\r\nabc\r\n");
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn long(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        let high = self.below(1 << 31) << 33 | self.below(1 << 31) << 2 | self.below(4);
        high.checked_shr(64 - bits).unwrap_or(0)
    }

    fn key(&mut self) -> Vec<u8> {
        (0..1 + self.below(250)).map(|_| b'!' + self.below(94) as u8).collect()
    }
}

fn parsed(input: &[u8]) -> (Command<'_>, &[u8]) {
    let Cut::Line(Line { text, length }) = cut(input) else { panic!("no line: {:?}", input.escape_ascii()) };
    let command = parse(Line { text, length });
    (command.unwrap_or_else(|fault| panic!("{fault:?}: {:?}", input.escape_ascii())), &input[length..])
}

#[test]
fn the_server_reads_the_requests_that_the_codec_writes() {
    let mut numbers = Numbers(1);
    for _ in 0..2000 {
        let (key, value) = (numbers.key(), vec![b'\n'; numbers.below(40) as usize]);
        let (flags, exptime, long) = (numbers.long() as u32, numbers.long() as i32, numbers.long());
        let verb = [
            Verb::Set,
            Verb::Add,
            Verb::Replace,
            Verb::Append,
            Verb::Prepend,
            Verb::Cas(long),
            Verb::Lease(long),
        ][numbers.below(7) as usize];
        let mut out = Vec::new();
        let item = Item { flags: flags.into(), exptime: exptime.into(), value: &value };
        store(verb, &key, item, &mut out);
        let (Command::Store(read), block) = parsed(&out) else { panic!() };
        let (length, noreply) = (value.len() as u32, Noreply::No);
        let expected = Store { verb, key: &key, flags, exptime: Exptime(exptime), length, noreply };
        assert_eq!(read, expected);
        assert_eq!(block, [&value[..], b"\r\n"].concat());

        out.clear();
        let form = GetForm::Touch(Unique::Shown, Exptime(exptime));
        let keys: Vec<Vec<u8>> = (0..1 + numbers.below(5)).map(|_| numbers.key()).collect();
        get(form, keys.iter().map(Vec::as_slice), &mut out);
        let (Command::Get(read), b"") = parsed(&out) else { panic!() };
        assert!(read.form == form && read.keys.eq(keys.iter()));

        out.clear();
        arithmetic(Direction::Up, &key, long, &mut out);
        let (Command::Arithmetic(read), b"") = parsed(&out) else { panic!() };
        assert_eq!((read.key, read.delta, read.direction), (&key[..], long, Direction::Up));

        out.clear();
        delete(&key, flags.into(), &mut out);
        let (Command::Delete(read), b"") = parsed(&out) else { panic!() };
        assert_eq!((read.key, read.hold_off), (&key[..], Some(flags)));

        out.clear();
        let request = meta_store(&key, value.len(), &mut out).flags(b"MA");
        request.number(b'F', flags).number(b'T', exptime).number(b'C', long).end_with(&value);
        let (Command::Meta(Meta::Set(read)), block) = parsed(&out) else { panic!() };
        let flags_of = |read: crate::MetaFlags<'_>| (read.client_flags, read.exptime, read.cas);
        assert_eq!(flags_of(read.flags), (flags, Some(Exptime(exptime)), Some(long)));
        assert_eq!(
            (read.key.text, read.mode.verb, read.length),
            (&key[..], Verb::Append, value.len() as u32)
        );
        assert_eq!(block, [&value[..], b"\r\n"].concat());
    }
}

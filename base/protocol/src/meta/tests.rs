//! Meta lines, and what each means.

use super::*;
use crate::VALUE_MAX;
use crate::classic;
use crate::line::Line;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
const DUPLICATE: &str = "CLIENT_ERROR duplicate flag";
const TOO_MANY: &str = "CLIENT_ERROR options flags are too long";
const TOO_LONG: &str = "CLIENT_ERROR opaque token too long";
const NO_BASE64: &str = "CLIENT_ERROR error decoding key";

fn read(text: &str) -> Result<Command<'_>, Fault> {
    classic::parse(Line { text: text.as_bytes(), length: text.len() + 2 })
}

fn understood(text: &str) -> Meta<'_> {
    match read(text) {
        Ok(Command::Meta(meta)) => meta,
        other => panic!("{text} was understood as {other:?}"),
    }
}

fn understood_get(text: &str) -> MetaGet<'_> {
    match understood(text) {
        Meta::Get(get) => get,
        other => panic!("{text} was understood as {other:?}"),
    }
}

fn understood_set(text: &str) -> MetaSet<'_> {
    match understood(text) {
        Meta::Set(set) => set,
        other => panic!("{text} was understood as {other:?}"),
    }
}

fn understood_direction(text: &str) -> Direction {
    match understood(text) {
        Meta::Arithmetic(_, direction) => direction,
        other => panic!("{text} was understood as {other:?}"),
    }
}

fn fault(text: &str) -> Fault {
    match read(text) {
        Err(fault) => fault,
        Ok(command) => panic!("{text} was understood as {command:?}"),
    }
}

/// Asserts that all commands report the same fault, but for `ma`, which has a reply of its own.
fn assert_fault(key_and_flags: &str, answer: &'static str) {
    for word in ["mg", "md"] {
        assert_eq!(
            fault(&format!("{word} {key_and_flags}")),
            Fault::Answer(answer),
            "{word} {key_and_flags}"
        );
    }
    let (key, flags) = key_and_flags.split_once(' ').unwrap_or((key_and_flags, ""));
    let swallow = Fault::Swallow { answer, noreply: Noreply::No, bytes: 7 };
    assert_eq!(fault(&format!("ms {key} 5 {flags}")), swallow, "ms {key_and_flags}");
    let of_arithmetic = Fault::Answer("CLIENT_ERROR invalid or duplicate flag");
    assert_eq!(fault(&format!("ma {key_and_flags}")), of_arithmetic, "ma {key_and_flags}");
}

#[test]
fn every_command_has_a_key() {
    let key = |found: MetaKey<'_>| found.bytes(&mut [0; 336]).to_vec();
    assert!(matches!(understood("mg key"), Meta::Get(get) if key(get.key) == b"key"));
    assert!(matches!(understood("md  key "), Meta::Delete(get) if key(get.key) == b"key"));
    assert!(matches!(understood("ma key"), Meta::Arithmetic(get, _) if key(get.key) == b"key"));
    assert!(matches!(understood("ms key 5"), Meta::Set(set) if key(set.key) == b"key" && set.length == 5));
    for line in ["mg", "mg ", "ms", "ms a", "md", "ma", "me", "me "] {
        assert_eq!(fault(line), Fault::Answer(BAD_LINE), "{line}");
    }
}

#[test]
fn a_set_without_a_readable_length_has_no_data() {
    assert_eq!(understood_set("ms a 2147483645").length, VALUE_MAX);
    for length in ["x", "-1", "+1", "1x", "2147483646", "99999999999999999999", "S5"] {
        assert_eq!(fault(&format!("ms a {length}")), Fault::Answer(BAD_LINE), "{length}");
    }
}

#[test]
fn numbers_come_with_their_flags() {
    let get = understood_get("mg a T60 N-1 R30 F4294967295 C18446744073709551615 E0 J7 D9");
    let flags = get.flags;
    let times = (flags.exptime, flags.vivify, flags.recache);
    assert_eq!(times, (Some(Exptime(60)), Some(Exptime(-1)), Some(Exptime(30))));
    assert_eq!((flags.client_flags, flags.cas, flags.cas_new), (u32::MAX, Some(u64::MAX), Some(0)));
    assert_eq!((flags.initial, flags.delta), (7, 9));
    let flags = understood_get("mg a").flags;
    assert_eq!((flags.exptime, flags.vivify, flags.recache), (None, None, None));
    assert_eq!((flags.client_flags, flags.cas, flags.cas_new), (0, None, None));
    assert_eq!((flags.initial, flags.delta), (0, 1));
}

#[test]
fn flags_keep_their_order_and_their_tokens() {
    let flags = understood_get("mg a  k v Oabc  t T5 ").flags;
    let found: Vec<(u8, &[u8])> = flags.in_order().collect();
    let expected: [(u8, &[u8]); 5] =
        [(b'k', b"k"), (b'v', b"v"), (b'O', b"Oabc"), (b't', b"t"), (b'T', b"T5")];
    assert_eq!(found, expected);
    assert!(found.iter().all(|(letter, _)| flags.has(*letter)));
    for letter in [b'q', b'o', b'V', b'A', b'z', b'@', b'{', 0, 0xff] {
        assert!(!flags.has(letter), "{letter}");
    }
}

#[test]
fn a_switch_may_carry_a_token() {
    let get = understood_get("mg a vv q1");
    assert!(get.flags.has(b'v') && get.flags.quiet());
    assert!(!understood_get("mg a v").flags.quiet());
}

#[test]
fn every_flag_of_the_protocol_is_accepted_by_every_command() {
    for letter in "PLIbcfhklqstuvxO".chars().map(String::from) {
        let key = "Zm9v";
        understood(&format!("mg {key} {letter}"));
        understood(&format!("md {key} {letter}"));
        understood(&format!("ma {key} {letter}"));
        understood(&format!("ms {key} 1 {letter}"));
    }
    for token in ["T1", "N1", "R1", "F1", "C1", "E1", "J1", "D1", "MA"] {
        understood(&format!("mg a {token}"));
        understood(&format!("ms a 1 {token}"));
    }
}

#[test]
fn unknown_flags_are_faults() {
    for letter in ["z", "W", "X", "Z", "a", "_", "[", "`", "0", "9", "1 1", "v 60"] {
        assert_fault(&format!("a {letter}"), "CLIENT_ERROR invalid flag");
    }
}

#[test]
fn a_flag_of_another_character_is_the_first_fault_and_no_data_follows() {
    for byte in ["!", "-", "{", "@", ":", "/", "\u{7f}", "ü", "\t"] {
        for flags in [format!("v {byte}"), format!("{byte} v v"), format!("z {byte}"), format!("Tx {byte}")] {
            for line in ["mg a", "md a", "ma a", "ms a 5"].map(|start| format!("{start} {flags}")) {
                assert_eq!(fault(&line), Fault::Answer(BAD_LINE), "{line}");
            }
        }
    }
    assert_eq!(fault(&format!("ms a 5 !{}", " v".repeat(25))), Fault::Answer(BAD_LINE));
    let unseen = format!("ms a 5{} !", " v".repeat(20));
    let swallow = Fault::Swallow { answer: TOO_MANY, noreply: Noreply::No, bytes: 7 };
    assert_eq!(fault(&unseen), swallow, "memcached does not look so far");
    assert_eq!(fault(&format!("ms a 5{} !", " v".repeat(19))), Fault::Answer(BAD_LINE));
    assert_eq!(fault(&format!("ms {} 5 !", "k".repeat(251))), Fault::Answer(BAD_LINE));
    assert_eq!(fault(&format!("ma {} !", "k".repeat(251))), Fault::Answer(BAD_LINE));
}

#[test]
fn a_flag_stands_only_once() {
    for flags in ["v v", "k v Ox t Oy", "T1 T2", "q qq"] {
        assert_fault(&format!("a {flags}"), DUPLICATE);
    }
    understood_get("mg a t T5 c C5");
}

#[test]
fn a_bad_number_is_named_after_its_flag() {
    for token in [
        "Tx",
        "T",
        "T+5",
        "T2147483648",
        "N-2147483649",
        "R99999999999",
        "N1.5",
        "R0x5",
        "T9223372036854775808",
        "Cx",
        "C-1",
        "C+1",
        "E",
        "E18446744073709551616",
    ] {
        assert_fault(&format!("a {token}"), "CLIENT_ERROR bad token in command line format");
    }
    for token in ["F", "Fx", "F-1", "F4294967296"] {
        assert_fault(&format!("a {token}"), BAD_LINE);
    }
    assert_fault("a J-1", "CLIENT_ERROR invalid numeric initial value");
    assert_fault("a Dx", "CLIENT_ERROR invalid numeric delta value");
}

#[test]
fn other_faults_take_precedence_over_a_bad_number() {
    assert_fault("a Tx v v", DUPLICATE);
    assert_fault("a Tx z", "CLIENT_ERROR invalid flag");
    assert_fault("a Tx Jx", "CLIENT_ERROR invalid numeric initial value");
}

#[test]
fn twenty_words_are_the_most() {
    const DIFFERENT: &str = "t c f k h l s u v x q I T1 N1 R1 F1 C1 E1 J1";
    let flags = |count| DIFFERENT.split(' ').take(count).map(|flag| format!(" {flag}")).collect::<String>();
    understood_get(&format!("mg a{}", flags(18)));
    understood_set(&format!("ms a 5{}", flags(17)));
    assert_eq!(fault(&format!("mg a{}", flags(19))), Fault::Answer(TOO_MANY));
    let of_arithmetic = Fault::Answer("CLIENT_ERROR invalid or duplicate flag");
    assert_eq!(fault(&format!("ma a{}", flags(19))), of_arithmetic);
    let swallow = Fault::Swallow { answer: TOO_MANY, noreply: Noreply::No, bytes: 7 };
    assert_eq!(fault(&format!("ms a 5{}", flags(18))), swallow);
    assert_eq!(
        fault(&format!("mg a{}", " v".repeat(25))),
        Fault::Answer(TOO_MANY),
        "reported before duplicates"
    );
}

#[test]
fn an_opaque_token_has_31_bytes_at_most() {
    let longest = format!("mg a O{}", "o".repeat(31));
    assert_eq!(understood_get(&longest).flags.in_order().next().map(|(_, token)| token.len()), Some(32));
    let longer = format!("O{}", "o".repeat(32));
    for word in ["mg", "md", "ma"] {
        assert_eq!(fault(&format!("{word} a {longer}")), Fault::Answer(TOO_LONG), "{word}");
    }
    let swallow = Fault::Swallow { answer: TOO_LONG, noreply: Noreply::No, bytes: 3 };
    assert_eq!(fault(&format!("ms a 1 {longer}")), swallow);
    let mode = Fault::Answer("CLIENT_ERROR invalid mode for ma M token");
    assert_eq!(fault(&format!("ma a MX {longer}")), mode, "the mode is reported first");
    assert_eq!(understood_get("mg a O").flags.in_order().next(), Some((b'O', b"O".as_slice())));
}

#[test]
fn the_mode_of_a_set_is_the_first_letter_of_its_token() {
    let rows = [
        ("ms a 2", Verb::Set),
        ("ms a 2 MS", Verb::Set),
        ("ms a 2 ME", Verb::Add),
        ("ms a 2 MR", Verb::Replace),
        ("ms a 2 MA", Verb::Append),
        ("ms a 2 MP", Verb::Prepend),
        ("ms a 2 MSS", Verb::Set),
        ("ms a 2 C5 MAbc", Verb::Append),
    ];
    for (line, verb) in rows {
        assert_eq!(understood_set(line).mode, Mode { verb }, "{line}");
    }
    for mode in ["M", "Mx", "Ms", "Mset", "M+"] {
        let answer = "CLIENT_ERROR invalid mode for ms M token";
        let swallow = Fault::Swallow { answer, noreply: Noreply::No, bytes: 4 };
        assert_eq!(fault(&format!("ms a 2 {mode}")), swallow, "{mode}");
        understood_get(&format!("mg a {mode}"));
    }
}

#[test]
fn the_mode_of_arithmetic_is_a_direction() {
    let rows = [
        ("ma a", Direction::Up),
        ("ma a MI", Direction::Up),
        ("ma a M+", Direction::Up),
        ("ma a MD", Direction::Down),
        ("ma a M-", Direction::Down),
        ("ma a D5 M-x", Direction::Down),
    ];
    for (line, direction) in rows {
        assert_eq!(understood_direction(line), direction, "{line}");
    }
    for mode in ["M", "Mx", "Mi", "Md", "MA"] {
        let answer = Fault::Answer("CLIENT_ERROR invalid mode for ma M token");
        assert_eq!(fault(&format!("ma a {mode}")), answer, "{mode}");
    }
}

#[test]
fn there_is_no_noreply() {
    assert_fault("a noreply", "CLIENT_ERROR invalid flag");
    assert_eq!(understood_get("mg noreply").key.bytes(&mut [0; 336]), b"noreply");
}

#[test]
fn a_key_in_base64_is_decoded() {
    let rows: [(&str, &[u8]); 3] = [("Zm9v", b"foo"), ("AA0KIP8=", b"\0\r\n \xff"), ("YQ==", b"a")];
    for (text, key) in rows {
        let line = format!("mg {text} b");
        let found = understood_get(&line).key;
        assert!(found.is_binary(), "{text}");
        assert_eq!(found.bytes(&mut [0; 336]), key, "{text}");
        assert_eq!(encode_key(key, &mut [0; 336]), text.as_bytes());
    }
    let plain = understood_get("mg Zm9v v").key;
    assert!(!plain.is_binary());
    assert_eq!(plain.bytes(&mut [0; 336]), b"Zm9v");
}

#[test]
fn malformed_base64_is_decoded_as_memcached_does() {
    let rows: [(&str, &[u8]); 6] = [
        ("Zm9=", b"fo"),
        ("Zh==", b"f"),
        ("Zm!9v", b"foo"),
        ("Zg==Zm9v", b"f"),
        ("Zm=v", b"f`"),
        ("Zm9vZg=", b""),
    ];
    for (text, key) in rows {
        assert_eq!(decode_loosely(text.as_bytes(), &mut [0; 336]), key.len(), "{text}");
        if !key.is_empty() {
            let line = format!("mg {text} b");
            assert_eq!(understood_get(&line).key.bytes(&mut [0; 336]), key, "{text}");
        }
    }
}

#[test]
fn invalid_base64_is_a_fault() {
    for text in ["!!!", "a", "ab", "a===", "===="] {
        assert_fault(&format!("{text} b"), NO_BASE64);
    }
}

#[test]
fn the_text_of_a_key_has_250_bytes_at_most() {
    let (longest, longer) = ("k".repeat(250), "k".repeat(251));
    understood_get(&format!("mg {longest}"));
    assert_fault(&longer, BAD_LINE);
    understood_get(&format!("mg {} b", "QUJD".repeat(62)));
    assert_fault(&format!("{} b", "QUJD".repeat(63)), BAD_LINE);
}

#[test]
fn the_longest_key_can_be_encoded() {
    assert_eq!(encode_key(&[0xff; KEY_MAX], &mut [0; 336]).len(), 336);
    assert_eq!(encode_key(&[0xff; 253], &mut [0; 336]), b"");
}

#[test]
fn debug_takes_a_key_in_either_form() {
    let key = |line: &str| match read(line) {
        Ok(Command::MetaDebug(key)) => (key.bytes(&mut [0; 336]).to_vec(), key.is_binary()),
        other => panic!("{line} was understood as {other:?}"),
    };
    assert_eq!(key("me Zm9v"), (b"Zm9v".to_vec(), false));
    assert_eq!(key("me Zm9v b"), (b"foo".to_vec(), true));
    assert_eq!(key("me Zm9v x"), (b"Zm9v".to_vec(), false));
    for line in
        ["me !!! b".to_owned(), "me k !".to_owned(), "me k b @".to_owned(), format!("me {}", "k".repeat(251))]
    {
        assert_eq!(fault(&line), Fault::Answer(BAD_LINE), "{line}");
    }
}

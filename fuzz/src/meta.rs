//! Meta commands that are right by construction, and what a parser must make of them.

use crate::laws;
use arbitrary::{Arbitrary, Unstructured};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use guira_protocol::{Command, Cut, Direction, Meta, MetaFlags, MetaKey, VALUE_MAX, Verb, cut, parse};

/// Every letter that a flag may have.
const LETTERS: &[u8] = b"TNRFCEJDMOPLIbcfhklqstuvx";

/// Which command, with its word.
const WORDS: [&str; 4] = ["mg", "ms", "md", "ma"];

/// The modes of ms and ma.
const MODES: [(u8, Verb); 5] = [
    (b'S', Verb::Set),
    (b'E', Verb::Add),
    (b'R', Verb::Replace),
    (b'A', Verb::Append),
    (b'P', Verb::Prepend),
];
const DIRECTIONS: [(u8, Direction); 4] =
    [(b'I', Direction::Up), (b'+', Direction::Up), (b'D', Direction::Down), (b'-', Direction::Down)];

/// Checks `input` as it stands, and the meta command that is made from it.
pub fn check(input: &[u8]) {
    laws::check_input(input);
    if let Ok(request) = Request::arbitrary_take_rest(Unstructured::new(input)) {
        request.check();
    }
}

/// A meta command before it is written down.
#[derive(Arbitrary, Debug)]
struct Request {
    word: u8,
    blanks: u8,
    length: u32,
    flags: Vec<(u8, i64)>,
    key: Vec<u8>,
}

impl Request {
    /// Writes it down, parses it, and compares.
    fn check(mut self) {
        let word = WORDS[usize::from(self.word) % WORDS.len()];
        let length = self.length % (VALUE_MAX + 1);
        self.choose_flags(if word == "ms" { 17 } else { 18 });
        let (key, text) = self.key();
        let mut line = [word.as_bytes(), b" ", &text].concat();
        if word == "ms" {
            self.append(&mut line, length.to_string().as_bytes());
        }
        let tokens: Vec<Vec<u8>> =
            self.flags.iter().map(|(letter, number)| token(word, *letter, *number)).collect();
        tokens.iter().for_each(|token| self.append(&mut line, token));
        line.extend_from_slice(b"\r\n");
        let Cut::Line(cut) = cut(&line) else { panic!("a line of {} bytes is not cut", line.len()) };
        let Ok(Command::Meta(meta)) = parse(cut) else {
            panic!("{:?}: {:?}", line.escape_ascii(), parse(cut))
        };
        let (found, flags) = match (&meta, word) {
            (Meta::Get(get), "mg") | (Meta::Delete(get), "md") => (get.key, get.flags),
            (Meta::Arithmetic(get, direction), "ma") => {
                let mode = self.number(b'M').map_or(Direction::Up, |number| pick(&DIRECTIONS, number).1);
                assert_eq!(*direction, mode);
                (get.key, get.flags)
            }
            (Meta::Set(set), "ms") => {
                let mode = self.number(b'M').map_or(Verb::Set, |number| pick(&MODES, number).1);
                assert_eq!((set.mode.verb, set.length), (mode, length));
                (set.key, set.flags)
            }
            _ => panic!("{word} was understood as {meta:?}"),
        };
        self.compare(&found, &key, &flags, &tokens);
    }

    /// Each flag once, and not too many.
    fn choose_flags(&mut self, most: usize) {
        let mut taken = Vec::new();
        for (index, number) in std::mem::take(&mut self.flags) {
            let letter = LETTERS[usize::from(index) % LETTERS.len()];
            if taken.len() < most && taken.iter().all(|(other, _)| *other != letter) {
                taken.push((letter, number));
            }
        }
        self.flags = taken;
    }

    /// The key, and how it is written.
    fn key(&self) -> (Vec<u8>, Vec<u8>) {
        let mut key = self.key.clone();
        key.truncate(if self.number(b'b').is_some() { 186 } else { 250 });
        if key.is_empty() {
            key.push(b'k');
        }
        if self.number(b'b').is_some() {
            let text = STANDARD.encode(&key).into_bytes();
            return (key, text);
        }
        for byte in key.iter_mut().filter(|byte| b" \r\n".contains(byte)) {
            *byte = b'_';
        }
        (key.clone(), key)
    }

    fn append(&self, line: &mut Vec<u8>, token: &[u8]) {
        line.extend(std::iter::repeat_n(b' ', 1 + usize::from(self.blanks % 3)));
        line.extend_from_slice(token);
    }

    fn number(&self, letter: u8) -> Option<i64> {
        self.flags.iter().find(|(other, _)| *other == letter).map(|(_, number)| *number)
    }

    fn compare(&self, found: &MetaKey<'_>, key: &[u8], flags: &MetaFlags<'_>, tokens: &[Vec<u8>]) {
        assert_eq!(found.bytes(&mut [0; 336]), key);
        let exptime = |letter| self.number(letter).map(|number| number as i32);
        assert_eq!(flags.exptime.map(|time| time.0), exptime(b'T'));
        assert_eq!(flags.vivify.map(|time| time.0), exptime(b'N'));
        assert_eq!(flags.recache.map(|time| time.0), exptime(b'R'));
        assert_eq!(flags.client_flags, self.number(b'F').unwrap_or(0) as u32);
        assert_eq!(flags.cas, self.number(b'C').map(|number| number as u64));
        assert_eq!(flags.cas_new, self.number(b'E').map(|number| number as u64));
        assert_eq!(flags.initial, self.number(b'J').unwrap_or(0) as u64);
        assert_eq!(flags.delta, self.number(b'D').unwrap_or(1) as u64);
        assert!(flags.in_order().map(|(_, token)| token).eq(tokens), "the flags are in another order");
    }
}

/// A flag with its token.
fn token(word: &str, letter: u8, number: i64) -> Vec<u8> {
    let rest = match letter {
        b'T' | b'N' | b'R' => (number as i32).to_string().into_bytes(),
        b'F' => (number as u32).to_string().into_bytes(),
        b'C' | b'E' | b'J' | b'D' => (number as u64).to_string().into_bytes(),
        b'M' if word == "ma" => vec![pick(&DIRECTIONS, number).0],
        b'M' => vec![pick(&MODES, number).0],
        b'O' => vec![number as u8 | 0x80; (number as u64 >> 8) as usize % 32],
        _ => Vec::new(),
    };
    [&[letter], rest.as_slice()].concat()
}

fn pick<T>(rows: &[T], number: i64) -> &T {
    &rows[number.unsigned_abs() as usize % rows.len()]
}

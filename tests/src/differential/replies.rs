//! Replies in a form that can be compared between servers.

use std::fmt;

use super::request::Uniques;
use crate::client::Client;
use crate::escape;

/// Seconds by which times may differ: each server has its own tick.
const TICKS: u64 = 3;

/// Times left from here on are negative numbers of 32 bits.
const NEGATIVE: u64 = 1 << 31;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Text(String),
    /// A cas unique, by its name.
    Unique(usize),
    /// Seconds, after the letter of their flag.
    Seconds(char, u64),
    /// The time left of an item that has just been made to expire: memcached tells a negative number without sign.
    Expired,
}

/// A line, or a data block.
#[derive(Clone, Debug)]
enum Part {
    Line(Vec<Word>),
    Data(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Reply {
    parts: Vec<Part>,
}

impl Reply {
    /// Whether another server's reply means the same.
    pub fn agrees(&self, other: &Self) -> bool {
        self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(one, two)| agree(one, two))
    }
}

fn agree(one: &Part, other: &Part) -> bool {
    match (one, other) {
        (Part::Data(one), Part::Data(other)) => one == other,
        (Part::Line(one), Part::Line(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| words_agree(one, other))
        }
        _ => false,
    }
}

fn words_agree(one: &Word, other: &Word) -> bool {
    match (one, other) {
        (Word::Seconds(flag, one), Word::Seconds(letter, other)) => {
            flag == letter && one.abs_diff(*other) <= TICKS
        }
        (Word::Expired, other) | (other, Word::Expired) => match other {
            Word::Expired | Word::Seconds('t', _) => true,
            Word::Text(text) => text.starts_with('t'),
            Word::Seconds(..) | Word::Unique(_) => false,
        },
        _ => one == other,
    }
}

/// Reads the reply to a request about `key` that is followed by `mn`.
pub fn read(client: &mut Client, key: &str, uniques: &mut Uniques) -> Reply {
    let mut parts = Vec::new();
    loop {
        // Memcached forgets of some items that their key was given in base64; both forms name the same key.
        let line = client.line().replace(" kZm9v b", " kfoo").replace("ME Zm9v ", "ME foo ");
        let words = line.split(' ').collect::<Vec<_>>();
        match words.as_slice() {
            ["MN"] => return Reply { parts },
            ["VALUE", name, flags, length, unique @ ..] => {
                let data = data(client, length);
                let mut line = vec!["VALUE".into(), (*name).into(), (*flags).into(), data.len().to_string()];
                line.extend(unique.iter().map(|unique| name_unique(unique, name, uniques)));
                parts.push(Part::Line(line.into_iter().map(Word::Text).collect()));
                parts.push(Part::Data(data));
            }
            ["VA", length, flags @ ..] => {
                let data = data(client, length);
                let head = [Word::Text("VA".into()), Word::Text(data.len().to_string())];
                let flags = flags.iter().map(|flag| meta_word(flag, key, uniques));
                parts.push(Part::Line(head.into_iter().chain(flags).collect()));
                parts.push(Part::Data(data));
            }
            ["ME", name, facts @ ..] => parts.push(Part::Line(debug_words(name, facts, key, uniques))),
            ["HD" | "EN" | "NF" | "NS" | "EX", flags @ ..] => {
                let flags = flags.iter().map(|flag| meta_word(flag, key, uniques));
                parts.push(Part::Line(std::iter::once(Word::Text(words[0].into())).chain(flags).collect()));
            }
            _ => parts.push(Part::Line(vec![Word::Text(line)])),
        }
    }
}

/// A data block. A number that lost digits may be padded with blanks: they are cut off.
fn data(client: &mut Client, length: &str) -> Vec<u8> {
    let length = length.parse::<usize>().expect("the length of a data block");
    let mut data = client.take(length);
    client.hear("\r\n");
    let digits = data.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 && data[digits..].iter().all(|byte| *byte == b' ') {
        data.truncate(digits);
    }
    data
}

fn name_unique(text: &str, key: &str, uniques: &mut Uniques) -> String {
    text.parse().map_or_else(|_| text.to_owned(), |unique| format!("unique {}", uniques.name(key, unique)))
}

fn meta_word(word: &str, key: &str, uniques: &mut Uniques) -> Word {
    let mut letters = word.chars();
    let token = |flag: char| word.strip_prefix(flag).and_then(|token| token.parse::<u64>().ok());
    match letters.next() {
        Some('c') => match token('c') {
            // Nothing was stored.
            Some(0) | None => Word::Text(word.into()),
            Some(unique) => Word::Unique(uniques.name(key, unique)),
        },
        Some('t') if token('t').is_some_and(|seconds| seconds >= NEGATIVE) => Word::Expired,
        Some(flag @ ('t' | 'l')) => {
            token(flag).map_or(Word::Text(word.into()), |seconds| Word::Seconds(flag, seconds))
        }
        _ => Word::Text(word.into()),
    }
}

/// Of what `me` tells, sizes and classes are a server's own affair, and old servers tell the time left negated.
fn debug_words(name: &str, facts: &[&str], key: &str, uniques: &mut Uniques) -> Vec<Word> {
    let mut words = vec![Word::Text("ME".into()), Word::Text(name.into())];
    for fact in facts {
        match fact.split_once('=') {
            Some(("cas", unique)) => words.push(Word::Text(name_unique(unique, key, uniques))),
            Some(("fetch", _)) => words.push(Word::Text((*fact).into())),
            _ => {}
        }
    }
    words
}

impl fmt::Display for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return formatter.write_str("nothing");
        }
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                formatter.write_str(" / ")?;
            }
            match part {
                Part::Data(data) => write!(formatter, "\"{}\"", escape::bytes(data))?,
                Part::Line(words) => {
                    let words = words.iter().map(|word| match word {
                        Word::Text(text) => text.clone(),
                        Word::Unique(name) => format!("c<{name}>"),
                        Word::Seconds(flag, seconds) => format!("{flag}{seconds}"),
                        Word::Expired => "t<negative>".to_owned(),
                    });
                    formatter.write_str(&words.collect::<Vec<_>>().join(" "))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str) -> Reply {
        let mut uniques = Uniques::default();
        let words = line.split(' ').map(|word| meta_word(word, "key", &mut uniques)).collect();
        Reply { parts: vec![Part::Line(words)] }
    }

    #[test]
    fn times_may_differ_by_a_tick_and_uniques_by_value() {
        assert!(line("HD t500 c7 s2").agrees(&line("HD t499 c900 s2")));
        assert!(!line("HD t500 c7 s2").agrees(&line("HD t400 c7 s2")));
        assert!(!line("HD t500 c7 s2").agrees(&line("HD t500 c7 s3")));
        assert!(!line("HD t-1").agrees(&line("HD t1")));
        assert!(
            line("HD t4294967100").agrees(&line("HD t0")) && line("HD t-1").agrees(&line("HD t4294967100"))
        );
        assert!(line("HD c7 c7").agrees(&line("HD c9 c9")));
        assert!(!line("HD c7 c7").agrees(&line("HD c9 c8")));
        assert!(!line("EX c0").agrees(&line("EX c5")));
    }
}

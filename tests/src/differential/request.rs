//! Requests whose cas uniques are filled in for each server.

use std::collections::BTreeMap;

/// A number that no server gives as a cas unique.
const NEVER_GIVEN: u64 = u64::MAX >> 1;

/// The cas uniques that a server has sent, by key, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct Uniques {
    seen: BTreeMap<String, Vec<u64>>,
}

impl Uniques {
    /// A name for a unique that does not depend on the server: how many others were seen before for the key.
    pub fn name(&mut self, key: &str, unique: u64) -> usize {
        let seen = self.seen.entry(key.to_owned()).or_default();
        seen.iter().position(|known| *known == unique).unwrap_or_else(|| {
            seen.push(unique);
            seen.len() - 1
        })
    }

    /// The unique that was seen `age` before the newest one; one that was never given if there is none.
    pub fn get(&self, key: &str, age: usize) -> u64 {
        let seen = self.seen.get(key).map_or(&[][..], Vec::as_slice);
        seen.iter().rev().nth(age).copied().unwrap_or(NEVER_GIVEN)
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    /// The unique of the key of the request that was seen this many before the newest.
    Unique(usize),
}

/// A request about one key, or several of which one gives the name to the uniques of a meta reply.
#[derive(Clone, Debug)]
pub struct Request {
    /// The key, as text.
    pub key: String,
    pieces: Vec<Piece>,
}

impl Request {
    /// An empty request about `key`.
    pub fn new(key: &str) -> Self {
        Self { key: key.to_owned(), pieces: Vec::new() }
    }

    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.pieces.push(Piece::Bytes(bytes.to_vec()));
        self
    }

    /// Adds the unique of the key that was seen `age` before the newest.
    #[must_use]
    pub fn unique(mut self, age: usize) -> Self {
        self.pieces.push(Piece::Unique(age));
        self
    }

    /// The bytes for a server that has sent these uniques.
    pub fn render(&self, uniques: &Uniques) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(text) => bytes.extend_from_slice(text),
                Piece::Unique(age) => {
                    bytes.extend_from_slice(uniques.get(&self.key, *age).to_string().as_bytes())
                }
            }
        }
        bytes
    }

    /// The bytes for a reader, with words instead of uniques.
    pub fn describe(&self) -> Vec<u8> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Unique(age) => format!("<unique {age} before the newest>").into_bytes(),
        });
        pieces.collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniques_are_named_by_the_order_in_which_they_are_seen() {
        let mut uniques = Uniques::default();
        assert_eq!([70, 71, 70].map(|unique| uniques.name("a", unique)), [0, 1, 0]);
        assert_eq!(uniques.name("b", 71), 0);
        assert_eq!((uniques.get("a", 0), uniques.get("a", 1), uniques.get("a", 2)), (71, 70, NEVER_GIVEN));
    }

    #[test]
    fn requests_are_filled_in_for_each_server() {
        let mut uniques = Uniques::default();
        uniques.name("a", 5);
        let request = Request::new("a").text("cas a 0 0 1 ").unique(0).text("\r\nx\r\n");
        assert_eq!(request.render(&uniques), b"cas a 0 0 1 5\r\nx\r\n");
    }
}

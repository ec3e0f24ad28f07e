//! Random requests over few keys.
//!
//! Without `flush_all`: memcached passes over an item whose lock its maintainer thread holds at that moment.

use super::request::Request;
use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Only what memcached 1.6.18 and 1.6.45 answer alike.
    CommonToOldAndNew,
    /// Everything of 1.6.45.
    Law,
}

/// Keys of texts. The second form of the last is its base64.
const TEXT_KEYS: &[&str] = &["a", "b", "a-key-of-some-more-bytes-than-the-others-have-got", "foo"];

/// Keys of numbers. They are not appended to and their sizes and marks are not asked for, since a server may pad
/// a number that loses digits, and memcached makes a new item, without marks, of one that gains digits. For the
/// same reason `ma` has no T and no E here: memcached changes the item that it has just replaced.
const NUMBER_KEYS: &[&str] = &["n1", "n2"];

/// Expiration times whose effect does not depend on when exactly it is looked at.
const TIMES: &[&str] = &["0", "0", "0", "1000", "5000", "-1", "2592001"];

/// Times for R, far from all times left.
const RECACHE_TIMES: &[&str] = &["0", "30", "3000", "-1"];

/// Bad requests that every version answers alike.
const BAD: &[&str] = &[
    "unknown a\r\n",
    "getx a\r\n",
    "GET a\r\n",
    "set a 0 0 abc\r\n",
    "set a 0 0 -1\r\n",
    "ms a abc\r\n",
    "incr n1 x\r\n",
    "incr n1 -1\r\n",
    "touch a x\r\n",
    "gat x a\r\n",
    "mg a v v\r\n",
    "mg a z\r\n",
    "mg a Tx\r\n",
    "ms a 2 z\r\nhi\r\n",
    "ms a 2 Mx\r\nhi\r\n",
    "ms a 2 Fx\r\nhi\r\n",
    "ma n1 q q\r\n",
    "ma n1 z\r\n",
    "ma n1 Dx\r\n",
    "ma n1 Mx\r\n",
    // With u, since memcached fetches the item before it finds the token too long, and we do not.
    "mg a u Oooooooooooooooooooooooooooooooooo\r\n",
    "mg !!! b v\r\n",
    "ms !!! 2 b\r\nhi\r\n",
    "verbosity x\r\n",
    "flush_all x\r\n",
    "set a 0 0 3\r\nabcde",
    "ms a 3 q\r\nabcde",
    "set a 0 0 3 noreply\r\nabcde",
    "incr a 1\r\n",
    "stats unknown\r\n",
];

/// Bad requests that 1.6.45 answers in its own way.
const BAD_BY_LAW: &[&str] = &[
    "get\r\n",
    "set a\r\n",
    "\r\n",
    "x\r\n",
    " get a\r\n",
    "gat 0\r\n",
    "delete a b c\r\n",
    "incr n1 +1\r\n",
    "incr n1\r\n",
    "touch a\r\n",
    "mg\r\n",
    "md a q q\r\n",
    "md a z\r\n",
    "md !!! b\r\n",
    "ms a 2 M\r\nhi\r\n",
    "ms a 2 F4294967296\r\nhi\r\n",
    "set a x 0 2\r\nhi\r\n",
    "set a 0 x 2\r\nhi\r\n",
    "cas a 0 0 2 x\r\nhi\r\n",
    "set a x 0 2 noreply\r\nhi\r\n",
    "unknown noreply\r\n",
    "mg a !\r\n",
    "verbosity\r\n",
];

#[derive(Debug)]
pub struct Generator {
    random: Random,
    dialect: Dialect,
}

impl Generator {
    /// The generator of `seed`.
    pub fn new(seed: u64, dialect: Dialect) -> Self {
        Self { random: Random::new(seed), dialect }
    }

    /// The request that makes every key missing.
    pub fn clear() -> Request {
        let keys = TEXT_KEYS.iter().chain(NUMBER_KEYS);
        keys.fold(Request::new(TEXT_KEYS[0]), |request, key| {
            request.text(&format!("delete {key} noreply\r\n"))
        })
    }

    pub fn request(&mut self) -> Request {
        match self.random.below(100) {
            0..16 => self.storage(),
            16..21 => self.compare_and_swap(),
            21..33 => self.retrieval(),
            33..39 => self.arithmetic(),
            39..44 => self.small(),
            44..66 => self.meta_get(),
            66..80 => self.meta_set(),
            80..87 => self.meta_delete(),
            87..93 => self.meta_arithmetic(),
            93..98 => self.bad(),
            _ => Request::new("a").text("verbosity 0\r\n"),
        }
    }

    fn text_key(&mut self) -> &'static str {
        self.random.pick(TEXT_KEYS)
    }

    fn any_key(&mut self) -> &'static str {
        if self.random.once_in(4) { self.random.pick(NUMBER_KEYS) } else { self.text_key() }
    }

    fn maybe(&mut self, times: u64, text: &'static str) -> &'static str {
        if self.random.once_in(times) { text } else { "" }
    }

    fn time(&mut self) -> &'static str {
        self.random.pick(TIMES)
    }

    /// A number of any length. Old servers sometimes take a stored number of 64 bits for a negative one, so they
    /// are spared those, and sums that would become so large: their numbers lack this many bits.
    fn number(&mut self, spared: u32) -> u64 {
        let shift = if self.dialect == Dialect::Law { 0 } else { spared };
        (self.random.bits() >> shift) >> self.random.below(64)
    }

    /// A text that is no number, or for the keys of numbers, a number.
    fn value(&mut self, key: &str) -> Vec<u8> {
        if NUMBER_KEYS.contains(&key) {
            return self.number(2).to_string().into_bytes();
        }
        let length = match self.random.below(20) {
            0 => 0,
            1 => 1000 + self.random.below(9000) as usize,
            2..6 => 50 + self.random.below(100) as usize,
            _ => 1 + self.random.below(20) as usize,
        };
        let mut value = self.random.bytes(length);
        if !self.random.once_in(8) {
            value.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
        }
        if let Some(first) = value.first_mut() {
            *first = b'v';
        }
        value
    }

    fn storage(&mut self) -> Request {
        let mut command = self.random.pick(&["set", "set", "set", "add", "replace", "append", "prepend"]);
        let key = self.any_key();
        if NUMBER_KEYS.contains(&key) && command.ends_with("pend") {
            command = "set";
        }
        let (flags, time, value) = (self.random.below(3) * 77, self.time(), self.value(key));
        let noreply = self.maybe(5, " noreply");
        let line = format!("{command} {key} {flags} {time} {}{noreply}\r\n", value.len());
        Request::new(key).text(&line).bytes(&value).text("\r\n")
    }

    fn compare_and_swap(&mut self) -> Request {
        let key = self.any_key();
        let (time, value, age) = (self.time(), self.value(key), self.random.below(3) as usize);
        let noreply = self.maybe(6, " noreply");
        let line = format!("cas {key} 5 {time} {} ", value.len());
        Request::new(key).text(&line).unique(age).text(noreply).text("\r\n").bytes(&value).text("\r\n")
    }

    fn retrieval(&mut self) -> Request {
        let command = self.random.pick(&["get", "get", "gets", "gets", "gat", "gats"]);
        let mut line = command.to_owned();
        if command.starts_with("gat") {
            line.push(' ');
            line.push_str(self.time());
        }
        for _ in 0..=self.random.below(4) {
            line.push(' ');
            line.push_str(self.any_key());
        }
        Request::new("a").text(&line).text("\r\n")
    }

    fn arithmetic(&mut self) -> Request {
        let command = self.random.pick(&["incr", "incr", "decr"]);
        let delta = self.number(24);
        let key = self.random.pick(NUMBER_KEYS);
        let noreply = self.maybe(5, " noreply");
        Request::new(key).text(&format!("{command} {key} {delta}{noreply}\r\n"))
    }

    fn small(&mut self) -> Request {
        let mut key = self.any_key();
        let noreply = self.maybe(5, " noreply");
        let time = self.time();
        let line = match self.random.below(5) {
            0 | 1 => format!("delete {key}{noreply}\r\n"),
            2 | 3 => format!("touch {key} {time}{noreply}\r\n"),
            _ => {
                key = self.text_key();
                format!("me {key}\r\n")
            }
        };
        Request::new(key).text(&line)
    }

    /// The words `<command> <key>`, sometimes with the key in base64.
    fn meta_head(&mut self, command: &str, key: &str, further: &str) -> String {
        if key == "foo" && self.random.once_in(2) {
            return format!("{command} Zm9v{further} b");
        }
        format!("{command} {key}{further}")
    }

    /// Adds some of these flags, in random order.
    fn flags(&mut self, mut request: Request, flags: &[&str], chance: u64) -> Request {
        let mut left = flags.to_vec();
        while !left.is_empty() {
            let index = self.random.below(left.len() as u64) as usize;
            let flag = left.swap_remove(index);
            if !self.random.once_in(chance) {
                continue;
            }
            request = match flag {
                "C" => request.text(" C").unique(self.random.below(3) as usize),
                "T" | "N" => request.text(&format!(" {flag}{}", self.time())),
                "R" => request.text(&format!(" R{}", self.random.pick(RECACHE_TIMES))),
                "O" => request.text(&format!(" O{}", self.random.below(1000))),
                "E" => request.text(&format!(" E{}", 1_000_000_000 + self.random.below(1_000_000_000))),
                flag => request.text(&format!(" {flag}")),
            };
        }
        request
    }

    fn meta_get(&mut self) -> Request {
        let key = self.any_key();
        let head = self.meta_head("mg", key, "");
        let number = NUMBER_KEYS.contains(&key);
        let mut flags = vec!["v", "c", "f", "k", "t", "q", "u", "O", "T", "Lx", "Py"];
        if !number {
            // Marks of a number vanish or stay as its length changes or not.
            flags.extend(["s", "h", "N", "R", "l"]);
        }
        if self.dialect == Dialect::Law {
            flags.push("C");
        }
        let request = Request::new(key).text(&head);
        self.flags(request, &flags, 3).text("\r\n")
    }

    fn meta_set(&mut self) -> Request {
        let key = self.any_key();
        let value = self.value(key);
        let head = self.meta_head("ms", key, &format!(" {}", value.len()));
        let mut request = Request::new(key).text(&head);
        let number = NUMBER_KEYS.contains(&key);
        let modes: &[&str] = if number {
            &["", "", " MS", " ME", " MR"]
        } else {
            &["", "", " MS", " ME", " MR", " MA", " MP"]
        };
        let mode = self.random.pick(modes);
        request = request.text(mode);
        let appends = matches!(mode, " MA" | " MP");
        let mut flags = vec!["c", "k", "q", "O", "T", "F7", "C"];
        if !number {
            flags.push("I");
        }
        if self.dialect == Dialect::Law {
            flags.extend(["E", "s"]);
            if appends {
                flags.push("N");
            }
        }
        self.flags(request, &flags, 4).text("\r\n").bytes(&value).text("\r\n")
    }

    fn meta_delete(&mut self) -> Request {
        let key = self.any_key();
        let head = self.meta_head("md", key, "");
        let mut flags = vec!["k", "q", "O", "C"];
        if !NUMBER_KEYS.contains(&key) {
            flags.extend(["I", "T"]);
            if self.dialect == Dialect::Law {
                flags.extend(["E", "x"]);
            }
        }
        let request = Request::new(key).text(&head);
        self.flags(request, &flags, 2).text("\r\n")
    }

    fn meta_arithmetic(&mut self) -> Request {
        let key = self.random.pick(NUMBER_KEYS);
        let mode = self.random.pick(&["", "", " MI", " M+", " MD", " M-"]);
        let mut flags = vec!["v", "c", "k", "t", "O", "C", "D100", "J55"];
        // An old server answers a creation in spite of q.
        flags.push(if self.random.once_in(2) && self.dialect == Dialect::CommonToOldAndNew {
            "q"
        } else {
            "N"
        });
        if self.dialect == Dialect::Law {
            flags.push("q");
        }
        let request = Request::new(key).text(&format!("ma {key}{mode}"));
        self.flags(request, &flags, 3).text("\r\n")
    }

    fn bad(&mut self) -> Request {
        let own_way = self.dialect == Dialect::Law && self.random.once_in(2);
        let line = self.random.pick(if own_way { BAD_BY_LAW } else { BAD });
        Request::new("a").text(line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Uniques;
    use super::*;

    #[test]
    fn equal_seeds_give_equal_requests_that_end_a_line() {
        let (mut one, mut other) = (Generator::new(5, Dialect::Law), Generator::new(5, Dialect::Law));
        let uniques = Uniques::default();
        for _ in 0..2000 {
            let (one, other) = (one.request(), other.request());
            assert_eq!(one.render(&uniques), other.render(&uniques));
            let bytes = one.render(&uniques);
            assert!(bytes.ends_with(b"\r\n") || bytes.ends_with(b"abcde"), "{one:?}");
        }
    }
}

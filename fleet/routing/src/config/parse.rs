//! Parses text into [`Json`]: JSON, and the extensions of mcrouter's parser: comments, trailing
//! commas, and line ends within strings.
//!
//! No JSON library is used, because of those line ends, and because every value needs its line
//! number, nesting needs a limit, and a repeated name has to be an error.

use std::collections::HashMap;
use std::sync::Arc;

use super::json::{ConfigError, Json, Place, Value};
use super::limits::{Budget, FILE_BYTES, FILE_NESTING, steps};

/// The one value in `text`.
pub(super) fn parse(source: &Arc<str>, text: &str, budget: &Budget) -> Result<Json, ConfigError> {
    let mut parser = Parser { source, text, at: 0, line: 1, nesting: 0, budget };
    if text.len() > FILE_BYTES {
        return Err(parser.place().error(format!("the file has more than {FILE_BYTES} bytes")));
    }
    // A byte order mark.
    parser.at = text.len() - text.trim_start_matches('\u{feff}').len();
    let json = parser.value()?;
    match parser.next()? {
        None => Ok(json),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct Parser<'p> {
    source: &'p Arc<str>,
    text: &'p str,
    at: usize,
    line: u32,
    nesting: usize,
    budget: &'p Budget,
}

impl<'p> Parser<'p> {
    fn place(&self) -> Place {
        Place { source: Arc::clone(self.source), line: self.line }
    }

    fn error(&self, reason: impl Into<String>) -> ConfigError {
        self.place().error(reason)
    }

    fn rest(&self) -> &'p str {
        &self.text[self.at..]
    }

    /// The error of what stands here instead of `expected`.
    fn unexpected(&self, expected: &str) -> ConfigError {
        match self.rest().chars().next() {
            Some(found) => self.error(format!("{found:?} found, {expected} expected")),
            None => self.error(format!("the file ends, {expected} expected")),
        }
    }

    /// The next byte that is neither blank nor comment; it is not taken.
    fn next(&mut self) -> Result<Option<u8>, ConfigError> {
        loop {
            let rest = self.rest();
            let Some(&byte) = rest.as_bytes().first() else { return Ok(None) };
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if rest.starts_with("//") => self.at += rest.find('\n').unwrap_or(rest.len()),
                b'/' if rest.starts_with("/*") => {
                    let length =
                        2 + rest[2..].find("*/").ok_or_else(|| self.error("a comment does not end"))?;
                    self.line += line_ends(&rest[..length]);
                    self.at += length + 2;
                }
                _ => return Ok(Some(byte)),
            }
        }
    }

    fn take(&mut self, wanted: u8) -> Result<bool, ConfigError> {
        let found = self.next()? == Some(wanted);
        self.at += usize::from(found);
        Ok(found)
    }

    fn value(&mut self) -> Result<Json, ConfigError> {
        let first = self.next()?;
        let place = self.place();
        self.budget.spend(1, &place)?;
        let value = match first {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Value::Text(self.string()?.into()),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Json { place, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, ConfigError>) -> Result<Value, ConfigError> {
        self.nesting += 1;
        if self.nesting > FILE_NESTING {
            return Err(self.error(format!("more than {FILE_NESTING} arrays and objects within each other")));
        }
        self.at += 1;
        let value = read(self)?;
        self.nesting -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value, ConfigError> {
        let mut items = Vec::new();
        while !self.take(b']')? {
            items.push(self.value()?);
            if self.next()? != Some(b']') && !self.take(b',')? {
                return Err(self.unexpected("',' or ']'"));
            }
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Result<Value, ConfigError> {
        let mut members = Vec::new();
        let mut lines = HashMap::new();
        while !self.take(b'}')? {
            if self.next()? != Some(b'"') {
                return Err(self.unexpected("a name in double quotes or '}'"));
            }
            let line = self.line;
            let name: Arc<str> = self.string()?.into();
            if let Some(earlier) = lines.insert(Arc::clone(&name), line) {
                let place = Place { source: Arc::clone(self.source), line };
                return Err(place.error(format!("{name:?} is in this object already, on line {earlier}")));
            }
            if !self.take(b':')? {
                return Err(self.unexpected("':'"));
            }
            members.push((name, self.value()?));
            if self.next()? != Some(b'}') && !self.take(b',')? {
                return Err(self.unexpected("',' or '}'"));
            }
        }
        Ok(Value::Object(members))
    }

    /// A string, of which the opening quote is next.
    fn string(&mut self) -> Result<String, ConfigError> {
        let opening = self.place();
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(['"', '\\']) else {
                return Err(opening.error("a string does not end"));
            };
            text.push_str(&rest[..length]);
            self.line += line_ends(&rest[..length]);
            self.at += length + 1;
            if rest.as_bytes()[length] == b'"' {
                self.budget.spend(steps(text.len()) - 1, &opening)?;
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    /// Parses an escape sequence after its backslash.
    fn escape(&mut self) -> Result<char, ConfigError> {
        let Some(kind) = self.rest().chars().next() else {
            return Err(self.error("a string does not end"));
        };
        self.at += kind.len_utf8();
        Ok(match kind {
            '"' | '\\' | '/' => kind,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.code_point(),
            _ => return Err(self.error(format!("\\{} is no escape of JSON", kind.escape_debug()))),
        })
    }

    fn code_point(&mut self) -> Result<char, ConfigError> {
        let first = self.four_digits()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        // The first half of a pair is followed by the second.
        let is_pair = first < 0xdc00 && self.rest().starts_with("\\u");
        if is_pair {
            self.at += 2;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(point).expect("a pair of surrogates is a character"));
            }
        }
        Err(self.error(format!("\\u{first:04x} is half a character")))
    }

    fn four_digits(&mut self) -> Result<u32, ConfigError> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| self.error("\\u is followed by four hexadecimal digits"))?;
        self.at += 4;
        Ok(u32::from_str_radix(digits, 16).expect("four hexadecimal digits are a number"))
    }

    fn number(&mut self) -> Result<Value, ConfigError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let digits = &rest[..end.unwrap_or(rest.len())];
        let value = if digits.contains(['.', 'e', 'E']) {
            digits.parse().ok().filter(|value: &f64| value.is_finite()).map(Value::Number)
        } else {
            digits.parse().ok().map(Value::Integer)
        };
        let value = value.ok_or_else(|| {
            let shown: String = digits.chars().take(40).collect();
            self.error(format!("{shown} is no number, or does not fit into 64 bits"))
        })?;
        self.at += digits.len();
        Ok(value)
    }

    fn word(&mut self) -> Result<Value, ConfigError> {
        const WORDS: [(&str, Value); 3] =
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)];
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        match WORDS.into_iter().find(|(word, _)| *word == &rest[..length]) {
            Some((_, value)) => {
                self.at += length;
                Ok(value)
            }
            None => Err(self.unexpected("a value")),
        }
    }
}

fn line_ends(text: &str) -> u32 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u32
}

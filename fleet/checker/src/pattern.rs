//! Keys and queries with names in braces: `user:{id}`, and `SELECT name FROM users WHERE id = {id}`.

use guira_sql::{Part, mariadb, parts};
use serde::{Deserialize, Deserializer};

/// No value of a key has this byte: `user:{id}` is not the pattern of `user:7:friends`.
const SEPARATOR: u8 = b':';

/// The pattern of a kind of keys, and the names of its parts.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    names: Vec<String>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let parts = parts(text).map_err(|error| error.to_string())?;
        let names: Vec<String> = parts.iter().filter_map(name).map(str::to_owned).collect();
        let inner = parts.get(1..parts.len() - 1).unwrap_or_default();
        if inner.iter().any(|part| matches!(part, Part::Text(text) if text.is_empty())) {
            return Err(format!("'{text}': two values need a text between them"));
        }
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return Err(format!("'{text}' has the same name twice"));
        }
        Ok(Pattern { parts, names })
    }

    pub(crate) fn any() -> Self {
        Pattern { parts: Vec::new(), names: Vec::new() }
    }

    /// The values of a key in the order of their names, if it is one of these.
    pub(crate) fn values<'a>(&self, key: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        if self.parts.is_empty() {
            return Some(Vec::new());
        }
        let (mut rest, mut values) = (key, Vec::with_capacity(self.names.len()));
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let Part::Name(_) = part else {
                let Part::Text(text) = part else { return None };
                rest = rest.strip_prefix(&text[..])?;
                continue;
            };
            let length = match parts.peek() {
                Some(Part::Text(next)) if !next.is_empty() => {
                    rest.windows(next.len()).position(|window| window == next)?
                }
                _ => rest.len(),
            };
            let (value, behind) = rest.split_at(length);
            if value.is_empty() || value.contains(&SEPARATOR) {
                return None;
            }
            values.push(value);
            rest = behind;
        }
        rest.is_empty().then_some(values)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn name(part: &Part) -> Option<&str> {
    match part {
        Part::Name(name) => Some(name),
        Part::Text(_) => None,
    }
}

/// A query whose values are those of a key.
#[derive(Clone, Debug)]
pub(crate) struct Statement(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    /// The value of the name with this number.
    Value(usize),
}

impl Statement {
    /// Reads a query that uses names of `pattern`.
    pub(crate) fn new(text: &str, pattern: &Pattern) -> Result<Self, String> {
        let read = parts(text).map_err(|error| error.to_string())?;
        let piece = |part| match part {
            Part::Text(text) => Ok(Piece::Text(String::from_utf8_lossy(&text).into_owned())),
            Part::Name(name) => {
                let number = pattern.names.iter().position(|known| *known == name);
                number.map(Piece::Value).ok_or_else(|| format!("the key of '{text}' has no {{{name}}}"))
            }
        };
        read.into_iter().map(piece).collect::<Result<_, _>>().map(Statement)
    }

    /// The statement for MariaDB: values are written as hexadecimal literals.
    pub(crate) fn with_literals(&self, values: &[&[u8]]) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(number) => mariadb::literal(values[*number]),
        };
        self.0.iter().map(text).collect()
    }

    /// The statement for PostgreSQL, with numbered parameters. The values are sent beside it, in
    /// the order of the returned indexes.
    pub(crate) fn with_numbers(&self) -> (String, Vec<usize>) {
        let mut used: Vec<usize> = Vec::new();
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text += plain,
                Piece::Value(number) => {
                    let at = used.iter().position(|known| known == number).unwrap_or_else(|| {
                        used.push(*number);
                        used.len() - 1
                    });
                    text += &format!("${}", at + 1);
                }
            }
        }
        (text, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pattern: &str, key: &str) -> Option<String> {
        let values = Pattern::new(pattern).unwrap().values(key.as_bytes())?;
        Some(values.iter().map(|value| String::from_utf8_lossy(value)).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn a_key_tells_the_values_of_its_pattern() {
        assert_eq!(values("user:{id}", "user:7").as_deref(), Some("7"));
        assert_eq!(values("{a}:{b}/x", "1:it's/x").as_deref(), Some("1|it's"));
        assert_eq!(values("a{x}-{y}", "ab-c-d").as_deref(), Some("b|c-d"));
        assert_eq!(values("all", "all").as_deref(), Some(""));
        assert_eq!(Pattern::any().values(b"a:b"), Some(Vec::new()));
    }

    #[test]
    fn keys_of_another_kind_are_not_taken_for_one_of_this() {
        for (pattern, key) in [
            ("user:{id}", "user:7:friends"),
            ("user:{id}", "user:"),
            ("user:{id}", "users:7"),
            ("user:{id}:friends", "user:7:friend"),
            ("user:{id}:friends", "user:7:friends2"),
            ("all", "all2"),
        ] {
            assert_eq!(values(pattern, key), None, "{pattern} {key}");
        }
    }

    #[test]
    fn patterns_that_say_too_little_are_refused() {
        for text in ["{a}{b}", "{a}:{a}", "{a"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
        let pattern = Pattern::new("user:{id}").unwrap();
        let error = Statement::new("SELECT {name}", &pattern).unwrap_err();
        assert!(error.contains("has no {name}"), "{error}");
    }

    #[test]
    fn a_query_has_the_values_where_their_names_are() {
        let pattern = Pattern::new("{a}:{b}").unwrap();
        let statement =
            Statement::new("SELECT '{{}}' WHERE b = {b} AND (c = {a} OR d = {b})", &pattern).unwrap();
        let values = pattern.values(b"1:x'--").unwrap();
        let shown =
            "SELECT '{}' WHERE b = _utf8mb4 x'78272d2d' AND (c = _utf8mb4 x'31' OR d = _utf8mb4 x'78272d2d')";
        assert_eq!(statement.with_literals(&values), shown);
        let (text, used) = statement.with_numbers();
        assert_eq!(text, "SELECT '{}' WHERE b = $1 AND (c = $2 OR d = $1)");
        assert_eq!(used, [1, 0]);
    }
}

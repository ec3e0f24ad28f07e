//! A lenient reader of JSON in a line. Only the members that are needed are validated; the rest of
//! a line may have half a surrogate pair, bytes that are not UTF-8, or a thousand nested objects.

use std::borrow::Cow;

/// The text of a value, without blanks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Json<'a>(&'a [u8]);

/// A number, as far as keys are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Signed(i64),
    Unsigned(u64),
    /// A fraction, or a number that is too large.
    Other,
}

impl<'a> Json<'a> {
    /// Reads a text that is one value.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let text = text.trim_ascii();
        (end_of_value(text)? == text.len()).then_some(Json(text))
    }

    pub(super) fn is_null(self) -> bool {
        self.0 == b"null"
    }

    pub(super) fn boolean(self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    pub(super) fn number(self) -> Option<Number> {
        let [first, ..] = *self.0 else { return None };
        if first != b'-' && !first.is_ascii_digit() {
            return None;
        }
        let digits = self.0.strip_prefix(b"-").unwrap_or(self.0);
        let is_whole = digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
        let text = str::from_utf8(self.0).ok().filter(|text| is_whole && *text != "-0");
        let signed = text.and_then(|text| text.parse().ok()).map(Number::Signed);
        let unsigned = || text.and_then(|text| text.parse().ok()).map(Number::Unsigned);
        Some(signed.or_else(unsigned).unwrap_or(Number::Other))
    }

    pub(super) fn is_text(self) -> bool {
        self.0.starts_with(b"\"")
    }

    /// The bytes of a string; `None` if one of its escapes is invalid.
    pub(super) fn text(self) -> Option<Cow<'a, [u8]>> {
        let inner = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if inner.contains(&b'\\') { unescaped(inner).map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
    }

    /// The members of an object with their escaped names; `None` for another type.
    pub(super) fn members(self) -> Option<Vec<(Json<'a>, Json<'a>)>> {
        let mut rest = self.0.strip_prefix(b"{")?.strip_suffix(b"}")?.trim_ascii();
        let mut members = Vec::new();
        while !rest.is_empty() {
            let (name, behind) = rest.split_at(end_of_value(rest)?);
            let behind = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            let (value, behind) = behind.split_at(end_of_value(behind)?);
            members.push((Json(name), Json(value)));
            let behind = behind.trim_ascii_start();
            rest = match behind {
                [] => behind,
                [b',', following @ ..] if !following.trim_ascii().is_empty() => following.trim_ascii_start(),
                _ => return None,
            };
        }
        members.iter().all(|(name, _)| name.is_text()).then_some(members)
    }

    /// The last member of this name.
    pub(super) fn get(self, name: &str) -> Option<Json<'a>> {
        let members = self.members()?;
        let is_it = |of: &Json<'_>| of.text().is_some_and(|text| *text == *name.as_bytes());
        members.into_iter().rev().find(|(of, _)| is_it(of)).map(|(_, value)| value)
    }
}

/// The end of the value at the start of `text`. The contents of objects and arrays are not
/// validated.
fn end_of_value(text: &[u8]) -> Option<usize> {
    let mut open = Vec::new();
    let mut at = 0;
    loop {
        let byte = *text.get(at)?;
        match byte {
            b'"' => at += end_of_text(&text[at..])?,
            b'{' | b'[' => {
                // In ASCII the closing bracket is two behind the opening one.
                open.push(byte + 2);
                at += 1;
            }
            b'}' | b']' => {
                (open.pop()? == byte).then_some(())?;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if !open.is_empty() => at += 1,
            _ => at += end_of_word(&text[at..])?,
        }
        if open.is_empty() {
            return Some(at);
        }
    }
}

fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(&text[at..])?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
        (at <= text.len()).then_some(())?;
    }
}

/// The position of the next quote or backslash.
fn memchr2(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| matches!(byte, b'"' | b'\\'))
}

/// The end of a number, or of a literal such as `true`.
fn end_of_word(text: &[u8]) -> Option<usize> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let length = text.iter().position(|byte| !is_of_word(byte)).unwrap_or(text.len());
    let word = &text[..length];
    let is_number = word.iter().any(u8::is_ascii_digit) && (word[0] == b'-' || word[0].is_ascii_digit());
    // Some writers emit names for special floating-point numbers.
    let is_name = matches!(word, b"true" | b"false" | b"null" | b"NaN" | b"Infinity" | b"-Infinity");
    (is_name || is_number).then_some(length)
}

fn unescaped(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some(at) = text.iter().position(|byte| *byte == b'\\') {
        bytes.extend_from_slice(&text[..at]);
        let escape = *text.get(at + 1)?;
        text = &text[at + 2..];
        bytes.push(match escape {
            b'"' | b'\\' | b'/' => escape,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, behind) = character(text)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                text = behind;
                continue;
            }
            _ => return None,
        });
    }
    bytes.extend_from_slice(text);
    Some(bytes)
}

/// Decodes four hexadecimal digits, and the second half of a surrogate pair if these are the first.
fn character(text: &[u8]) -> Option<(char, &[u8])> {
    let unit = |text: &[u8]| {
        let digits = text.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(text)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, &text[4..]));
    }
    let second = unit(text[4..].strip_prefix(b"\\u")?)?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, &text[10..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::read(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn what_is_not_looked_at_need_not_be_right() {
        let deep = format!(r#"{{"deep":{}1{},"id":7}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(json(&deep).get("id").unwrap().number(), Some(Number::Signed(7)));
        let line = b"{\"note\":\"\xff\xfe\",\"half\":\"\\ud800\",\"id\":8}";
        let event = Json::read(line).unwrap();
        assert_eq!(event.get("id").unwrap().number(), Some(Number::Signed(8)));
        assert_eq!(event.get("half").unwrap().text(), None);
        assert_eq!(event.get("note").unwrap().text().unwrap(), &b"\xff\xfe"[..]);
    }

    #[test]
    fn texts_are_as_they_were_before_they_were_escaped() {
        let text = |text: &str| json(text).text().map(|bytes| String::from_utf8(bytes.into_owned()).unwrap());
        assert_eq!(text(r#""a\"\\\/\b\f\n\r\tb""#).as_deref(), Some("a\"\\/\u{8}\u{c}\n\r\tb"));
        assert_eq!(text(r#""Zo\u00eb \uD83D\ude00 ë""#).as_deref(), Some("Zoë 😀 ë"));
        for wrong in
            [r#""\ude00""#, r#""\ud83d""#, r#""\ud83d\u0041""#, r#""\u12""#, r#""\u+123""#, r#""\x""#]
        {
            assert_eq!(text(wrong), None, "{wrong}");
        }
        assert_eq!((json("7").text(), json("\"\"").text().unwrap().len()), (None, 0));
    }

    #[test]
    fn numbers_are_whole_or_none() {
        let number = |text: &str| json(text).number();
        assert_eq!(number("-9223372036854775808"), Some(Number::Signed(i64::MIN)));
        assert_eq!(number("18446744073709551615"), Some(Number::Unsigned(u64::MAX)));
        for other in ["18446744073709551616", "1.0", "1e3", "-0", "007", "1-2"] {
            assert_eq!(number(other), Some(Number::Other), "{other}");
        }
        assert_eq!((number("true"), number("\"1\""), number("[1]")), (None, None, None));
    }

    #[test]
    fn members_are_found_by_their_names_and_the_last_one_counts() {
        let object = json(" { \"a\" : 1 , \"b\":{\"a\":2}, \"\\u0061\":[3, {}] }\t");
        assert_eq!(object.get("a").unwrap(), json("[3, {}]"));
        assert_eq!(object.get("b").and_then(|it| it.get("a")).unwrap().number(), Some(Number::Signed(2)));
        assert_eq!(
            (object.get("c"), json("[1]").get("a"), json("{}").members().unwrap().len()),
            (None, None, 0)
        );
        assert!(json("null").is_null() && json("true").boolean() == Some(true));
    }

    #[test]
    fn what_has_no_end_or_more_than_one_is_nothing() {
        for text in [
            "",
            "{",
            "{]",
            "[}",
            "\"a",
            "\"\\\"",
            "\"\\",
            "{} {}",
            "7 8",
            "nul",
            "-",
            "}",
            ",",
            "\u{1}",
            "{\"a\":\u{1}}",
        ] {
            assert_eq!(Json::read(text.as_bytes()), None, "{text}");
        }
        for text in ["{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "{7:1}", "{:}"] {
            assert_eq!(Json::read(text.as_bytes()).and_then(Json::members), None, "{text}");
        }
    }
}

//! Calls within strings: `@name(argument, @inner(%a%), …)`. A backslash takes the meaning from the character after it.

/// The characters that mcrouter trims: C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Whether the text stands for itself.
pub(super) fn is_plain(text: &str) -> bool {
    !text.starts_with('@') && !text.contains(['%', '\\'])
}

/// Finds the first `wanted` without a backslash before it, and appends the text before it to
/// `result` without backslashes. `None` if there is none; then the whole text is appended. A
/// backslash at the end is dropped.
pub(super) fn unescape_until(text: &str, wanted: char, result: &mut String) -> Option<usize> {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => result.extend(characters.next().map(|(_, escaped)| escaped)),
            found if found == wanted => return Some(at),
            other => result.push(other),
        }
    }
    None
}

/// The name and the raw arguments of a call. The text begins with `@`.
pub(super) fn call(text: &str) -> Result<(&str, Vec<&str>), String> {
    let Some(opening) = find(text, b'(') else { return Ok((&text[1..], Vec::new())) };
    let inner = text[opening + 1..].strip_suffix(')');
    let inner = inner.ok_or_else(|| format!("the call {text:?} does not end with ')'"))?;
    Ok((&text[1..opening], arguments(inner)?))
}

/// No macro has as many parameters.
const ARGUMENTS_MAX: usize = 1000;

/// At least one: that of `@a()` is empty.
fn arguments(mut text: &str) -> Result<Vec<&str>, String> {
    let mut arguments = Vec::new();
    while let Some(mut comma) = find(text, b',') {
        if let Some(opening) = find(&text[..comma], b'(') {
            let closing =
                closing_bracket(text, opening).ok_or_else(|| format!("a '(' in {text:?} is not closed"))?;
            if closing + 1 == text.len() {
                break;
            }
            let after = text[closing + 1..].find(',');
            comma = closing + 1 + after.ok_or_else(|| format!("there is text after ')' in {text:?}"))?;
        }
        if arguments.len() + 1 >= ARGUMENTS_MAX {
            return Err(format!("a call has more than {ARGUMENTS_MAX} arguments"));
        }
        arguments.push(trim(&text[..comma]));
        text = &text[comma + 1..];
    }
    arguments.push(trim(text));
    Ok(arguments)
}

/// The position of the first such byte, an ASCII character, without a backslash before it.
fn find(text: &str, wanted: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            found if found == wanted => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn closing_bracket(text: &str, opening: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (opening, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'(' => open += 1,
            // The first bracket is an opening one, so that there is one to close.
            b')' if open == 1 => return Some(at),
            b')' => open -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Without blanks around it. One behind a backslash stays.
fn trim(text: &str) -> &str {
    let mut bytes = text.trim_start_matches(|c| u8::try_from(c).is_ok_and(is_blank)).as_bytes();
    let start = text.len() - bytes.len();
    while let [before @ .., last] = bytes
        && is_blank(*last)
    {
        let backslashes = before.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes > 0 {
            // An even number of backslashes stands for half as many, and the blank is a plain one.
            bytes = if backslashes % 2 == 0 { before } else { bytes };
            break;
        }
        bytes = before;
    }
    &text[start..start + bytes.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_taken_apart() {
        let cases: [(&str, &str, &[&str]); 12] = [
            ("@a", "a", &[]),
            ("@a()", "a", &[""]),
            ("@a( )", "a", &[""]),
            ("@a(,)", "a", &["", ""]),
            ("@a(b , c)", "a", &["b", "c"]),
            ("@a(@b(c,d),e)", "a", &["@b(c,d)", "e"]),
            ("@a(@b(c,d))", "a", &["@b(c,d)"]),
            ("@a(@b(@c(d,e),f) , g,h)", "a", &["@b(@c(d,e),f)", "g", "h"]),
            (r"@a(b\,c)", "a", &[r"b\,c"]),
            (r"@a(\(,b)", "a", &[r"\(", "b"]),
            (r"@\(a", r"\(a", &[]),
            ("@ä(ö,\n ü)", "ä", &["ö", "ü"]),
        ];
        for (text, name, arguments) in cases {
            assert_eq!(call(text), Ok((name, arguments.to_vec())), "{text}");
        }
        for (text, reason) in [
            ("@a(b", "the call \"@a(b\" does not end with ')'"),
            ("@a()a", "the call \"@a()a\" does not end with ')'"),
            ("@a(@b(c,d)", "a '(' in \"@b(c,d\" is not closed"),
            ("@a(@b(c,d) e)", "there is text after ')' in \"@b(c,d) e\""),
        ] {
            assert_eq!(call(text), Err(reason.into()), "{text}");
        }
    }

    /// As mcrouter has it: `trim`, `trim2` and `trim3` of config_preprocessor_test_file.json at 0265955761.
    #[test]
    fn blanks_around_arguments_go_unless_they_are_escaped() {
        for (text, trimmed) in [
            ("", ""),
            ("  ", ""),
            (" \t\n\u{b}\u{c}\r a \n", "a"),
            (r"a\ ", r"a\ "),
            (r"a\  ", r"a\ "),
            (r"a\\ ", r"a\\"),
            (r"\\\ ", r"\\\ "),
            ("\u{2003}", "\u{2003}"),
        ] {
            assert_eq!(trim(text), trimmed, "{text:?}");
        }
    }

    #[test]
    fn backslashes_are_taken_off() {
        for (text, end, result) in [
            ("", None, ""),
            ("ab%c", Some(2), "ab"),
            (r"a\%b%", Some(4), "a%b"),
            (r"a\\%", Some(3), r"a\"),
            (r"a\", None, "a"),
            (r"\ä", None, "ä"),
        ] {
            let mut found = String::new();
            assert_eq!(unescape_until(text, '%', &mut found), end, "{text:?}");
            assert_eq!(found, result, "{text:?}");
        }
    }
}

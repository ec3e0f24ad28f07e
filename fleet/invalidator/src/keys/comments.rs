//! Keys that a client names in a comment of its statement: `/* mc: user:7 user-by-name:ada */
//! UPDATE …`.

use super::words;

/// The start of a comment with keys, behind blanks.
const MARK: &[u8] = b"mc:";

/// Calls `each` with every key in the comments of a statement. Comments within quotes belong to the
/// text; a backslash escapes there, as in the server's default mode.
pub(crate) fn keys<E>(statement: &[u8], mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut rest = statement;
    while let Some((&first, after)) = rest.split_first() {
        rest = match first {
            b'\'' | b'"' => after_quote(after, first, Escapes::Backslash),
            b'`' => after_quote(after, first, Escapes::None),
            b'#' => after_line(after),
            // Two dashes start a comment only before a blank.
            b'-' if after.first() == Some(&b'-') && after.get(1).is_none_or(u8::is_ascii_whitespace) => {
                after_line(after)
            }
            b'/' if after.first() == Some(&b'*') => {
                let comment = &after[1..];
                let end = comment.windows(2).position(|two| two == b"*/");
                let (inside, behind) = match end {
                    Some(end) => (&comment[..end], &comment[end + 2..]),
                    None => (comment, &[][..]),
                };
                if let Some(keys) = inside.trim_ascii_start().strip_prefix(MARK) {
                    words(keys).try_for_each(&mut each)?;
                }
                behind
            }
            _ => after,
        };
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Backslash,
    None,
}

/// The rest behind the end of a quoted text. A doubled quote ends one text and starts the next,
/// which gives the same rest.
fn after_quote(text: &[u8], quote: u8, escapes: Escapes) -> &[u8] {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' if escapes == Escapes::Backslash => at += 2,
            byte if byte == quote => return &text[at + 1..],
            _ => at += 1,
        }
    }
    &[]
}

fn after_line(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == b'\n');
    end.map_or(&[], |end| &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    fn keys(statement: &str) -> Vec<String> {
        let mut found = Vec::new();
        let each = |key: &[u8]| {
            found.push(String::from_utf8_lossy(key).into_owned());
            Ok::<(), Infallible>(())
        };
        super::keys(statement.as_bytes(), each).unwrap();
        found
    }

    #[test]
    fn keys_stand_in_comments_anywhere() {
        assert_eq!(keys("/* mc: a b */ UPDATE t SET x = 1"), ["a", "b"]);
        assert_eq!(keys("UPDATE /*mc:a*/ t SET x = 1 /*\tmc:\n b\n c\n*/"), ["a", "b", "c"]);
        assert_eq!(keys("/* mc: user:Zoë:😀:'\"` */ DELETE FROM t"), ["user:Zoë:😀:'\"`"]);
    }

    #[test]
    fn other_comments_have_none() {
        for statement in [
            "",
            "/*",
            "/* mc */",
            "/* mc: */",
            "/* MC: a */",
            "/* a mc: b */",
            "-- /* mc: a */",
            "# /* mc: a */",
        ] {
            assert_eq!(keys(statement), [""; 0], "{statement}");
        }
        assert_eq!(keys("-- x\n/* mc: a */"), ["a"]);
        assert_eq!(keys("SELECT 1--/* mc: a */1"), ["a"], "no comment of a line");
    }

    #[test]
    fn text_within_quotes_is_no_comment() {
        for text in
            ["'/* mc: a */'", "\"/* mc: a */\"", "`/* mc: a */`", "'it''s /* mc: a */'", "'\\'/* mc: a */'"]
        {
            assert_eq!(keys(&format!("UPDATE t SET x = {text} /* mc: b */")), ["b"], "{text}");
        }
        assert_eq!(keys("UPDATE `a\\` /* mc: b */ SET x = 1"), ["b"], "names have no escapes");
    }

    #[test]
    fn a_comment_that_does_not_end_counts() {
        assert_eq!(keys("UPDATE t SET x = 1 /* mc: a"), ["a"]);
        assert_eq!(keys("UPDATE t SET x = 'a /* mc: a"), [""; 0]);
        assert_eq!(keys("'\\"), [""; 0]);
    }
}

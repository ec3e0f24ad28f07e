//! Keys of a stream, one a line.

use std::io::{self, BufRead};

use guira_protocol::KEY_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyLine {
    Key(Vec<u8>),
    /// Something that is no key in text: empty, too long, or with blanks or control characters.
    Other,
}

/// Reads the next line, of which no more than a key is kept; none at the end.
pub(crate) fn read(source: &mut impl BufRead) -> io::Result<Option<KeyLine>> {
    let mut line = Vec::new();
    let mut is_begun = false;
    loop {
        let ready = source.fill_buf()?;
        let end = ready.iter().position(|byte| *byte == b'\n');
        let part = &ready[..end.unwrap_or(ready.len())];
        // One more for a carriage return, and one more to see that it is too long.
        let room = (KEY_MAX + 2).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let is_end = ready.is_empty();
        is_begun |= !is_end;
        let used = end.map_or(ready.len(), |end| end + 1);
        source.consume(used);
        if is_end && !is_begun {
            return Ok(None);
        }
        if is_end || end.is_some() {
            break;
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    let is_key = (1..=KEY_MAX).contains(&line.len()) && line.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    Ok(Some(if is_key { KeyLine::Key(line) } else { KeyLine::Other }))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{KeyLine, read};

    #[test]
    fn lines_are_keys_or_something_else() {
        let long = "x".repeat(250);
        let text = format!("a\nuser:1\r\n\nb c\n{long}\r\n{long}y\n{}\nlast", "z".repeat(100_000));
        // A piece of three bytes at a time.
        let mut source = BufReader::with_capacity(3, text.as_bytes());
        let mut found = Vec::new();
        while let Some(line) = read(&mut source).unwrap() {
            found.push(line);
        }
        let key = |text: &str| KeyLine::Key(text.as_bytes().to_vec());
        let other = KeyLine::Other;
        assert_eq!(
            found,
            [
                key("a"),
                key("user:1"),
                other.clone(),
                other.clone(),
                key(&long),
                other.clone(),
                other,
                key("last")
            ]
        );
        assert_eq!(read(&mut BufReader::new(&b""[..])).unwrap(), None);
    }
}

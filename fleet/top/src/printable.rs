//! Text of a server on its way to a terminal.

/// The longest text that is kept, in characters. A key has at most 250 bytes, each of which may need four.
const LENGTH_MAX: usize = 1000;

/// Keeps visible ASCII and blanks, and writes any other byte as `\xNN`, so that the terminal acts
/// on none of them.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
        if text.len() >= LENGTH_MAX {
            text.push('…');
            break;
        }
    }
    text
}

/// The bytes of a key in URI encoding. Other characters than `%XX` stand for themselves.
pub(crate) fn decoded(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = key;
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{LENGTH_MAX, decoded, printable};

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_act_upon() {
        assert_eq!(printable(b"user:1 a"), "user:1 a");
        assert_eq!(printable(b"\x1b[2J\r\n\x00\x7f\x9b"), "\\x1b[2J\\x0d\\x0a\\x00\\x7f\\x9b");
        assert_eq!(printable("é\u{202e}".as_bytes()), "\\xc3\\xa9\\xe2\\x80\\xae");
        // An escape that a client has written is distinguishable.
        assert_eq!(printable(b"\\x1b"), "\\\\x1b");
        let all: Vec<u8> = (0..=255).collect();
        assert!(printable(&all).chars().all(|c| (' '..='~').contains(&c)));
        assert!(printable(&[7; 5000]).chars().count() <= LENGTH_MAX + 4);
    }

    #[test]
    fn keys_are_decoded_and_broken_ones_left_alone() {
        assert_eq!(decoded(b"user%3A1"), b"user:1");
        assert_eq!(decoded(b"%1B%5b%"), b"\x1b[%");
        assert_eq!(decoded(b"%4"), b"%4");
        assert_eq!(decoded(b"%zz%%41"), b"%zz%A");
        assert_eq!(decoded(b""), b"");
    }
}

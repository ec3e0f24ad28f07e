//! Bytes as text, for messages.

/// Longest text that [`bytes`] gives before it leaves out the middle.
const SHOWN: usize = 400;

/// `data` with everything unprintable escaped; the middle of long data is left out.
pub fn bytes(data: &[u8]) -> String {
    if data.len() <= SHOWN {
        return data.escape_ascii().to_string();
    }
    let (head, tail) = (&data[..SHOWN / 2], &data[data.len() - SHOWN / 2..]);
    format!("{}…({} bytes)…{}", head.escape_ascii(), data.len(), tail.escape_ascii())
}

#[cfg(test)]
mod tests {
    #[test]
    fn line_ends_are_shown() {
        assert_eq!(super::bytes(b"a\r\n\xff"), "a\\r\\n\\xff");
    }

    #[test]
    fn long_data_is_cut_in_the_middle() {
        let text = super::bytes(&[b'x'; 5000]);
        assert!(text.contains("(5000 bytes)") && text.len() < 500);
    }
}

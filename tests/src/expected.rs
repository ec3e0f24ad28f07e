//! Expected replies, in which a time left need not be exact.

/// The mark of an inexact time left, as in `HD t~500 f7`.
const MARK: &[u8] = b" t~";

/// Longer replies are taken literally, so that no value is mistaken for a mark.
const LITERAL_FROM: usize = 4096;

/// Seconds that may pass between storing an item and asking for its time left.
const SECONDS: u64 = 2;

/// A reply that a test expects. `t~500` stands for `t500`, or `t499` or `t498` when the clock of the server
/// ticked meanwhile; the number must keep its digits (`t~100` is refused).
#[derive(Debug)]
pub struct Expected {
    /// The literal parts; between two of them lies a time.
    parts: Vec<Vec<u8>>,
    times: Vec<u64>,
}

impl Expected {
    /// Reads the marks of `text`.
    ///
    /// # Panics
    /// When a time would lose a digit within the seconds allowed, or is no number.
    #[track_caller]
    pub fn new(text: &[u8]) -> Self {
        let mut expected = Self { parts: Vec::new(), times: Vec::new() };
        let mut rest = text;
        if text.len() < LITERAL_FROM {
            while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
                let mut part = rest[..at].to_vec();
                part.extend_from_slice(b" t");
                expected.parts.push(part);
                rest = &rest[at + MARK.len()..];
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number =
                    String::from_utf8_lossy(&rest[..digits]).parse::<u64>().expect("a number follows t~");
                let smallest = number.saturating_sub(SECONDS).to_string();
                assert_eq!(smallest.len(), digits, "t~{number} may lose a digit: take another time");
                expected.times.push(number);
                rest = &rest[digits..];
            }
        }
        expected.parts.push(rest.to_vec());
        expected
    }

    /// How many bytes the reply has.
    pub fn length(&self) -> usize {
        let digits = self.times.iter().map(|time| time.to_string().len()).sum::<usize>();
        self.parts.iter().map(Vec::len).sum::<usize>() + digits
    }

    /// Whether `reply` is one of those expected.
    pub fn fits(&self, reply: &[u8]) -> bool {
        let mut rest = reply;
        for (index, part) in self.parts.iter().enumerate() {
            let Some(after) = rest.strip_prefix(part.as_slice()) else { return false };
            rest = after;
            if let Some(time) = self.times.get(index) {
                let candidates = (time - SECONDS..=*time).map(|time| time.to_string());
                let Some(digits) = candidates.into_iter().find(|digits| rest.starts_with(digits.as_bytes()))
                else {
                    return false;
                };
                rest = &rest[digits.len()..];
            }
        }
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Expected;

    #[test]
    fn without_marks_only_equal_replies_fit() {
        let expected = Expected::new(b"HD t500\r\n");
        assert_eq!(expected.length(), 9);
        assert!(expected.fits(b"HD t500\r\n") && !expected.fits(b"HD t499\r\n"));
    }

    #[test]
    fn a_marked_time_may_be_two_seconds_less() {
        let expected = Expected::new(b"VA 1 t~500 f7\r\nx\r\nHD t~30\r\n");
        assert_eq!(expected.length(), b"VA 1 t500 f7\r\nx\r\nHD t30\r\n".len());
        assert!(expected.fits(b"VA 1 t499 f7\r\nx\r\nHD t28\r\n"));
        assert!(!expected.fits(b"VA 1 t497 f7\r\nx\r\nHD t30\r\n"));
        assert!(!expected.fits(b"VA 1 t501 f7\r\nx\r\nHD t30\r\n"));
        assert!(!expected.fits(b"VA 1 t500 f7\r\nx\r\nHD t30\r\nx"));
    }

    #[test]
    #[should_panic(expected = "may lose a digit")]
    fn a_time_that_may_lose_a_digit_is_refused() {
        Expected::new(b"HD t~100\r\n");
    }
}

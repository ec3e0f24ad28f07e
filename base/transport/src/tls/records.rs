//! Counts the received bytes that are still in the library, which does not report them.

/// Bytes before a record's contents: its type, its version, and the contents' length (RFC 8446 §5.1).
const HEADER: usize = 5;

/// Follows the record boundaries in the input.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The last bytes of a header, as far as received: the record's length.
    length: u16,
    /// The received bytes of the current record, and the missing ones; while the header is incomplete, those of the
    /// header.
    come: usize,
    missing: usize,
    /// Bytes of complete records that have not been processed: parts of a handshake message that is longer than a
    /// record.
    whole: usize,
}

impl Records {
    /// Records received bytes.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            if self.come < HEADER {
                self.length = self.length << 8 | u16::from(*first);
                self.come += 1;
                bytes = &bytes[1..];
                if self.come == HEADER {
                    self.missing = usize::from(self.length);
                }
            } else {
                let part = bytes.len().min(self.missing);
                self.come += part;
                self.missing -= part;
                bytes = &bytes[part..];
            }
            if self.come >= HEADER && self.missing == 0 {
                self.whole += std::mem::take(&mut self.come);
            }
        }
    }

    /// The complete records were processed: the library buffers none of them. Records of other kinds do not occur
    /// between parts of a handshake message.
    pub(super) fn understood(&mut self) {
        self.whole = 0;
    }

    /// Received bytes that have not been processed.
    pub(super) fn unread(&self) -> usize {
        self.whole + self.come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_and_partial_records_are_distinguished() {
        let bytes =
            [&[22, 3, 3, 0, 2, 9, 9][..], &[23, 3, 3, 1, 0], &[7; 256], &[23, 3, 3, 0, 9, 1]].concat();
        for step in 1..=bytes.len() {
            let mut records = Records::default();
            bytes.chunks(step).for_each(|piece| records.follow(piece));
            assert_eq!(records.unread(), bytes.len(), "{step}");
            records.understood();
            assert_eq!(records.unread(), 6, "{step}");
            records.follow(&[1; 8]);
            records.understood();
            assert_eq!(records.unread(), 0);
        }
    }

    #[test]
    fn a_record_may_be_empty() {
        let mut records = Records::default();
        records.follow(&[23, 3, 3, 0, 0, 23]);
        records.understood();
        assert_eq!(records.unread(), 1);
    }
}

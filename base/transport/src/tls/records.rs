//! How much of what has come is still in the library, which does not tell.

/// Bytes before a record's contents: its type, its version, and the contents' length (RFC 8446 §5.1).
const HEADER: usize = 5;

/// Follows records as they come.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The last bytes of a header, as far as they have come: its length.
    length: u16,
    /// How many bytes of the record that is coming have come, and how many are missing; of those of its header none before it is there.
    come: usize,
    missing: usize,
    /// Bytes of whole records that have come to nothing yet: parts of a handshake that is longer than a record.
    whole: usize,
}

impl Records {
    /// These bytes have come.
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

    /// Whole records have come to something: nothing is kept of them. Those of other kinds do not come between parts of a handshake.
    pub(super) fn understood(&mut self) {
        self.whole = 0;
    }

    /// Bytes that have come and have not been understood.
    pub(super) fn unread(&self) -> usize {
        self.whole + self.come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_records_and_what_follows_them_are_told_apart() {
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

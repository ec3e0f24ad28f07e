//! Fields: how servers of different builds tell each other what they know.
//!
//! ```text
//! | tag 2 | length 4 | bytes | …    numbers little-endian
//! ```
//!
//! Who does not know a tag passes over it. A tag never changes its meaning.

/// Bytes of a field that do not make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a field is truncated or has the wrong length")]
pub struct FieldError;

const TAG: usize = 2;
const LENGTH: usize = 4;

#[derive(Clone, Debug, Default)]
pub struct FieldWriter(Vec<u8>);

impl FieldWriter {
    /// # Panics
    /// If `bytes` are more than 4 GiB.
    pub fn put(&mut self, tag: u16, bytes: &[u8]) -> &mut Self {
        let length = u32::try_from(bytes.len()).expect("a field has less than 4 GiB");
        self.0.extend_from_slice(&tag.to_le_bytes());
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn put_number(&mut self, tag: u16, number: u64) -> &mut Self {
        self.put(tag, &number.to_le_bytes())
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Reads fields, in their order.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub tag: u16,
    pub bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = split(self.0);
        // Nothing is found behind a field without an end.
        self.0 = field.map_or(&[], |(_, rest)| rest);
        Some(field.map(|(field, _)| field).ok_or(FieldError))
    }
}

fn split(bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
    let (tag, bytes) = bytes.split_first_chunk::<TAG>()?;
    let (length, bytes) = bytes.split_first_chunk::<LENGTH>()?;
    let (bytes, rest) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((Field { tag: u16::from_le_bytes(*tag), bytes }, rest))
}

impl Field<'_> {
    /// # Errors
    /// If it is no number.
    pub fn number(self) -> Result<u64, FieldError> {
        self.bytes.try_into().map(u64::from_le_bytes).map_err(|_| FieldError)
    }

    /// As text; what is none is replaced.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written_and_no_part_of_one_is() {
        let bytes = FieldWriter::default().put(7, b"seven").put_number(300, 1 << 40).put(1, b"").finish();
        let all: Result<Vec<_>, _> = Fields::of(&bytes).collect();
        let all = all.unwrap();
        assert_eq!(all.iter().map(|field| field.tag).collect::<Vec<_>>(), [7, 300, 1]);
        assert_eq!((all[0].text(), all[1].number(), all[2].bytes), ("seven".into(), Ok(1 << 40), &b""[..]));
        assert_eq!(all[0].number(), Err(FieldError));
        let ends = [0, 6 + 5, 6 + 5 + 6 + 8, bytes.len()];
        for length in 0..=bytes.len() {
            let is_whole = Fields::of(&bytes[..length]).all(|field| field.is_ok());
            assert_eq!(is_whole, ends.contains(&length), "{length}");
        }
        let endless = [1, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        assert_eq!(Fields::of(&endless).collect::<Vec<_>>(), [Err(FieldError)]);
    }
}

//! Reads numbers and texts from bytes; `None` if they are too short.

/// The bytes that are still to be read.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of up to eight bytes, the lowest first.
    pub fn number(&mut self, length: usize) -> Option<u64> {
        let taken = self.take(length)?;
        let mut whole = [0; 8];
        whole.get_mut(..length)?.copy_from_slice(taken);
        Some(u64::from_le_bytes(whole))
    }

    /// A number of up to eight bytes, the highest first.
    pub fn big(&mut self, length: usize) -> Option<u64> {
        let taken = self.take(length)?;
        (length <= 8).then(|| taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|number| number as u16)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|number| number as u32)
    }

    /// A number that says itself how long it is.
    pub fn length(&mut self) -> Option<usize> {
        let number = match self.byte()? {
            short @ 0..=0xfa => u64::from(short),
            0xfc => self.number(2)?,
            0xfd => self.number(3)?,
            0xfe => self.number(8)?,
            _ => return None,
        };
        usize::try_from(number).ok()
    }

    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// Text up to a zero, which is taken too.
    pub fn until_zero(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length);
        self.take(1)?;
        text
    }
}

/// Whether a bit is set; each byte has its lowest first.
pub fn bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unhex;

    #[test]
    fn numbers_and_texts_are_read_in_turn() {
        let data = unhex("07 0201 03 616263 6400 fc0001 fd000001 fe0000000001000000 ff");
        let mut bytes = Bytes(&data);
        assert_eq!((bytes.byte(), bytes.u16()), (Some(7), Some(0x102)));
        assert_eq!((bytes.text(), bytes.until_zero()), (Some(&b"abc"[..]), Some(&b"d"[..])));
        assert_eq!(
            (bytes.length(), bytes.length(), bytes.length()),
            (Some(0x100), Some(0x10000), Some(1 << 32))
        );
        assert_eq!(bytes.length(), None, "no length begins like this");
        assert!(bytes.is_empty() && bytes.byte().is_none() && bytes.take(1).is_none());
    }

    #[test]
    fn what_is_cut_is_not_read() {
        assert_eq!(Bytes(b"\x03ab").text(), None);
        assert_eq!(Bytes(b"ab").until_zero(), None);
        assert_eq!(Bytes(b"\0\0\0").u32(), None);
        assert_eq!(Bytes(&[0xfe; 8]).length(), None);
    }

    #[test]
    fn numbers_may_have_their_highest_byte_first() {
        let mut bytes = Bytes(&[1, 2, 0xff, 0xff, 3]);
        assert_eq!((bytes.big(2), bytes.big(2), bytes.big(2)), (Some(0x102), Some(0xffff), None));
        assert_eq!(Bytes(&[0; 9]).big(9), None);
    }

    #[test]
    fn bits_are_counted_from_the_lowest() {
        let set: Vec<usize> = (0..20).filter(|index| bit(&[0b101, 0x80], *index)).collect();
        assert_eq!(set, [0, 2, 15]);
    }
}

//! Values that are compressed by their size.

use super::error::{Error, ErrorKind};
use guira_upstream::VALUE_MAX;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use std::borrow::Cow;

/// The flag of a value that is compressed, in the format of zlib. A reader that does not know of it finds it in the item's flags.
pub const COMPRESSED: u32 = 1 << 29;

/// zlib's fastest: most of what can be gained, for a part of the time.
const LEVEL: u8 = 1;

/// From which size on values are compressed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compression {
    from: Option<usize>,
}

impl Compression {
    pub(super) fn from(bytes: usize) -> Self {
        Self { from: Some(bytes) }
    }

    pub(super) fn is_on(self) -> bool {
        self.from.is_some()
    }

    /// The compressed form of a value, with its flags: the value itself, if it does not become shorter.
    ///
    /// # Errors
    /// If the flags have the bit that says that a value is compressed.
    pub(super) fn pack<'v>(self, value: &'v [u8], flags: u32) -> Result<(Cow<'v, [u8]>, u32), Error> {
        let Some(from) = self.from else { return Ok((Cow::Borrowed(value), flags)) };
        if flags & COMPRESSED != 0 {
            return Err(ErrorKind::Refused("the flag of compressed values is the client's".to_owned()).into());
        }
        if value.len() < from {
            return Ok((Cow::Borrowed(value), flags));
        }
        let packed = compress_to_vec_zlib(value, LEVEL);
        if packed.len() >= value.len() {
            return Ok((Cow::Borrowed(value), flags));
        }
        Ok((Cow::Owned(packed), flags | COMPRESSED))
    }

    /// The uncompressed value, and the application's flags. Without compression all flags are the
    /// application's.
    ///
    /// # Errors
    /// If a value marked as compressed is not, or is too long.
    pub(super) fn unpack(self, value: Vec<u8>, flags: u32) -> Result<(Vec<u8>, u32), Error> {
        if self.from.is_none() || flags & COMPRESSED == 0 {
            return Ok((value, flags));
        }
        let value = decompress_to_vec_zlib_with_limit(&value, VALUE_MAX as usize);
        Ok((value.map_err(|_| ErrorKind::Damaged)?, flags & !COMPRESSED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_compressed_if_that_makes_them_shorter() {
        let how = Compression::from(100);
        let text = b"abc".repeat(100);
        let noise: Vec<u8> =
            (0..300_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for (value, is_packed) in [(&text[..99], false), (&text[..], true), (&noise[..], false), (b"", false)]
        {
            let (packed, flags) = how.pack(value, 5).unwrap();
            assert_eq!((flags & COMPRESSED != 0, packed.len() < value.len()), (is_packed, is_packed));
            assert_eq!(how.unpack(packed.into_owned(), flags), Ok((value.to_vec(), 5)));
        }
    }

    #[test]
    fn who_does_not_compress_sees_the_flag_and_the_value_as_it_lies_there() {
        let (packed, flags) = Compression::from(1).pack(&[7; 100], 5).unwrap();
        let seen = Compression::default().unpack(packed.to_vec(), flags).unwrap();
        assert_eq!(seen, (packed.into_owned(), 5 | COMPRESSED));
        assert!(Compression::default().pack(b"v", COMPRESSED).is_ok());
        assert!(Compression::from(1).pack(b"v", COMPRESSED).is_err());
    }

    #[test]
    fn damage_is_an_error_and_no_value() {
        let how = Compression::from(1);
        let (packed, flags) = how.pack(&[7; 1000], 0).unwrap();
        for length in 0..packed.len() {
            assert_eq!(
                how.unpack(packed[..length].to_vec(), flags),
                Err(ErrorKind::Damaged.into()),
                "{length} bytes"
            );
        }
        assert_eq!(how.unpack(b"nothing of the kind".to_vec(), COMPRESSED), Err(ErrorKind::Damaged.into()));
    }
}

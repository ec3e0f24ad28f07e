//! Decompresses the statements and row images that MariaDB compresses with `log_bin_compress` = ON.

use guira_sql::Bytes;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

/// The limit of one event after decompression, as for one that is not compressed.
const LENGTH_MAX: usize = 64 << 20;
/// The bits of the first byte: the compression method, and the size of the length that follows.
const METHOD: u8 = 0x70;
const ZLIB: u8 = 0;
const LENGTH: u8 = 0x07;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The event has over 64 MiB.
    Long,
    Malformed,
}

/// Decompresses the body of an event.
pub(super) fn inflate(data: &[u8]) -> Result<Vec<u8>, Flaw> {
    let mut bytes = Bytes(data);
    let first = bytes.byte().filter(|first| first & METHOD == ZLIB).ok_or(Flaw::Malformed)?;
    let length = bytes.big(usize::from(first & LENGTH)).ok_or(Flaw::Malformed)? as usize;
    if length > LENGTH_MAX {
        return Err(Flaw::Long);
    }
    let inflated = decompress_to_vec_zlib_with_limit(bytes.0, length);
    inflated.ok().filter(|inflated| inflated.len() == length).ok_or(Flaw::Malformed)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn deflated(data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u32).to_be_bytes();
        [&[0x84][..], &length, &miniz_oxide::deflate::compress_to_vec_zlib(data, 6)].concat()
    }

    #[test]
    fn what_was_compressed_is_as_before() {
        let text = b"UPDATE users SET name = 'x'".repeat(100);
        let data = deflated(&text);
        assert!(data.len() < 100);
        assert_eq!(inflate(&data), Ok(text.clone()));
        assert_eq!(inflate(&deflated(b"")), Ok(Vec::new()));
        for length in 0..data.len() - 4 {
            assert_eq!(inflate(&data[..length]), Err(Flaw::Malformed), "{length} bytes");
        }
        for (at, byte) in [(0, 0x94), (3, 0), (9, 0xff)] {
            let mut damaged = data.clone();
            damaged[at] = byte;
            assert_eq!(inflate(&damaged), Err(Flaw::Malformed), "byte {at}");
        }
        let mut long = data;
        long[1] = 5;
        assert_eq!(inflate(&long), Err(Flaw::Long));
    }
}

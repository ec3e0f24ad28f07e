//! How traces are written, and how one is recognised.

use std::str::FromStr;

use super::binary::{ORACLE_LEN, looks_like_oracle};
use super::lines::blank_fields;
use super::{headed, lines};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Big-endian 32-bit keys.
    BeU32,
    /// Big-endian 64-bit keys.
    BeU64,
    /// libCacheSim's records of 24 bytes.
    OracleGeneral,
    TwitterCsv,
    /// Comma-separated fields, named by the first line.
    HeadedCsv,
    Msr,
    Ibm,
    /// Runs of blocks, as in the traces of the ARC paper.
    Lis,
    /// Time, key and size.
    Sized,
    Text,
}

/// Every format: its name on the command line, and what a request is.
pub const FORMATS: [(Format, &str, &str); 10] = [
    (Format::BeU32, "be-u32", "a big-endian number of 32 bits, the key of a get (cache2k)"),
    (Format::BeU64, "be-u64", "a big-endian number of 64 bits, the key of a get (Corda); never detected"),
    (
        Format::OracleGeneral,
        "oracle-general",
        "24 bytes, little-endian: time u32, key u64, size u32, next access i64 (libCacheSim)",
    ),
    (
        Format::TwitterCsv,
        "twitter",
        "timestamp,key,key size,value size,client id,operation,TTL (Twitter 2020)",
    ),
    (
        Format::HeadedCsv,
        "csv",
        "fields with names in the first line (CacheLib's kvcache and blocks, CloudPhysics)",
    ),
    (
        Format::Msr,
        "msr",
        "timestamp,host,disk,Read or Write,offset,size,latency: a request for each block of 4 KiB (MSR Cambridge)",
    ),
    (
        Format::Ibm,
        "ibm",
        "timestamp operation object size ..., separated by blanks or commas (IBM object store)",
    ),
    (Format::Lis, "lis", "start count ignored number: a get of each of count keys (ARC paper)"),
    (Format::Sized, "sized", "time key size (AdaptSize)"),
    (Format::Text, "text", "one key per line; lines that begin with * or # are comments (LIRS)"),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = FORMATS.iter().find(|(_, name, _)| *name == text).map(|(format, ..)| *format);
        found.ok_or_else(|| {
            let known: Vec<&str> = FORMATS.iter().map(|(_, name, _)| *name).collect();
            format!("unknown trace format {text:?}; use one of {}", known.join(", "))
        })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let row = FORMATS.iter().find(|(format, ..)| format == self);
        out.write_str(row.map_or("?", |(_, name, _)| name))
    }
}

/// Whether bytes are UTF-8, but for a character that is cut off at their end, without control characters.
fn is_text(start: &[u8]) -> bool {
    let valid = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return false,
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
    };
    !valid.chars().any(|character| character.is_control() && !"\t\r\n".contains(character))
}

/// What files that are no trace begin with.
const OTHERS: [(&[u8], &str); 9] = [
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"PAR1", "parquet"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// What `start`, the first bytes of a file, say that it is, if that is no trace. The first key of a text may begin so.
pub(super) fn other(start: &[u8]) -> Option<&'static str> {
    if is_text(start) {
        return None;
    }
    OTHERS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, name)| *name)
}

/// From so many keys on it is judged whether they are any.
const JUDGED: usize = 16;
/// Bytes whose entropy is less than this share of what random bytes have are not random.
const RANDOM_PART: f64 = 0.95;

/// Whether bytes may be 32-bit keys: some come again, as in a trace, or their bytes are not those of random numbers, and they are not
/// all the same.
fn looks_like_keys(start: &[u8]) -> bool {
    let keys: Vec<&[u8]> = start.chunks_exact(4).collect();
    if keys.len() < JUDGED {
        return true;
    }
    let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
    let repeats = keys.len() - distinct;
    let is_random = entropy(start) >= RANDOM_PART * random_entropy(start.len());
    distinct > 1 && (repeats * 100 >= keys.len() || !is_random)
}

/// What so many random bytes have of it on average, when each value comes by chance (Poisson) as often as another.
fn random_entropy(bytes: usize) -> f64 {
    let mean = bytes as f64 / 256.0;
    let mut chance = (-mean).exp();
    let mut sum = 0.0;
    for count in 1..200 {
        let count = f64::from(count);
        chance *= mean / count;
        sum += chance * count * count.log2();
    }
    (bytes as f64).log2() - sum / mean
}

/// Of the values of bytes, in bits.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let shares =
        counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / bytes.len() as f64);
    shares.map(|share| -share * share.log2()).sum()
}

impl Format {
    /// The format that `start`, the first bytes of a trace, looks like. Text is recognised by the fields of its first line;
    /// anything else is taken for libCacheSim's records if they make sense as such, and for 32-bit keys if these do.
    #[must_use]
    pub fn guess(start: &[u8]) -> Option<Self> {
        if start.is_empty() || !is_text(start) {
            let is_oracle = start.len() >= 4 * ORACLE_LEN && looks_like_oracle(start);
            return match is_oracle {
                true => Some(Self::OracleGeneral),
                false => looks_like_keys(start).then_some(Self::BeU32),
            };
        }
        let line = start.split(|&byte| byte == b'\n').find(|line| !lines::is_comment(line));
        Some(Self::guess_line(line.unwrap_or_default().trim_ascii()))
    }

    fn guess_line(line: &[u8]) -> Self {
        if headed::names_columns(line) {
            return Self::HeadedCsv;
        }
        if line.split(|byte| b", \t".contains(byte)).any(|field| field.starts_with(b"REST.")) {
            return Self::Ibm;
        }
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
        if fields.len() == 7
            && (fields[3].eq_ignore_ascii_case(b"read") || fields[3].eq_ignore_ascii_case(b"write"))
        {
            return Self::Msr;
        }
        if fields.len() >= 7 {
            return Self::TwitterCsv;
        }
        let fields: Vec<&[u8]> = blank_fields(line).collect();
        match (fields.len(), fields.iter().all(|field| field.iter().all(u8::is_ascii_digit))) {
            (4, true) => Self::Lis,
            (3, true) => Self::Sized,
            _ => Self::Text,
        }
    }

    /// Whether requests have the sizes of values.
    #[must_use]
    pub const fn has_sizes(self) -> bool {
        !matches!(self, Self::BeU32 | Self::BeU64 | Self::Lis | Self::Text)
    }

    /// Whether it is made of lines.
    pub(super) const fn is_text(self) -> bool {
        !matches!(self, Self::BeU32 | Self::BeU64 | Self::OracleGeneral)
    }
}

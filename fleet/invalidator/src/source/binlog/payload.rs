//! Decompresses the transactions that MySQL compresses with `binlog_transaction_compression` = ON:
//! one event that has all others, compressed with zstd.

use guira_sql::Bytes;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::{self, Read};

/// The numbers of the fields before the compressed data, and the number that ends them.
const END: usize = 0;
const COMPRESSION: usize = 2;
/// The compression types: zstd, and none.
const ZSTD: usize = 0;
const PLAIN: usize = 255;

/// How far back compressed data may refer. MySQL's highest level refers further in long
/// transactions, and would take as much memory.
const WINDOW_MAX: u64 = 64 << 20;
/// The limit of one event after decompression, as for one that is not compressed.
const EVENT_MAX: usize = 64 << 20;
/// The buffer of a longer event is freed after its use.
const CAPACITY_MAX: usize = 1 << 20;
/// The size of an event's head, and where the head has the event's length.
const HEAD: usize = 19;
const LENGTH_AT: usize = 9;

/// The reason that the events of a transaction cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum PayloadFlaw {
    #[error("the transaction cannot be decompressed")]
    Malformed,
    #[error("the transaction uses an unknown compression")]
    Unknown,
    #[error(
        "decompressing the transaction needs over 64 MiB: set binlog_transaction_compression_level_zstd \
             to 21 or less"
    )]
    Wide,
}

/// Decompresses the events of a transaction one by one. Only one of them, and the window, is in
/// memory.
pub(super) struct Payload<'a> {
    stream: Box<dyn Read + 'a>,
    event: Vec<u8>,
}

/// An event. `is_whole` is false for a truncated one.
pub(super) struct Unpacked<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_whole: bool,
}

impl<'a> Payload<'a> {
    /// Reads the body of a TRANSACTION_PAYLOAD event.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, PayloadFlaw> {
        let (compression, data) = fields(body).ok_or(PayloadFlaw::Malformed)?;
        let stream: Box<dyn Read + 'a> = match compression {
            PLAIN => Box::new(data),
            ZSTD => {
                if window(data).ok_or(PayloadFlaw::Malformed)? > WINDOW_MAX {
                    return Err(PayloadFlaw::Wide);
                }
                let stream: StreamingDecoder<_, FrameDecoder> =
                    StreamingDecoder::new(data).map_err(|_| PayloadFlaw::Malformed)?;
                Box::new(stream)
            }
            _ => return Err(PayloadFlaw::Unknown),
        };
        Ok(Payload { stream, event: Vec::new() })
    }

    /// The next event, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Unpacked<'_>>, PayloadFlaw> {
        let wrong = |_: io::Error| PayloadFlaw::Malformed;
        self.event.clear();
        self.event.shrink_to(CAPACITY_MAX);
        (&mut self.stream).take(HEAD as u64).read_to_end(&mut self.event).map_err(wrong)?;
        if self.event.is_empty() {
            return Ok(None);
        }
        let length = self.event.get(LENGTH_AT..).and_then(|rest| Bytes(rest).u32());
        let length = length.ok_or(PayloadFlaw::Malformed)? as usize;
        let kept = length.min(EVENT_MAX);
        let left = kept.checked_sub(HEAD).ok_or(PayloadFlaw::Malformed)?;
        (&mut self.stream).take(left as u64).read_to_end(&mut self.event).map_err(wrong)?;
        let left_out = (length - kept) as u64;
        let skipped = io::copy(&mut (&mut self.stream).take(left_out), &mut io::sink()).map_err(wrong)?;
        if self.event.len() < kept || skipped < left_out {
            return Err(PayloadFlaw::Malformed);
        }
        Ok(Some(Unpacked { bytes: &self.event, is_whole: left_out == 0 }))
    }
}

/// The compression type, and the data.
fn fields(body: &[u8]) -> Option<(usize, &[u8])> {
    let mut bytes = Bytes(body);
    let mut compression = None;
    loop {
        match bytes.length()? {
            END => return Some((compression?, bytes.0)),
            COMPRESSION => compression = Some(Bytes(bytes.text()?).length()?),
            _ => drop(bytes.text()?),
        }
    }
}

/// The window of a zstd frame by its head, in bytes.
fn window(frame: &[u8]) -> Option<u64> {
    const IS_ONE_SEGMENT: u8 = 0x20;
    let mut bytes = Bytes(frame);
    let _magic = bytes.u32()?;
    let descriptor = bytes.byte()?;
    if descriptor & IS_ONE_SEGMENT == 0 {
        let window = bytes.byte()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    bytes.take([0, 1, 2, 4][usize::from(descriptor & 3)])?;
    // A single-segment frame has no window field: its window is the length of the content.
    match descriptor >> 6 {
        0 => bytes.number(1),
        1 => bytes.number(2).map(|length| length + 256),
        2 => bytes.number(4),
        _ => bytes.number(8),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    /// A transaction of two statements that change two rows each, as MySQL 9.7.4 sends it.
    pub(in super::super) const PAYLOAD: &str = "0201000303fc33050103fcc1010028b52ffd603304bd0d0056975743206f9b0ec4206f28b4a0011a3808052852406841689801021163c3026c28d6e2ffaf9aa5eff10bdee169c54b450109
        102c1816b9617a036b9389badd5b37bbf7963205460042004900252acb6e9e3517cc0aa22473049b30b992ca994c6c8481030e851fe5ff45c02389522240788035b80d65e07ea9cbef3ffe
        11b58e83162cc427ffc01f7ff974ce7f6e8f244a095a775d735d778c8135aedce10aa224d184333e616deb2b8af4ef48760b66e9dec82bdc7d0b9c60866770be7882ba708c6f6384a93694
        94f17d1ad3a481d5653c7ffe28d6026644820a1b0701f252810284c8ca497c30eef5d09d8c42132942171eefbdbfd441c5c371abf737a2022fee859913dec02d2d19536e297f47105341bd
        75ad8139deb2fe644d03ffff9ffa076c58eab1476f1084845cd3c3b2d4b3383a5a6d2d99201d53abd66ede54d001cd0e100976f30e3f950f2be803c8f3013c73d640f92cf4c91e355c1860
        2122242090829a2a9207a400eb4c61d060e2550d078cfb1b053ec25ae2a5c26a00080ab169404aa09a2958405e2f15861d7e2b630510eabe690ca0baa1ed4d682883df292fc64667c46542
        cb029b95c73e375dd36132002f";

    fn kinds(body: &[u8]) -> Result<Vec<u8>, PayloadFlaw> {
        let mut payload = Payload::read(body)?;
        let mut kinds = Vec::new();
        while let Some(event) = payload.next()? {
            assert!(event.is_whole);
            kinds.push(event.bytes[4]);
        }
        Ok(kinds)
    }

    #[test]
    fn the_events_of_a_compressed_transaction_come_one_by_one() {
        // QUERY, and twice ROWS_QUERY, TABLE_MAP, UPDATE_ROWS; XID.
        assert_eq!(kinds(&unhex(PAYLOAD)).unwrap(), [2, 29, 19, 31, 29, 19, 31, 16]);
    }

    #[test]
    fn what_is_not_compressed_is_read_too() {
        let mut event = vec![0; 25];
        (event[4], event[LENGTH_AT]) = (16, 25);
        let body = [&[2, 3, 0xfc, 255, 0, 0][..], &event, &event].concat();
        assert_eq!(kinds(&body).unwrap(), [16, 16]);
        assert!(matches!(kinds(&body[..40]), Err(PayloadFlaw::Malformed)), "an event is cut");
        let mut short = body.clone();
        short[6 + LENGTH_AT] = 18;
        assert!(matches!(kinds(&short), Err(PayloadFlaw::Malformed)), "an event is shorter than its head");
    }

    #[test]
    fn what_cannot_be_decompressed_is_refused() {
        let whole = unhex(PAYLOAD);
        for length in 0..whole.len() {
            assert!(kinds(&whole[..length]).is_err(), "{length} bytes");
        }
        let other = unhex(&PAYLOAD.replacen("020100", "020101", 1));
        assert!(matches!(kinds(&other), Err(PayloadFlaw::Unknown)));
    }

    #[test]
    fn what_would_take_too_much_memory_is_refused() {
        // Windows of 64 and 128 MiB, and a length of one GiB.
        let frame = |rest: &[u8]| [&[2, 1, 0, 0, 0x28, 0xb5, 0x2f, 0xfd], rest, &[1, 0, 0]].concat();
        assert_eq!(kinds(&frame(&[0x00, 16 << 3])).unwrap(), [0; 0]);
        assert!(matches!(kinds(&frame(&[0x00, 16 << 3 | 1])), Err(PayloadFlaw::Wide)));
        assert!(matches!(kinds(&frame(&[0xa0, 0, 0, 0, 0x40])), Err(PayloadFlaw::Wide)));
    }
}

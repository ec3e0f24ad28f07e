//! Records of fixed length.

use super::Request;

/// The length of a record of libCacheSim.
pub(super) const ORACLE_LEN: usize = 24;

/// Reads libCacheSim's record, oracleGeneral: time, key, size, and the number of the key's next request, which is not
/// used.
pub(super) fn oracle(record: &[u8; ORACLE_LEN]) -> Request {
    let (time, key, size, _) = fields(record);
    Request { value_len: Some(size), time: time.into(), ..Request::number(key) }
}

fn fields(record: &[u8; ORACLE_LEN]) -> (u32, u64, u32, i64) {
    let at = |from: usize| {
        let mut word = [0; 8];
        let len = (ORACLE_LEN - from).min(8);
        word[..len].copy_from_slice(&record[from..from + len]);
        u64::from_le_bytes(word)
    };
    (at(0) as u32, at(4), at(12) as u32, at(16) as i64)
}

/// Whether the records at the start of a trace make sense: their times do not go back, objects are neither empty nor
/// absurdly large, and the next request of a key comes later than this one, or never (written as -1 or the largest number).
pub(super) fn looks_like_oracle(start: &[u8]) -> bool {
    let (records, _) = start.as_chunks::<ORACLE_LEN>();
    let mut earlier = 0;
    records.iter().zip(0_i64..).all(|(record, number)| {
        let (time, _, size, next) = fields(record);
        let is_forward = time >= earlier;
        earlier = time;
        is_forward && (1..1 << 31).contains(&size) && (next == -1 || next > number)
    })
}

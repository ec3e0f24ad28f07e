//! Keys and helpers for the tests of several hashes.

/// The key of mcrouter's tests with all bytes from 0x80 up, then from 0 up.
pub(super) fn all_bytes() -> Vec<u8> {
    (0..=u8::MAX).map(|byte| byte.wrapping_add(128)).collect()
}

pub(super) fn all_bytes_reversed() -> Vec<u8> {
    all_bytes().into_iter().rev().collect()
}

/// The names of servers in mcrouter's tests.
pub(super) fn endpoints(servers: usize) -> Vec<String> {
    (0..servers).map(|number| format!("xxx.{number}.yy")).collect()
}

/// How many of the keys `prefix` and a number below `keys` each server gets.
pub(super) fn counts(keys: usize, prefix: &str, pick: impl Fn(&[u8]) -> u32) -> Vec<usize> {
    let mut counts = Vec::new();
    for number in 0..keys {
        let server = pick(format!("{prefix}{number}").as_bytes()) as usize;
        counts.resize(counts.len().max(server + 1), 0);
        counts[server] += 1;
    }
    counts
}

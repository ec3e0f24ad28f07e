//! Ch3 with weights from 0 to 1: a server keeps its weight's share of the keys that Ch3 gives it, the others are hashed again with a number
//! appended. A weight of 1 keeps all, so that lowering one weight moves only keys of that server.

use super::ch3::{Ch3, MOST_SERVERS};
use super::error::HashError;
use super::join::joined;
use super::server::{ServerIdentity, index_limit};
use super::spooky::hash32;

const SEED: u32 = 0xface_2014;
const TRIES: u8 = 32;
/// The weight of a server for which the configuration has none, as in mcrouter.
const MISSING: f64 = 0.5;

#[derive(Clone, Debug)]
pub(super) struct WeightedCh3 {
    ch3: Ch3,
    /// A key stays whose second hash is less than this.
    thresholds: Box<[u32]>,
}

impl WeightedCh3 {
    /// `servers` in the order of their slots.
    pub(super) fn new(servers: &[ServerIdentity<'_>]) -> Result<Self, HashError> {
        index_limit(servers.len(), MOST_SERVERS)?;
        let thresholds = servers
            .iter()
            .map(|server| {
                server
                    .weight_or(MISSING, "from 0 to 1", |weight| (0.0..=1.0).contains(&weight))
                    .map(threshold)
            })
            .collect::<Result<_, _>>()?;
        Self::from_thresholds(thresholds)
    }

    fn from_thresholds(thresholds: Box<[u32]>) -> Result<Self, HashError> {
        Ok(Self { ch3: Ch3::new(thresholds.len())?, thresholds })
    }

    pub(super) fn pick(&self, key: &[u8]) -> u32 {
        let (mut server, mut kept) = self.attempt(key);
        let mut number = 0;
        while !kept && number < TRIES - 1 {
            // The digits of the number, the last one first.
            let digits = [b'0' + number % 10, b'0' + number / 10];
            let digits = if number < 10 { &digits[..1] } else { &digits };
            (server, kept) = joined([key, digits], |key| self.attempt(key));
            number += 1;
        }
        server
    }

    fn attempt(&self, key: &[u8]) -> (u32, bool) {
        let server = self.ch3.pick(key);
        (server, hash32(key, SEED) < self.thresholds[server as usize])
    }
}

fn threshold(weight: f64) -> u32 {
    (weight * f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{all_bytes, all_bytes_reversed, counts};
    use super::{Ch3, MOST_SERVERS, WeightedCh3, threshold};

    fn weighted(weights: &[f64]) -> WeightedCh3 {
        WeightedCh3::from_thresholds(weights.iter().copied().map(threshold).collect()).unwrap()
    }

    /// facebook/mcrouter, mcrouter/lib/test/WeightedCh3HashFuncTest.cpp at 159257f89a1df468cd3490b3780bcf6ab36b87c6, as in the next three.
    #[test]
    fn mcrouters_vectors_with_all_weights_1() {
        for (servers, key, expected) in [
            (100, &b"sample"[..], 97),
            (1, b"sample", 0),
            (100, b"", 72),
            (1, b"", 0),
            (MOST_SERVERS, b"", 6_173_600),
            (MOST_SERVERS, b"sample", 5_167_780),
            (99_999, &all_bytes(), 31_015),
            (99_999, &all_bytes_reversed(), 67_101),
        ] {
            assert_eq!(weighted(&vec![1.0; servers]).pick(key), expected, "{servers} servers, key {key:?}");
        }
    }

    #[test]
    fn mcrouters_vectors_with_all_weights_0() {
        for (servers, key, expected) in
            [(1, &b"sample"[..], 0), (1, b"", 0), (100, b"sample", 59), (100, b"", 45)]
        {
            assert_eq!(weighted(&vec![0.0; servers]).pick(key), expected, "{servers} servers, key {key:?}");
        }
    }

    #[test]
    fn mcrouters_vectors_with_one_weight_reduced() {
        let (ch3, reduced) = (Ch3::new(3).unwrap(), weighted(&[1.0, 1.0, 0.7]));
        for number in 0..1000 {
            let key = number.to_string();
            let unweighted = ch3.pick(key.as_bytes());
            assert!(unweighted == 2 || reduced.pick(key.as_bytes()) == unweighted, "{key}");
        }
        assert_eq!(counts(1000, "", |key| reduced.pick(key)), [341, 371, 288]);
    }

    #[test]
    fn mcrouters_vectors_with_random_weights() {
        let random = weighted(&[0.429, 0.541, 0.117, 0.998, 0.283, 0.065, 0.109, 0.042, 0.676, 0.943]);
        assert_eq!(
            counts(10_000, "", |key| random.pick(key)),
            [1016, 1252, 288, 2354, 661, 195, 247, 122, 1668, 2197]
        );
    }
}

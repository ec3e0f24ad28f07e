//! mcrouter's Rendezvous and WeightedRendezvous (highest random weight): each server has a score for each key by the hash of its name, and the
//! highest score wins. A server that leaves gives away its own keys only, whatever its place.

use super::ch3::MOST_SERVERS;
use super::error::HashError;
use super::murmur::{SEED, murmur64a};
use super::server::{ServerIdentity, check_names, index_limit};

const KEY_SEED: u64 = 2_718_281_828;
/// The weight of a server for which the configuration has none, as in mcrouter.
const MISSING: f64 = 0.5;

/// How a server's hash and its weight make a score.
pub(super) trait Score: Copy {
    type Weight: Copy;
    fn of(hash: u64, weight: Self::Weight) -> Self;
    /// False only if the score is not above `highest`; cheaper than the score.
    fn may_exceed(hash: u64, weight: Self::Weight, highest: Self) -> bool;
    fn is_above(self, other: Self) -> bool;
    const LOWEST: Self;
}

impl Score for u64 {
    type Weight = ();
    const LOWEST: Self = 0;

    fn of(hash: u64, (): ()) -> Self {
        hash
    }

    fn may_exceed(_: u64, (): (), _: Self) -> bool {
        true
    }

    fn is_above(self, other: Self) -> bool {
        self > other
    }
}

impl Score for f64 {
    type Weight = f64;
    const LOWEST: Self = 0.0;

    fn of(hash: u64, weight: f64) -> Self {
        weight * (1.0 / -uniform(hash).ln())
    }

    /// Few servers need a logarithm: `-ln(u)` is at least `1 - u`. The margin is for rounding.
    fn may_exceed(hash: u64, weight: f64, highest: Self) -> bool {
        const MARGIN: f64 = 1.0 - 1e-12;
        weight > highest * (1.0 - uniform(hash)) * MARGIN
    }

    fn is_above(self, other: Self) -> bool {
        self > other
    }
}

/// A number from 0 to 1, without 1.
fn uniform(hash: u64) -> f64 {
    const BITS: u32 = f64::MANTISSA_DIGITS;
    (hash & ((1 << BITS) - 1)) as f64 / (1u64 << BITS) as f64
}

#[derive(Clone, Debug)]
pub(super) struct Rendezvous<S: Score> {
    servers: Box<[(u64, S::Weight)]>,
}

impl Rendezvous<u64> {
    pub(super) fn new(servers: &[ServerIdentity<'_>]) -> Result<Self, HashError> {
        Self::with_weights(servers, |_| Ok(()))
    }
}

impl Rendezvous<f64> {
    pub(super) fn weighted(servers: &[ServerIdentity<'_>]) -> Result<Self, HashError> {
        Self::with_weights(servers, |server| {
            server.weight_or(MISSING, "a number from 0 on", |weight| weight >= 0.0 && weight.is_finite())
        })
    }
}

impl<S: Score> Rendezvous<S> {
    fn with_weights(
        servers: &[ServerIdentity<'_>],
        weight: impl Fn(&ServerIdentity<'_>) -> Result<S::Weight, HashError>,
    ) -> Result<Self, HashError> {
        index_limit(servers.len(), MOST_SERVERS)?;
        check_names(servers.iter().map(|server| server.name().into()))?;
        let hash = |server: &ServerIdentity<'_>| murmur64a(server.name().as_bytes(), SEED);
        let servers = servers.iter().map(|server| Ok((hash(server), weight(server)?)));
        Ok(Self { servers: servers.collect::<Result<_, _>>()? })
    }

    pub(super) fn pick(&self, key: &[u8]) -> u32 {
        let key = key_hash(key);
        let (mut best, mut highest) = (0, S::LOWEST);
        for (place, (server, weight)) in (0..).zip(&self.servers) {
            let hash = mix(*server, key);
            if S::may_exceed(hash, *weight, highest) {
                let score = S::of(hash, *weight);
                if score.is_above(highest) {
                    (best, highest) = (place, score);
                }
            }
        }
        best
    }

    /// The server with the highest score below that of `last`, equal scores in the order of the list.
    pub(super) fn next(&self, key: u64, last: Option<u32>) -> Option<u32> {
        let bound = last.map(|last| {
            let (hash, weight) = self.servers[last as usize];
            (last, S::of(mix(hash, key), weight))
        });
        let comes_after = |place: u32, score: S| match bound {
            None => true,
            Some((last, limit)) => limit.is_above(score) || !score.is_above(limit) && place > last,
        };
        let mut next: Option<(u32, S)> = None;
        for (place, score) in self.scores(key) {
            if comes_after(place, score) && next.is_none_or(|(_, highest)| score.is_above(highest)) {
                next = Some((place, score));
            }
        }
        next.map(|(place, _)| place)
    }

    fn scores(&self, key: u64) -> impl Iterator<Item = (u32, S)> {
        (0..).zip(&self.servers).map(move |(place, (hash, weight))| (place, S::of(mix(*hash, key), *weight)))
    }
}

pub(super) fn key_hash(key: &[u8]) -> u64 {
    murmur64a(key, KEY_SEED)
}

/// Two hashes in one, as CityHash does it (Hash128to64).
fn mix(server: u64, key: u64) -> u64 {
    const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;
    let mut mixed = (key ^ server).wrapping_mul(MULTIPLIER);
    mixed ^= mixed >> 47;
    mixed = (server ^ mixed).wrapping_mul(MULTIPLIER);
    mixed ^= mixed >> 47;
    mixed.wrapping_mul(MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{all_bytes, counts, endpoints};
    use super::{Rendezvous, Score, ServerIdentity, key_hash};

    fn identities(names: &[String]) -> Vec<ServerIdentity<'_>> {
        names.iter().map(|name| ServerIdentity::named(name)).collect()
    }

    fn plain(names: &[String]) -> Rendezvous<u64> {
        Rendezvous::new(&identities(names)).unwrap()
    }

    fn weighted(names: &[String], weights: &[f64]) -> Rendezvous<f64> {
        let servers = identities(names).into_iter().zip(weights);
        Rendezvous::weighted(&servers.map(|(server, weight)| server.weighing(*weight)).collect::<Vec<_>>())
            .unwrap()
    }

    /// How many of mcrouter's 10 000 keys move when the server at `gone` of 499 leaves.
    fn moved<S: Score>(gone: usize, build: impl Fn(&[String]) -> Rendezvous<S>) -> usize {
        let before = endpoints(499);
        let mut after = before.clone();
        after.remove(gone);
        let (old, new) = (build(&before), build(&after));
        let keys = (0..10_000).map(|number| format!("mykey:{number}"));
        keys.filter(|key| {
            before[old.pick(key.as_bytes()) as usize] != after[new.pick(key.as_bytes()) as usize]
        })
        .count()
    }

    /// `next` computes all scores, `pick` those that may win.
    #[test]
    fn what_is_picked_has_the_highest_score() {
        let names = endpoints(50);
        for weights in [vec![1.0; 50], (0..50).map(|place| f64::from(place * place) / 100.0).collect()] {
            let servers = weighted(&names, &weights);
            for number in 0..20_000 {
                let key = format!("key:{number}");
                let highest = servers.next(key_hash(key.as_bytes()), None);
                assert_eq!(Some(servers.pick(key.as_bytes())), highest, "{key}");
            }
        }
    }

    /// facebook/mcrouter, mcrouter/lib/test/RendezvousHashTest.cpp at 71da56e9d7616b535b16f626488a58877b03bbf5.
    #[test]
    fn mcrouters_vectors() {
        let (few, many) = (plain(&endpoints(3)), plain(&endpoints(343)));
        for (key, of_3, of_343) in
            [(&b"sample"[..], 1, 45), (b"", 1, 291), (b"mykey", 1, 132), (&all_bytes(), 1, 183)]
        {
            assert_eq!((few.pick(key), many.pick(key)), (of_3, of_343), "{key:?}");
        }
        assert_eq!(counts(1000, "mykey:", |key| few.pick(key)), [337, 353, 310]);
        let ten = plain(&endpoints(10));
        let expected = [947, 1026, 1028, 981, 1016, 970, 1013, 939, 1023, 1057];
        assert_eq!(counts(10_000, "mykey:", |key| ten.pick(key)), expected);
        assert_eq!([0, 498, 249].map(|gone| moved(gone, plain)), [14, 24, 15]);
    }

    /// facebook/mcrouter, mcrouter/lib/test/WeightedRendezvousHashTest.cpp at 20ca8de0d66cc25b25da4e49f7618be4f7eae10d.
    #[test]
    fn mcrouters_weighted_vectors() {
        let equal = |names: &[String]| weighted(names, &vec![1.0; names.len()]);
        let (few, many) = (equal(&endpoints(3)), equal(&endpoints(343)));
        for (key, of_3, of_343) in
            [(&b"sample"[..], 0, 115), (b"", 2, 279), (b"mykey", 1, 302), (&all_bytes(), 1, 142)]
        {
            assert_eq!((few.pick(key), many.pick(key)), (of_3, of_343), "{key:?}");
        }
        for (weights, expected) in [
            ([1.0, 1.0, 1.0], [3409, 3360, 3231]),
            ([1.0, 0.5, 0.1], [6292, 3118, 590]),
            ([1.0, 0.0, 0.5], [6737, 0, 3263]),
        ] {
            let three = weighted(&endpoints(3), &weights);
            assert_eq!(counts(10_000, "mykey:", |key| three.pick(key)), expected, "{weights:?}");
        }
        let ten = weighted(&endpoints(10), &[1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5]);
        let expected = [1381, 1299, 1283, 1359, 1296, 667, 669, 665, 672, 709];
        assert_eq!(counts(10_000, "mykey:", |key| ten.pick(key)), expected);
        assert_eq!([0, 498, 249].map(|gone| moved(gone, equal)), [19, 17, 21]);
    }
}

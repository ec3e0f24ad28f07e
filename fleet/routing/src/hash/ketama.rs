//! Ketama: each server has points on a ring of 2^32 numbers, and a key belongs to the first point that is not before its hash.

use arrayvec::ArrayVec;
use md5::{Digest, Md5};

use super::error::HashError;
use super::key_hash::KeyHash;
use super::selector::MOST_CHOICES;
use super::server::{ServerIdentity, check_names, index_limit};

/// 160 points of eight bytes for each of this many servers take 84 MB.
const MOST_SERVERS: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Ascending.
    points: Box<[u32]>,
    servers: Box<[u32]>,
    /// How many servers have points: one of a very low weight has none.
    reachable: usize,
}

impl Ring {
    /// libmemcached's without weights: 100 points a server, by the hash of keys.
    pub(super) fn unweighted(key_hash: KeyHash, servers: &[ServerIdentity<'_>]) -> Result<Self, HashError> {
        check(servers)?;
        unweighted_points(key_hash, servers).map(Self::from_points)
    }

    /// libmemcached's and twemproxy's with weights: 160 points for an average weight, by MD5.
    pub(super) fn weighted(servers: &[ServerIdentity<'_>]) -> Result<Self, HashError> {
        check(servers)?;
        weighted_points(servers).map(Self::from_points)
    }

    fn from_points(mut points: Vec<(u32, u32)>) -> Self {
        points.sort_unstable();
        let mut with_points: Vec<_> = points.iter().map(|(_, server)| *server).collect();
        with_points.sort_unstable();
        with_points.dedup();
        let (points, servers): (Vec<_>, Vec<_>) = points.into_iter().unzip();
        Self { points: points.into(), servers: servers.into(), reachable: with_points.len() }
    }

    pub(super) fn pick(&self, hash: u32) -> u32 {
        self.servers[self.position(hash)]
    }

    fn position(&self, hash: u32) -> usize {
        let position = self.points.partition_point(|point| *point < hash);
        if position < self.points.len() { position } else { 0 }
    }

    pub(super) fn walk(&self, hash: u32) -> Walk<'_> {
        Walk { ring: self, position: self.position(hash), seen: ArrayVec::new() }
    }
}

/// Different servers in the order of the ring.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    ring: &'a Ring,
    position: usize,
    seen: ArrayVec<u32, MOST_CHOICES>,
}

impl Walk<'_> {
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.seen.len() == self.ring.reachable || self.seen.is_full() {
            return None;
        }
        loop {
            let server = self.ring.servers[self.position];
            self.position = (self.position + 1) % self.ring.servers.len();
            if !self.seen.contains(&server) {
                self.seen.push(server);
                return Some(server);
            }
        }
    }
}

fn check(servers: &[ServerIdentity<'_>]) -> Result<(), HashError> {
    index_limit(servers.len(), MOST_SERVERS)?;
    check_names(servers.iter().map(ServerIdentity::point_text))
}

fn unweighted_points(
    key_hash: KeyHash,
    servers: &[ServerIdentity<'_>],
) -> Result<Vec<(u32, u32)>, HashError> {
    const POINTS: u32 = 100;
    let mut points = Vec::with_capacity(servers.len() * POINTS as usize);
    for (place, server) in (0..).zip(servers) {
        let weight = server.whole_weight()?;
        if weight != 1 {
            return Err(HashError::WeightIgnored {
                server: server.name().to_owned(),
                weight: f64::from(weight),
            });
        }
        let text = server.point_text();
        let point = |number| key_hash.digest(format!("{text}-{number}").as_bytes()) as u32;
        points.extend((0..POINTS).map(|number| (point(number), place)));
    }
    Ok(points)
}

fn weighted_points(servers: &[ServerIdentity<'_>]) -> Result<Vec<(u32, u32)>, HashError> {
    const POINTS: f32 = 160.0;
    const POINTS_A_HASH: f32 = 4.0;
    let weights = servers.iter().map(ServerIdentity::whole_weight).collect::<Result<Vec<_>, _>>()?;
    let total = weights.iter().map(|weight| u64::from(*weight)).sum::<u64>() as f32;
    let mut points = Vec::new();
    for ((place, server), weight) in (0..).zip(servers).zip(weights) {
        // In f32 and in this order, as both have it: so 160 may become 156.
        let hashes = weight as f32 / total * POINTS / POINTS_A_HASH * servers.len() as f32;
        let text = server.point_text();
        for number in 0..hashes as u32 {
            let digest = Md5::digest(format!("{text}-{number}"));
            let (words, _) = digest.as_chunks::<4>();
            points.extend(words.iter().map(|word| (u32::from_le_bytes(*word), place)));
        }
    }
    Ok(points)
}

//! Modula: the hash of the key modulo the number of servers, or, with weights, modulo their sum. Any change of it moves almost all keys.

use super::ch3::MOST_SERVERS;
use super::error::HashError;
use super::server::{ServerIdentity, index_limit};

#[derive(Clone, Debug)]
pub(super) struct Modula {
    /// The sum of the weights up to and with each server.
    sums: Box<[u32]>,
    total: u32,
}

impl Modula {
    /// `servers` in the order of their slots.
    pub(super) fn new(servers: &[ServerIdentity<'_>]) -> Result<Self, HashError> {
        index_limit(servers.len(), MOST_SERVERS)?;
        let mut total = 0u32;
        let mut sums = Vec::with_capacity(servers.len());
        for server in servers {
            let weight = server.whole_weight()?;
            total = total.checked_add(weight).ok_or_else(|| HashError::Weight {
                server: server.name().to_owned(),
                weight: f64::from(weight),
                allowed: "less: the sum of all weights is at most 4294967295",
            })?;
            sums.push(total);
        }
        Ok(Self { sums: sums.into(), total })
    }

    pub(super) fn pick(&self, hash: u32) -> u32 {
        let number = hash % self.total;
        if self.total as usize == self.sums.len() {
            number
        } else {
            self.sums.partition_point(|sum| *sum <= number) as u32
        }
    }
}

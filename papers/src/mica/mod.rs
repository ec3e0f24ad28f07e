//! *MICA* (Lim, Han, Andersen and Kaminsky, NSDI 2014): each claim again.
//!
//! The paper's machine has sixteen cores and eight ports of 10 Gb, ours two processors and no port. So claims are answered per core, as
//! ratios, or by a model that is called one.

pub(crate) mod echo;
pub(crate) mod inside;
pub(crate) mod model;
mod near;
mod net;
pub(crate) mod paths;
pub(crate) mod spread;

use guira_workload::Popularity;
use guira_workload::rng::{Rng, mix64};

use crate::experiment::{Failure, failed};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) name: &'static str,
    pub(crate) key: usize,
    pub(crate) value: usize,
}

pub(crate) const TINY: Data = Data { name: "tiny", key: 8, value: 8 };
pub(crate) const SMALL: Data = Data { name: "small", key: 16, value: 64 };
pub(crate) const LARGE: Data = Data { name: "large", key: 128, value: 1024 };

const KEY_MAX: usize = 128;

impl Data {
    pub(crate) fn key(self, id: u32, out: &mut [u8; KEY_MAX]) -> &[u8] {
        out[..8].copy_from_slice(&mix64(u64::from(id) + 1).to_le_bytes());
        &out[..self.key]
    }
}

pub(crate) const SKEWED: f64 = 0.99;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) data: Data,
    pub(crate) keys: u32,
    /// Zipf's exponent; 0 for none.
    pub(crate) alpha: f64,
    pub(crate) gets: f64,
}

/// A request: the number of a key, and whether it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) id: u32,
    pub(crate) is_set: bool,
}

impl Ask {
    pub(crate) fn requests(&self, count: usize, seed: u64) -> Result<Vec<Request>, Failure> {
        let mut rng = Rng::new(seed);
        let popularity = match self.alpha {
            0.0 => None,
            alpha => Some(Popularity::zipf(u64::from(self.keys), alpha).map_err(failed)?),
        };
        let draw = |_| {
            let id = match &popularity {
                None => rng.below(u64::from(self.keys)),
                Some(popularity) => popularity.draw(&mut rng),
            };
            Request { id: id as u32, is_set: rng.unit() >= self.gets }
        };
        Ok((0..count).map(draw).collect())
    }
}

/// The four loads of the paper's figures.
pub(crate) fn loads(data: Data, keys: u32) -> [Ask; 4] {
    let ask = |alpha, gets| Ask { data, keys, alpha, gets };
    [ask(0.0, 0.5), ask(0.0, 0.95), ask(SKEWED, 0.5), ask(SKEWED, 0.95)]
}

//! A pool of nodes, by a model: how keys, load and hits spread over them, what it costs when one of them is lost, and how long a
//! cold pool takes.
//!
//! Each node is a cache with the order of an engine, and a router's own hash says which node has a key. What a model cannot know
//! (queues, networks, requests under way) is not in it. papers/ compares it with nodes and a router that are real
//! (`facebook-capacity`).

mod nodes;
mod report;

use guira_contract::OptionError;
use guira_routing::hash::{HashError, HashKind};
use serde::Serialize;

use crate::registry::Choice;
use crate::run::{self, Rules};
use crate::stream::Stream;
use nodes::{Nodes, Places};

pub use report::{Costs, Report};

/// The requests are looked at in so many windows.
const WINDOWS: usize = 64;
/// When this share of the requests is over, what is steady begins, and a node is lost.
const STEADY: usize = WINDOWS / 2;
/// A pool is warm when it has this share of the hits that it has later.
const WARM: f64 = 0.95;

/// Why a pool cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// An option of the policy is wrong.
    #[error(transparent)]
    Policy(#[from] OptionError),
    /// The hash does not take so many servers.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// Every part of the keys has so many copies.
    #[error("{nodes} nodes cannot hold {copies} copies of every key: use a multiple of the copies")]
    Copies { nodes: usize, copies: usize },
}

#[derive(Debug, Clone, Copy)]
pub struct Pool<'a> {
    pub nodes: usize,
    /// On how many of them each key is: a request of a client goes to one of these for all of its keys.
    pub copies: usize,
    pub room: u64,
    /// The order of its items: that of an engine.
    pub policy: &'a Choice,
    pub hash: HashKind,
    /// Nodes that take the keys of a lost one, each with the room of a node.
    pub gutter: usize,
    /// How many keys a client asks for at once.
    pub keys_at_once: usize,
    /// Bytes of an object where the stream does not tell.
    pub value_size: u32,
}

/// What becomes of the keys of a lost node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Rehash,
    Gutter,
    Copies,
}

/// What a node had to do while the pool was in its steady state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Load {
    /// Its share of the keys that were asked for, stored and deleted.
    pub keys: f64,
    /// Requests of clients that came to it, for each of all.
    pub requests: f64,
    /// Bytes of hits, for each key of all.
    pub bytes: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    pub nodes: usize,
    /// On how many of them each key is.
    pub copies: usize,
    /// Hits over reads, in its steady state.
    pub hit_ratio: f64,
    /// Misses for each key of all, in its steady state.
    pub misses: f64,
    /// What each node had to do.
    pub loads: Vec<Load>,
    /// Keys that clients asked for until an empty pool was warm; `None` if the requests were too few to tell.
    pub cold_keys: Option<u64>,
    /// Misses until then beyond those of a warm pool.
    pub cold_misses: f64,
    /// What became of it when its busiest node was lost.
    pub losses: Vec<Loss>,
}

/// A pool whose busiest node is lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// What became of that node's keys.
    pub way: Way,
    pub share: f64,
    /// Hits over reads in the first window after it, and in the last.
    pub hit_ratios: [f64; 2],
    /// Misses beyond those of the pool without a loss, for each key of all, in the first window.
    pub more_misses: f64,
    /// What the busiest of the other nodes had to do, over what it had before.
    pub most: f64,
    /// What each node of the gutter had to do.
    pub gutter: Vec<Load>,
}

/// Simulates a pool on `stream`; `progress` hears of every request once for each of [`Pool::passes`].
///
/// # Errors
/// The pool cannot be simulated.
pub fn simulate(
    pool: &Pool<'_>,
    stream: &Stream,
    rules: Rules,
    progress: &dyn Fn(u64),
) -> Result<Found, PoolError> {
    let usual = Pass::of(pool, stream, rules, None, progress)?;
    let loads = usual.loads();
    let busiest = (0..loads.len()).max_by(|a, b| loads[*a].keys.total_cmp(&loads[*b].keys)).unwrap_or(0);
    let losses = pool.ways().into_iter().map(|way| {
        let pass = Pass::of(pool, stream, rules, Some((busiest, way)), progress)?;
        Ok(pass.loss(&usual, busiest, way))
    });
    let losses = losses.collect::<Result<_, PoolError>>()?;
    let steady = usual.steady();
    let (cold_keys, cold_misses) = usual.cold();
    Ok(Found {
        nodes: pool.nodes,
        copies: pool.copies,
        hit_ratio: steady.hit_ratio(),
        misses: steady.misses() as f64 / steady.keys.max(1) as f64,
        loads,
        cold_keys,
        cold_misses,
        losses,
    })
}

impl Pool<'_> {
    /// What can become of the keys of a lost node.
    fn ways(&self) -> Vec<Way> {
        let rehash = (self.copies == 1 && self.nodes > 1).then_some(Way::Rehash);
        let gutter = (self.copies == 1 && self.gutter > 0).then_some(Way::Gutter);
        let copies = (self.copies > 1).then_some(Way::Copies);
        [rehash, gutter, copies].into_iter().flatten().collect()
    }

    /// How often the requests are simulated.
    #[must_use]
    pub fn passes(&self) -> u64 {
        1 + self.ways().len() as u64
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    /// All that were for a key that can be held.
    keys: u64,
    reads: u64,
    hits: u64,
}

impl Window {
    fn sum(windows: &[Window]) -> Window {
        let add = |sum: Window, window: &Window| Window {
            keys: sum.keys + window.keys,
            reads: sum.reads + window.reads,
            hits: sum.hits + window.hits,
        };
        windows.iter().fold(Window::default(), add)
    }

    const fn misses(self) -> u64 {
        self.reads - self.hits
    }

    fn hit_ratio(self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }
}

/// What was counted of a node in the second half of the requests.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    keys: u64,
    requests: u64,
    bytes: u64,
}

/// The requests, driven through a pool once.
#[derive(Debug)]
struct Pass {
    windows: Vec<Window>,
    /// Of nodes, and behind these of those of the gutter.
    works: Vec<Work>,
    nodes: usize,
    keys_at_once: usize,
}

impl Pass {
    fn of(
        pool: &Pool<'_>,
        stream: &Stream,
        rules: Rules,
        lost: Option<(usize, Way)>,
        progress: &dyn Fn(u64),
    ) -> Result<Self, PoolError> {
        let places = Places::of(pool, stream.keys(), lost)?;
        let mut nodes = Nodes::new(pool, (stream, rules.measure), &places)?;
        run::run(&mut nodes, stream, rules, progress);
        let (windows, works) = nodes.counted();
        Ok(Pass { windows, works, nodes: pool.nodes, keys_at_once: pool.keys_at_once })
    }

    fn steady(&self) -> Window {
        Window::sum(&self.windows[STEADY..])
    }

    fn loads(&self) -> Vec<Load> {
        self.loads_of(&self.works[..self.nodes])
    }

    fn loads_of(&self, works: &[Work]) -> Vec<Load> {
        let all = self.steady().keys.max(1) as f64;
        let load = |work: &Work| Load {
            keys: work.keys as f64 / all,
            requests: work.requests as f64 * self.keys_at_once as f64 / all,
            bytes: work.bytes as f64 / all,
        };
        works.iter().map(load).collect()
    }

    /// Keys until the pool was warm, and misses until then beyond those of a warm one.
    fn cold(&self) -> (Option<u64>, f64) {
        let warm = self.steady().hit_ratio();
        let Some(end) = self.windows[..STEADY].iter().position(|window| window.hit_ratio() >= WARM * warm)
        else {
            return (None, 0.0);
        };
        let before = Window::sum(&self.windows[..=end]);
        (Some(before.keys), before.misses() as f64 - before.reads as f64 * (1.0 - warm))
    }

    fn loss(&self, usual: &Pass, lost: usize, way: Way) -> Loss {
        let (before, after) = (usual.loads(), self.loads());
        let others = before.iter().zip(&after).enumerate().filter(|(node, _)| *node != lost);
        let growth = others.filter(|(_, (before, _))| before.keys > 0.0);
        let first = self.windows[STEADY];
        let more = first.misses() as f64 - usual.windows[STEADY].misses() as f64;
        Loss {
            way,
            share: before[lost].keys,
            hit_ratios: [first.hit_ratio(), self.windows[WINDOWS - 1].hit_ratio()],
            more_misses: more / first.keys.max(1) as f64,
            most: growth.map(|(_, (before, after))| after.keys / before.keys).fold(0.0, f64::max),
            gutter: self.loads_of(&self.works[self.nodes..]),
        }
    }
}

#[cfg(test)]
mod tests;

//! The nodes of a pool, which together are one more cache to the simulator.

use guira_routing::hash::{HashKind, Selector, ServerIdentity};
use guira_workload::rng::mix64;
use guira_workload::trace::Action;

use super::{Pool, PoolError, STEADY, WINDOWS, Way, Window, Work};
use crate::policy::{Id, Policy};
use crate::registry::NodeSetup;
use crate::run::{self, Measure};
use crate::stream::Stream;

/// A key on a node: the part of the keys that has it, and its number there.
#[derive(Debug, Clone, Copy)]
struct Place {
    part: u32,
    id: Id,
}

/// Where all keys are, before and after a node is lost.
#[derive(Debug)]
pub(super) struct Places {
    before: Vec<Place>,
    /// Those of keys that move, by what `moved` says.
    after: Vec<Place>,
    moved: Vec<Option<u32>>,
    /// How many keys each part has, with those that come later; behind those of nodes the parts of the gutter.
    keys: Vec<usize>,
    /// A node of which another copy is asked.
    gone: Option<usize>,
}

impl Places {
    pub(super) fn of(pool: &Pool<'_>, keys: usize, lost: Option<(usize, Way)>) -> Result<Self, PoolError> {
        let Pool { nodes, copies, gutter, hash, .. } = *pool;
        if copies == 0 || nodes == 0 || nodes % copies != 0 {
            return Err(PoolError::Copies { nodes, copies });
        }
        let parts = nodes / copies;
        let mut places = Places {
            before: Vec::with_capacity(keys),
            after: Vec::new(),
            moved: Vec::new(),
            keys: vec![0; parts + gutter],
            gone: lost.and_then(|(node, way)| (way == Way::Copies).then_some(node)),
        };
        let usual = selector(hash, parts)?;
        for id in 0..keys {
            let place = places.place(usual.pick(&name(id)) as u32);
            places.before.push(place);
        }
        if let Some((node, way @ (Way::Rehash | Way::Gutter))) = lost {
            places.moved = vec![None; keys];
            // The keys of a lost node are spread by another hash; those of others stay.
            let (first, rest) = if way == Way::Gutter { (parts, gutter) } else { (0, parts - 1) };
            let others = selector(HashKind::Ch3, rest)?;
            for id in (0..keys).filter(|id| places.before[*id].part == node as u32).collect::<Vec<_>>() {
                let picked = first + others.pick(&name(id));
                let part = if way == Way::Rehash && picked >= node { picked + 1 } else { picked };
                let place = places.place(part as u32);
                places.moved[id] = Some(places.after.len() as u32);
                places.after.push(place);
            }
        }
        Ok(places)
    }

    fn place(&mut self, part: u32) -> Place {
        let count = &mut self.keys[part as usize];
        *count += 1;
        Place { part, id: (*count - 1) as Id }
    }

    #[inline]
    fn find(&self, id: Id, is_lost: bool) -> Place {
        let moved = is_lost.then(|| self.moved.get(id as usize).copied().flatten()).flatten();
        moved.map_or_else(|| self.before[id as usize], |place| self.after[place as usize])
    }
}

fn selector(hash: HashKind, servers: usize) -> Result<Selector, PoolError> {
    let names: Vec<String> = (0..servers).map(|number| format!("node-{number}")).collect();
    let identities: Vec<ServerIdentity<'_>> = names.iter().map(|name| ServerIdentity::named(name)).collect();
    Ok(Selector::new(hash, &identities, "")?)
}

/// The key of a number: what a hash makes of it is as if it were any other.
fn name(id: usize) -> [u8; 16] {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&mix64(id as u64).to_le_bytes());
    name[8..].copy_from_slice(&(id as u64).to_le_bytes());
    name
}

/// Nodes, each of which has a part of the keys, or a copy of one.
pub(super) struct Nodes<'a> {
    caches: Vec<Box<dyn Policy + 'a>>,
    places: &'a Places,
    stream: &'a Stream,
    /// Bytes of an object where the stream does not tell.
    size: u32,
    copies: usize,
    /// Of the nodes beside the gutter.
    parts: usize,
    keys_at_once: usize,
    number: usize,
    action: Action,
    window: usize,
    /// Keys that clients have asked for, and the request that the present one belongs to.
    asked: usize,
    request: usize,
    windows: Vec<Window>,
    works: Vec<Work>,
    /// The last request of a client that each node had.
    last: Vec<usize>,
}

impl<'a> Nodes<'a> {
    pub(super) fn new(
        pool: &Pool<'a>,
        (stream, measure): (&'a Stream, Measure),
        places: &'a Places,
    ) -> Result<Self, PoolError> {
        let parts = pool.nodes / pool.copies;
        let node = |node: usize| {
            let part = if node < pool.nodes { node / pool.copies } else { parts + node - pool.nodes };
            let setup = NodeSetup { limit: pool.room, measure, stream, keys: places.keys[part] };
            pool.policy.node(setup)
        };
        let all = pool.nodes + pool.gutter;
        Ok(Nodes {
            caches: (0..all).map(node).collect::<Result<_, _>>()?,
            places,
            stream,
            size: pool.value_size,
            copies: pool.copies,
            parts,
            keys_at_once: pool.keys_at_once.max(1),
            number: 0,
            action: Action::Get,
            window: 0,
            asked: 0,
            request: 0,
            windows: vec![Window::default(); WINDOWS],
            works: vec![Work::default(); all],
            last: vec![usize::MAX; all],
        })
    }

    /// The requests by windows, and what nodes had to do.
    pub(super) fn counted(self) -> (Vec<Window>, Vec<Work>) {
        (self.windows, self.works)
    }

    /// The number of a key on its nodes, and the node that is asked for it.
    #[inline]
    fn find(&self, id: Id) -> (Id, usize) {
        let is_lost = self.window >= STEADY;
        let Place { part, id } = self.places.find(id, is_lost);
        let part = part as usize;
        if part >= self.parts {
            return (id, self.parts * self.copies + part - self.parts);
        }
        let first = part * self.copies;
        let copy = mix64(self.request as u64) as usize % self.copies;
        let (node, next) = (first + copy, first + (copy + 1) % self.copies);
        (id, if is_lost && self.places.gone == Some(node) { next } else { node })
    }

    /// Counts what a node has to do for the request.
    fn note(&mut self, node: usize, bytes: u32) {
        if self.window < STEADY {
            return;
        }
        let work = &mut self.works[node];
        work.keys += 1;
        work.bytes += u64::from(bytes);
        if self.last[node] != self.request {
            self.last[node] = self.request;
            work.requests += 1;
        }
    }

    /// What changes a key goes to all of its copies: one stores, the others forget.
    fn change(&mut self, id: Id) {
        let (own, node) = self.find(id);
        self.note(node, 0);
        if node >= self.parts * self.copies {
            return;
        }
        let first = node - node % self.copies;
        for other in (first..first + self.copies).filter(|other| *other != node) {
            if self.window < STEADY || self.places.gone != Some(other) {
                self.note(other, 0);
                self.caches[other].remove(own);
            }
        }
    }
}

impl Policy for Nodes<'_> {
    fn begin(&mut self, number: usize) {
        (self.number, self.action) = (number, self.stream.actions.get(number));
        self.window = number * WINDOWS / self.stream.len();
        self.windows[self.window].keys += 1;
        let id = self.stream.ids[number];
        if self.action == Action::Get {
            self.request = self.asked / self.keys_at_once;
            self.asked += 1;
        } else {
            // One of its own.
            self.request = usize::MAX - 1 - number;
            self.change(id);
        }
        let (_, node) = self.find(id);
        self.caches[node].begin(number);
    }

    fn read(&mut self, id: Id) -> bool {
        let (own, node) = self.find(id);
        let hit = self.caches[node].read(own);
        if self.action == Action::Get {
            let window = &mut self.windows[self.window];
            window.reads += 1;
            window.hits += u64::from(hit);
            let length = Measure::Bytes { size: self.size, overhead: 0 };
            self.note(node, if hit { run::weight(self.stream, length, self.number) } else { 0 });
        }
        hit
    }

    fn insert(&mut self, id: Id, weight: u32) {
        let (own, node) = self.find(id);
        self.caches[node].insert(own, weight);
    }

    fn remove(&mut self, id: Id) -> bool {
        let (own, node) = self.find(id);
        self.caches[node].remove(own)
    }

    fn held(&self) -> u64 {
        self.caches.iter().map(|cache| cache.held()).sum()
    }
}

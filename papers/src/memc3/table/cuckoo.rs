//! The paper's table: two buckets of four slots for each key, and cuckoo paths that are searched first and then walked
//! backwards (sections 3.1 and 3.2).

use super::discipline::{COUNTERS, Discipline};
use super::items::{Huge, Items};
use super::slots::{Geometry, Place, SLOTS, Slots, geometry};
use super::{Found, Key, Table, Writer, hash};
use crate::experiment::Failure;

/// The most displacements of a path.
const DEPTH: usize = 128;

/// Paths that went out of date before a link gives up: a path may come by a slot twice.
const STALE_MAX: u32 = 8;

/// Searches before an insert gives up.
const TRIES: u32 = 8;

/// An entry that moves to its other bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    from: u32,
    slot: u32,
    entry: (u8, u32),
    to: u32,
}

/// A cuckoo table of slots `S`, whose readers and writer get along as `D` says, and that searches `PATHS` paths at once.
#[derive(Debug)]
pub(in crate::memc3) struct Cuckoo<S, D, const PATHS: usize> {
    slots: S,
    geometry: Geometry,
    items: Items,
    discipline: D,
}

impl<S: Slots, D: Discipline, const PATHS: usize> Cuckoo<S, D, PATHS> {
    /// A table of `buckets` buckets, a power of two, with `items` items and `counters` version counters.
    pub(in crate::memc3) fn with(buckets: u32, items: u32, counters: usize) -> Result<Self, Failure> {
        Ok(Self {
            slots: S::new(buckets)?,
            geometry: geometry(buckets),
            items: Items::new::<Huge>(items)?,
            discipline: D::new(counters),
        })
    }

    /// Adds an entry for item `number`, whose key has this hash. False if one search found no slot that could be made free: where the
    /// paper calls its table full.
    #[inline]
    pub(in crate::memc3) fn link(&self, number: u32, hash: u64, writer: &mut Writer) -> bool {
        let place = self.geometry.place(hash);
        self.discipline.alone(|| self.add(place, number) || self.make_room(place, number, writer))
    }

    #[inline]
    fn add(&self, place: Place, number: u32) -> bool {
        for bucket in [place.first, place.second] {
            if let Some(slot) = self.slots.free(bucket) {
                let put = || self.slots.put(bucket, slot, (place.tag, number));
                self.discipline.change([place.first, place.second], put);
                return true;
            }
        }
        false
    }

    #[inline(never)]
    fn make_room(&self, place: Place, number: u32, writer: &mut Writer) -> bool {
        for _ in 0..STALE_MAX {
            let Some((path, length)) = self.search(place, writer) else { return false };
            self.walk(path, length, writer);
            // What was walked of a path that is out of date may have made room, too.
            if self.add(place, number) {
                return true;
            }
        }
        false
    }

    /// Searches all paths at once, each by one displacement in turn, until one ends in a bucket with a free slot. Returns which, and its
    /// length. None ends within [`DEPTH`]: the table is full.
    fn search(&self, place: Place, writer: &mut Writer) -> Option<(usize, usize)> {
        let ends = [place.first, place.second];
        // With one path a coin says where it begins.
        let coin = (writer.rng.next_u64() & 1) as usize;
        let mut at: [u32; PATHS] = std::array::from_fn(|path| ends[(path + coin) % 2]);
        writer.steps.clear();
        for depth in 1..=DEPTH {
            let mut random = writer.rng.next_u64();
            for (path, bucket) in at.iter_mut().enumerate() {
                let slot = (random as u32) % SLOTS;
                random >>= 2;
                let entry = self.slots.entry(&self.items, *bucket, slot)?;
                let to = self.geometry.other(*bucket, entry.0);
                writer.steps.push(Step { from: *bucket, slot, entry, to });
                if self.slots.free(to).is_some() {
                    return Some((path, depth));
                }
                *bucket = to;
            }
        }
        None
    }

    /// Walks a path backwards, as far as it is still there.
    fn walk(&self, path: usize, length: usize, writer: &mut Writer) {
        for depth in (0..length).rev() {
            let step = writer.steps[depth * PATHS + path];
            let is_there = self.slots.entry(&self.items, step.from, step.slot) == Some(step.entry);
            let Some(free) = self.slots.free(step.to).filter(|_| is_there) else { return };
            self.discipline.change([step.from, step.to], || {
                self.slots.put(step.to, free, step.entry);
                self.slots.clear(step.from, step.slot);
            });
            writer.displaced += 1;
        }
    }
}

impl<S: Slots, D: Discipline, const PATHS: usize> Table for Cuckoo<S, D, PATHS> {
    fn new(slots: u32) -> Result<Self, Failure> {
        Self::with(slots / SLOTS, slots, COUNTERS)
    }

    #[inline]
    fn insert(&self, number: u32, key: Key, writer: &mut Writer) -> bool {
        self.items.put(number, key);
        let hash = hash(key);
        (0..TRIES).any(|_| self.link(number, hash, writer))
    }

    #[inline]
    fn find(&self, key: Key) -> Found {
        let place = self.geometry.place(hash(key));
        let look = || self.slots.find(&self.items, place, key);
        let (found, repeats) = self.discipline.read([place.first, place.second], look);
        Found { repeats, ..found }
    }
}

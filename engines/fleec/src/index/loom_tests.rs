//! The list, in every order in which two threads can come to it.

use super::link::Link;
use super::list::{Found, NewBucket, Nodes, Search, Target, Visit, find};
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::hazard::{Hazard, Hazards};
use std::sync::Arc;

const BUCKETS: usize = 2;
const ITEMS: usize = 3;

/// A table of two buckets, the second of which is not there yet, and chunks for three items.
struct World {
    links: [AtomicU64; BUCKETS + ITEMS],
    /// The hash of the item in each chunk, which is its key as well.
    hashes: [AtomicU64; ITEMS],
    values: [AtomicU64; ITEMS],
    buckets: AtomicU64,
    hazards: Arc<Hazards>,
}

/// Places are numbers from 1.
fn place(index: usize) -> Offset {
    Offset::from_units(index as u64 + 1)
}

fn item(number: usize) -> Offset {
    place(BUCKETS + number)
}

fn number_of(at: Offset) -> usize {
    at.units() as usize - 1 - BUCKETS
}

/// Reads the value under a key.
struct Wanted<'w> {
    world: &'w World,
    hash: u64,
}

impl Visit for Wanted<'_> {
    type Taken = u64;

    fn visit(&mut self, at: Offset) -> Option<u64> {
        let number = number_of(at);
        let is_it = self.world.hashes[number].load(Ordering::Relaxed) == self.hash;
        is_it.then(|| self.world.values[number].load(Ordering::Relaxed))
    }
}

struct Seen<'n> {
    world: &'n World,
    /// What this thread has taken off the list.
    retired: Vec<Offset>,
}

impl<'n> Nodes<'n> for Seen<'n> {
    fn link(&self, at: Offset) -> Option<&'n AtomicU64> {
        self.world.links.get((at.units() as usize).wrapping_sub(1))
    }

    fn bucket_at(&self, at: Offset) -> Option<u64> {
        (at.units() <= BUCKETS as u64).then(|| at.units() - 1)
    }

    fn hash_at(&self, at: Offset) -> Option<u64> {
        Some(self.world.hashes[number_of(at)].load(Ordering::Relaxed))
    }

    fn unlinked(&mut self, at: Offset) {
        self.retired.push(at);
    }

    fn left_behind(&mut self) {}
}

impl World {
    /// With these items in bucket 0, in the order in which they belong there.
    fn with(items: &[(usize, u64)]) -> Arc<Self> {
        let zero = |_| AtomicU64::new(0);
        let world = World {
            links: std::array::from_fn(zero),
            hashes: std::array::from_fn(zero),
            values: std::array::from_fn(zero),
            buckets: AtomicU64::new(1),
            hazards: Arc::default(),
        };
        let world = Arc::new(world);
        let mut seen = Seen { world: &world, retired: Vec::new() };
        let hazard = world.hazards.claim();
        world.links[0].store(Link(0).leading_to(Offset::from_units(0)).0, Ordering::Relaxed);
        for (number, hash) in items {
            assert!(world.store(&mut seen, &hazard, *number, *hash, 100 + hash));
        }
        drop(hazard);
        world
    }

    fn search<'h>(&self, hazard: &'h Hazard) -> Search<'h> {
        Search::new(hazard)
    }

    /// Fills a chunk, and puts it on the list unless there is an item with that key. True if it was put there.
    fn store<'n>(
        &'n self,
        seen: &mut Seen<'n>,
        hazard: &Hazard,
        number: usize,
        hash: u64,
        value: u64,
    ) -> bool {
        fence(Ordering::Release);
        self.hashes[number].store(hash, Ordering::Relaxed);
        self.values[number].store(value, Ordering::Relaxed);
        loop {
            let is_it = |at| self.hashes[number_of(at)].load(Ordering::Relaxed) == hash;
            let spot = self.search(hazard).spot(seen, &self.links[0], Target::Item(hash), is_it);
            if spot.node.is_some() {
                return false;
            }
            if spot.insert(item(number), &self.links[BUCKETS + number]) {
                return true;
            }
        }
    }

    /// Removes the item with this key. True if it was us.
    fn remove<'n>(&'n self, seen: &mut Seen<'n>, hazard: &Hazard, hash: u64) -> bool {
        loop {
            let is_it = |at| self.hashes[number_of(at)].load(Ordering::Relaxed) == hash;
            let spot = self.search(hazard).spot(seen, &self.links[0], Target::Item(hash), is_it);
            let Some(node) = spot.node else {
                return false;
            };
            if spot.remove(seen, node) {
                return true;
            }
        }
    }

    /// Fills a chunk, and puts it in place of the item with that key.
    fn replace<'n>(&'n self, seen: &mut Seen<'n>, hazard: &Hazard, number: usize, hash: u64, value: u64) {
        fence(Ordering::Release);
        self.hashes[number].store(hash, Ordering::Relaxed);
        self.values[number].store(value, Ordering::Relaxed);
        loop {
            let is_it = |at| self.hashes[number_of(at)].load(Ordering::Relaxed) == hash;
            let spot = self.search(hazard).spot(seen, &self.links[0], Target::Item(hash), is_it);
            let node = spot.node.expect("no session removes it");
            if spot.replace(seen, node, item(number), &self.links[BUCKETS + number]) {
                return;
            }
        }
    }

    /// What a reader finds under a key, if it was not torn.
    fn value_of(&self, hash: u64) -> Option<Option<u64>> {
        let seen = Seen { world: self, retired: Vec::new() };
        let buckets = self.buckets.load(Ordering::Acquire);
        let bucket = if buckets == 1 { 0 } else { super::order::bucket_of(hash, buckets) };
        let head = &self.links[bucket as usize];
        match find(&seen, head, buckets, &mut Wanted { world: self, hash }) {
            Found::There(value, _) => Some(Some(value)),
            Found::Absent => Some(None),
            Found::Torn(_) => None,
        }
    }

    /// The keys on the list, unmarked, in order.
    fn keys(&self) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut at = Link(self.links[0].load(Ordering::Acquire)).next();
        while at.units() != 0 {
            let link = Link(self.links[at.units() as usize - 1].load(Ordering::Acquire));
            if at.units() > BUCKETS as u64 && !link.is_marked() {
                keys.push(self.hashes[number_of(at)].load(Ordering::Relaxed));
            }
            at = link.next();
        }
        keys
    }

    fn try_add_bucket<'n>(&'n self, seen: &mut Seen<'n>, hazard: &Hazard) -> bool {
        let new = NewBucket { bucket: 1, at: place(1), word: &self.links[1] };
        self.search(hazard).add_bucket(seen, &self.links[0], &new)
    }

    fn add_bucket<'n>(&'n self, seen: &mut Seen<'n>, hazard: &Hazard) {
        while !self.try_add_bucket(seen, hazard) {}
        let _ = self.buckets.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Runs two threads on a world, and tells what each came to and what it has taken off the list.
fn both<A: Send + 'static, B>(
    world: &Arc<World>,
    one: impl for<'n> FnOnce(&'n World, &mut Seen<'n>, &Hazard) -> A + Send + 'static,
    other: impl for<'n> FnOnce(&'n World, &mut Seen<'n>, &Hazard) -> B,
) -> ((A, B), Vec<Offset>) {
    let theirs = world.clone();
    let thread = loom::thread::spawn(move || {
        let mut seen = Seen { world: &theirs, retired: Vec::new() };
        let hazard = theirs.hazards.claim();
        let result = one(&theirs, &mut seen, &hazard);
        (result, seen.retired)
    });
    let mut seen = Seen { world, retired: Vec::new() };
    let hazard = world.hazards.claim();
    let ours = other(world, &mut seen, &hazard);
    drop(hazard);
    let (result, mut retired) = thread.join().unwrap();
    retired.append(&mut seen.retired);
    ((result, ours), retired)
}

#[test]
fn loom_of_two_inserts_of_one_key_one_succeeds() {
    loom::model(|| {
        let world = World::with(&[]);
        let ((one, other), _) = both(
            &world,
            |world, seen, hazard| world.store(seen, hazard, 0, 4, 1),
            |world, seen, hazard| world.store(seen, hazard, 1, 4, 2),
        );
        assert!(one != other);
        assert_eq!(world.keys(), [4]);
    });
}

#[test]
fn loom_what_is_inserted_behind_an_item_that_goes_is_not_lost() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        let ((removed, inserted), mut retired) = both(
            &world,
            |world, seen, hazard| world.remove(seen, hazard, 2),
            |world, seen, hazard| world.store(seen, hazard, 1, 6, 1),
        );
        assert!(removed && inserted);
        assert_eq!(world.keys(), [6]);
        // If it was left on the list, the next session takes it off.
        let mut seen = Seen { world: &world, retired: Vec::new() };
        let hazard = world.hazards.claim();
        world.remove(&mut seen, &hazard, 2);
        retired.append(&mut seen.retired);
        assert_eq!(retired, [item(0)]);
    });
}

#[test]
fn loom_of_a_removal_and_an_eviction_one_takes_the_item_and_it_is_retired_once() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        let ((removed, evicted), mut retired) = both(
            &world,
            |world, seen, hazard| world.remove(seen, hazard, 2),
            |world, seen, hazard| {
                let spot = world.search(hazard).spot(seen, &world.links[0], Target::First, |_| true);
                spot.node.is_some_and(|node| spot.remove(seen, node))
            },
        );
        assert!(removed != evicted);
        let mut seen = Seen { world: &world, retired: Vec::new() };
        let hazard = world.hazards.claim();
        assert!(!world.remove(&mut seen, &hazard, 2));
        retired.append(&mut seen.retired);
        assert_eq!(retired, [item(0)]);
    });
}

#[test]
fn loom_a_key_is_found_while_its_bucket_is_divided() {
    loom::model(|| {
        // 1 goes to the new bucket, 2 stays.
        let world = World::with(&[(0, 2), (1, 1)]);
        both(
            &world,
            |world, seen, hazard| world.add_bucket(seen, hazard),
            |world, _, _| {
                for hash in [1, 2] {
                    let found = world.value_of(hash);
                    assert!(found.is_none_or(|value| value == Some(100 + hash)), "{hash}: {found:?}");
                }
            },
        );
        assert_eq!((world.value_of(1), world.value_of(2)), (Some(Some(101)), Some(Some(102))));
    });
}

#[test]
fn loom_two_divide_a_bucket_while_an_item_comes_in_between() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        both(
            &world,
            |world, seen, hazard| world.add_bucket(seen, hazard),
            |world, seen, hazard| {
                assert!(world.store(seen, hazard, 1, 1, 101));
                world.add_bucket(seen, hazard);
            },
        );
        assert_eq!(world.keys(), [2, 1]);
        assert_eq!((world.value_of(1), world.value_of(2)), (Some(Some(101)), Some(Some(102))));
    });
}

/// A report that a bucket is there may be believed, even if another who has tried the same does not come back to it.
#[test]
fn loom_a_bucket_that_is_there_is_not_on_its_way_any_more() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        let ((one, other), _) = both(
            &world,
            |world, seen, hazard| world.try_add_bucket(seen, hazard),
            |world, seen, hazard| world.try_add_bucket(seen, hazard),
        );
        assert!(one || other);
        assert!(!Link(world.links[1].load(Ordering::Relaxed)).is_linking());
    });
}

#[test]
fn loom_a_key_that_is_stored_anew_is_never_absent() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        both(
            &world,
            |world, seen, hazard| {
                // The second time the reader may have to pass by two that are out of the table.
                world.replace(seen, hazard, 1, 2, 202);
                world.replace(seen, hazard, 2, 2, 302);
            },
            |world, _, _| {
                let found = world.value_of(2);
                assert!(found.is_none_or(|value| value.is_some_and(|value| value % 100 == 2)), "{found:?}");
            },
        );
        assert_eq!(world.value_of(2), Some(Some(302)));
    });
}

#[test]
fn loom_of_two_replacements_the_one_replaces_the_other() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        let (_, mut retired) = both(
            &world,
            |world, seen, hazard| world.replace(seen, hazard, 1, 2, 202),
            |world, seen, hazard| world.replace(seen, hazard, 2, 2, 302),
        );
        assert_eq!(world.keys(), [2]);
        let last = world.value_of(2).flatten().unwrap();
        // The next session takes off what is left.
        let mut seen = Seen { world: &world, retired: Vec::new() };
        let hazard = world.hazards.claim();
        world.search(&hazard).spot(&mut seen, &world.links[0], Target::Item(3), |_| false);
        retired.append(&mut seen.retired);
        retired.sort_unstable();
        assert_eq!(retired, [item(0), item(if last == 202 { 2 } else { 1 })]);
    });
}

#[test]
fn loom_what_is_stored_behind_an_item_that_is_stored_anew_is_not_lost() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        let ((_, inserted), _) = both(
            &world,
            |world, seen, hazard| world.replace(seen, hazard, 1, 2, 202),
            |world, seen, hazard| world.store(seen, hazard, 2, 6, 106),
        );
        assert!(inserted);
        assert_eq!(world.keys(), [2, 6]);
        assert_eq!((world.value_of(2), world.value_of(6)), (Some(Some(202)), Some(Some(106))));
    });
}

/// A chunk is used again while a reader is at it: what the reader believes was stored under the key that it looked for.
#[test]
fn loom_a_reader_believes_nothing_of_a_chunk_that_was_used_again() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        both(
            &world,
            |world, seen, hazard| {
                assert!(world.remove(seen, hazard, 2));
                hazard.clear();
                for at in std::mem::take(&mut seen.retired) {
                    assert!(!world.hazards.is_announced(at.bytes() as u64), "readers announce nothing");
                    assert!(world.store(seen, hazard, number_of(at), 6, 106));
                }
            },
            |world, _, _| {
                for hash in [2, 6] {
                    if let Some(Some(value)) = world.value_of(hash) {
                        assert_eq!(value, 100 + hash);
                    }
                }
            },
        );
    });
}

/// A writer works on an item that another takes out, and whose chunk is used again only when no session has announced it.
#[test]
fn loom_what_a_writer_has_announced_stays_what_it_is() {
    loom::model(|| {
        let world = World::with(&[(0, 2)]);
        both(
            &world,
            |world, seen, hazard| {
                if !world.remove(seen, hazard, 2) {
                    return;
                }
                hazard.clear();
                for at in std::mem::take(&mut seen.retired) {
                    if !world.hazards.is_announced(at.bytes() as u64) {
                        world.values[number_of(at)].store(7, Ordering::Relaxed);
                    }
                }
            },
            |world, seen, hazard| {
                let is_it = |at| world.hashes[number_of(at)].load(Ordering::Relaxed) == 2;
                let spot = world.search(hazard).spot(seen, &world.links[0], Target::Item(2), is_it);
                if let Some(node) = spot.node {
                    assert_eq!(world.values[number_of(node.at)].load(Ordering::Relaxed), 102);
                }
            },
        );
    });
}

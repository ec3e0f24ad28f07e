//! ARC: two lists, of what was read once lately and more than once, and ghosts that teach how long each should be
//! (Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4).
//!
//! With a room in objects it is the paper's algorithm. With one in bytes every length of the paper is a number of bytes,
//! and steps that make place for one page are repeated until there is place.

use super::list::{Links, List};
use super::{Id, Policy, Weights};

/// Where a key is. The first four are the places in `lists`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// T1: held, read once since it came.
    Once,
    /// T2: held, read more often.
    Often,
    /// B1: evicted from `Once`.
    OnceGhost,
    /// B2: evicted from `Often`.
    OftenGhost,
    Nowhere,
}

use Place::{Nowhere, Often, OftenGhost, Once, OnceGhost};

#[derive(Debug)]
pub(crate) struct Arc {
    limit: u64,
    /// p: how much of the room `Once` should have.
    target: f64,
    links: Links,
    lists: [List; 4],
    sums: [u64; 4],
    places: Vec<Place>,
    weights: Weights,
}

impl Arc {
    pub(crate) fn new(limit: u64, keys: usize) -> Self {
        Self {
            limit,
            target: 0.0,
            links: Links::new(keys),
            lists: [List::EMPTY; 4],
            sums: [0; 4],
            places: vec![Nowhere; keys],
            weights: Weights::default(),
        }
    }

    fn sum(&self, place: Place) -> u64 {
        self.sums[place as usize]
    }

    fn take_out(&mut self, id: Id) {
        let place = self.places[id as usize];
        if place != Nowhere {
            self.links.unlink(&mut self.lists[place as usize], id);
            self.sums[place as usize] -= u64::from(self.weights.get(id));
            self.places[id as usize] = Nowhere;
        }
    }

    fn put(&mut self, id: Id, place: Place) {
        self.links.push_front(&mut self.lists[place as usize], id);
        self.sums[place as usize] += u64::from(self.weights.get(id));
        self.places[id as usize] = place;
    }

    /// Forgets the key that has been longest in `place`; false if there is none.
    fn forget_last(&mut self, place: Place) -> bool {
        let last = self.lists[place as usize].back();
        last.map(|id| self.take_out(id)).is_some()
    }

    /// REPLACE: evicts from `Once` or `Often`, whichever is longer than it should be, until `weight` fits.
    fn replace(&mut self, asked: Place, weight: u32) {
        while self.held() + u64::from(weight) > self.limit {
            let once = self.sum(Once) as f64;
            let is_long = once > self.target || (asked == OftenGhost && once == self.target);
            let from_once = self.lists[Once as usize].back().filter(|_| is_long).map(|id| (id, OnceGhost));
            let from_often = || self.lists[Often as usize].back().map(|id| (id, OftenGhost));
            let any = || self.lists[Once as usize].back().map(|id| (id, OnceGhost));
            let Some((id, ghost)) = from_once.or_else(from_often).or_else(any) else { break };
            self.take_out(id);
            self.put(id, ghost);
        }
    }

    /// Makes place for a key of which nothing is known, among what is held and what is remembered: case IV.
    fn make_room(&mut self, weight: u32) {
        let weight = u64::from(weight);
        while self.sum(Once) + self.sum(OnceGhost) + weight > self.limit
            && (self.forget_last(OnceGhost) || self.forget_last(Once))
        {}
        while self.sums.iter().sum::<u64>() + weight > 2 * self.limit && self.forget_last(OftenGhost) {}
    }

    /// Moves the target by as much as a hit in a list of ghosts says: cases II and III.
    fn learn(&mut self, hit: Place, weight: u32) {
        let other = if hit == OnceGhost { OftenGhost } else { OnceGhost };
        let ratio = self.sum(other) as f64 / self.sum(hit).max(1) as f64;
        let step = ratio.max(1.0) * f64::from(weight);
        let moved = if hit == OnceGhost { self.target + step } else { self.target - step };
        self.target = moved.clamp(0.0, self.limit as f64);
    }
}

impl Policy for Arc {
    #[inline]
    fn read(&mut self, id: Id) -> bool {
        let place = self.places[id as usize];
        let is_held = matches!(place, Once | Often);
        if is_held {
            self.take_out(id);
            self.put(id, Often);
        }
        is_held
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if u64::from(weight) > self.limit {
            return;
        }
        let asked = self.places[id as usize];
        if asked == Nowhere {
            self.make_room(weight);
        } else {
            self.learn(asked, weight);
        }
        self.replace(asked, weight);
        self.take_out(id);
        self.weights.set(id, weight);
        self.put(id, if asked == Nowhere { Once } else { Often });
    }

    fn remove(&mut self, id: Id) -> bool {
        let was_held = matches!(self.places[id as usize], Once | Often);
        self.take_out(id);
        was_held
    }

    fn held(&self) -> u64 {
        self.sum(Once) + self.sum(Often)
    }
}

#[cfg(test)]
mod tests {
    use super::Arc;
    use crate::policy::Policy;
    use crate::testing::hits;

    #[test]
    fn ghosts_move_the_target_as_in_the_paper() {
        // T1 and T2 hold two. 0 1: T1 = 1 0. 0 hits: T2 = 0. 2: T1 is longer than p = 0, so 1 becomes a ghost. 1 is a
        // ghost of T1: p = 1, so 0 goes from T2; T2 = 1. 2 hits: T2 = 2 1. 0 is a ghost of T2: p = 0, and as T1 is
        // empty 1 goes. 1 is a ghost of T2: 2 goes; T2 = 1 0. 0 hits.
        assert_eq!(hits(Arc::new(2, 3), &[0, 1, 0, 2, 1, 2, 0, 1, 0]), [0, 0, 1, 0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn what_is_read_twice_outlives_a_scan() {
        let warm = [0, 1, 2, 3, 0, 1, 2, 3];
        let ids: Vec<u32> = warm.into_iter().chain(10..100).chain(0..4).collect();
        assert_eq!(hits(Arc::new(10, 100), &ids)[98..], [1, 1, 1, 1]);
    }

    #[test]
    fn no_more_is_held_than_fits_nor_remembered_than_twice_that() {
        let mut arc = Arc::new(50, 200);
        for number in 0..20_000_u32 {
            let id = number.wrapping_mul(2_654_435_761) >> 16 & 127;
            if !arc.read(id) {
                arc.insert(id, 1 + id % 9);
            }
            if number % 11 == 0 {
                arc.remove(id);
            }
            assert!(arc.held() <= 50 && arc.sums.iter().sum::<u64>() <= 100, "{:?}", arc.sums);
        }
    }
}

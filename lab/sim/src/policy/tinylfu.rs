//! W-TinyLFU: a small LRU window, behind which a key is admitted to the main part only if it was asked for more often
//! lately than the one that would have to go (Einziger, Friedman and Manes, "TinyLFU: a highly efficient cache admission
//! policy", ACM Transactions on Storage 13(4), 2017, section 4).
//!
//! The main part is a segmented LRU with four fifths protected, and how often a key was requested is estimated by a sketch of
//! four rows of 4-bit counters, without the doorkeeper. The window begins as one hundredth and finds its size by climbing
//! (Einziger, Eytan, Friedman and Manes, "Adaptive software cache management", Middleware 2018, section 3.1), unless a
//! size is given.

mod climber;
mod sketch;

use climber::Climber;
use sketch::Sketch;

use super::list::{Links, List};
use super::{Id, Policy, Weights};

/// Where a key is held; the number of its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    InWindow,
    Probation,
    Protected,
    Nowhere,
}

use Place::{InWindow, Nowhere, Probation, Protected};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Window {
    /// A share of the room, in percent.
    Percent(u64),
    /// As large as turns out to be good.
    Adaptive,
}

/// What an adaptive window begins with, percent.
const WINDOW_FIRST: u64 = 1;

/// A window, a segmented main part, and the sketch between them.
#[derive(Debug)]
pub(crate) struct TinyLfu {
    limit: u64,
    climber: Option<Climber>,
    window_limit: u64,
    main_limit: u64,
    protected_limit: u64,
    sketch: Sketch,
    links: Links,
    lists: [List; 3],
    sums: [u64; 3],
    places: Vec<Place>,
    weights: Weights,
}

impl TinyLfu {
    /// `entries` is about how many objects will be held; the sketch is sized for them.
    pub(crate) fn new(limit: u64, keys: usize, entries: usize, window: Window) -> Self {
        let (percent, climber) = match window {
            Window::Percent(percent) => (percent, None),
            Window::Adaptive => (WINDOW_FIRST, Some(Climber::new(limit, entries))),
        };
        let mut cache = Self {
            limit,
            climber,
            window_limit: 0,
            main_limit: 0,
            protected_limit: 0,
            sketch: Sketch::new(entries),
            links: Links::new(keys),
            lists: [List::EMPTY; 3],
            sums: [0; 3],
            places: vec![Nowhere; keys],
            weights: Weights::default(),
        };
        cache.set_limits((limit * percent / 100).max(1));
        cache
    }

    fn set_limits(&mut self, window_limit: u64) {
        self.window_limit = window_limit;
        self.main_limit = self.limit.saturating_sub(window_limit);
        self.protected_limit = self.main_limit / 5 * 4 + self.main_limit % 5 * 4 / 5;
    }

    fn main_sum(&self) -> u64 {
        self.sums[Probation as usize] + self.sums[Protected as usize]
    }

    /// Gives the window another size. What a part has no room for any more goes to the other, without a contest.
    fn resize_window(&mut self, window_limit: u64) {
        self.set_limits(window_limit);
        while self.sums[InWindow as usize] > self.window_limit {
            let Some(last) = self.last(InWindow) else { break };
            self.put(last, Probation);
        }
        self.shrink_protected();
        while self.main_sum() > self.main_limit {
            let Some(last) = self.last(Probation).or_else(|| self.last(Protected)) else { break };
            self.take_out(last);
            if self.sums[InWindow as usize] + u64::from(self.weights.get(last)) <= self.window_limit {
                self.put(last, InWindow);
            }
        }
    }

    /// Tells the climber of a request, and does what it says.
    #[inline]
    fn climb(&mut self, hit: bool) {
        let wanted = self.climber.as_mut().and_then(|climber| climber.note(hit, self.window_limit));
        if let Some(window_limit) = wanted {
            self.resize_window(window_limit);
        }
    }

    /// Whether it was in a list.
    fn take_out(&mut self, id: Id) -> bool {
        let place = self.places[id as usize];
        if place != Nowhere {
            self.links.unlink(&mut self.lists[place as usize], id);
            self.sums[place as usize] -= u64::from(self.weights.get(id));
            self.places[id as usize] = Nowhere;
        }
        place != Nowhere
    }

    fn put(&mut self, id: Id, place: Place) {
        self.take_out(id);
        self.links.push_front(&mut self.lists[place as usize], id);
        self.sums[place as usize] += u64::from(self.weights.get(id));
        self.places[id as usize] = place;
    }

    fn last(&self, place: Place) -> Option<Id> {
        self.lists[place as usize].back()
    }

    /// Moves a key that was read to where it is safer, and others out of its way.
    fn protect(&mut self, id: Id) {
        self.put(id, Protected);
        self.shrink_protected();
    }

    fn shrink_protected(&mut self) {
        while self.sums[Protected as usize] > self.protected_limit {
            let Some(last) = self.last(Protected) else { break };
            self.put(last, Probation);
        }
    }

    /// Stores a key that left the window in the main part, if it is worth more than each that has to go for it.
    fn admit(&mut self, candidate: Id, weight: u32) {
        let worth = self.sketch.count(candidate);
        while self.main_sum() + u64::from(weight) > self.main_limit {
            let victim = self.last(Probation).or_else(|| self.last(Protected));
            match victim.filter(|&victim| worth > self.sketch.count(victim)) {
                Some(victim) => {
                    self.take_out(victim);
                }
                None => return,
            }
        }
        self.weights.set(candidate, weight);
        self.put(candidate, Probation);
    }
}

impl Policy for TinyLfu {
    #[inline]
    fn read(&mut self, id: Id) -> bool {
        self.sketch.note(id);
        self.climb(self.places[id as usize] != Nowhere);
        match self.places[id as usize] {
            Nowhere => return false,
            InWindow => self.links.move_to_front(&mut self.lists[InWindow as usize], id),
            Protected => self.links.move_to_front(&mut self.lists[Protected as usize], id),
            Probation => self.protect(id),
        }
        true
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if u64::from(weight) > self.window_limit {
            if u64::from(weight) <= self.main_limit {
                self.admit(id, weight);
            }
            return;
        }
        self.weights.set(id, weight);
        self.put(id, InWindow);
        while self.sums[InWindow as usize] > self.window_limit {
            let Some(candidate) = self.last(InWindow) else { break };
            let weight = self.weights.get(candidate);
            self.take_out(candidate);
            self.admit(candidate, weight);
        }
    }

    fn remove(&mut self, id: Id) -> bool {
        self.take_out(id)
    }

    fn held(&self) -> u64 {
        self.sums.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{TinyLfu, Window};
    use crate::policy::Policy;
    use crate::testing::hits;

    #[test]
    fn only_what_is_asked_for_more_often_is_admitted() {
        // A window of one and two behind it. 0 1 2: 0 and 1 have gone to probation. 3 pushes 2 out of the window, which
        // is worth no more than 0: it is gone. 2 is in the window again, 3 gone. 4 pushes out 2, which was asked for
        // twice: 0 goes for it. 2 hits; 0 misses; 1, asked for once before, hits.
        let ids = [0, 1, 2, 3, 2, 4, 2, 0, 1];
        assert_eq!(hits(TinyLfu::new(3, 5, 64, Window::Percent(1)), &ids), [0, 0, 0, 0, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn what_is_asked_for_often_outlives_a_scan() {
        let warm = (0..5).map(|number| number % 5);
        let ids: Vec<u32> = warm.clone().chain(warm.clone()).chain(warm).chain(10..100).chain(0..5).collect();
        let hits = hits(TinyLfu::new(20, 100, 20, Window::Percent(1)), &ids);
        assert_eq!(hits[hits.len() - 5..], [1; 5]);
    }

    #[test]
    fn a_window_adapts_to_requests_that_repeat_soon() {
        // Each key is asked for four times in ten requests and then never again: only a large window holds any of them,
        // since keys of the main part are as frequent.
        let soon = |number: u32| number / 40 * 10 + number % 10;
        let ids: Vec<u32> = (0..200_000).map(|number| soon(number) + number / 3 % 7).collect();
        let told = |window| {
            hits(TinyLfu::new(100, 60_000, 100, window), &ids).iter().map(|&hit| u64::from(hit)).sum()
        };
        let (fixed, adaptive): (u64, u64) = (told(Window::Percent(1)), told(Window::Adaptive));
        assert!(adaptive > fixed + 1_000, "{adaptive} hits, and {fixed} with a fixed window");
    }

    #[test]
    fn no_more_is_held_than_fits() {
        for window in [Window::Percent(10), Window::Adaptive] {
            let mut cache = TinyLfu::new(60, 200, 10, window);
            for number in 0..20_000_u32 {
                let id = number.wrapping_mul(2_654_435_761) >> 16 & 127;
                if !cache.read(id) {
                    cache.insert(id, 1 + id % 9);
                }
                if number % 11 == 0 {
                    cache.remove(id);
                }
                assert!(cache.held() <= 60 && cache.sums[super::Protected as usize] <= cache.protected_limit);
                assert!(cache.main_sum() <= cache.main_limit);
            }
        }
    }
}

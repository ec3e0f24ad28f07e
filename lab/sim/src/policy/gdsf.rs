//! GDSF: what is short and read often stays (Cherkasova, "Improving WWW proxies performance with
//! Greedy-Dual-Size-Frequency caching policy", HP Labs technical report HPL-98-69R1, 1998, section 3).
//!
//! The priority of a key is `age + uses × worth ÷ size`. The key with the lowest priority goes, and
//! its priority is the age of those that are used from then on.

use std::collections::BTreeSet;

use super::{Id, Policy, Room};

/// What a hit is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// The same for all keys: few reads miss.
    Objects,
    /// The bytes of the key's object: few bytes are missed. That is LFU with dynamic aging.
    Bytes,
}

/// Keys by priority.
#[derive(Debug)]
pub(crate) struct Gdsf {
    room: Room,
    worth: Worth,
    /// The priority of the last victim.
    age: f64,
    /// The priority of each key that is held, 0 of others.
    priorities: Vec<f64>,
    uses: Vec<u32>,
    /// The bits of each priority, and its key: positive numbers are in the order of their bits.
    order: BTreeSet<(u64, Id)>,
}

impl Gdsf {
    pub(crate) fn new(limit: u64, keys: usize, worth: Worth) -> Self {
        Self {
            room: Room::new(limit),
            worth,
            age: 0.0,
            priorities: vec![0.0; keys],
            uses: vec![0; keys],
            order: BTreeSet::new(),
        }
    }

    fn is_held(&self, id: Id) -> bool {
        self.priorities[id as usize] > 0.0
    }

    /// One more use of a key, which gets the priority that follows from it.
    fn rank(&mut self, id: Id) {
        let index = id as usize;
        self.uses[index] += 1;
        let uses = f64::from(self.uses[index]);
        let worth = match self.worth {
            Worth::Objects => uses / f64::from(self.room.weight(id).max(1)),
            Worth::Bytes => uses,
        };
        self.priorities[index] = self.age + worth;
        self.order.insert((self.priorities[index].to_bits(), id));
    }

    fn take_out(&mut self, id: Id) {
        let priority = std::mem::take(&mut self.priorities[id as usize]);
        self.order.remove(&(priority.to_bits(), id));
    }

    fn forget(&mut self, id: Id) {
        self.take_out(id);
        self.uses[id as usize] = 0;
        self.room.give_back(id);
    }
}

impl Policy for Gdsf {
    fn read(&mut self, id: Id) -> bool {
        let is_held = self.is_held(id);
        if is_held {
            self.take_out(id);
            self.rank(id);
        }
        is_held
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if !self.room.admits(weight) {
            return;
        }
        while !self.room.fits(weight) {
            let Some(&(priority, victim)) = self.order.first() else { break };
            self.age = f64::from_bits(priority);
            self.forget(victim);
        }
        self.room.take(id, weight);
        self.rank(id);
    }

    fn remove(&mut self, id: Id) -> bool {
        let was_held = self.is_held(id);
        if was_held {
            self.forget(id);
        }
        was_held
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use super::{Gdsf, Worth};
    use crate::policy::Policy;
    use crate::testing::hits;

    #[test]
    fn what_is_used_least_often_goes_and_what_went_makes_others_old() {
        // The age is the priority of the last victim: 1 goes with 1, 2 with 2, and 0, which has 3, after those.
        let asked = [0, 0, 0, 1, 2, 1, 2, 0];
        assert_eq!(hits(Gdsf::new(2, 3, Worth::Objects), &asked), [0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(hits(Gdsf::new(2, 3, Worth::Objects), &[0, 0, 0, 1, 2, 0]), [0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn the_long_goes_first_unless_bytes_count() {
        for (worth, expected) in [(Worth::Objects, [false, true]), (Worth::Bytes, [true, false])] {
            let mut gdsf = Gdsf::new(10, 3, worth);
            gdsf.insert(0, 6);
            gdsf.insert(1, 2);
            assert!(gdsf.read(0));
            gdsf.insert(2, 3);
            assert_eq!([gdsf.read(0), gdsf.read(1)], expected, "{worth:?}");
        }
    }

    #[test]
    fn what_cannot_fit_is_not_stored_and_what_is_removed_has_no_uses() {
        let mut gdsf = Gdsf::new(10, 2, Worth::Objects);
        gdsf.insert(0, 11);
        assert_eq!((gdsf.read(0), gdsf.held()), (false, 0));
        gdsf.insert(1, 4);
        assert!(gdsf.remove(1) && !gdsf.remove(1));
        assert_eq!(gdsf.held(), 0);
    }
}

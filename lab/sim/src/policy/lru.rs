//! LRU: what has not been read for the longest time goes (Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques
//! for storage hierarchies", IBM Systems Journal 9(2), 1970, section on stack algorithms).

use super::list::{Links, List};
use super::{Id, Policy, Room};

/// A list in the order of the last reads.
#[derive(Debug)]
pub(crate) struct Lru {
    room: Room,
    links: Links,
    list: List,
    held: Vec<bool>,
}

impl Lru {
    pub(crate) fn new(limit: u64, keys: usize) -> Self {
        Self { room: Room::new(limit), links: Links::new(keys), list: List::EMPTY, held: vec![false; keys] }
    }
}

impl Policy for Lru {
    #[inline]
    fn read(&mut self, id: Id) -> bool {
        if !self.held[id as usize] {
            return false;
        }
        self.links.move_to_front(&mut self.list, id);
        true
    }

    #[inline]
    fn insert(&mut self, id: Id, weight: u32) {
        if !self.room.admits(weight) {
            return;
        }
        while !self.room.fits(weight) {
            let Some(victim) = self.links.pop_back(&mut self.list) else { break };
            self.held[victim as usize] = false;
            self.room.give_back(victim);
        }
        self.room.take(id, weight);
        self.held[id as usize] = true;
        self.links.push_front(&mut self.list, id);
    }

    fn remove(&mut self, id: Id) -> bool {
        let was_held = std::mem::take(&mut self.held[id as usize]);
        if was_held {
            self.links.unlink(&mut self.list, id);
            self.room.give_back(id);
        }
        was_held
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;
    use crate::policy::Policy;
    use crate::testing::hits;

    #[test]
    fn the_least_recently_read_goes() {
        // 0 1 2 fill it, 0 is read, 3 takes the place of 1, 0 is still there, 1 is not and takes the place of 2.
        assert_eq!(hits(Lru::new(3, 4), &[0, 1, 2, 0, 3, 0, 1, 3, 2]), [0, 0, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn as_many_go_as_the_room_needs_and_what_cannot_fit_is_not_stored() {
        let mut lru = Lru::new(10, 4);
        lru.insert(0, 4);
        lru.insert(1, 4);
        lru.insert(2, 6);
        assert_eq!((lru.read(0), lru.read(1), lru.read(2), lru.held()), (false, true, true, 10));
        lru.insert(3, 11);
        assert_eq!((lru.read(3), lru.held()), (false, 10), "nothing was evicted in vain");
        lru.remove(1);
        lru.remove(1);
        assert_eq!(lru.held(), 6);
    }
}

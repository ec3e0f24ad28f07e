//! Doubly linked lists over arrays: every key has one pair of links and is in at most one list.

use super::Id;

/// No key: the end of a list.
pub(crate) const NONE: Id = Id::MAX;

#[derive(Debug, Clone)]
pub(crate) struct Links {
    /// Towards the front and towards the back.
    pairs: Vec<[Id; 2]>,
}

/// One list: what was put in last is at the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    front: Id,
    back: Id,
}

impl List {
    pub(crate) const EMPTY: List = List { front: NONE, back: NONE };

    /// The key that was put in first.
    pub(crate) fn back(&self) -> Option<Id> {
        (self.back != NONE).then_some(self.back)
    }
}

impl Links {
    pub(crate) fn new(keys: usize) -> Self {
        Self { pairs: vec![[NONE; 2]; keys] }
    }

    /// Puts `id`, which is in no list, at the front.
    #[inline]
    pub(crate) fn push_front(&mut self, list: &mut List, id: Id) {
        self.pairs[id as usize] = [NONE, list.front];
        match list.front {
            NONE => list.back = id,
            old => self.pairs[old as usize][0] = id,
        }
        list.front = id;
    }

    /// Takes `id` out of `list`, which it is in.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, id: Id) {
        let [before, after] = self.pairs[id as usize];
        match before {
            NONE => list.front = after,
            other => self.pairs[other as usize][1] = after,
        }
        match after {
            NONE => list.back = before,
            other => self.pairs[other as usize][0] = before,
        }
    }

    /// Moves `id`, which is in `list`, to its front.
    #[inline]
    pub(crate) fn move_to_front(&mut self, list: &mut List, id: Id) {
        if list.front != id {
            self.unlink(list, id);
            self.push_front(list, id);
        }
    }

    /// Takes the key at the back out.
    #[inline]
    pub(crate) fn pop_back(&mut self, list: &mut List) -> Option<Id> {
        let id = list.back()?;
        self.unlink(list, id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Links, List};

    #[test]
    fn keys_leave_in_the_order_in_which_they_came_or_were_moved() {
        let mut links = Links::new(4);
        let mut list = List::EMPTY;
        (0..4).for_each(|id| links.push_front(&mut list, id));
        links.move_to_front(&mut list, 1);
        links.move_to_front(&mut list, 1);
        links.unlink(&mut list, 2);
        let order: Vec<u32> = std::iter::from_fn(|| links.pop_back(&mut list)).collect();
        assert_eq!(order, [0, 3, 1]);
        assert_eq!(list, List::EMPTY);
    }
}

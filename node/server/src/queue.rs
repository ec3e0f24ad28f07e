//! Who has another turn.

use std::collections::VecDeque;

/// Connections, by their places, that have more to do. Each is in it once at most: a socket tells of more input while its connection is
/// queued, and one that was queued anew each time would have more and more turns between two of anybody else.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    order: VecDeque<usize>,
    /// By place.
    queued: Vec<bool>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it has a turn anyway.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.queued.get(place).is_some_and(|queued| *queued)
    }

    /// It has another turn, after those who wait for theirs.
    pub(crate) fn push(&mut self, place: usize) {
        if self.queued.len() <= place {
            self.queued.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.queued[place], true) {
            self.order.push_back(place);
        }
    }

    /// Who is next.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let place = self.order.pop_front()?;
        self.queued[place] = false;
        Some(place)
    }

    /// Its place is free for somebody else.
    pub(crate) fn forget(&mut self, place: usize) {
        if self.has(place) {
            self.queued[place] = false;
            self.order.retain(|queued| *queued != place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_queued_twice() {
        let mut queue = Queue::default();
        for place in [3, 0, 3, 0, 3] {
            queue.push(place);
        }
        assert!(queue.len() == 2 && queue.has(3) && !queue.has(7));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(3), Some(0), None));
        assert!(queue.is_empty());
        queue.push(3);
        assert_eq!(queue.pop(), Some(3), "it may come back");
    }

    #[test]
    fn who_comes_to_a_place_next_inherits_no_turn() {
        let mut queue = Queue::default();
        queue.push(1);
        queue.push(2);
        queue.forget(1);
        queue.forget(5);
        queue.push(1);
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(2), Some(1), None));
    }
}

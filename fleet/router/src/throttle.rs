//! A limit of requests that are under way: beyond it nothing more is read of clients.

use crate::ticket::Ticket;
use guira_serving::ReplyTo;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    most: usize,
    /// Clients that wait at most: others are refused.
    most_waiting: usize,
    /// Each has a call, in a slot that keeps it from being read.
    waiting: VecDeque<(Ticket, ReplyTo)>,
    /// Clients that may continue in this round, with one request each: no other client takes their room.
    released: Vec<ReplyTo>,
}

impl Throttle {
    pub(crate) fn new(most: usize, most_waiting: usize) -> Self {
        Throttle { most, most_waiting, waiting: VecDeque::new(), released: Vec::new() }
    }

    /// How many more requests there may be than these, among which those who wait are not meant.
    pub(crate) fn room(&self, calls: usize) -> usize {
        self.most.saturating_sub(calls - self.waiting.len() + self.released.len())
    }

    /// Whether there is room for a client that has waited.
    pub(crate) fn is_released(&mut self, client: ReplyTo) -> bool {
        let place = self.released.iter().position(|released| *released == client);
        place.map(|place| self.released.swap_remove(place)).is_some()
    }

    pub(crate) fn may_wait(&self) -> bool {
        self.waiting.len() < self.most_waiting
    }

    pub(crate) fn hold(&mut self, ticket: Ticket, client: ReplyTo) {
        self.waiting.push_back((ticket, client));
    }

    /// The clients that were released in the round before had their turn, or are gone.
    pub(crate) fn begin_release(&mut self) {
        self.released.clear();
    }

    /// Releases the client that has waited longest, if there is room for it.
    pub(crate) fn release(&mut self, calls: usize) -> Option<Ticket> {
        if self.waiting.is_empty() || self.room(calls) == 0 {
            return None;
        }
        let (ticket, client) = self.waiting.pop_front()?;
        self.released.push(client);
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: i32) -> ReplyTo {
        ReplyTo::elsewhere(-number)
    }

    #[test]
    fn who_has_waited_longest_goes_on_and_nobody_takes_its_room() {
        let mut throttle = Throttle::new(2, 3);
        for (call, number) in (0..).zip(1..=3) {
            assert!(throttle.may_wait());
            throttle.hold(Ticket { call, part: 0 }, client(number));
        }
        assert!(!throttle.may_wait());
        // Two are under way, and then one.
        assert_eq!((throttle.room(5), throttle.release(5)), (0, None));
        throttle.begin_release();
        assert_eq!(throttle.release(4).map(|ticket| ticket.call), Some(0));
        assert_eq!((throttle.room(3), throttle.release(3)), (0, None));
        assert!(!throttle.is_released(client(2)) && throttle.is_released(client(1)));
        assert!(!throttle.is_released(client(1)));
        assert_eq!(throttle.room(4), 0, "it has asked again");
        // One that is gone leaves its room to others in the next round.
        assert_eq!(throttle.release(3).map(|ticket| ticket.call), Some(1));
        throttle.begin_release();
        assert_eq!(throttle.release(2).map(|ticket| ticket.call), Some(2));
        assert_eq!(throttle.room(1), 0);
        throttle.begin_release();
        assert_eq!(throttle.room(0), 2);
    }
}

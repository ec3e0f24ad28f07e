//! Outboxes that were sent to their end, for the next ones.

use super::Outbox;
use guira_memory::ValuePin;

/// So many are kept …
const SPARES_MAX: usize = 64;
/// … of those that hold no more than this.
pub(super) const SPARE_BYTES: usize = 16 << 10;

/// Outboxes of connections that wait for replies are made and given back all the time: the memory of those given back is used again.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "they go to connections, which have a pointer for them")]
pub(crate) struct Spares<P>(Vec<Box<Outbox<P>>>);

impl<P> Default for Spares<P> {
    fn default() -> Self {
        Spares(Vec::new())
    }
}

impl<P: ValuePin> Spares<P> {
    /// Takes what was not sent into an outbox of its own, and leaves `outbox` empty.
    pub(crate) fn take_rest(&mut self, outbox: &mut Outbox<P>) -> Box<Outbox<P>> {
        let mut taken = self.0.pop().unwrap_or_else(|| Box::new(Outbox::with_capacity(0)));
        outbox.move_rest(&mut taken);
        taken
    }

    pub(crate) fn give_back(&mut self, outbox: Box<Outbox<P>>) {
        let is_small = outbox.buffer.capacity() + outbox.slots.holding() <= 2 * SPARE_BYTES;
        if is_small && outbox.is_empty() && self.0.len() < SPARES_MAX {
            self.0.push(outbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::tests::{TwoPieces, pair, read};
    use guira_protocol::Replies;

    #[test]
    fn an_outbox_that_was_given_back_is_used_again_and_slots_have_other_numbers() {
        let (mut stream, mut client) = pair();
        let mut spares = Spares::default();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let mut seen = Vec::new();
        for round in 0..3 {
            outbox.buffer().put(b"<");
            let slot = outbox.defer();
            assert!(!seen.contains(&slot), "{slot:?}");
            seen.push(slot);
            outbox.buffer().put(b">");
            let mut taken = spares.take_rest(&mut outbox);
            assert!(outbox.is_empty() && spares.0.is_empty(), "round {round}");
            let replies = [(slot, b"reply".as_slice())];
            taken.fill_bytes(replies.into_iter(), 5, |bytes, out| out.extend_from_slice(bytes));
            while taken.send(&mut stream, usize::MAX).unwrap().0 != super::super::Sent::All {}
            assert_eq!(read(&mut client, 7), b"<reply>");
            spares.give_back(taken);
            assert_eq!(spares.0.len(), 1);
        }
    }

    #[test]
    fn large_ones_and_those_that_are_not_empty_are_not_kept() {
        let mut spares = Spares::<TwoPieces>::default();
        spares.give_back(Box::new(Outbox::with_capacity(1 << 20)));
        spares.give_back(Box::new(Outbox::of(b"unsent")));
        assert!(spares.0.is_empty());
        for _ in 0..2 * SPARES_MAX {
            spares.give_back(Box::new(Outbox::with_capacity(0)));
        }
        assert_eq!(spares.0.len(), SPARES_MAX);
    }
}

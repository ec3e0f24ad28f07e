//! The word that leads from one node of a list to the next.
//!
//! ```text
//!  63    42  41        40       39                   0
//! | changes | linking | marked | place, in units of 8 |
//! ```
//!
//! - **marked** (Harris, "A pragmatic implementation of non-blocking linked-lists", DISC 2001): the node that the word belongs to is no
//!   longer in the table. The word stays as it is until the node's chunk is reused.
//! - **linking**: the word belongs to a bucket that is being inserted into the list ([`super::table`]).
//! - **changes**: how often the word has changed, modulo 2^22, so that everything read of a node while its word stayed the same belongs together. A reader
//!   is wrong about that only if it is suspended while one word changes 4,194,304 times, or a multiple of that, and ends with the same place; or while
//!   the count restarts, because a page was given back or changed its class, and reaches the very same word again.

use guira_memory::Offset;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) u64);

const PLACE_BITS: u32 = 40;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
const MARKED: u64 = 1 << PLACE_BITS;
const LINKING: u64 = 1 << (PLACE_BITS + 1);
const CHANGE: u64 = 1 << (PLACE_BITS + 2);

impl Link {
    /// Where it leads. Place 0 is the end of the list.
    #[inline(always)]
    pub(crate) fn next(self) -> Offset {
        Offset::from_units(self.0 & PLACE)
    }

    /// Whether its node is out of the table.
    #[inline(always)]
    pub(crate) fn is_marked(self) -> bool {
        self.0 & MARKED != 0
    }

    /// Whether its bucket is being inserted into the list.
    #[inline(always)]
    pub(crate) fn is_linking(self) -> bool {
        self.0 & LINKING != 0
    }

    /// Whether it lies in memory that was never used.
    pub(crate) fn is_blank(self) -> bool {
        self.0 == 0
    }

    /// The successor of this link, unmarked, that leads to `next`.
    #[inline(always)]
    #[must_use]
    pub(crate) fn leading_to(self, next: Offset) -> Self {
        Link((self.0 & !(CHANGE - 1)).wrapping_add(CHANGE) | next.units())
    }

    /// The successor, marked: its node is out of the table, and a traversal continues at `next`.
    #[inline(always)]
    #[must_use]
    pub(crate) fn marked_leading_to(self, next: Offset) -> Self {
        Link(self.leading_to(next).0 | MARKED)
    }

    /// The successor, of a bucket that is being inserted into the list.
    #[must_use]
    pub(crate) fn linking_to(self, next: Offset) -> Self {
        Link(self.leading_to(next).0 | LINKING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_tells_where_it_leads_and_never_repeats_itself_soon() {
        let place = Offset::from_bytes((1 << 43) - 8);
        let first = Link(0).leading_to(place);
        assert_eq!((first.next(), first.is_marked(), first.is_linking()), (place, false, false));
        let marked = first.marked_leading_to(Offset::from_bytes(64));
        assert_eq!((marked.next(), marked.is_marked()), (Offset::from_bytes(64), true));
        let mut link = marked;
        for _ in 0..(1 << 22) - 2 {
            link = link.leading_to(place);
            assert_ne!(link, first);
        }
        assert_eq!(link.leading_to(place), first, "after 4,194,304 changes");
    }
}

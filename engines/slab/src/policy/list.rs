//! Doubly linked lists of chunks, which know about when each part of them was pushed.

use super::bits::Bits;
use super::marks::Marks;
use super::{Chunk, Chunks, Lately, Side};

/// How many chunks in use a search for one victim passes before it takes what it is at, so that it ends soon when all are in use.
pub(super) const PATIENCE: u32 = 1024;

/// The link of a chunk that is in no list …
const UNLINKED: u32 = 0;
/// … and the one at an end. Others are the number of a chunk, and one more.
const END: u32 = u32::MAX;

/// A list, from the newest to the oldest. A chunk is in one list at a time, of all that share its notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    newest: Option<Chunk>,
    oldest: Option<Chunk>,
    length: u32,
    marks: Marks,
}

fn link(chunk: Option<Chunk>) -> u32 {
    chunk.map_or(END, |chunk| chunk + 1)
}

fn linked(link: u32) -> Option<Chunk> {
    (link != END).then(|| link - 1)
}

/// Whether `chunk` is in a list.
pub(super) fn is_linked(chunks: &impl Chunks, chunk: Chunk) -> bool {
    chunks.link(chunk, Side::Newer) != UNLINKED
}

impl List {
    /// How many chunks are in it.
    pub(super) fn len(&self) -> u32 {
        self.length
    }

    pub(super) fn oldest(&self) -> Option<Chunk> {
        self.oldest
    }

    /// The one that is next newer than `chunk`, which is in the list.
    pub(super) fn newer(&self, chunks: &impl Chunks, chunk: Chunk) -> Option<Chunk> {
        linked(chunks.link(chunk, Side::Newer))
    }

    /// About when the oldest was pushed: not later, and earlier by at most a few hundredths of its age. `None` if the list is empty.
    pub(super) fn since(&self) -> Option<u32> {
        self.marks.first()
    }

    /// A hand comes by `chunk`. If it comes to another part of the list: since when that part was left alone.
    pub(super) fn pass(&mut self, chunk: Chunk, tick: u32) -> Option<u32> {
        self.marks.pass(chunk, tick)
    }

    /// Puts `chunk`, which is in no list, at the front.
    pub(super) fn push(&mut self, chunks: &impl Chunks, chunk: Chunk, tick: u32) {
        chunks.set_link(chunk, Side::Newer, END);
        chunks.set_link(chunk, Side::Older, link(self.newest));
        match self.newest {
            Some(newest) => chunks.set_link(newest, Side::Newer, link(Some(chunk))),
            None => self.oldest = Some(chunk),
        }
        self.newest = Some(chunk);
        self.length += 1;
        self.marks.pushed(chunk, tick);
    }

    /// Takes `chunk`, which is in this list, out of it.
    pub(super) fn remove(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        let (newer, older) = (chunks.link(chunk, Side::Newer), chunks.link(chunk, Side::Older));
        match linked(newer) {
            Some(neighbour) => chunks.set_link(neighbour, Side::Older, older),
            None => self.newest = linked(older),
        }
        match linked(older) {
            Some(neighbour) => chunks.set_link(neighbour, Side::Newer, newer),
            None => self.oldest = linked(newer),
        }
        chunks.set_link(chunk, Side::Newer, UNLINKED);
        chunks.set_link(chunk, Side::Older, UNLINKED);
        self.length -= 1;
        self.marks.removed(chunk, linked(newer));
    }

    pub(super) fn pop(&mut self, chunks: &impl Chunks) -> Option<Chunk> {
        let oldest = self.oldest?;
        self.remove(chunks, oldest);
        Some(oldest)
    }
}

/// See [`super::Order::newest`]; of an order that has these lists.
pub(super) fn newest<'a>(
    lists: impl IntoIterator<Item = &'a List>,
    chunks: &impl Chunks,
    among: &[Chunk],
    lately: Lately,
) -> Vec<(u32, Chunk)> {
    let mut found = Vec::new();
    for list in lists {
        let older = |chunk: &Chunk| linked(chunks.link(*chunk, Side::Older));
        let pushed = std::iter::successors(list.newest, older).take(lately.most);
        let end = list.marks.last_before(lately);
        for (rank, chunk) in (0..).zip(pushed) {
            if Some(chunk) == end {
                break;
            }
            if among.binary_search(&chunk).is_ok() {
                found.push((rank, chunk));
            }
        }
    }
    found
}

/// The newest part of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    members: Bits,
    oldest: Option<Chunk>,
    length: u32,
}

impl Newest {
    /// `chunk` was pushed to the list. Those that are now too old for the newest `percent` of the list are passed to `leave`.
    pub(super) fn pushed(
        &mut self,
        chunks: &impl Chunks,
        list: &List,
        chunk: Chunk,
        percent: u32,
        mut leave: impl FnMut(Chunk),
    ) {
        self.members.insert(chunk);
        self.oldest.get_or_insert(chunk);
        self.length += 1;
        while u64::from(self.length) * 100 > u64::from(list.len()) * u64::from(percent) {
            let Some(oldest) = self.oldest else { return };
            self.removed(chunks, list, oldest);
            leave(oldest);
        }
    }

    /// `chunk` is about to be removed from the list.
    pub(super) fn removed(&mut self, chunks: &impl Chunks, list: &List, chunk: Chunk) {
        if self.length == 0 || !self.members.remove(chunk) {
            return;
        }
        self.length -= 1;
        if self.oldest == Some(chunk) {
            self.oldest = list.newer(chunks, chunk).filter(|_| self.length > 0);
        }
    }

    /// The part is empty, and the list as it was.
    pub(super) fn clear(&mut self) {
        *self = Newest::default();
    }

    pub(super) fn bytes(&self) -> usize {
        self.members.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::Plain;
    use crate::policy::{Moment, Notes};

    fn content(list: &List, chunks: &Plain) -> Vec<Chunk> {
        std::iter::successors(list.oldest(), |chunk| list.newer(chunks, *chunk)).collect()
    }

    #[test]
    fn what_is_pushed_is_popped_in_the_same_order() {
        let chunks = Plain::new(10, Notes::LIST);
        let mut list = List::default();
        for chunk in [3, 0, 9] {
            list.push(&chunks, chunk, chunk);
        }
        assert_eq!((content(&list, &chunks), list.len()), (vec![3, 0, 9], 3));
        assert_eq!((0..4).map(|_| list.pop(&chunks)).collect::<Vec<_>>(), [Some(3), Some(0), Some(9), None]);
        assert_eq!(list, List::default());
        assert!((0..10).all(|chunk| !is_linked(&chunks, chunk)));
    }

    #[test]
    fn the_newest_part_grows_and_shrinks_with_its_list() {
        let chunks = Plain::new(20, Notes::LIST);
        let (mut list, mut newest) = (List::default(), Newest::default());
        let mut left = Vec::new();
        for chunk in 0..10 {
            list.push(&chunks, chunk, chunk);
            newest.pushed(&chunks, &list, chunk, 50, |chunk| left.push(chunk));
        }
        assert_eq!((left.clone(), newest.length, newest.oldest), ((0..5).collect(), 5, Some(5)));
        // Its oldest, one of its middle, and one that is not in it.
        for chunk in [5, 7, 1] {
            newest.removed(&chunks, &list, chunk);
            list.remove(&chunks, chunk);
        }
        assert_eq!((newest.length, newest.oldest), (3, Some(6)));
        list.push(&chunks, 10, 10);
        newest.pushed(&chunks, &list, 10, 50, |chunk| left.push(chunk));
        assert_eq!((left.len(), newest.length), (5, 4), "4 of 8");
        for chunk in [6, 8, 9, 10] {
            newest.removed(&chunks, &list, chunk);
            list.remove(&chunks, chunk);
        }
        assert_eq!((newest.length, newest.oldest), (0, None));
    }

    #[test]
    fn any_can_be_taken_out() {
        for out in 0..3 {
            let chunks = Plain::new(10, Notes::LIST);
            let mut list = List::default();
            (0..3).for_each(|chunk| list.push(&chunks, chunk, 0));
            list.remove(&chunks, out);
            assert!(!is_linked(&chunks, out));
            list.push(&chunks, out, 0);
            let rest: Vec<Chunk> = (0..3).filter(|chunk| *chunk != out).chain([out]).collect();
            assert_eq!(content(&list, &chunks), rest);
        }
    }

    #[test]
    fn those_that_were_pushed_lately_are_found_among_others() {
        let chunks = Plain::new(100, Notes::LIST);
        let mut list = List::default();
        (0..100).for_each(|chunk| list.push(&chunks, chunk, chunk * 10));
        let among: Vec<Chunk> = (0..100).step_by(3).collect();
        let newest = |ticks, most| {
            let now = Moment { tick: 1000, seconds: 0 };
            newest([&list], &chunks, &among, Lately { now, ticks, most })
        };
        assert_eq!(newest(60, 99), [(0, 99), (3, 96)], "990 and 960, but not 930");
        assert_eq!(newest(1000, 4), [(0, 99), (3, 96)]);
        assert_eq!(newest(5, 99), []);
        assert_eq!(newest(u32::MAX / 2, 1000).len(), among.len());
    }
}

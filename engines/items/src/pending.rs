//! A value that arrives in pieces, or is put together from several, in chunks of an engine.

use crate::chain::forget_chain;
use crate::item::{Fields, ItemHeaderSpec};
use crate::pending_chunks::PendingChunks;
use guira_contract::PendingValue;
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use std::fmt;
use std::sync::Arc;

/// Values that are still arriving may take one part in this many of memory: what is evicted for them is lost for nothing if they never arrive.
const ARRIVING_PART: usize = 2;

/// Values that are still arriving, in bytes.
#[derive(Debug, Default)]
pub struct Arriving {
    bytes: AtomicU64,
}

impl Arriving {
    /// Whether a value that has taken `own` bytes may take `bytes` more, where memory has `limit`: see [`ARRIVING_PART`]. The only one that arrives may take
    /// what it needs.
    fn admits(&self, own: u64, bytes: usize, limit: usize) -> bool {
        // Relaxed: it does no harm if two values pass the limit together.
        let all = self.bytes.load(Ordering::Relaxed);
        all == own || all + bytes as u64 <= (limit / ARRIVING_PART) as u64
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sub(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory of an engine, as pending values use it.
pub trait ChunkHome: fmt::Debug + Send + Sync {
    fn region(&self) -> &Region;

    /// Bytes of the largest item that fits into one chunk.
    fn largest_item(&self) -> usize;

    /// The memory limit, in bytes.
    fn limit(&self) -> usize;

    /// What counts the values that are arriving.
    fn arriving(&self) -> &Arriving;

    fn give(&self, at: Offset);
}

/// Memory for one item whose value is not there yet. A function that takes a chunk for a number of bytes is passed wherever one may be needed.
#[derive(Debug)]
pub struct Pending<H: ChunkHome> {
    home: Arc<H>,
    /// Without chunks once the pending value has become an item.
    chunks: PendingChunks,
    /// What of it counts as arriving.
    counted: u64,
}

impl<H: ChunkHome> Pending<H> {
    /// A value that a client sends: it has memory for its beginning. `None` if there is none, or too many values are arriving.
    pub fn arriving(
        home: Arc<H>,
        key_len: usize,
        (fields, value_len): (Fields, usize),
        take: impl FnMut(usize) -> Option<Offset>,
    ) -> Option<Self> {
        // Asked before memory is: whoever is refused shall not have evicted anything.
        if !home.arriving().admits(0, value_len.min(home.largest_item()), home.limit()) {
            return None;
        }
        let mut pending = Self::begin(home, key_len, (fields, value_len), take)?;
        pending.count(pending.chunks.reserved());
        Some(pending)
    }

    /// A value that the engine puts together: it has memory for all of it. `None` if there is none.
    pub fn whole(
        home: Arc<H>,
        key_len: usize,
        (fields, value_len): (Fields, usize),
        mut take: impl FnMut(usize) -> Option<Offset>,
    ) -> Option<Self> {
        let mut pending = Self::begin(home, key_len, (fields, value_len), &mut take)?;
        while pending.chunks.reserved() < pending.chunks.total() {
            pending.add_chunk(&mut take)?;
        }
        Some(pending)
    }

    /// A value with its first chunk.
    fn begin(
        home: Arc<H>,
        key_len: usize,
        (fields, value_len): (Fields, usize),
        mut take: impl FnMut(usize) -> Option<Offset>,
    ) -> Option<Self> {
        let shape = PendingChunks::shape_of(home.largest_item(), key_len, fields, value_len);
        let first = take(shape.size())?;
        fence_after_taking();
        Some(Pending { home, chunks: PendingChunks::new(shape, value_len, first), counted: 0 })
    }

    /// Adds a chunk. Returns how much of the value goes into it.
    fn add_chunk(&mut self, mut take: impl FnMut(usize) -> Option<Offset>) -> Option<usize> {
        let (part, size) = self.chunks.next_part(self.home.largest_item());
        let at = take(size)?;
        fence_after_taking();
        self.chunks.add(at, part);
        Some(part)
    }

    /// Counts `bytes` more as arriving.
    fn count(&mut self, bytes: usize) {
        self.counted += bytes as u64;
        self.home.arriving().add(bytes as u64);
    }

    /// Goes on in other chunks: `other` is asked for each whether there is one in its place, in which it has room.
    pub fn leave(&mut self, mut other: impl FnMut(Offset) -> Option<Offset>) {
        for index in 0..self.chunks.count() {
            let at = self.chunks.place(index);
            let Some(to) = other(at) else { continue };
            fence_after_taking();
            self.chunks.replace(self.home.region(), index, to);
            self.home.give(at);
        }
    }

    /// Whether the next chunk is within what arriving values may take.
    fn may_grow(&self) -> bool {
        let (part, _) = self.chunks.next_part(self.home.largest_item());
        self.home.arriving().admits(self.counted, part, self.home.limit())
    }

    /// Appends `bytes`, and takes memory for them as needed. False if there is none.
    ///
    /// # Panics
    /// If they are more than is missing.
    pub fn extend(&mut self, mut bytes: &[u8], mut take: impl FnMut(usize) -> Option<Offset>) -> bool {
        assert!(bytes.len() <= self.missing(), "more than the value has room for");
        loop {
            let part = bytes.len().min(self.chunks.room());
            self.append(&bytes[..part]);
            bytes = &bytes[part..];
            if bytes.is_empty() {
                return true;
            }
            let more = if self.may_grow() { self.add_chunk(&mut take) } else { None };
            let Some(part) = more else { return false };
            self.count(part);
        }
    }

    /// Whether it is for an item with these fields and a value of this length.
    pub fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        self.chunks.is_for(fields, value_len)
    }

    /// Forgets the bytes, and keeps the memory.
    pub fn begin_anew(&mut self) {
        self.chunks.begin_anew();
    }

    /// Appends bytes for which there is memory.
    pub fn append(&mut self, bytes: &[u8]) {
        self.chunks.append(self.home.region(), bytes);
    }

    /// Writes everything but the value. Returns the place of the item, which can be put into the table.
    pub fn write(&self, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        self.chunks.write(self.home.region(), header_spec, now)
    }

    /// The chunks belong to the item, which is in the table.
    pub fn published(mut self) {
        drop(self.chunks.take_chunks());
    }
}

/// Release fence: pairs with the Acquire fence of a reader's validation. A reader that sees what is written into a chunk from now on also sees that its last item
/// has left the table.
fn fence_after_taking() {
    fence(Ordering::Release);
}

impl<H: ChunkHome> PendingValue for Pending<H> {
    fn missing(&self) -> usize {
        self.chunks.missing()
    }

    fn value_len(&self) -> usize {
        self.chunks.total()
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        self.chunks.append_to(self.home.region(), bytes);
    }
}

impl<H: ChunkHome> Drop for Pending<H> {
    fn drop(&mut self) {
        self.home.arriving().sub(self.counted);
        for (index, at) in self.chunks.take_chunks().enumerate() {
            // It may have been written without being published.
            if index > 0 {
                forget_chain(self.home.region(), at);
            }
            self.home.give(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_memory::HugePages;
    use guira_sync::lock::Mutex;

    const LARGEST: usize = 256;

    /// Chunks of [`LARGEST`] bytes.
    #[derive(Debug)]
    struct Home {
        region: Region,
        free: Mutex<Vec<Offset>>,
        limit: usize,
        arriving: Arriving,
    }

    impl Home {
        fn new(limit: usize) -> Arc<Self> {
            let region = Region::anonymous(2 << 20, HugePages::No).unwrap();
            let free = (1..=8).map(|number| Offset::from_bytes(number * 512)).collect();
            Arc::new(Home { region, free: Mutex::new(free), limit, arriving: Arriving::default() })
        }

        fn free(&self) -> usize {
            self.free.lock().len()
        }

        fn take(&self, size: usize) -> Option<Offset> {
            assert!(size <= LARGEST);
            self.free.lock().pop()
        }
    }

    impl ChunkHome for Home {
        fn region(&self) -> &Region {
            &self.region
        }

        fn largest_item(&self) -> usize {
            LARGEST
        }

        fn limit(&self) -> usize {
            self.limit
        }

        fn arriving(&self) -> &Arriving {
            &self.arriving
        }

        fn give(&self, at: Offset) {
            self.free.lock().push(at);
        }
    }

    const VALUE: (Fields, usize) = (Fields(0), 1000);

    #[test]
    fn memory_is_taken_as_bytes_arrive_and_given_back_unless_published() {
        let home = Home::new(1 << 20);
        let take = |size| home.take(size);
        let mut pending = Pending::arriving(home.clone(), 3, VALUE, take).unwrap();
        assert_eq!(home.free(), 7);
        let value: Vec<u8> = (0..500).map(|at| at as u8).collect();
        assert!(pending.extend(&value, take));
        assert_eq!((pending.missing(), home.free()), (500, 5));
        let mut copy = b"before ".to_vec();
        pending.append_to(&mut copy);
        assert_eq!(copy, [&b"before "[..], &value].concat());
        drop(pending);
        assert_eq!(home.free(), 8);
        let mut pending = Pending::arriving(home.clone(), 3, VALUE, take).unwrap();
        assert!(pending.extend(&[1; 1000], take));
        let taken = 8 - home.free();
        pending.published();
        assert_eq!(8 - home.free(), taken);
        assert_eq!(home.arriving.bytes.load(Ordering::Relaxed), 0);
    }

    fn places(pending: &Pending<Home>) -> Vec<Offset> {
        (0..pending.chunks.count()).map(|index| pending.chunks.place(index)).collect()
    }

    #[test]
    fn a_value_goes_on_in_other_chunks() {
        let value: Vec<u8> = (0..1000).map(|at| (at / 3) as u8).collect();
        for arrived in [0, 100, 600, 1000] {
            for leaving in 0..1 << 5 {
                let home = Home::new(1 << 20);
                home.free.lock().extend([4608, 5120].map(Offset::from_bytes));
                let take = |size| home.take(size);
                let mut pending = Pending::arriving(home.clone(), 3, VALUE, take).unwrap();
                assert!(pending.extend(&value[..arrived], take));
                let before = places(&pending);
                let mut asked = 0..;
                pending.leave(|at| {
                    let index = asked.next().unwrap();
                    assert_eq!(at, before[index]);
                    (leaving >> index & 1 == 1).then(|| home.take(LARGEST)).flatten()
                });
                for (index, (old, new)) in before.iter().zip(places(&pending)).enumerate() {
                    assert_eq!(*old != new, leaving >> index & 1 == 1);
                }
                assert_eq!(home.free() + before.len(), 10, "what was left is free");
                assert!(pending.extend(&value[arrived..], take));
                let mut copy = Vec::new();
                pending.append_to(&mut copy);
                assert!(copy == value, "{arrived} {leaving:b}");
                drop(pending);
                assert_eq!(home.free(), 10);
            }
        }
    }

    #[test]
    fn a_value_for_which_there_are_no_other_chunks_stays_where_it_is() {
        let home = Home::new(1 << 20);
        let mut pending = Pending::whole(home.clone(), 3, VALUE, |size| home.take(size)).unwrap();
        pending.append(&[7; 1000]);
        let mut others = 2_u32;
        let before = places(&pending);
        pending.leave(|_| {
            others = others.checked_sub(1)?;
            home.take(LARGEST)
        });
        assert_eq!(before.iter().zip(places(&pending)).filter(|(old, new)| *old != new).count(), 2);
        let mut copy = Vec::new();
        pending.append_to(&mut copy);
        assert_eq!(copy, [7; 1000]);
        drop(pending);
        assert_eq!(home.free(), 8);
    }

    #[test]
    fn values_that_arrive_are_bounded_but_for_a_single_one_and_those_put_together_are_not() {
        let home = Home::new(1000);
        let take = |size| home.take(size);
        let mut pending = Pending::arriving(home.clone(), 3, VALUE, take).unwrap();
        assert!(pending.extend(&[1; 300], take), "half of the memory");
        let other = Pending::arriving(home.clone(), 3, (Fields(0), 10), take).unwrap();
        let free = home.free();
        assert!(!pending.extend(&[1; 600], take));
        assert!(Pending::arriving(home.clone(), 3, VALUE, take).is_none());
        assert_eq!(home.free(), free, "who is refused takes nothing");
        drop((pending, other));
        let mut pending = Pending::arriving(home.clone(), 3, VALUE, take).unwrap();
        assert!(pending.extend(&[1; 1000], take), "nobody else is there");
        drop(pending);
        assert_eq!(home.free(), 8);
        let pending = Pending::whole(home.clone(), 3, VALUE, take).unwrap();
        assert!(pending.is_for(VALUE.0, VALUE.1) && !pending.is_for(VALUE.0, VALUE.1 + 1));
        assert!(Pending::whole(home.clone(), 3, (Fields(0), 2000), take).is_none());
        drop(pending);
        assert_eq!(home.free(), 8);
    }
}

//! Segments: in which order they were begun, what lies in them, and what of it still counts.

use std::collections::BTreeMap;

use super::super::item::NEVER;
use crate::policy::Id;

/// A segment, by its number.
pub(super) type SegmentId = u32;

/// Groups of items that expire at about the same time: none, and one for each power of two of the seconds they live.
pub(super) const GROUPS: usize = 34;

/// The group of what is stored at `now` and expires at `expires`.
pub(super) fn group_of(expires: u32, now: u32) -> usize {
    if expires == NEVER { 0 } else { 1 + (u32::BITS - expires.saturating_sub(now).leading_zeros()) as usize }
}

/// The queue that a segment is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// What is new is on probation.
    Small = 0,
    /// What was read, or came back soon after it was evicted.
    Main = 1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: SegmentId,
    /// Which of the segment's records it is.
    pub(super) record: u32,
}

/// An item that was written into a segment, or a part of one. It counts while it is where the key's item lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) id: Id,
    pub(super) bytes: u32,
}

/// A run of memory that is written from its beginning to its end.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) capacity: u64,
    /// Bytes written.
    pub(super) filled: u64,
    /// Bytes of records that still count.
    pub(super) live: u64,
    /// The second in which the last of its items expires.
    pub(super) expires: u32,
    pub(super) queue: Queue,
    pub(super) group: usize,
    sequence: u64,
    pub(super) records: Vec<Record>,
}

#[derive(Debug)]
pub(super) struct Log {
    segments: Vec<Option<Segment>>,
    unused: Vec<SegmentId>,
    /// Segments of each queue and group, by when they were begun.
    chains: [Vec<BTreeMap<u64, SegmentId>>; 2],
    /// The segment of each that is written to.
    open: [[Option<SegmentId>; GROUPS]; 2],
    begun: u64,
    /// Bytes of the segments of each queue.
    bytes: [u64; 2],
    /// No segment has expired before.
    next_expiry: u32,
}

impl Log {
    pub(super) fn new() -> Self {
        let chains = || (0..GROUPS).map(|_| BTreeMap::new()).collect();
        Self {
            segments: Vec::new(),
            unused: Vec::new(),
            chains: [chains(), chains()],
            open: [[None; GROUPS]; 2],
            begun: 0,
            bytes: [0; 2],
            next_expiry: NEVER,
        }
    }

    pub(super) fn get(&self, id: SegmentId) -> Option<&Segment> {
        self.segments.get(id as usize).and_then(Option::as_ref)
    }

    fn get_mut(&mut self, id: SegmentId) -> Option<&mut Segment> {
        self.segments.get_mut(id as usize).and_then(Option::as_mut)
    }

    /// All segments, and whether each is written to.
    pub(super) fn all(&self) -> impl Iterator<Item = (SegmentId, &Segment, bool)> {
        self.segments.iter().enumerate().filter_map(|(id, segment)| {
            let (id, segment) = (id as SegmentId, segment.as_ref()?);
            Some((id, segment, self.open[segment.queue as usize][segment.group] == Some(id)))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.segments.len() - self.unused.len()
    }

    /// Bytes of the segments of a queue.
    pub(super) fn bytes_of(&self, queue: Queue) -> u64 {
        self.bytes[queue as usize]
    }

    /// How many bytes can still be written into the segment that is written to.
    pub(super) fn room(&self, (queue, group): (Queue, usize)) -> u64 {
        let open = self.open[queue as usize][group].and_then(|id| self.get(id));
        open.map_or(0, |segment| segment.capacity - segment.filled)
    }

    /// Adds a segment that nothing is written into.
    fn add(&mut self, (queue, group): (Queue, usize), capacity: u64) -> SegmentId {
        let sequence = self.begun;
        self.begun += 1;
        let (filled, live, expires, records) = (0, 0, 0, Vec::new());
        let segment = Segment { capacity, filled, live, expires, queue, group, sequence, records };
        let id = self.unused.pop().unwrap_or_else(|| {
            self.segments.push(None);
            self.segments.len() as SegmentId - 1
        });
        self.segments[id as usize] = Some(segment);
        self.bytes[queue as usize] += capacity;
        self.chains[queue as usize][group].insert(sequence, id);
        id
    }

    /// Begins a segment, into which the next items of this queue and group go.
    pub(super) fn begin(&mut self, (queue, group): (Queue, usize), capacity: u64) {
        let id = self.add((queue, group), capacity);
        let before = self.open[queue as usize][group].replace(id);
        if let Some(before) = before {
            self.free_if_empty(before);
        }
    }

    /// Writes an item into the segment that is written to. There has to be room for it.
    ///
    /// # Panics
    /// If there is no such segment.
    pub(super) fn append(&mut self, (queue, group): (Queue, usize), item: (Id, u32), expires: u32) -> Place {
        let open = self.open[queue as usize][group].expect("a segment was begun");
        self.write(open, item, expires)
    }

    /// Writes an item into a segment of its own.
    pub(super) fn append_alone(&mut self, to: (Queue, usize), (id, bytes): (Id, u32), expires: u32) -> Place {
        let own = self.add(to, bytes.into());
        self.write(own, (id, bytes), expires)
    }

    fn write(&mut self, to: SegmentId, (id, bytes): (Id, u32), expires: u32) -> Place {
        self.next_expiry = self.next_expiry.min(expires);
        let segment = self.get_mut(to).expect("what is written to is there");
        debug_assert!(segment.filled + u64::from(bytes) <= segment.capacity);
        segment.filled += u64::from(bytes);
        segment.live += u64::from(bytes);
        segment.expires = segment.expires.max(expires);
        segment.records.push(Record { id, bytes });
        Place { segment: to, record: segment.records.len() as u32 - 1 }
    }

    /// The bytes that were given to the item at `place`.
    pub(super) fn bytes_at(&self, place: Place) -> u32 {
        self.get(place.segment).map_or(0, |segment| segment.records[place.record as usize].bytes)
    }

    /// The item at `place` was overwritten by one that expires then.
    pub(super) fn renew(&mut self, place: Place, expires: u32) {
        if let Some(segment) = self.get_mut(place.segment) {
            segment.expires = segment.expires.max(expires);
        }
    }

    /// The item at `place` does not count any more. A segment of which nothing does is freed.
    pub(super) fn forget(&mut self, place: Place) {
        let bytes = u64::from(self.bytes_at(place));
        if let Some(segment) = self.get_mut(place.segment) {
            segment.live -= bytes;
            self.free_if_empty(place.segment);
        }
    }

    fn free_if_empty(&mut self, id: SegmentId) {
        let is_empty = self.get(id).is_some_and(|segment| {
            segment.live == 0 && self.open[segment.queue as usize][segment.group] != Some(id)
        });
        if is_empty {
            self.free(id);
        }
    }

    /// Gives a segment back, whatever lies in it.
    pub(super) fn free(&mut self, id: SegmentId) -> Option<Segment> {
        let segment = self.segments.get_mut(id as usize)?.take()?;
        let (queue, group) = (segment.queue as usize, segment.group);
        self.bytes[queue] -= segment.capacity;
        self.chains[queue][group].remove(&segment.sequence);
        if self.open[queue][group] == Some(id) {
            self.open[queue][group] = None;
        }
        self.unused.push(id);
        Some(segment)
    }

    /// The group of a queue whose oldest segment is the oldest.
    pub(super) fn oldest_group(&self, queue: Queue) -> Option<usize> {
        let first = |group: &usize| self.chains[queue as usize][*group].keys().next().copied();
        (0..GROUPS).filter(|group| first(group).is_some()).min_by_key(first)
    }

    /// The oldest segments of a group, up to `count`.
    pub(super) fn oldest(&self, queue: Queue, group: usize, count: usize) -> Vec<SegmentId> {
        self.chains[queue as usize][group].values().take(count).copied().collect()
    }

    /// The segment of which the least counts of those that are not written to, if that is at most half.
    pub(super) fn emptiest(&self) -> Option<SegmentId> {
        let written =
            self.all().filter(|(_, segment, is_open)| !is_open && segment.live * 2 <= segment.filled);
        written.min_by_key(|(_, segment, _)| segment.live * 1000 / segment.filled.max(1)).map(|(id, ..)| id)
    }

    /// A segment of which everything has expired. None is found before it is looked for again in a later second.
    pub(super) fn expired(&mut self, now: u32) -> Option<SegmentId> {
        if self.next_expiry > now {
            return None;
        }
        let found = self.all().find(|(_, segment, _)| !segment.records.is_empty() && segment.expires <= now);
        let found = found.map(|(id, ..)| id);
        if found.is_none() {
            let later = self.all().filter(|(_, segment, _)| !segment.records.is_empty());
            self.next_expiry = later.map(|(_, segment, _)| segment.expires).min().unwrap_or(NEVER);
        }
        found
    }
}

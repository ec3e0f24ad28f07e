//! A cache without size classes: a log of segments, of which whole ones are evicted.
//!
//! ```text
//!  stored ──► small: a tenth, first in first out ──► read twice? ──► main: merged, what is read most stays
//!                 │                                                     ▲
//!                 └──► not: evicted, remembered by the ghost ───────────┘ stored again soon
//! ```
//!
//! - Items are written one behind another into segments of one size, whatever their own; what does not fit goes on in the
//!   next segment, if that is worth it. A longer one has a segment to itself. Each queue has a segment that is written to for every *group* of items that expire at about the same time,
//!   so that what expires frees whole segments (Segcache: Yang, Yue and Rashmi, NSDI 2021, section 3).
//! - Segments of the *main* queue are evicted by *merging*: of the few oldest of a group those items are copied that
//!   have the most reads for each byte, as far as they fill a part of them; the rest is evicted (Segcache, section 3).
//!   Reads are halved then.
//! - New items come into the *small* queue. At its end what was read at least twice is copied into main, the rest is
//!   evicted and remembered for as long as main would hold it: what is stored again meanwhile comes into main at once
//!   (S3-FIFO: Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023, section 4).
//! - Before anything is evicted, a segment of which at most half still counts is cleaned: the rest is copied (as in a
//!   log-structured file system: Rosenblum and Ousterhout, 1992). Expired items are looked for every 30 seconds.
//! - A value that is no longer than the one before, and belongs to the same group, is stored over it.
//!
//! Beside the segments memory holds the index, charged as the engine's (a line of 64 bytes for ten slots, nine of them in
//! use), 8 bytes for each key that the ghost remembers, 64 for each segment, and one segment that is kept free for
//! copying. Reads are counted in the item's header, in the bits that the engine uses for the last access.

mod ghost;
mod log;
mod options;
#[cfg(test)]
mod tests;

pub(super) use options::Options;

use super::item::Object;
use super::{Layout, Usage};
use crate::policy::Id;
use ghost::Ghost;
use log::{Log, Place, Queue, Record, group_of};
use options::Rank;

/// Items begin at multiples of this many bytes.
const ALIGNED: u64 = 8;
/// At this many reads an item goes from small to main.
const PROMOTED: u8 = 2;
/// Bytes of the index for nine items.
const LINE: u64 = 64;
const ITEMS_IN_LINE: u64 = 9;
/// An index begins with one part in this many of memory, and grows by one part in this many of itself.
const INDEX_PART: u64 = 64;
const INDEX_STEP: u64 = 8;
/// The rest of a segment is left over if it is at most one part in this many: then an item is not worth splitting.
const LEFT_OVER_PART: u64 = 64;
/// Bytes that say where an item goes on, as those of the engine's chains.
const LINK: u64 = 16;
/// Seconds from one search for expired items to the next, as the engine's crawler has.
const CRAWLED_EVERY: u32 = 30;
/// Bytes that describe a segment.
const DESCRIPTOR: u64 = 64;

#[derive(Debug, Clone, Copy)]
struct Held {
    place: Place,
    /// Where it goes on, if it was split.
    rest: Option<Place>,
    object: Object,
    reads: u8,
}

/// How an item is written: where the last one ended, into a new segment, with its rest there, or into one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Division {
    Here,
    Split { here: u64, there: u64 },
    There,
    Alone,
}

#[derive(Debug)]
pub(super) struct Segments {
    memory: u64,
    segment: u64,
    options: Options,
    log: Log,
    held: Vec<Option<Held>>,
    items: u64,
    index: u64,
    ghost: Ghost,
    moved: u64,
    /// When expired items were last looked for.
    crawled: u32,
}

impl Segments {
    /// A cache with `memory` bytes for `keys` keys. `None` if that is too little.
    pub(super) fn open(memory: u64, keys: usize, options: Options) -> Option<Self> {
        let segment = options.segment_bytes(memory);
        let index = (memory / INDEX_PART).clamp(LINE, 2 << 20);
        // One for each queue, one to copy into, and the longest item.
        (memory / 2 >= 3 * segment + index).then(|| Self {
            memory,
            segment,
            options,
            log: Log::new(),
            held: vec![None; keys],
            items: 0,
            index,
            ghost: Ghost::new(keys),
            moved: 0,
            crawled: 0,
        })
    }

    /// Bytes of everything beside the segments.
    fn metadata(&self) -> u64 {
        self.index + self.ghost.bytes() + self.log.len() as u64 * DESCRIPTOR
    }

    /// How many keys the ghost remembers: as many as main has place for.
    fn remembered(&self) -> u64 {
        self.items * (100 - self.options.small_percent) / 100
    }

    fn used(&self) -> u64 {
        self.log.bytes_of(Queue::Small) + self.log.bytes_of(Queue::Main) + self.metadata()
    }

    /// How an item of `bytes` bytes is written.
    fn division(&self, to: (Queue, usize), bytes: u64) -> Division {
        let room = self.log.room(to);
        if bytes <= room {
            Division::Here
        } else if bytes > self.segment {
            Division::Alone
        } else if room > LINK + self.segment / LEFT_OVER_PART {
            Division::Split { here: room, there: bytes + LINK - room }
        } else {
            Division::There
        }
    }

    /// Bytes of the segment that is begun for an item, if it does not fit into one.
    fn beyond(&self, to: (Queue, usize), bytes: u64) -> u64 {
        match self.division(to, bytes) {
            Division::Here => 0,
            Division::Split { .. } | Division::There => self.segment + DESCRIPTOR,
            Division::Alone => bytes + DESCRIPTOR,
        }
    }

    fn queue_of(&self, held: &Held) -> Queue {
        self.log.get(held.place.segment).map_or(Queue::Small, |segment| segment.queue)
    }

    /// The item of `record`, if that is where the key's item lies, or a part of it.
    fn item_at(&self, place: Place, record: Record) -> Option<Held> {
        self.held[record.id as usize].filter(|held| held.place == place || held.rest == Some(place))
    }

    /// Writes an item, for which memory has been found.
    fn write(&mut self, id: Id, object: Object, to: (Queue, usize), reads: u8) {
        let bytes = allotted(object);
        let division = self.division(to, bytes);
        let mut append = |bytes: u64| self.log.append(to, (id, bytes as u32), object.expires);
        let (place, rest) = match division {
            Division::Here => (append(bytes), None),
            Division::Split { here, there } => {
                let place = append(here);
                self.log.begin(to, self.segment);
                (place, Some(self.log.append(to, (id, there as u32), object.expires)))
            }
            Division::There => {
                self.log.begin(to, self.segment);
                (self.log.append(to, (id, bytes as u32), object.expires), None)
            }
            Division::Alone => (self.log.append_alone(to, (id, bytes as u32), object.expires), None),
        };
        self.held[id as usize] = Some(Held { place, rest, object, reads });
        self.items += 1;
        while self.items * LINE > self.index * ITEMS_IN_LINE {
            self.index += (self.index / INDEX_STEP).next_multiple_of(LINE);
        }
    }

    fn forget(&mut self, id: Id) {
        if let Some(held) = self.held[id as usize].take() {
            self.items -= 1;
            self.log.forget(held.place);
            held.rest.into_iter().for_each(|rest| self.log.forget(rest));
        }
    }

    /// Takes the items out of segments and frees them; what is alive is returned with its key.
    fn empty(&mut self, segments: &[u32], now: u32) -> Vec<(Id, Held)> {
        let mut alive = Vec::new();
        for &segment in segments {
            let Some(freed) = self.log.free(segment) else { continue };
            for (number, &record) in freed.records.iter().enumerate() {
                let place = Place { segment, record: number as u32 };
                let Some(held) = self.item_at(place, record) else { continue };
                if held.object.expires > now {
                    alive.push((record.id, held));
                }
                self.held[record.id as usize] = None;
                let other = [Some(held.place), held.rest].into_iter().flatten().find(|part| *part != place);
                other.into_iter().for_each(|other| self.log.forget(other));
                self.items -= 1;
            }
        }
        alive
    }

    /// Copies an item, unless it would take a segment that there is no memory for.
    fn copy(&mut self, id: Id, held: Held, (queue, reads): (Queue, u8), now: u32) {
        let to = (queue, group_of(held.object.expires, now));
        let new = self.beyond(to, allotted(held.object));
        if self.used() + new <= self.memory {
            self.moved += held.object.item_bytes();
            self.write(id, held.object, to, reads);
        }
    }

    /// Evicts the oldest segment of the small queue. False if there is none.
    fn evict_small(&mut self, now: u32) -> bool {
        let Some(group) = self.log.oldest_group(Queue::Small) else { return false };
        let oldest = self.log.oldest(Queue::Small, group, 1);
        for (id, held) in self.empty(&oldest, now) {
            if held.reads >= PROMOTED {
                self.copy(id, held, (Queue::Main, held.reads), now);
            } else {
                self.ghost.remember(id, self.remembered());
            }
        }
        true
    }

    /// Merges the oldest segments of the main queue. False if there is none.
    fn evict_main(&mut self, now: u32) -> bool {
        let Some(group) = self.log.oldest_group(Queue::Main) else { return false };
        let oldest = self.log.oldest(Queue::Main, group, self.options.merged);
        let capacity: u64 =
            oldest.iter().filter_map(|id| self.log.get(*id)).map(|segment| segment.capacity).sum();
        let mut left = capacity * self.options.kept_percent / 100;
        let mut read = self.empty(&oldest, now);
        read.retain(|(_, held)| held.reads > 0);
        match self.options.rank {
            Rank::Density => read.sort_by(|(_, a), (_, b)| {
                let of = |one: &Held, other: &Held| u64::from(one.reads) * allotted(other.object);
                of(b, a).cmp(&of(a, b))
            }),
            Rank::Frequency => read.sort_by_key(|(_, held)| std::cmp::Reverse(held.reads)),
        }
        for (id, held) in read {
            let bytes = allotted(held.object);
            if bytes <= left {
                left -= bytes;
                self.copy(id, held, (Queue::Main, held.reads / 2), now);
            }
        }
        true
    }

    /// Forgets what has expired, now and then.
    fn crawl(&mut self, now: u32) {
        if now.saturating_sub(self.crawled) >= CRAWLED_EVERY {
            self.crawled = now;
            for id in 0..self.held.len() {
                if self.held[id].is_some_and(|held| held.object.expires <= now) {
                    self.forget(id as Id);
                }
            }
        }
    }

    /// Copies what still counts of the segment of which the least does. False if that is more than half of all.
    fn clean(&mut self, now: u32) -> bool {
        let Some(emptiest) = self.log.emptiest() else { return false };
        let queue = self.log.get(emptiest).map_or(Queue::Small, |segment| segment.queue);
        for (id, held) in self.empty(&[emptiest], now) {
            self.copy(id, held, (queue, held.reads), now);
        }
        true
    }

    fn evict(&mut self, now: u32) -> bool {
        if let Some(expired) = self.log.expired(now) {
            self.empty(&[expired], now);
            return true;
        }
        self.crawl(now);
        if self.clean(now) {
            return true;
        }
        let (small, main) = (self.log.bytes_of(Queue::Small), self.log.bytes_of(Queue::Main));
        let is_small_full = small * 100 >= (small + main) * self.options.small_percent;
        if is_small_full { self.evict_small(now) || self.evict_main(now) } else { self.evict_main(now) }
    }

    /// Finds memory for an item of this queue and group.
    fn make_room(&mut self, to: (Queue, usize), bytes: u64, now: u32) {
        // An item may make the index grow, and what is evicted the ghost.
        let ahead = self.index / INDEX_STEP + LINE;
        loop {
            let new = self.beyond(to, bytes);
            if self.used() + new + ahead + self.segment <= self.memory || !self.evict(now) {
                return;
            }
        }
    }

    /// Stores over the item that is there, if the new one fits. False if it does not.
    fn overwrite(&mut self, id: Id, object: Object, now: u32) -> bool {
        let Some(held) = self.held[id as usize].filter(|held| held.object.expires > now) else {
            return false;
        };
        let group = self.log.get(held.place.segment).map(|segment| segment.group);
        let rest = held.rest.map_or(0, |rest| u64::from(self.log.bytes_at(rest)) - LINK);
        let fits = object.item_bytes() <= u64::from(self.log.bytes_at(held.place)) + rest;
        if !fits || group != Some(group_of(object.expires, now)) {
            return false;
        }
        [Some(held.place), held.rest]
            .into_iter()
            .flatten()
            .for_each(|part| self.log.renew(part, object.expires));
        self.held[id as usize] = Some(Held { object, reads: held.reads.saturating_add(1), ..held });
        true
    }
}

/// Bytes of a segment that an item takes.
fn allotted(object: Object) -> u64 {
    object.item_bytes().next_multiple_of(ALIGNED)
}

impl Layout for Segments {
    fn read(&mut self, id: Id, now: u32) -> bool {
        match &mut self.held[id as usize] {
            Some(held) if held.object.expires > now => {
                held.reads = held.reads.saturating_add(1);
                true
            }
            _ => false,
        }
    }

    fn store(&mut self, id: Id, object: Object, now: u32) -> bool {
        if !object.is_accepted(self.memory) || object.expires <= now {
            self.forget(id);
            return object.is_accepted(self.memory);
        }
        if self.overwrite(id, object, now) {
            return true;
        }
        let before = self.held[id as usize].filter(|held| held.object.expires > now);
        let (queue, reads) = match before {
            // To store over an item counts as a read of the new one.
            Some(held) => (self.queue_of(&held), held.reads.saturating_add(1)),
            None if self.ghost.recall(id, self.remembered()) => (Queue::Main, 0),
            None => (Queue::Small, 0),
        };
        self.forget(id);
        let to = (queue, group_of(object.expires, now));
        self.make_room(to, allotted(object), now);
        self.write(id, object, to, reads);
        true
    }

    fn remove(&mut self, id: Id, _now: u32) {
        self.forget(id);
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn usage(&mut self, now: u32) -> Usage {
        while let Some(expired) = self.log.expired(now) {
            self.empty(&[expired], now);
        }
        let mut usage = Usage { metadata: self.metadata() as f64, ..Usage::default() };
        usage.free = self.memory as f64 - self.used() as f64;
        for (id, segment, is_open) in self.log.all() {
            let rest = (segment.capacity - segment.filled) as f64;
            if is_open {
                usage.free += rest;
            } else {
                usage.rounding += rest;
            }
            for (number, &record) in segment.records.iter().enumerate() {
                let place = Place { segment: id, record: number as u32 };
                match self.item_at(place, record).filter(|held| held.object.expires > now) {
                    Some(held) => {
                        let item = if held.place == place { held.object.item_bytes() } else { 0 };
                        usage.live += item as f64;
                        usage.rounding += f64::from(record.bytes) - item as f64;
                    }
                    None => usage.dead += f64::from(record.bytes),
                }
            }
        }
        usage
    }
}

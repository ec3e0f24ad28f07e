//! What is done in slices between requests: an index grows, what has expired is removed, memory is given back, and offsets that lie behind the head are
//! removed from the index before they could be taken for others.

use crate::bucket::{BUCKET_BYTES, Bucket, Open};
use crate::core::Core;
use crate::partition::{Fullness, Partition};
use crate::session::MicaSession;
use crate::space::Space;
use crate::update::{Found, Writer};
use guira_contract::{Pace, Switch, Tuning};
use guira_items::Removal;
use guira_memory::slab::ClassId;
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::words::WORD;

/// What is going on in the background. Relaxed, all of it: whoever does it looks again soon.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// The crawler does nothing.
    crawler_off: AtomicBool,
    /// How often it was asked to set out.
    crawls_asked: AtomicU32,
    /// Times it has set out, in all partitions.
    crawls: AtomicU64,
    /// Where it is in each partition.
    crawlers: Box<[Crawler]>,
    /// Where the move of items to a smaller part of the log is in each partition: the next bucket, and one more than that if it is under way.
    moves: Box<[AtomicU64]>,
}

/// The crawler of a partition. Whoever holds that changes it.
#[derive(Debug, Default)]
struct Crawler {
    /// The next bucket and one more, or 0 if it rests.
    next: AtomicU64,
    /// When it set out.
    started: AtomicU32,
    /// What was asked for when it did.
    asked: AtomicU32,
    /// Where whoever finds no room looks next.
    looked: AtomicU64,
}

/// The crawler sets out this often, in seconds.
const CRAWL_INTERVAL: u32 = 30;
/// It looks at so many buckets in a slice.
const CRAWL_SLICE: u64 = 16;
/// Under load a partition gets its slice once in so many rounds.
const BUSY_ROUNDS_A_SLICE: usize = 64;
/// The space of items is backed in pieces of so many words: 256 KiB.
const BACKED_AT_ONCE: u64 = (256 << 10) / WORD as u64;
/// Items of so many buckets are moved in a slice to where memory is kept.
const MOVE_SLICE: u64 = 16;

/// The items of a bucket go to so many at the most when the index is twice as large, or a quarter larger.
const GOALS: usize = 3;

/// How far items have been moved that were in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// There are more.
    More,
    /// There are none any more.
    Done,
    /// One finds no room elsewhere.
    Stuck,
}

impl Upkeep {
    pub(crate) fn new(partitions: usize) -> Self {
        Upkeep {
            crawler_off: AtomicBool::new(false),
            crawls_asked: AtomicU32::new(0),
            crawls: AtomicU64::new(0),
            crawlers: (0..partitions).map(|_| Crawler::default()).collect(),
            moves: (0..partitions).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn tune(&self, tuning: Tuning) {
        match tuning {
            Tuning::Crawler(switch) => self.crawler_off.store(switch == Switch::Off, Ordering::Relaxed),
            Tuning::CrawlNow => _ = self.crawls_asked.fetch_add(1, Ordering::Relaxed),
            // There are no classes between which memory could move.
            Tuning::Automove(_) => {}
        }
    }

    /// Times the crawler has set out.
    pub(crate) fn crawls(&self) -> u64 {
        self.crawls.load(Ordering::Relaxed)
    }

    /// Whether the crawler is on its way, or about to be.
    pub(crate) fn is_crawling(&self) -> bool {
        let asked = self.crawls_asked.load(Ordering::Relaxed);
        let is_out = |crawler: &Crawler| {
            crawler.next.load(Ordering::Relaxed) != 0 || crawler.asked.load(Ordering::Relaxed) != asked
        };
        self.crawlers.iter().any(is_out)
    }
}

impl<S: Space> MicaSession<S> {
    pub(crate) fn do_maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        let partitions = self.core.partitions.len();
        let mut done = 0;
        // Under load one partition has its turn, otherwise all have.
        let turns = if pace == Pace::Busy { 1 } else { partitions };
        for _ in 0..turns {
            let number = self.upkeep_next % partitions;
            self.upkeep_next = self.upkeep_next.wrapping_add(1);
            let is_slow =
                pace == Pace::Busy && !(self.upkeep_next / partitions).is_multiple_of(BUSY_ROUNDS_A_SLICE);
            let left = budget.saturating_sub(done);
            if left == 0 {
                break;
            }
            let work = |writer: &mut Writer<'_, S>| writer.upkeep(is_slow, left);
            done += self.try_holding(number, now, work).unwrap_or(0);
        }
        done
    }
}

impl<S: Space> Writer<'_, S> {
    fn upkeep(&mut self, is_slow: bool, budget: usize) -> usize {
        self.adjust();
        if self.part.is_short.get() != 0 {
            self.look_for_room();
        }
        let mut done = 0;
        while done < budget && self.grow() {
            done += 1;
        }
        while done < budget && self.shrink() {
            done += 1;
        }
        if !is_slow {
            while done < budget && self.crawl() {
                done += 1;
            }
        }
        done
    }

    /// What is due after an item was stored.
    #[inline]
    pub(crate) fn after_store(&mut self) {
        S::after_store(self);
        if self.part.index.is_crowded(self.part.items.get()) {
            self.grow();
        }
    }

    /// Moves the end of the items' space to where it should be, if there is more memory or less, or the index wants more.
    #[inline]
    pub(crate) fn adjust(&mut self) {
        let now = (self.core.share().bytes as u64).wrapping_add(self.part.index.claimed());
        if self.part.sized_for.get() != now {
            self.move_end();
            self.part.sized_for.set(now);
        }
    }

    #[cold]
    fn move_end(&mut self) {
        let (before, end) = (self.part.space.end(), self.part.space_end(self.core.share()));
        if end == before {
            return;
        }
        self.part.space.set_end(end);
        self.part.index.crowded_from(0);
        // Whoever moves items out of the way begins anew: what is in the way is something else.
        self.core.upkeep.moves[self.partition].store(0, Ordering::Relaxed);
        S::end_moved(self, before);
    }

    /// Goes on with the growth of the index by a bucket, or begins it. False if there is nothing to do, or no memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let (part, share) = (self.part, self.core.share());
        if let Some(bucket) = part.index.to_move() {
            return self.move_bucket(bucket);
        }
        let fullness = if S::IS_LOSSY { Fullness::LOSSY } else { Fullness::CHAINED };
        let (items, crowded_from) = (part.items.get(), part.crowded_from(share, fullness));
        if items < crowded_from {
            part.index.crowded_from(crowded_from);
            return false;
        }
        let wanted = part.wanted_buckets(share, fullness, self.core.plan.buckets_max);
        let has_room = |wanted: &u32| part.has_room_for(*wanted, share) && part.back_buckets(*wanted, share);
        let Some(wanted) = wanted.filter(has_room) else {
            // Not before there are more. If the log has all the memory it gives some of it back.
            part.index.crowded_from(items + items / 64 + 1);
            if let Some(wanted) = wanted.filter(|_| part.space.is_evicting()) {
                part.index.claim(wanted);
            }
            return false;
        };
        self.core.growths.fetch_add(1, Ordering::Relaxed);
        part.index.begin_growth(wanted);
        self.adjust();
        true
    }

    /// Moves the items of a bucket to where they belong once the index has grown. False if there are too few spare buckets for it.
    fn move_bucket(&mut self, number: u32) -> bool {
        let index = &self.part.index;
        let bucket = index.bucket(number);
        if !S::IS_LOSSY && index.spares_left() < GOALS as u64 {
            return false;
        }
        let item = |(bucket, slot): (Bucket<'_>, usize)| {
            let offset = bucket.offset(slot);
            self.entry_at(offset).map(|entry| (offset, entry.place(), bucket.tag(slot)))
        };
        let items: Vec<_> = self.slots_of(number).filter_map(item).collect();
        // Whoever looks for one of the items waits until all of them have moved: in the old bucket, or in the new one as soon as he is told of it.
        let opened = bucket.open();
        let mut goals: [Option<(u32, Open<'_>)>; GOALS] = Default::default();
        for (_, place, _) in &items {
            let goal = index.bucket_when_grown(*place);
            let is_open = goal == number || goals.iter().flatten().any(|(open, _)| *open == goal);
            if let Some(free) = goals.iter_mut().find(|free| free.is_none()).filter(|_| !is_open) {
                *free = Some((goal, index.bucket(goal).open()));
            }
        }
        self.empty(bucket);
        index.moved(number);
        for (offset, place, tag) in items {
            self.take_in(index.bucket(index.bucket_when_grown(place)), tag, offset);
        }
        drop((opened, goals));
        let before = number.wrapping_sub(1);
        if number > 0 {
            let bucket = index.bucket(before);
            let region = self.core.shell.region();
            bucket.used().for_each(|slot| region.prefetch(self.part.space.at(bucket.offset(slot)).bytes()));
            region.prefetch(index.place_of(before.saturating_sub(1)));
        }
        true
    }

    /// Gives memory back, if items take more than they may. False if there is nothing to do, or to be had.
    fn shrink(&mut self) -> bool {
        self.part.space.reached() > self.part.space.end() && S::give_back(self)
    }

    /// Sees to it that there is room for so many words of the items' space, and some more, where the Region lies. If there is none, the space ends until further
    /// notice where it has come: false.
    #[cold]
    pub(crate) fn back_space(&self, words: u64) -> bool {
        let space = &self.part.space;
        let goal = (space.backed() + BACKED_AT_ONCE).max(words).next_multiple_of(BACKED_AT_ONCE);
        if self.back_until(goal.min(space.end())) {
            return true;
        }
        self.part.is_short.set(1);
        space.set_end(self.part.space_end(self.core.share()));
        false
    }

    fn back_until(&self, goal: u64) -> bool {
        let space = &self.part.space;
        let from = space.backed();
        let at = self.core.plan.space_at(self.partition) + from as usize * WORD;
        let has_room = self.core.shell.region().back(at, goal.saturating_sub(from) as usize * WORD);
        if has_room {
            space.set_backed(goal.max(from));
        }
        has_room
    }

    /// The space ends early for want of room where the Region lies: looks whether there is some by now.
    #[cold]
    fn look_for_room(&mut self) {
        let part = self.part;
        part.is_short.set(0);
        let end = part.space_end(self.core.share());
        if self.back_until((part.space.backed() + BACKED_AT_ONCE).min(end)) {
            self.move_end();
        } else {
            part.is_short.set(1);
        }
    }

    /// Goes on with moving items that lie beyond the end to before it.
    pub(crate) fn move_some(&mut self) -> Moving {
        let (part, end) = (self.part, self.part.space.end());
        let next = &self.core.upkeep.moves[self.partition];
        let from = next.load(Ordering::Relaxed).max(1) - 1;
        let to = part.index.buckets().min(from + MOVE_SLICE);
        for number in from..to {
            // One at a time: the search for room may remove others, and change the bucket.
            while let Some(found) = self.find_beyond(number as u32, end) {
                if self.is_dead(&found) {
                    self.remove(found, Removal::Dead);
                    continue;
                }
                let copied = self.copied(found);
                if !self.move_to_tail(copied) {
                    return Moving::Stuck;
                }
            }
        }
        // Once all were looked at none is looked at again: nothing comes there any more.
        next.store(to + 1, Ordering::Relaxed);
        if to == part.index.buckets() { Moving::Done } else { Moving::More }
    }

    /// An item of the bucket that lies beyond `end` words from the start of the space.
    fn find_beyond(&self, number: u32, end: u64) -> Option<Found<'_>> {
        let (main, space) = (self.part.index.bucket(number), &self.part.space);
        let is_beyond = |found: &Found<'_>| {
            let start = space.at(found.offset).bytes() - space.at(0).bytes();
            start / WORD + found.entry.room() > end as usize
        };
        self.slots_of(number).filter_map(|slot| self.found_in(main, slot)).find(is_beyond)
    }

    /// Gives the memory beyond the end back to the system: nothing lies there any more. False if it is not taken.
    pub(crate) fn discard_beyond_end(&self) -> bool {
        let kept = self.part.space.end() as usize * WORD;
        let from = self.core.plan.space_at(self.partition) + kept;
        let backed = self.part.space.backed() as usize * WORD;
        let length = self.part.space_bytes(self.core.share()).max(backed) - kept;
        // What is being sent is still needed.
        let is_given = self.part.pins.is_empty() && self.core.shell.region().discard(from, length).is_ok();
        if is_given {
            self.core.upkeep.moves[self.partition].store(0, Ordering::Relaxed);
        }
        is_given
    }

    /// Removes what has expired from the next `count` buckets. False if nothing had.
    pub(crate) fn remove_some_dead(&mut self, count: u64) -> bool {
        let mut removed = 0;
        let next = &self.core.upkeep.crawlers[self.partition].looked;
        let (from, buckets) = (next.load(Ordering::Relaxed), self.part.index.buckets());
        for number in (from..from + count.min(buckets)).map(|number| number % buckets) {
            removed += self.remove_dead_of(number as u32).1;
        }
        next.store((from + count) % buckets, Ordering::Relaxed);
        removed > 0
    }

    /// Removes what has expired from a bucket. Returns how many items were looked at, and how many were removed.
    pub(crate) fn remove_dead_of(&mut self, number: u32) -> (u64, u64) {
        let main = self.part.index.bucket(number);
        let (mut seen, mut removed) = (0, 0);
        // From the last: a bucket that becomes empty is given back, and its slots are not looked at again.
        let slots: Vec<_> = self.slots_of(number).collect();
        for slot in slots.into_iter().rev() {
            seen += 1;
            removed += u64::from(self.remove_if_dead(main, slot));
        }
        (seen, removed)
    }

    /// Removes the item in a slot, if it is dead. Empties the slot if there is nothing any more. True if an item was removed.
    fn remove_if_dead(&mut self, main: Bucket<'_>, (bucket, slot): (Bucket<'_>, usize)) -> bool {
        let Some(found) = self.found_in(main, (bucket, slot)) else {
            main.change(|| bucket.clear(slot));
            return false;
        };
        let is_dead = self.is_dead(&found);
        if is_dead {
            self.remove(found, Removal::Dead);
        }
        is_dead
    }

    /// Looks at some buckets for what has expired. False if there is nothing to do for now.
    fn crawl(&mut self) -> bool {
        let upkeep = &self.core.upkeep;
        let crawler = &upkeep.crawlers[self.partition];
        let from = match crawler.next.load(Ordering::Relaxed) {
            0 => {
                let asked = upkeep.crawls_asked.load(Ordering::Relaxed);
                let resting = upkeep.crawler_off.load(Ordering::Relaxed)
                    || self.now.0.saturating_sub(crawler.started.load(Ordering::Relaxed)) < CRAWL_INTERVAL;
                if resting && asked == crawler.asked.load(Ordering::Relaxed) {
                    return false;
                }
                upkeep.crawls.fetch_add(u64::from(self.partition == 0), Ordering::Relaxed);
                crawler.started.store(self.now.0, Ordering::Relaxed);
                crawler.asked.store(asked, Ordering::Relaxed);
                0
            }
            next => next - 1,
        };
        let buckets = self.part.index.buckets();
        let to = buckets.min(from + CRAWL_SLICE);
        for number in from..to {
            let checked = self.remove_dead_of(number as u32);
            self.counters.crawled(Some(ClassId(0)), checked.0, checked.1);
        }
        crawler.next.store(if to == buckets { 0 } else { to + 1 }, Ordering::Relaxed);
        true
    }
}

impl<S: Space> Core<S> {
    /// Bytes of all indexes.
    pub(crate) fn index_bytes(&self) -> u64 {
        let of_partition =
            |partition: &Partition<S>| partition.index.buckets() + partition.index.spares_in_use();
        self.partitions.iter().map(of_partition).sum::<u64>() * BUCKET_BYTES as u64
    }
}

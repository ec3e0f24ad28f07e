//! What is done in slices between requests: an index grows, what has expired is removed, memory is given back, and offsets that lie behind the head are
//! removed from the index before they could be taken for others.

use crate::bucket::{BUCKET_BYTES, Open, SLOTS};
use crate::core::Core;
use crate::partition::Fullness;
use crate::session::MicaSession;
use crate::update::Writer;
use guira_contract::{Pace, Switch, Tuning};
use guira_items::{Count, Eviction};
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
}

/// The crawler sets out this often, in seconds.
const CRAWL_INTERVAL: u32 = 30;
/// It looks at so many buckets in a slice.
const CRAWL_SLICE: u64 = 16;
/// Under load a partition gets its slice once in so many rounds.
const BUSY_ROUNDS_A_SLICE: usize = 64;
/// Items of so many buckets are moved in a slice to where memory is kept.
const MOVE_SLICE: u64 = 16;

/// The items of a bucket go to so many at the most when the index is twice as large, or a quarter larger.
const GOALS: usize = 3;

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

impl MicaSession {
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
            let work = |writer: &mut Writer<'_>| writer.upkeep(is_slow, left);
            done += self.try_holding(number, now, work).unwrap_or(0);
        }
        done
    }
}

impl Writer<'_> {
    fn upkeep(&mut self, is_slow: bool, budget: usize) -> usize {
        self.adjust();
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
    pub(crate) fn after_append(&mut self) {
        let part = self.part;
        let stride = part.stride.get();
        while part.log.age(part.tidied.get()) >= stride {
            self.tidy_one(stride);
        }
        if part.index.is_crowded(part.items.get()) {
            self.grow();
        }
    }

    /// Removes what lies behind the head from the next bucket, long before it could be taken for something else (MICA, section 4.3.2).
    #[cold]
    fn tidy_one(&mut self, stride: u64) {
        let part = self.part;
        let number = part.to_tidy.get() % part.index.buckets();
        let bucket = part.index.bucket(number as u32);
        for slot in bucket.used() {
            if !part.log.is_live(bucket.offset(slot)) {
                bucket.change(|| bucket.clear(slot));
            }
        }
        part.to_tidy.set(number + 1);
        part.tidied.set(part.log.later(part.tidied.get(), stride));
    }

    /// Moves the end of the log to where it should be, if there is more memory or less, or the index wants more.
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
        let (before, end) = (self.part.log.end(), self.part.log_end(self.core.share()));
        if end == before {
            return;
        }
        self.part.log.set_end(end);
        self.part.index.crowded_from(0);
        // Whoever moves items out of the way begins anew: what is in the way is something else.
        self.core.upkeep.moves[self.partition].store(0, Ordering::Relaxed);
        if end > before {
            self.adopt();
        }
    }

    /// Makes room that has come behind the end of the log usable at once, though the tail is not there yet: what lies between is counted to its round. All
    /// buckets are looked at, while others wait: some milliseconds for a million of items, when an operator gives more memory.
    fn adopt(&mut self) {
        let log = &self.part.log;
        if log.pass_flushed(&mut |head| self.pass(head)).is_err() {
            return;
        }
        let Some(adopted) = log.adoption() else {
            return;
        };
        for number in 0..self.part.index.buckets() as u32 {
            let bucket = self.part.index.bucket(number);
            for slot in bucket.used() {
                let offset = bucket.offset(slot);
                if let Some(offset) = adopted(offset).filter(|_| log.is_live(offset)) {
                    bucket.change(|| bucket.set(slot, bucket.tag(slot), offset));
                }
            }
        }
        log.adopt();
    }

    /// Goes on with the growth of the index by a bucket, or begins it. False if there is nothing to do, or no memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let (part, share) = (self.part, self.core.share());
        if let Some(bucket) = part.index.to_move() {
            self.move_bucket(bucket);
            return true;
        }
        let fullness = match self.core.options.eviction {
            Eviction::On => Fullness::LOSSY,
            Eviction::Off => Fullness::KEEPING,
        };
        let (items, crowded_from) = (part.items.get(), part.crowded_from(share, fullness));
        if items < crowded_from {
            part.index.crowded_from(crowded_from);
            return false;
        }
        let wanted = part.wanted_buckets(share, fullness, self.core.plan.buckets_max);
        let Some(wanted) = wanted.filter(|wanted| part.has_room_for(*wanted, share)) else {
            // Not before there are more. If the log has all the memory it gives some of it back.
            part.index.crowded_from(items + items / 64 + 1);
            if let Some(wanted) = wanted.filter(|_| part.log.is_evicting()) {
                part.index.claim(wanted);
            }
            return false;
        };
        self.core.growths.fetch_add(1, Ordering::Relaxed);
        part.index.begin_growth(wanted);
        part.note_buckets();
        self.adjust();
        true
    }

    /// Moves the items of a bucket to where they belong once the index has grown.
    fn move_bucket(&mut self, number: u32) {
        let index = &self.part.index;
        let bucket = index.bucket(number);
        let mut items = [(0, None); SLOTS];
        for (item, slot) in items.iter_mut().zip(bucket.used()) {
            let offset = bucket.offset(slot);
            *item = (offset, self.entry_at(offset).map(|entry| (entry.place(), bucket.tag(slot))));
        }
        // Whoever looks for one of the items waits until all of them have moved.
        let opened = bucket.open();
        bucket.used().for_each(|slot| bucket.clear(slot));
        index.moved(number);
        let mut goals: [Option<(u32, Open<'_>)>; GOALS] = Default::default();
        for (offset, item) in items {
            let Some((place, tag)) = item else { continue };
            let goal = index.bucket_when_grown(place);
            let is_open = goal == number || goals.iter().flatten().any(|(open, _)| *open == goal);
            if let Some(free) = goals.iter_mut().find(|free| free.is_none()).filter(|_| !is_open) {
                *free = Some((goal, index.bucket(goal).open()));
            }
            self.take_in(index.bucket(goal), tag, offset);
        }
        drop((opened, goals));
        let before = number.wrapping_sub(1);
        if number > 0 {
            let bucket = index.bucket(before);
            let region = &self.core.region;
            bucket.used().for_each(|slot| region.prefetch(self.part.log.at(bucket.offset(slot)).bytes()));
            region.prefetch(index.place_of(before.saturating_sub(1)));
        }
    }

    /// Gives memory back, if the log takes more than it may. False if there is nothing to do, or to be had.
    fn shrink(&mut self) -> bool {
        let (part, share) = (self.part, self.core.share());
        let end = part.log.end();
        let kept = end as usize * WORD;
        if part.log_bytes(share) <= kept {
            return false;
        }
        let next = &self.core.upkeep.moves[self.partition];
        if next.load(Ordering::Relaxed) == 0 {
            // The tail leaves first what is to be given back.
            if part.log.turn_before(end, &mut |head| self.pass(head)).is_err() {
                return false;
            }
            next.store(1, Ordering::Relaxed);
        }
        let from = next.load(Ordering::Relaxed) - 1;
        let to = part.index.buckets().min(from + MOVE_SLICE);
        for number in from..to {
            let bucket = part.index.bucket(number as u32);
            for slot in bucket.used() {
                let is_beyond = self
                    .entry_at(bucket.offset(slot))
                    .is_some_and(|entry| part.log.place(bucket.offset(slot)) + entry.room() as u64 > end);
                if is_beyond && !self.move_slot(bucket, slot) {
                    return false;
                }
            }
        }
        if to < part.index.buckets() {
            next.store(to + 1, Ordering::Relaxed);
            return true;
        }
        next.store(0, Ordering::Relaxed);
        // What is being sent is still needed.
        if !part.pins.is_empty() {
            return false;
        }
        let from = self.core.plan.log_at(self.partition) + kept;
        let length = part.log_bytes(share) - kept;
        if self.core.region.discard(from, length).is_err() {
            return false;
        }
        part.log.forget_beyond(end);
        true
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
        let index = &self.part.index;
        let to = index.buckets().min(from + CRAWL_SLICE);
        for number in from..to {
            let bucket = index.bucket(number as u32);
            for slot in bucket.used() {
                self.counters.add(Count::CrawlerChecked, 1);
                if self.remove_if_dead(bucket, slot) {
                    self.counters.add(Count::CrawlerReclaimed, 1);
                }
            }
        }
        crawler.next.store(if to == index.buckets() { 0 } else { to + 1 }, Ordering::Relaxed);
        true
    }
}

impl Core {
    /// Bytes of all indexes.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.index.buckets() * BUCKET_BYTES as u64).sum()
    }
}

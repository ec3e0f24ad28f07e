//! When the crawler starts in a partition and how far it has come.

use guira_contract::Switch;
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::ops::Range;

/// Seconds between two starts.
const INTERVAL: u32 = 30;
const SLICE: u64 = 16;

/// Removes expired items in the background, partition by partition. Relaxed, as all here: the next slice looks again.
#[derive(Debug)]
pub(crate) struct Crawler {
    is_off: AtomicBool,
    /// How often it was asked to start.
    asked: AtomicU32,
    crawls: AtomicU64,
    partitions: Box<[Crawl]>,
}

/// The crawler in a partition, changed by the partition's holder.
#[derive(Debug, Default)]
struct Crawl {
    /// The next bucket plus one, or 0 while it rests.
    next: AtomicU64,
    started: AtomicU32,
    /// How often it had been asked when it started.
    asked: AtomicU32,
    /// How many flushes of prefixes there were when it started.
    flushes: AtomicU64,
    /// The next bucket for a search for room.
    searched: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) buckets: Range<u64>,
    /// If these are the last of a crawl: how many flushes of prefixes the partition is clean of afterwards.
    pub(crate) cleans: Option<u64>,
}

impl Crawler {
    pub(crate) fn new(partitions: usize) -> Self {
        Crawler {
            is_off: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            crawls: AtomicU64::new(0),
            partitions: (0..partitions).map(|_| Crawl::default()).collect(),
        }
    }

    pub(crate) fn switch(&self, switch: Switch) {
        self.is_off.store(switch == Switch::Off, Ordering::Relaxed);
    }

    /// Lets it start at once.
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn crawls(&self) -> u64 {
        self.crawls.load(Ordering::Relaxed)
    }

    /// Whether it is under way or about to start.
    pub(crate) fn is_crawling(&self) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        let is_out = |crawl: &Crawl| {
            crawl.next.load(Ordering::Relaxed) != 0 || crawl.asked.load(Ordering::Relaxed) != asked
        };
        self.partitions.iter().any(is_out)
    }

    /// The buckets of the next slice in a partition with this many. `None` if there is nothing to do for now. It starts at once if the partition is not clean of
    /// all `flushes` of prefixes.
    pub(crate) fn slice(
        &self,
        partition: usize,
        buckets: u64,
        (clean_since, flushes): (u64, u64),
        now: Seconds,
    ) -> Option<Slice> {
        let crawl = &self.partitions[partition];
        let from = match crawl.next.load(Ordering::Relaxed) {
            0 => {
                let asked = self.asked.load(Ordering::Relaxed);
                let rests = self.is_off.load(Ordering::Relaxed)
                    || now.0.saturating_sub(crawl.started.load(Ordering::Relaxed)) < INTERVAL;
                if rests && asked == crawl.asked.load(Ordering::Relaxed) && clean_since == flushes {
                    return None;
                }
                self.crawls.fetch_add(u64::from(partition == 0), Ordering::Relaxed);
                crawl.started.store(now.0, Ordering::Relaxed);
                crawl.asked.store(asked, Ordering::Relaxed);
                crawl.flushes.store(flushes, Ordering::Relaxed);
                0
            }
            next => next - 1,
        };
        let to = buckets.min(from + SLICE);
        let is_last = to == buckets;
        crawl.next.store(if is_last { 0 } else { to + 1 }, Ordering::Relaxed);
        let cleans = is_last.then(|| crawl.flushes.load(Ordering::Relaxed));
        Some(Slice { buckets: from..to, cleans })
    }

    /// The next `count` buckets, of this many, in which a search for room removes expired items.
    pub(crate) fn search(
        &self,
        partition: usize,
        buckets: u64,
        count: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let next = &self.partitions[partition].searched;
        let from = next.load(Ordering::Relaxed);
        next.store((from + count) % buckets, Ordering::Relaxed);
        (from..from + count.min(buckets)).map(move |number| number % buckets)
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    fn crawl(crawler: &Crawler, partition: usize, buckets: u64, now: u32) -> Vec<u64> {
        let slice = || crawler.slice(partition, buckets, (0, 0), Seconds(now));
        std::iter::from_fn(slice).flat_map(|slice| slice.buckets).collect()
    }

    #[test]
    fn it_visits_every_bucket_once_an_interval_and_when_asked() {
        let crawler = Crawler::new(2);
        let now = INTERVAL;
        assert_eq!(crawl(&crawler, 0, 40, now), (0..40).collect::<Vec<_>>());
        assert!(crawl(&crawler, 0, 40, now + 1).is_empty());
        assert_eq!(crawl(&crawler, 1, 16, now + 1).len(), 16);
        crawler.ask();
        assert!(crawler.is_crawling());
        assert_eq!([0, 1].map(|partition| crawl(&crawler, partition, 40, now + 2).len()), [40, 40]);
        assert!(!crawler.is_crawling());
        crawler.switch(Switch::Off);
        assert!(crawl(&crawler, 0, 40, now + 2 * INTERVAL).is_empty());
        assert_eq!(crawler.crawls(), 2, "counted in the first partition");
    }

    #[test]
    fn searches_go_around_the_buckets() {
        let crawler = Crawler::new(1);
        let search = |count| crawler.search(0, 10, count).collect::<Vec<_>>();
        assert_eq!(search(6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(search(6), [6, 7, 8, 9, 0, 1]);
        assert_eq!(search(100).len(), 10);
    }
}

//! When the crawler starts and how far it has come.

use guira_contract::Switch;
use guira_items::{Crawled, Flushes};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use guira_sync::quiescence::{Quiescence, Ticket};

/// Seconds between two starts. A flush starts it at once.
const INTERVAL: u32 = 30;
const SLICE: u32 = 64;

/// Removes dead items in the background, one bucket after the other.
#[derive(Debug, Default)]
pub(crate) struct Crawler {
    /// LOCK: crawler. Held for a slice by one thread at a time; only statistics wait for it.
    crawl: Mutex<Crawl>,
    /// Crawl for flushes only. Relaxed, as all here: the next slice looks again.
    is_off: AtomicBool,
    /// Start at once.
    is_asked: AtomicBool,
    crawls: AtomicU64,
}

#[derive(Debug, Default)]
struct Crawl {
    /// The next bucket of a crawl under way.
    bucket: Option<u64>,
    started: Seconds,
    crawled: Crawled,
}

impl Crawler {
    pub(crate) fn switch(&self, switch: Switch) {
        self.is_off.store(switch == Switch::Off, Ordering::Relaxed);
    }

    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn crawls(&self) -> u64 {
        self.crawls.load(Ordering::Relaxed)
    }

    /// Whether it is under way or about to start.
    pub(crate) fn is_crawling(&self) -> bool {
        let crawl = self.crawl.lock();
        crawl.bucket.is_some() || self.is_asked.load(Ordering::Relaxed)
    }

    /// Does a slice of work. `clean` removes what is dead from a bucket and returns the next one on the list. False if there is nothing to do for now.
    pub(crate) fn crawl(
        &self,
        (flushes, quiescence): (&Flushes<Ticket>, &Quiescence),
        now: Seconds,
        mut clean: impl FnMut(u64) -> Option<u64>,
    ) -> bool {
        let Some(mut crawl) = self.crawl.try_lock() else {
            return false;
        };
        let Some(mut bucket) = crawl.bucket else {
            return self.start(&mut crawl, (flushes, quiescence), now);
        };
        for _ in 0..SLICE {
            match clean(bucket) {
                Some(next) => bucket = next,
                None => {
                    crawl.bucket = None;
                    flushes.end_crawl(crawl.crawled);
                    return true;
                }
            }
        }
        crawl.bucket = Some(bucket);
        true
    }

    /// Starts a crawl if it is time, or if there was a flush that all sessions know of.
    fn start(
        &self,
        crawl: &mut Crawl,
        (flushes, quiescence): (&Flushes<Ticket>, &Quiescence),
        now: Seconds,
    ) -> bool {
        let has_passed = |ticket: &Ticket| quiescence.passed(*ticket);
        let is_asked = self.is_asked.swap(false, Ordering::Relaxed);
        let rests = self.is_off.load(Ordering::Relaxed) || now.0.saturating_sub(crawl.started.0) < INTERVAL;
        if rests && !is_asked && !flushes.needs_crawl(has_passed) {
            return false;
        }
        self.crawls.fetch_add(1, Ordering::Relaxed);
        *crawl = Crawl { bucket: Some(0), started: now, crawled: flushes.begin_crawl(has_passed) };
        true
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_items::Flushable;
    use std::sync::Arc;

    struct Nothing<'q>(&'q Quiescence);

    impl Flushable for Nothing<'_> {
        type Mark = Ticket;

        fn mark(&self) -> Ticket {
            self.0.ticket()
        }

        fn sweep(&self, _kept: u32, _now: Seconds) {}
    }

    /// Crawls until there is nothing to do. Returns the buckets that were cleaned, of this many.
    fn crawl(crawler: &Crawler, parts: (&Flushes<Ticket>, &Quiescence), now: u32, buckets: u64) -> Vec<u64> {
        let mut cleaned = Vec::new();
        let mut clean = |bucket| {
            cleaned.push(bucket);
            (bucket + 1 < buckets).then_some(bucket + 1)
        };
        while crawler.crawl(parts, Seconds(now), &mut clean) {}
        cleaned
    }

    #[test]
    fn it_starts_after_the_interval_when_asked_and_for_flushes() {
        let (crawler, flushes, quiescence) = (Crawler::default(), Flushes::default(), Arc::default());
        let parts = (&flushes, &*quiescence);
        let now = INTERVAL;
        assert_eq!(crawl(&crawler, parts, now, 200), (0..200).collect::<Vec<_>>());
        assert!(crawl(&crawler, parts, now + INTERVAL - 1, 200).is_empty());
        crawler.ask();
        assert!(crawler.is_crawling());
        assert_eq!(crawl(&crawler, parts, now + 1, 200).len(), 200);
        assert!(!crawler.is_crawling());
        crawler.switch(Switch::Off);
        assert!(crawl(&crawler, parts, now + 10 * INTERVAL, 200).is_empty());
        let session = Quiescence::register(&quiescence);
        flushes.schedule(Seconds(now), Seconds(now), &Nothing(&quiescence));
        assert!(crawl(&crawler, parts, now + 10 * INTERVAL, 200).is_empty(), "a session may not know of it");
        session.quiesce();
        assert_eq!(crawl(&crawler, parts, now + 10 * INTERVAL, 200).len(), 200);
        assert_eq!(flushes.saved().dirty, 0, "the crawl cleaned the flushed generation");
        assert_eq!(crawler.crawls(), 3);
    }
}

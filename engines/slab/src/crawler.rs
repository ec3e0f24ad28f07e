//! Where the background removal of dead items stands. What it does to a page: [`crate::session::crawl`].

use guira_contract::Switch;
use guira_items::{Crawled, Flushes};
use guira_memory::slab::PageId;
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use guira_sync::quiescence::{Quiescence, Ticket};

/// The crawler sets out this often, in seconds, and whenever there was a flush.
const INTERVAL: u32 = 30;

/// Chunks of a step, about. A look at a part of a page counts as one more, so that a step is short where pages are empty.
const SLICE: usize = 64;

/// The orderings of what is asked of the crawler are Relaxed: it looks again soon.
#[derive(Debug, Default)]
pub(crate) struct Crawler {
    /// LOCK: crawler. Held for a moment by one thread at a time, and not waited for by those who crawl.
    position: Mutex<Position>,
    /// The crawler does nothing but what flushes need.
    is_off: AtomicBool,
    /// The crawler is to set out at once.
    is_asked: AtomicBool,
    rounds: AtomicU64,
}

#[derive(Debug, Default)]
struct Position {
    /// The next page and the next part of it, if it is on its way.
    next: Option<(u32, u32)>,
    /// When it set out.
    started: Seconds,
    /// The flush generations that it makes clean.
    crawled: Crawled,
}

impl Crawler {
    /// Whether the crawler sets out by itself.
    pub(crate) fn switch(&self, switch: Switch) {
        self.is_off.store(switch == Switch::Off, Ordering::Relaxed);
    }

    /// The crawler is to set out at once.
    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// The same for a store that was refused memory, but not twice in a second.
    pub(crate) fn ask_for_memory(&self, now: Seconds) {
        let is_due = |position: &Position| position.next.is_none() && position.started < now;
        if self.position.try_lock().is_some_and(|position| is_due(&position)) {
            self.ask();
        }
    }

    /// Times the crawler has set out.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Whether the crawler is on its way, or about to be.
    pub(crate) fn is_crawling(&self) -> bool {
        let position = self.position.lock();
        position.next.is_some() || self.is_asked.load(Ordering::Relaxed)
    }

    /// Lets `look` see the next parts of `pages` pages, alone: one is the number of a page and of the part. It returns how many chunks that has, or `None` if the
    /// page has no such part. False if there is nothing to do for now.
    pub(crate) fn step(
        &self,
        now: Seconds,
        pages: u32,
        (flushes, quiescence): (&Flushes<Ticket>, &Quiescence),
        mut look: impl FnMut(PageId, u32) -> Option<usize>,
    ) -> bool {
        let Some(mut position) = self.position.try_lock() else {
            return false;
        };
        let Some((mut page, mut part)) = position.next else {
            return self.set_out(&mut position, now, flushes, quiescence);
        };
        let mut looked = 0;
        while looked < SLICE {
            if page >= pages {
                position.next = None;
                flushes.end_crawl(position.crawled);
                return looked > 0;
            }
            let chunks = look(PageId(page), part);
            (page, part) = if chunks.is_some() { (page, part + 1) } else { (page + 1, 0) };
            looked += 1 + chunks.unwrap_or(0);
        }
        position.next = Some((page, part));
        true
    }

    /// Sets out if it is time, or if there was a flush that every session knows of.
    fn set_out(
        &self,
        position: &mut Position,
        now: Seconds,
        flushes: &Flushes<Ticket>,
        quiescence: &Quiescence,
    ) -> bool {
        let passed = |since: &Ticket| quiescence.passed(*since);
        let asked = self.is_asked.swap(false, Ordering::Relaxed);
        let pauses =
            self.is_off.load(Ordering::Relaxed) || now.0.saturating_sub(position.started.0) < INTERVAL;
        if !flushes.needs_crawl(passed) && !asked && pauses {
            return false;
        }
        self.rounds.fetch_add(1, Ordering::Relaxed);
        *position = Position { next: Some((0, 0)), started: now, crawled: flushes.begin_crawl(passed) };
        true
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_sees_every_part_of_every_page_once_in_short_steps() {
        let (crawler, flushes, quiescence) = (Crawler::default(), Flushes::default(), Quiescence::default());
        // Parts of each page, and chunks of a part: full of small items, of long ones, empty, and of no class.
        let pages = [(40, 64), (1, 3), (16, 0), (0, 0), (3, 10), (1, 1), (40, 7)];
        let mut seen = Vec::new();
        let mut step = |now| {
            let (mut parts, mut chunks) = (0, 0);
            let look = |PageId(page): PageId, part| {
                let (count, each) = pages[page as usize];
                let is_there = part < count;
                if is_there {
                    seen.push((page, part));
                    (parts, chunks) = (parts + 1, chunks + each);
                }
                is_there.then_some(each)
            };
            let more = crawler.step(Seconds(now), pages.len() as u32, (&flushes, &quiescence), look);
            assert!(parts <= SLICE && chunks < 2 * SLICE, "{parts} parts and {chunks} chunks in a step");
            more
        };
        let steps = (0..).take_while(|_| step(INTERVAL)).count();
        assert!(!step(INTERVAL), "it rests");
        let all = (0..).zip(pages).flat_map(|(page, (parts, _))| (0..parts).map(move |part| (page, part)));
        assert!(seen.iter().copied().eq(all), "{seen:?}");
        assert!((41..60).contains(&steps), "{steps} steps");
    }
}

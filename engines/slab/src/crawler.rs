//! Where the background removal of dead items stands. What it does to a page: [`crate::session::crawl`].

use guira_contract::Switch;
use guira_items::{Crawled, Flushes};
use guira_memory::slab::PageId;
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::{Quiescence, Ticket};
use std::sync::{Mutex, PoisonError};

/// The crawler sets out this often, in seconds, and whenever there was a flush.
const INTERVAL: u32 = 30;

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
    /// The next page, if it is on its way.
    page: Option<u32>,
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
        let is_due = |position: &Position| position.page.is_none() && position.started < now;
        if self.position.try_lock().is_ok_and(|position| is_due(&position)) {
            self.ask();
        }
    }

    /// Times the crawler has set out.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Whether the crawler is on its way, or about to be.
    pub(crate) fn is_crawling(&self) -> bool {
        let position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        position.page.is_some() || self.is_asked.load(Ordering::Relaxed)
    }

    /// Lets `look` see the next of `pages` pages, alone. False if there is nothing to do for now.
    pub(crate) fn step(
        &self,
        now: Seconds,
        pages: u32,
        (flushes, quiescence): (&Flushes<Ticket>, &Quiescence),
        look: impl FnOnce(PageId),
    ) -> bool {
        let Ok(mut position) = self.position.try_lock() else {
            return false;
        };
        let Some(page) = position.page else {
            return self.set_out(&mut position, now, flushes, quiescence);
        };
        if page >= pages {
            position.page = None;
            flushes.end_crawl(position.crawled);
            return false;
        }
        position.page = Some(page + 1);
        look(PageId(page));
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
        *position = Position { page: Some(0), started: now, crawled: flushes.begin_crawl(passed) };
        true
    }
}

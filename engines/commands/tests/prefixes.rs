//! Deletes by prefix while another thread keeps the crawler from starting.

use guira_commands::observe::{Event, Observer};
use guira_commands::{CommandCounters, Executor};
use guira_contract::{Engine, FlushBusy, KeyHash, Session};
use guira_fleec::{FleecEngine, FleecOptions};
use guira_slab::{CuckooEngine, EngineOptions, SlabOptions};
use guira_sync::clock::{CoarseClock, Seconds};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// More than can be remembered at a time.
const FLUSHES: usize = 20;
/// Turns that a request may have before it is refused.
const TURNS: usize = 100;

#[derive(Debug)]
struct NullObserver;

impl Observer for NullObserver {
    fn see(&self, _event: Event<'_>, _hash: KeyHash) {}
}

/// Another thread is in the middle of a batch until a request has looked `looks` times. Returns what came of the flushes, and how often they looked.
fn flush_beside_a_batch(engine: &impl Engine, looks: usize) -> (Result<(), FlushBusy>, usize) {
    let other = RefCell::new(engine.session());
    other.borrow_mut().online();
    let counters = Arc::new(CommandCounters::default());
    let clock = CoarseClock::manual(1_700_000_000);
    let mut executor = Executor::new(engine.session(), clock, counters, Box::new(NullObserver));
    let refusals = Cell::new(0);
    let flush = |prefixes: &[&[u8]]| {
        let flushed = engine.flush_prefixes(Seconds(1000), prefixes);
        refusals.set(refusals.get() + usize::from(flushed.is_err()));
        if refusals.get() == looks {
            other.borrow_mut().offline();
        }
        flushed
    };
    let mut flush_in_turns = || {
        for _ in 0..TURNS {
            if executor.flush_prefixes(&[b"a"], flush).is_ok() {
                return Ok(());
            }
            executor.crawl_for(Duration::from_micros(100));
        }
        Err(FlushBusy)
    };
    let all = (0..FLUSHES).try_for_each(|_| flush_in_turns());
    (all, refusals.get())
}

fn try_engine<E: Engine>(open: impl Fn() -> E) {
    let (flushed, refusals) = flush_beside_a_batch(&open(), 10);
    assert_eq!(flushed, Ok(()));
    assert!(refusals >= 10, "the batch kept the crawler from starting: {refusals}");
    let (flushed, refusals) = flush_beside_a_batch(&open(), usize::MAX);
    assert_eq!((flushed, refusals), (Err(FlushBusy), TURNS));
}

#[test]
fn they_wait_for_a_thread_in_the_middle_of_a_batch() {
    let engine = || EngineOptions::of(16 << 20);
    try_engine(|| {
        CuckooEngine::open(SlabOptions { engine: engine(), ..SlabOptions::default() }).expect("memory")
    });
    try_engine(|| {
        FleecEngine::open(FleecOptions { engine: engine(), ..FleecOptions::default() }).expect("memory")
    });
}

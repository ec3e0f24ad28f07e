//! Every policy against a set: what is stored is a victim once, unless it is removed, and nothing else is.

use std::collections::BTreeSet;

use super::fifo::Fifo;
use super::klru::{Klru, KlruOptions, Priority};
use super::lazy_lru::{LazyLru, LazyLruOptions, TailReclaim};
use super::lru::Lru;
use super::plain::{self, Plain};
use super::s3_fifo::S3Fifo;
use super::seg_lru::{SegLru, SegLruOptions, Segments};
use super::sieve::Sieve;
use super::two_q::{TwoQ, TwoQOptions};
use super::{Arrival, Chunk, Chunks, Lately, Order, PolicyOptions as _};

const CHUNKS: u32 = 200;
const STEPS: u32 = 20_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }
}

/// An order, its chunks, and what must be in it.
struct Run<O> {
    order: O,
    chunks: Plain,
    stored: BTreeSet<Chunk>,
    random: Random,
    tick: u32,
}

impl<O: Order> Run<O> {
    /// Any chunk, whether it is in the order or not.
    fn chunk(&mut self) -> Chunk {
        self.random.below(CHUNKS)
    }

    fn store(&mut self) {
        let chunk = self.chunk();
        let now = plain::at(self.tick);
        self.chunks.occupied[chunk as usize].set(true);
        self.chunks.dead[chunk as usize].set(false);
        let lives = if chunk.is_multiple_of(3) { 50 } else { u32::MAX };
        self.order.stored(&self.chunks, chunk, Arrival { hash: self.chunks.hash(chunk), lives }, now);
        self.stored.insert(chunk);
        let most = CHUNKS as usize;
        let newest = self.order.newest(&self.chunks, &[chunk], Lately { now, ticks: 16, most });
        assert_eq!(newest.len(), 1, "it is new");
        if let Some(next) = self.order.next(&self.chunks) {
            let age = now.ticks_since(self.order.since(&self.chunks, next));
            assert!(age <= 2 * STEPS, "{age} ticks");
        }
    }

    /// A read, possibly of what has gone.
    fn read(&mut self) {
        let chunk = self.chunk();
        self.chunks.read(chunk);
        O::touch(self.order.variant(), &self.chunks, chunk, plain::at(self.tick));
        O::is_due(&self.chunks, chunk, plain::at(self.tick));
        self.order.was_read(&self.chunks, chunk, plain::at(self.tick));
    }

    fn remove(&mut self) {
        let chunk = self.chunk();
        self.chunks.occupied[chunk as usize].set(false);
        self.order.removed(&self.chunks, chunk);
        self.stored.remove(&chunk);
    }

    fn evict(&mut self, want: usize) {
        // Some time the engine takes to free a chunk that was shown to it.
        let mut taken = Vec::new();
        self.order.victims(&self.chunks, want, plain::at(self.tick), |chunk| taken.push(chunk));
        assert_eq!(taken.len(), want.min(self.stored.len()), "as many as are wanted, if there are");
        self.leave(&taken);
    }

    fn reclaim(&mut self) {
        let mut taken = Vec::new();
        self.order.reclaim(&self.chunks, plain::at(self.tick), |chunk| taken.push(chunk));
        assert!(taken.iter().all(|chunk| self.chunks.dead[*chunk as usize].get()));
        self.leave(&taken);
    }

    fn leave(&mut self, taken: &[Chunk]) {
        for chunk in taken {
            assert!(self.stored.remove(chunk), "{chunk} was not stored, or went before");
            self.chunks.occupied[*chunk as usize].set(false);
        }
    }

    /// What is in a chunk expires, or is removed while the chunk remains.
    fn die(&mut self) {
        let chunk = self.chunk();
        self.chunks.dead[chunk as usize].set(true);
        if chunk.is_multiple_of(2) {
            self.chunks.occupied[chunk as usize].set(false);
        }
    }

    fn step(&mut self) {
        // Now and then a session is a little behind.
        self.tick = self.tick.wrapping_add(self.random.below(7)).wrapping_sub(self.random.below(3));
        match self.random.below(100) {
            0..40 => self.store(),
            40..80 => self.read(),
            80..84 => self.remove(),
            84..88 => self.die(),
            88..92 => self.reclaim(),
            92..99 => {
                let want = self.random.below(12) as usize;
                self.evict(want);
            }
            _ => self.chunks.recent.iter().for_each(|bit| bit.set(true)),
        }
        assert_eq!(self.order.next(&self.chunks).is_some(), !self.stored.is_empty());
    }
}

fn check<O: Order>(make: impl Fn() -> O, change: impl Fn(&mut O, u32)) {
    for seed in 0..6 {
        let chunks = Plain::new(CHUNKS as usize, make().notes());
        let (order, stored, random) = (make(), BTreeSet::new(), Random(seed));
        // Ticks wrap soon.
        let mut run = Run { order, chunks, stored, random, tick: u32::MAX - 9_000 };
        for step in 0..STEPS {
            change(&mut run.order, step);
            run.step();
        }
        run.evict(CHUNKS as usize);
        assert!(run.stored.is_empty() && run.order.next(&run.chunks).is_none());
    }
}

#[test]
fn lists_hold_what_is_stored() {
    check(Fifo::default, |_, _| ());
    check(Lru::default, |_, _| ());
    check(Sieve::default, |_, _| ());
    check(S3Fifo::default, |_, _| ());
    check(TwoQ::default, |_, _| ());
    check(TwoQ::default, |order, step| {
        let in_percent = if step / 1000 % 2 == 0 { 25 } else { 60 };
        assert!(TwoQOptions { in_percent }.tune(order));
    });
    for (interval, tail_reclaim) in [(0, TailReclaim::Off), (60, TailReclaim::On)] {
        check(|| LazyLru::new(LazyLruOptions { interval, tail_reclaim }), |_, _| ());
    }
}

#[test]
fn segments_hold_what_is_stored_while_they_are_tuned() {
    check(SegLru::default, |_, _| ());
    check(SegLru::default, |order, step| {
        let segments = if step / 1000 % 2 == 0 { Segments::Segmented } else { Segments::Flat };
        let temp_ttl = (step / 700 % 3 == 0).then_some(60);
        let percent = step / 500 % 80;
        order.tune(SegLruOptions { segments, temp_ttl, hot_percent: percent, ..SegLruOptions::default() });
    });
}

#[test]
fn samples_are_drawn_of_what_is_stored() {
    check(Klru::default, |order, step| order.tune(step / 300 % 40));
    for priority in [Priority::Frequency, Priority::Hyperbolic] {
        check(|| Klru::new(KlruOptions { priority, ..KlruOptions::default() }, 0), |_, _| ());
    }
}

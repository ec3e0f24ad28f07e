//! The figures of MemC3's section 5.2, and of the engine in process. Prints a table; see docs/results/bench.
//!
//! `cargo bench -p guira-slab --features probe`

use guira_contract::suite::store;
use guira_contract::{
    Control, Engine, Expiry, ItemView, Key, KeyHash, Meta, Pace, Recency, Session, Sink, ValuePin, Want,
};
use guira_memory::RegionPlace;
use guira_slab::EngineOptions;
use guira_slab::index::{IndexProbe, SearchLimits};
use guira_slab::{Cuckoo, CuckooEngine, SlabOptions, SlabPin, SlabSession};
use guira_sync::clock::{Seconds, Stopwatch};
use guira_sync::version::DEFAULT_STRIPES;

use std::time::Duration;

const NOW: Seconds = Seconds(1000);
const BUCKETS: u32 = 1_000_000;
const ITEMS: u64 = 10_000_000;
const BATCH: usize = 32;

/// A bijection with well-spread results (splitmix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn row(name: &str, value: impl std::fmt::Display) {
    println!("| {name} | {value} |");
}

/// Fills an index of fixed size until an insert first fails.
fn fill(limits: SearchLimits) -> (IndexProbe, u64) {
    let index = IndexProbe::new(BUCKETS, DEFAULT_STRIPES, limits);
    let slots = index.slots();
    let name = |what: &str| format!("depth {}, paths {}: {what}", limits.depth, limits.paths);
    let (mut keys, mut displaced) = (0u64, 0u64);
    let (mut to_80, mut to_95) = (None, None);
    let watch = Stopwatch::start();
    'full: loop {
        let first = keys + 1;
        for ahead in first..first + BATCH as u64 {
            index.prefetch(mix(ahead));
        }
        for number in first..first + BATCH as u64 {
            let Some(moved) = index.insert(mix(number), number) else {
                break 'full;
            };
            keys += 1;
            displaced += moved;
        }
        if to_80.is_none() && keys * 100 >= slots * 80 {
            to_80 = Some(displaced as f64 / keys as f64);
        }
        if to_95.is_none() && keys * 100 >= slots * 95 {
            to_95 = Some(keys as f64 / watch.elapsed().as_secs_f64() / 1e6);
        }
    }
    row(&name("load at the first insert that fails"), format!("{:.2} %", keys as f64 * 100.0 / slots as f64));
    row(&name("bytes of table a key"), format!("{:.2}", index.bytes() as f64 / keys as f64));
    row(&name("displacements an insert, to 80 % load"), format!("{:.4}", to_80.unwrap_or(f64::NAN)));
    row(&name("displacements an insert, altogether"), format!("{:.4}", displaced as f64 / keys as f64));
    row(&name("M inserts/s to 95 % load"), format!("{:.2}", to_95.unwrap_or(f64::NAN)));
    (index, keys)
}

/// Who may insert at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    /// Anybody, each locking the buckets of a step.
    Several,
    /// One at a time, as in the paper.
    Single,
}

/// Two threads fill an index to 90 %. Returns M inserts a second.
fn fill_together(writers: Writers) -> f64 {
    let index = IndexProbe::new(BUCKETS, DEFAULT_STRIPES, SearchLimits::default());
    let turn = guira_sync::lock::Mutex::new(());
    let each = index.slots() * 45 / 100;
    let watch = Stopwatch::start();
    guira_sync::thread::scope(|scope| {
        for thread in 0..2 {
            let (index, turn) = (&index, &turn);
            scope.spawn(move || {
                for first in (thread * each + 1..=(thread + 1) * each).step_by(BATCH) {
                    let batch = first..(first + BATCH as u64).min((thread + 1) * each + 1);
                    batch.clone().for_each(|number| index.prefetch(mix(number)));
                    for number in batch {
                        let _turn = (writers == Writers::Single).then(|| turn.lock());
                        index.insert(mix(number), number).expect("there is room");
                    }
                }
            });
        }
    });
    (2 * each) as f64 / watch.elapsed().as_secs_f64() / 1e6
}

/// Counts what lookups touch: bucket lines are two by construction.
fn touched(index: &IndexProbe, keys: u64) {
    let sample = 1_000_000;
    let mut hits = 0;
    let mut misses = 0;
    for i in 0..sample {
        let number = mix(i) % keys + 1;
        let touched = index.lookup(mix(number), number);
        assert!(touched.found);
        hits += touched.items;
        misses += index.lookup(mix(keys + 10_000 + i), u64::MAX >> 24).items;
    }
    row("item dereferences on a hit", format!("{:.4}", hits as f64 / sample as f64));
    row("item dereferences on a miss", format!("{:.4}", misses as f64 / sample as f64));
}

/// Takes 32 bytes of each value.
struct Take([u8; 32]);

impl Sink for Take {
    type Pin = SlabPin<Cuckoo>;
    fn wants(&self) -> Want {
        Want::Value
    }
    #[inline(always)]
    fn found<I: ItemView>(&mut self, item: &I) {
        item.copy_value(0, &mut self.0);
    }
    fn undo(&mut self) {}
    fn recency(&self) -> Recency {
        Recency::Bump
    }
    fn pinned(&mut self, _meta: &Meta, pin: SlabPin<Cuckoo>) {
        assert!(pin.value_len() > 0);
    }
}

fn name(number: u64) -> [u8; 16] {
    let mut name = *b"keys-of-16-bytes";
    name[8..].copy_from_slice(&number.to_le_bytes());
    name
}

/// Uniform hits; the key is compared in the item, and 32 bytes are copied. Returns M lookups a second.
fn lookups(session: &mut SlabSession<Cuckoo>, seed: u64, batch: usize, count: u64) -> f64 {
    let mut sink = Take([0; 32]);
    let mut names = vec![([0; 16], KeyHash(0)); batch];
    let mut guesses = vec![<SlabSession<Cuckoo> as Session>::Guess::default(); batch];
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < count {
        for (i, slot) in names.iter_mut().enumerate() {
            let bytes = name(((u128::from(mix(seed + done + i as u64)) * u128::from(ITEMS)) >> 64) as u64);
            let hash = session.hash(&bytes);
            if batch > 1 {
                session.prefetch_buckets(hash);
            }
            *slot = (bytes, hash);
        }
        if batch > 1 {
            for (name, guess) in names.iter().zip(&mut guesses) {
                *guess = session.prefetch_item(name.1);
            }
        }
        for ((bytes, hash), guess) in names.iter().zip(&guesses) {
            let key = Key { bytes, hash: *hash };
            if batch > 1 {
                session.read(key, *guess, NOW, &mut sink);
            } else {
                let guess = session.prefetch_item(key.hash);
                session.read(key, guess, NOW, &mut sink);
            }
        }
        done += batch as u64;
        if done.is_multiple_of(BATCH as u64) {
            session.quiesce();
        }
    }
    assert_ne!(sink.0, [0; 32]);
    done as f64 / watch.elapsed().as_secs_f64() / 1e6
}

fn fill_engine(session: &mut SlabSession<Cuckoo>) {
    for number in 0..ITEMS {
        store(session, &name(number), &[number as u8 | 1; 32], 0, Expiry::Never, NOW).expect("memory");
        if number.is_multiple_of(32) {
            session.maintain(NOW, Pace::Busy, 32);
            session.quiesce();
        }
    }
}

/// An engine in a file in shared memory is closed and opened again.
fn restart() {
    let path = std::env::var("GUIRA_BENCH_REGION").unwrap_or_else(|_| "bench".to_owned());
    let place: RegionPlace = path.parse().expect("a name or a path");
    let _ = std::fs::remove_file(place.path());
    let options = SlabOptions {
        engine: EngineOptions { memory: 1 << 30, reserve: 4 << 30, ..EngineOptions::default() },
        ..SlabOptions::default()
    };
    let open = || CuckooEngine::open_lasting(options, &place, 1_700_000_000).expect("a region");
    let opened = open();
    let mut session = opened.engine.session();
    fill_engine(&mut session);
    row("M lookups/s before", format!("{:.2}", lookups(&mut session, 1, BATCH, 30_000_000)));
    drop(session);
    let watch = Stopwatch::start();
    opened.engine.close(NOW, &[]).expect("it is closed");
    row("ms to close 10 M items", watch.elapsed().as_millis());
    let watch = Stopwatch::start();
    let opened = open();
    row("ms to open them", watch.elapsed().as_millis());
    row("region", &opened.opening);
    let mut session = opened.engine.session();
    row("M lookups/s of the first 3 M", format!("{:.2}", lookups(&mut session, 2, BATCH, 3_000_000)));
    lookups(&mut session, 7, BATCH, 60_000_000);
    row("M lookups/s later", format!("{:.2}", lookups(&mut session, 3, BATCH, 30_000_000)));
    let _ = std::fs::remove_file(place.path());
}

/// Half of the memory of 10 M items is taken away, and half of that, while nothing else is done.
fn resize() {
    let options = SlabOptions { engine: EngineOptions::of(1 << 30), ..SlabOptions::default() };
    let engine = CuckooEngine::open(options).expect("memory");
    let mut session = engine.session();
    fill_engine(&mut session);
    for pace in [Pace::Busy, Pace::Idle] {
        let before = engine.stats();
        engine.resize(before.memory_used as usize / 2).expect("there is enough");
        let (watch, mut longest, mut rounds) = (Stopwatch::start(), Duration::ZERO, 0);
        while engine.stats().memory_used > engine.stats().memory_limit {
            let step = Stopwatch::start();
            session.quiesce();
            session.maintain(NOW, pace, 32);
            longest = longest.max(step.elapsed());
            rounds += 1;
        }
        row(
            &format!("{pace:?}: ms to halve {} M items", before.items / 1_000_000),
            watch.elapsed().as_millis(),
        );
        row(&format!("{pace:?}: rounds of upkeep"), rounds);
        row(&format!("{pace:?}: the longest, µs"), longest.as_micros());
        row(&format!("{pace:?}: items left"), engine.stats().items);
    }
}

fn engine() {
    let engine =
        CuckooEngine::open(SlabOptions { engine: EngineOptions::of(1 << 30), ..SlabOptions::default() })
            .expect("memory");
    let mut session = engine.session();
    fill_engine(&mut session);
    assert_eq!(engine.stats().items, ITEMS);
    // The first read of an item is noted in it; this is about the others.
    lookups(&mut session, 7, BATCH, 60_000_000);
    let alone = lookups(&mut session, 1, 1, 20_000_000);
    row("M lookups/s at 10 M items, one by one", format!("{alone:.2}"));
    let one = lookups(&mut session, 2, BATCH, 30_000_000);
    row("M lookups/s at 10 M items, in batches of 32", format!("{one:.2}"));
    drop(session);
    let two: f64 = guira_sync::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let mut session = engine.session();
                scope.spawn(move || lookups(&mut session, 1 << (40 + thread), BATCH, 30_000_000))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    row("the same, two threads", format!("{two:.2}"));
    row("two threads ÷ one", format!("{:.2}", two / one));
}

fn main() {
    println!(
        "| index of {} M slots, and engine of {} M items of 16 + 32 bytes | |",
        BUCKETS / 100_000,
        ITEMS / 1_000_000
    );
    println!("|---|---|");
    // `-- restart` and `-- resize` are about nothing else, `-- engine` leaves the index out.
    if std::env::args().any(|argument| argument == "restart") {
        return restart();
    }
    if std::env::args().any(|argument| argument == "resize") {
        return resize();
    }
    if std::env::args().any(|argument| argument == "engine") {
        return engine();
    }
    for limits in [
        SearchLimits { depth: 2, paths: 64 },
        SearchLimits { depth: 3, paths: 128 },
        SearchLimits::default(),
        SearchLimits { depth: 5, paths: 512 },
        SearchLimits { depth: 6, paths: 2048 },
    ] {
        let (index, keys) = fill(limits);
        if limits == SearchLimits::default() {
            touched(&index, keys);
        }
    }
    row("M inserts/s to 90 % load, two threads", format!("{:.2}", fill_together(Writers::Several)));
    row("the same with a single writer at a time", format!("{:.2}", fill_together(Writers::Single)));
    engine();
}

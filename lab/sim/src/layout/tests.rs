//! What holds for every layout, whatever is asked of it.

use std::collections::HashMap;

use guira_contract::Spec;
use guira_workload::OnMiss;
use guira_workload::trace::Trace;

use super::drive::{drive, footprint};
use super::item::{NEVER, Object};
use super::segments::{Options, Segments};
use super::slab::{self, Slab};
use super::{Layout, Usage};
use crate::policy::Id;
use crate::sample::Sample;
use crate::stream::{Reading, Stream, Writes};

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) * limit) >> 31
    }
}

const KEYS: u64 = 3000;

/// Stores, reads and removes at random. A hit has to be of a key that is stored and has not expired, and what memory is
/// used for has to be all of it.
fn check(layout: &mut impl Layout, memory: u64, seed: u64) -> (u64, Usage) {
    let mut random = Random(seed);
    let mut stored: HashMap<Id, Object> = HashMap::new();
    let (mut hits, mut usage) = (0, Usage::default());
    for step in 0..60_000_u64 {
        let now = (step / 100) as u32;
        let id = random.below(KEYS).min(random.below(KEYS)) as Id;
        match random.below(20) {
            0 => {
                layout.remove(id, now);
                stored.remove(&id);
            }
            1..=8 => {
                let longest = [60, 300, 3000, 40_000][random.below(4) as usize];
                let bytes = 4 + random.below(longest) as u32;
                let expires = [NEVER, now + 1 + random.below(20) as u32, now + 300][random.below(3) as usize];
                let object = Object { bytes, expires };
                assert!(layout.store(id, object, now), "seed {seed}, step {step}: {object:?} is refused");
                stored.insert(id, object);
            }
            _ => {
                if layout.read(id, now) {
                    hits += 1;
                    let object = stored.get(&id);
                    assert!(
                        object.is_some_and(|object| object.expires > now),
                        "seed {seed}, step {step}: a hit of {id}, and what is stored is {object:?}"
                    );
                }
            }
        }
        if step.is_multiple_of(500) {
            usage = layout.usage(now);
            let parts = [usage.live, usage.dead, usage.rounding, usage.free, usage.metadata];
            assert!(parts.iter().all(|&part| part >= 0.0), "seed {seed}, step {step}: {usage:?}");
            assert!((usage.total() - memory as f64).abs() < 0.5, "seed {seed}, step {step}: {usage:?}");
        }
    }
    (hits, usage)
}

fn slab_options(text: &str) -> slab::Options {
    slab::Options::read(&Spec::parse(text).unwrap()).unwrap()
}

fn options(text: &str) -> Options {
    Options::read(&Spec::parse(text).unwrap()).unwrap()
}

#[test]
fn segments_use_no_more_than_their_memory_and_never_show_what_is_gone() {
    const MEMORY: u64 = 2 << 20;
    let all = [
        "segments",
        "segments:segment_kib=16,merge=2,keep_pct=50",
        "segments:small_pct=90,merge=1,rank=frequency",
    ];
    for (seed, text) in (1..).zip(all) {
        let mut segments = Segments::open(MEMORY, KEYS as usize, options(text)).unwrap();
        let (hits, usage) = check(&mut segments, MEMORY, seed);
        assert!(hits > 2_000 && usage.live > 0.3 * MEMORY as f64, "{text}: {hits} hits, {usage:?}");
        assert!(segments.moved() > 0, "{text}");
    }
}

#[test]
fn the_slab_engine_uses_no_more_than_its_memory_and_never_shows_what_is_gone() {
    // In less there are fewer pages than classes.
    const MEMORY: u64 = 16 << 20;
    for (seed, policy) in (1..).zip(["slab", "slab:policy=s3-fifo", "slab:policy=lru"]) {
        let policy = slab_options(policy);
        let mut slab = Slab::open(MEMORY, KEYS as usize, policy).unwrap();
        let (hits, usage) = check(&mut slab, MEMORY, seed);
        assert!(hits > 2_000 && usage.live > 0.2 * MEMORY as f64, "{hits} hits, {usage:?}");
    }
}

fn stream(text: &'static str) -> Stream {
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
    Stream::read(Trace::new(text.as_bytes(), None).unwrap(), reading).unwrap()
}

/// a is stored and read; b is read, stored and deleted; c expires; a gets a longer value.
const TRACE: &str = "0,a,1,99,1,set,0\n0,a,1,99,1,get,0\n1,b,1,199,1,get,0\n1,b,1,199,1,get,0\n2,b,1,0,1,delete,0\n\
                     2,b,1,199,1,get,0\n3,c,1,99,1,set,5\n7,c,1,99,1,get,0\n8,c,1,99,1,get,0\n9,a,1,299,1,set,0\n";

#[test]
fn with_memory_for_everything_both_layouts_miss_what_was_never_stored_and_what_is_gone() {
    let stream = stream(TRACE);
    let mut slab = Slab::open(4 << 20, stream.keys(), slab_options("slab")).unwrap();
    let mut segments = Segments::open(4 << 20, stream.keys(), options("segments")).unwrap();
    let slab = drive(&mut slab, &stream, (OnMiss::Fill, 0), &|_| ());
    let segments = drive(&mut segments, &stream, (OnMiss::Fill, 0), &|_| ());
    for outcome in [slab, segments] {
        assert_eq!(
            (outcome.reads, outcome.hits, outcome.refused),
            (6, 3, 0),
            "a, b and c were hit once each"
        );
        // By clients a, c and a again; after misses b twice, and c once.
        assert_eq!((outcome.stores, outcome.bytes_moved), (6, 0));
        // 8 bytes of header, and 4 where it expires: 108 + 208 + 208 + 112 + 108, and 312 with a value that is aligned.
        assert_eq!(outcome.bytes_stored, 1056);
    }
    assert_eq!(footprint(&stream, 0), 312 + 208 + 108, "the last of each");
}

#[test]
fn a_stream_without_fills_stores_only_what_the_trace_stores() {
    let stream = stream(TRACE);
    let mut segments = Segments::open(4 << 20, stream.keys(), options("segments")).unwrap();
    let outcome = drive(&mut segments, &stream, (OnMiss::Leave, 0), &|_| ());
    assert_eq!((outcome.stores, outcome.hits), (3, 2), "b is never there");
    assert!((outcome.miss_ratio() - 4.0 / 6.0).abs() < 1e-12);
}

#[test]
fn what_is_too_large_is_refused_and_what_was_there_is_gone() {
    let large = Object { bytes: 2 << 20, expires: NEVER };
    let small = Object { bytes: 100, expires: NEVER };
    fn refuses(layout: &mut impl Layout, small: Object, large: Object) -> [bool; 4] {
        [layout.store(0, small, 0), layout.read(0, 0), layout.store(0, large, 0), layout.read(0, 0)]
    }
    let mut slab = Slab::open(8 << 20, 1, slab_options("slab")).unwrap();
    assert_eq!(refuses(&mut slab, small, large), [true, true, false, false]);
    let mut segments = Segments::open(8 << 20, 1, options("segments")).unwrap();
    assert_eq!(refuses(&mut segments, small, large), [true, true, false, false]);
}

/// The share of the reads that miss in the second half, of a slab engine of 16 MiB that is asked for `requests` keys. `next` says which, how many bytes its
/// item has, and whether it is stored without having been read.
fn misses(text: &str, requests: u64, mut next: impl FnMut(u64) -> (Id, u32, bool)) -> f64 {
    let mut slab = Slab::open(16 << 20, requests as usize + 1000, slab_options(text)).unwrap();
    let (mut reads, mut misses) = (0, 0);
    for number in 0..requests {
        let (id, bytes, is_write) = next(number);
        let is_hit = !is_write && slab.read(id, 0);
        if !is_hit {
            slab.store(id, Object { bytes, expires: NEVER }, 0);
        }
        if !is_write && number >= requests / 2 {
            reads += 1;
            misses += u64::from(!is_hit);
        }
    }
    misses as f64 / reads as f64
}

#[test]
fn memory_that_is_divided_by_hits_misses_less_where_keys_of_all_sizes_are_read_alike() {
    let by = |text| {
        let mut random = Random(1);
        misses(text, 600_000, |_| {
            let unit = random.below(1 << 30) as f64 / f64::from(1 << 30);
            let id = 200_000f64.powf(unit) as Id;
            (id, if id.is_multiple_of(2) { 100 } else { 3000 }, false)
        })
    };
    let (hits, age) = (by("slab"), by("slab:divide=age"));
    assert!(hits < 0.9 * age, "{hits} and {age}");
}

#[test]
fn long_items_that_are_read_all_the_time_stay_beside_short_ones_that_nobody_reads() {
    let by = |text| {
        let mut random = Random(1);
        misses(text, 800_000, |number| match number % 100 {
            0 => (random.below(300) as Id, 20_000, false),
            _ => (1000 + number as Id, 100, true),
        })
    };
    let (hits, age) = (by("slab"), by("slab:divide=age"));
    assert!(hits <= age + 0.02, "{hits} and {age}");
}

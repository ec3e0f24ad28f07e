//! What a set of a short value costs when memory is full, and the least that it would cost a log of segments (decision 52).
//!
//! ```text
//! cargo test --release -p guira-sim --test stores --no-run
//! valgrind --tool=callgrind --toggle-collect='*measured*' target/release/deps/stores-… --ignored --exact clock --nocapture
//! ```
//!
//! (`-p`, so that the engine is built without the hooks of its own tests.) Keys are drawn by Zipf's law from so many that a fifth of the reads misses; a miss is followed by a set. What is measured are the sets of
//! the second half, in the function `measured`, with all that they cause.

use guira_contract::{
    Control as _, Engine as _, Expiry, ItemState, Key, NewItem, Pace, Presence, Read, Session as _, Value,
};
use guira_slab::{Cuckoo, CuckooEngine, EngineOptions, HugePages, Policy, SlabOptions, SlabSession};
use guira_sync::clock::Seconds;
use std::time::{Duration, Instant};

const MEMORY: usize = 16 << 20;
/// So many times as many keys as there are that 64 bytes each would fill memory.
const KEYS: usize = 8;
const REQUESTS: u64 = 2_000_000;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 32;
/// Requests from one quiescent point to the next.
const BATCH: u64 = 64;
const NOW: Seconds = Seconds(1);

type KeyBytes = [u8; KEY_BYTES];

trait Cache {
    fn read(&mut self, key: &KeyBytes) -> bool;
    fn set(&mut self, key: &KeyBytes, value: &[u8]);
    fn rest(&mut self);
    /// What there is to say of it.
    fn about(&self) -> String;
}

#[inline(never)]
fn measured<C: Cache>(cache: &mut C, key: &KeyBytes, value: &[u8], is_last: bool) {
    cache.set(key, value);
    if is_last {
        cache.rest();
    }
}

/// A draw by Zipf's law with exponent 1.
fn key_bytes(random: &mut u64, keys: usize) -> KeyBytes {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let unit = (*random >> 11) as f64 / (1_u64 << 53) as f64;
    key_of((keys as f64).powf(unit) as u64)
}

fn key_of(number: u64) -> KeyBytes {
    let mut key = *b"key:............";
    key[4..12].copy_from_slice(&number.to_le_bytes());
    key
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn measure<C: Cache>(name: &str, memory: usize, mut cache: C) {
    let value = [b'v'; VALUE_BYTES];
    let fill = memory / 64;
    for number in 0..fill as u64 {
        cache.set(&key_of(number << 32), &value);
        if number.is_multiple_of(BATCH) {
            cache.rest();
        }
    }
    let (mut random, mut sets, mut time) = (1, 0_u64, Duration::ZERO);
    for number in 0..REQUESTS {
        let key = key_bytes(&mut random, KEYS * fill);
        if cache.read(&key) {
            continue;
        }
        if number < REQUESTS / 2 {
            cache.set(&key, &value);
            if number.is_multiple_of(BATCH) {
                cache.rest();
            }
        } else {
            let before = Instant::now();
            measured(&mut cache, &key, &value, sets.is_multiple_of(BATCH));
            time += before.elapsed();
            sets += 1;
        }
    }
    let misses = 200.0 * sets as f64 / REQUESTS as f64;
    println!(
        "{name}: {sets} sets, {misses:.2} % of the reads missed; {} ns a set, with the clock; {}",
        time.as_nanos() / u128::from(sets),
        cache.about()
    );
    assert!((10.0..80.0).contains(&misses), "{name}: {misses}");
}

struct Slab {
    session: SlabSession<Cuckoo>,
    engine: CuckooEngine,
}

impl Slab {
    fn open(memory: usize, policy: Policy) -> Self {
        let engine = EngineOptions { memory, huge_pages: Some(HugePages::No), ..EngineOptions::default() };
        let engine = CuckooEngine::open(SlabOptions { engine, policy, ..SlabOptions::default() }).unwrap();
        Self { session: engine.session(), engine }
    }
}

impl Cache for Slab {
    fn read(&mut self, key: &KeyBytes) -> bool {
        let key = Key { bytes: key, hash: self.session.hash(key) };
        let guess = self.session.prefetch_item(key.hash);
        self.session.read(key, guess, NOW, &mut Presence::default()) == Read::Hit
    }

    fn set(&mut self, key: &KeyBytes, value: &[u8]) {
        let key = Key { bytes: key, hash: self.session.hash(key) };
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            state: ItemState::NONE,
            value: Value::Bytes(value),
        };
        let guess = self.session.prefetch_item(key.hash);
        self.session.put(key, guess, NOW, &new).unwrap();
    }

    fn rest(&mut self) {
        self.session.quiesce();
        self.session.maintain(NOW, Pace::Busy, 1);
    }

    fn about(&self) -> String {
        let stats = self.engine.stats();
        let each = |count: u64| count as f64 / stats.total_items as f64;
        format!(
            "{} items in {} slots; for each store {:.2} entries displaced, {:.4} items evicted for the index, {:.2} steps of the hand",
            stats.items,
            stats.index_slots,
            each(stats.displacements),
            each(stats.index_evictions),
            each(stats.hand_steps)
        )
    }
}

#[test]
#[ignore = "it measures"]
fn clock() {
    clock_in(MEMORY);
}

fn clock_in(memory: usize) {
    measure(&format!("clock in {} MiB", memory >> 20), memory, Slab::open(memory, Policy::default()));
}

#[test]
#[ignore = "it measures"]
fn clock_in_64_mib() {
    clock_in(64 << 20);
}

#[test]
#[ignore = "it measures"]
fn clock_in_256_mib() {
    clock_in(256 << 20);
}

#[test]
#[ignore = "it measures"]
fn s3_fifo() {
    let (policy, _) = Policy::all().find(|(policy, _)| policy.name() == "s3-fifo").unwrap();
    measure("s3-fifo", MEMORY, Slab::open(MEMORY, policy));
}

/// The least that a log of segments can do: nobody else looks at it, nothing expires, nothing is counted, all items have the same lengths, and
/// of a bucket that is full the first one goes. Four segments are merged into one, of what has been read most.
struct BareLog {
    memory: Vec<u8>,
    /// Seven places of items, and 16 bits of hash each.
    buckets: Vec<[u64; 8]>,
    /// Segments in the order in which they were written; the last one is written to.
    written: std::collections::VecDeque<usize>,
    free: Vec<usize>,
    at: usize,
    end: usize,
    stores: u64,
    looked_at: u64,
    copied: u64,
}

/// 32 bits of hash, reads, key and value.
const ITEM: usize = 8 + KEY_BYTES + VALUE_BYTES;
const SEGMENT: usize = MEMORY / 256 / ITEM * ITEM;
const MERGED: usize = 4;
/// The index takes as much as the engine's: seven bytes an item.
const INDEX: usize = MEMORY / (ITEM + 8) * 8;

impl BareLog {
    fn open() -> Self {
        let count = (MEMORY - INDEX) / SEGMENT;
        let free: Vec<usize> = (1..count).map(|number| number * SEGMENT).collect();
        let buckets = vec![[0; 8]; INDEX / 64];
        Self {
            memory: vec![0; count * SEGMENT],
            buckets,
            written: [0].into(),
            free,
            at: 0,
            end: SEGMENT,
            stores: 0,
            looked_at: 0,
            copied: 0,
        }
    }

    fn hash(key: &[u8]) -> u32 {
        let word = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().unwrap_or_default());
        let product =
            u128::from(word(0) ^ 0x9e37_79b9_7f4a_7c15) * u128::from(word(8) ^ 0xd1b5_4a32_d192_ed03);
        (product as u64 ^ (product >> 64) as u64) as u32
    }

    /// The bucket of a hash, and what stands for an item there.
    fn place(&self, hash: u32, at: usize) -> (usize, u64) {
        let bucket = ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize;
        (bucket, (u64::from(hash & 0xffff) << 48) | (at as u64 + 1))
    }

    fn find(&self, key: &KeyBytes, hash: u32) -> Option<(usize, usize, usize)> {
        let (bucket, tag) = self.place(hash, 0);
        (0..7).find_map(|slot| {
            let entry = self.buckets[bucket][slot];
            let at = (entry & 0xffff_ffff_ffff) as usize;
            (at != 0 && entry >> 48 == tag >> 48 && self.memory[at + 7..at + 7 + KEY_BYTES] == key[..])
                .then(|| (bucket, slot, at - 1))
        })
    }

    fn segment(&mut self) -> usize {
        if self.free.is_empty() {
            self.merge();
        }
        self.free.pop().unwrap_or_default()
    }

    fn reads(&self, at: usize) -> usize {
        usize::from(self.memory[at + 4]).min(7)
    }

    #[inline(never)]
    fn merge(&mut self) {
        let oldest: Vec<usize> = self.written.drain(..MERGED).collect();
        // How many have been read so often: the last segment of them stays.
        let (mut alive, mut counts) = (Vec::with_capacity(MERGED * SEGMENT / ITEM), [0; 8]);
        for at in oldest.iter().flat_map(|&from| (from..from + SEGMENT).step_by(ITEM)) {
            let hash = u32::from_le_bytes([
                self.memory[at],
                self.memory[at + 1],
                self.memory[at + 2],
                self.memory[at + 3],
            ]);
            let (bucket, entry) = self.place(hash, at);
            if let Some(slot) = self.buckets[bucket].iter().position(|known| *known == entry) {
                let reads = self.reads(at);
                counts[reads] += 1;
                alive.push((at, bucket, slot, reads));
            }
        }
        let mut left = SEGMENT / ITEM;
        let mut least = 8;
        while least > 1 && counts[least - 1] <= left {
            least -= 1;
            left -= counts[least];
        }
        self.looked_at += (MERGED * SEGMENT / ITEM) as u64;
        // Into the first of them, over what has been looked at: so nothing has to be kept free.
        let mut to = oldest[0];
        for (at, bucket, slot, reads) in alive {
            if reads >= least {
                self.memory.copy_within(at..at + ITEM, to);
                self.memory[to + 4] = (reads / 2) as u8;
                let tag = self.buckets[bucket][slot] >> 48 << 48;
                self.buckets[bucket][slot] = tag | (to as u64 + 1);
                to += ITEM;
                self.copied += 1;
            } else {
                self.buckets[bucket][slot] = 0;
            }
        }
        // The rest of that one is not written: what lies there counts no more, since no bucket has it.
        self.written.push_back(oldest[0]);
        self.free.extend(&oldest[1..]);
    }
}

impl Cache for BareLog {
    fn read(&mut self, key: &KeyBytes) -> bool {
        let found = self.find(key, Self::hash(key));
        if let Some((.., at)) = found {
            self.memory[at + 4] = self.memory[at + 4].saturating_add(1);
        }
        found.is_some()
    }

    fn set(&mut self, key: &KeyBytes, value: &[u8]) {
        if self.at == self.end {
            self.at = self.segment();
            self.end = self.at + SEGMENT;
            self.written.push_back(self.at);
        }
        let (hash, at) = (Self::hash(key), self.at);
        self.at += ITEM;
        self.stores += 1;
        let item = &mut self.memory[at..at + ITEM];
        item[..4].copy_from_slice(&hash.to_le_bytes());
        item[4..8].copy_from_slice(&[0; 4]);
        item[8..8 + KEY_BYTES].copy_from_slice(key);
        item[8 + KEY_BYTES..].copy_from_slice(value);
        let (bucket, entry) = self.place(hash, at);
        let known = self.find(key, hash).map(|(_, slot, _)| slot);
        let empty = || self.buckets[bucket][..7].iter().position(|known| *known == 0);
        let slot = known.or_else(empty).unwrap_or((hash as usize >> 16) & 3);
        self.buckets[bucket][slot] = entry;
    }

    fn rest(&mut self) {}

    fn about(&self) -> String {
        format!(
            "{:.2} items looked at for each store, and {:.2} copied",
            self.looked_at as f64 / self.stores as f64,
            self.copied as f64 / self.stores as f64
        )
    }
}

#[test]
#[ignore = "it measures"]
fn bare_log() {
    measure("a bare log", MEMORY, BareLog::open());
}

//! A cache of keys without values, in the order of any policy: for simulations and estimates. It evicts
//! with the engine's own code, over plain arrays.
//!
//! Each key has a chunk, as an item has in a slab class; the next key takes a victim's chunk. There are
//! as many chunks as were ever used at once.

use super::clock::{Hand, ReadBits, Ring};
use super::table::Policy;
use super::{Arrival, Chunk, Chunks, Moment, Notes, Order, Reads, Side};
use guira_memory::prefetch;
use std::cell::Cell;
use std::fmt;

/// No chunk, or no key.
const NONE: u32 = u32::MAX;

/// The second in which nothing expires.
pub const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Its share of the limit.
    pub weight: u32,
    pub hash: u32,
    /// The second in which it expires, or [`NEVER`].
    pub expires: u32,
}

/// A miniature cache, whatever its policy. Keys are small numbers.
pub trait Miniature: Send {
    /// Whether `id` is cached.
    fn holds(&self, id: u32) -> bool;
    /// Reads `id` at second `seconds`. Whether it is cached.
    fn read(&mut self, id: u32, seconds: u32) -> bool;
    /// Changes the second in which `id` expires, if it is cached.
    fn renew(&mut self, id: u32, expires: u32);
    /// Stores `id`, which is not cached, and evicts others for it; does nothing if it is larger than the
    /// limit. The tick of eviction advances by one.
    fn insert(&mut self, id: u32, newcomer: Newcomer, seconds: u32);
    /// Stores `id`, which is not cached, and which another cache would have evicted after the keys that
    /// were adopted before.
    fn adopt(&mut self, id: u32, newcomer: Newcomer, seconds: u32);
    /// Stores another value for `id`, which is cached: in another chunk, as the engine does. That counts as a
    /// read of the new value.
    fn replace(&mut self, id: u32, newcomer: Newcomer, seconds: u32);
    fn remove(&mut self, id: u32);
    /// Evicts the next victim, if there is one: returns the key and its weight.
    fn evict(&mut self, seconds: u32) -> Option<(u32, u32)>;
    /// Applies the options of this policy. False if that takes a new order, since it is another policy.
    fn tune(&mut self, policy: Policy) -> bool;
    /// Changes the limit, and evicts what no longer fits.
    fn resize(&mut self, limit: u64, seconds: u32);
    /// The weight of all cached keys.
    fn used(&self) -> u64;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize;
}

impl fmt::Debug for dyn Miniature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Miniature")
    }
}

/// A [`Miniature`] that evicts as an [`Order`] does.
#[derive(Debug)]
pub struct InOrder<O> {
    order: O,
    chunks: Arrays,
    limit: u64,
    used: u64,
    chunk_of: Vec<Chunk>,
    /// The key in each chunk, and its weight.
    held: Vec<HeldObject>,
    free: Vec<Chunk>,
    /// Scratch: chunks that the order has reclaimed.
    taken: Vec<Chunk>,
    tick: u32,
}

#[derive(Clone, Copy, Debug)]
struct HeldObject {
    id: u32,
    weight: u32,
}

#[derive(Debug, Default)]
struct Arrays {
    noted: Notes,
    notes: Vec<Cell<u32>>,
    links: Vec<[Cell<u32>; 2]>,
    ring: Bits,
    hand: Cell<Hand>,
    /// The hash of the key in each chunk, never 0 while there is one.
    hashes: Vec<u32>,
    /// When the key in each chunk expires; empty as long as none does.
    expiries: Vec<u32>,
    seconds: u32,
}

impl<O: Order> InOrder<O> {
    /// An empty cache with this limit, in the unit of the weights.
    pub fn new(order: O, limit: u64) -> Self {
        let chunks = Arrays { noted: order.notes(), ..Arrays::default() };
        let (chunk_of, held, free, taken) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        InOrder { order, chunks, limit, used: 0, chunk_of, held, free, taken, tick: 0 }
    }

    /// The same for a known number of keys.
    #[must_use]
    pub fn with_keys(mut self, keys: usize) -> Self {
        self.chunk_of.resize(keys, NONE);
        self
    }

    /// The same with arrays that do not grow up to this number of cached keys. They take their whole memory at
    /// once, and no more.
    #[must_use]
    pub fn with_chunks(mut self, chunks: usize) -> Self {
        self.held.reserve_exact(chunks);
        self.free.reserve_exact(chunks);
        self.chunks.reserve(chunks);
        self
    }

    #[inline]
    fn chunk(&self, id: u32) -> Option<Chunk> {
        self.chunk_of.get(id as usize).copied().filter(|&chunk| chunk != NONE)
    }

    fn moment(&self, seconds: u32) -> Moment {
        Moment { tick: self.tick, seconds }
    }

    /// Puts `id` into a chunk, which is not in the order yet. `None` if it is larger than the limit.
    #[inline(always)]
    fn place(&mut self, id: u32, newcomer: Newcomer, seconds: u32) -> Option<(Chunk, Moment)> {
        if u64::from(newcomer.weight) > self.limit {
            return None;
        }
        self.tick = self.tick.wrapping_add(1);
        let now = self.moment(seconds);
        self.reclaim(now);
        self.evict_for(newcomer.weight, now);
        let chunk = self.free.pop().unwrap_or_else(|| {
            self.held.push(HeldObject { id: NONE, weight: 0 });
            self.held.len() as Chunk - 1
        });
        if id as usize >= self.chunk_of.len() {
            self.chunk_of.resize(id as usize + 1, NONE);
        }
        self.chunk_of[id as usize] = chunk;
        self.held[chunk as usize] = HeldObject { id, weight: newcomer.weight };
        self.used += u64::from(newcomer.weight);
        self.chunks.occupy(chunk, newcomer);
        Some((chunk, now))
    }

    /// Removes what has expired, if the policy looks for it before each store.
    #[inline]
    fn reclaim(&mut self, now: Moment) {
        self.chunks.seconds = now.seconds;
        let taken = &mut self.taken;
        self.order.reclaim(&self.chunks, now, |chunk| taken.push(chunk));
        while let Some(chunk) = self.taken.pop() {
            self.vacate(chunk);
        }
    }

    fn evict_for(&mut self, weight: u32, now: Moment) {
        while self.used + u64::from(weight) > self.limit {
            let Some(chunk) = self.victim(now) else {
                return;
            };
            self.vacate(chunk);
        }
    }

    #[inline]
    fn victim(&mut self, now: Moment) -> Option<Chunk> {
        let mut victim = None;
        self.order.victims(&self.chunks, 1, now, |chunk| victim = Some(chunk));
        victim
    }

    fn vacate(&mut self, chunk: Chunk) {
        let HeldObject { id, weight } =
            std::mem::replace(&mut self.held[chunk as usize], HeldObject { id: NONE, weight: 0 });
        self.chunks.vacate(chunk);
        self.chunk_of[id as usize] = NONE;
        self.used -= u64::from(weight);
        self.free.push(chunk);
    }
}

impl<O: Order> Miniature for InOrder<O> {
    fn holds(&self, id: u32) -> bool {
        self.chunk(id).is_some()
    }

    #[inline]
    fn read(&mut self, id: u32, seconds: u32) -> bool {
        let Some(chunk) = self.chunk(id) else {
            return false;
        };
        let now = self.moment(seconds);
        self.chunks.ring.read(chunk);
        match O::READS {
            Reads::Bit => {}
            Reads::Touch => O::touch(self.order.variant(), &self.chunks, chunk, now),
            Reads::Queue => {
                if O::is_due(&self.chunks, chunk, now) {
                    self.order.was_read(&self.chunks, chunk, now);
                }
            }
        }
        true
    }

    fn renew(&mut self, id: u32, expires: u32) {
        if let Some(chunk) = self.chunk(id) {
            self.chunks.renew(chunk, expires);
        }
    }

    fn insert(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        let Some((chunk, now)) = self.place(id, newcomer, seconds) else {
            return;
        };
        let Newcomer { hash, expires, .. } = newcomer;
        let lives = if expires == NEVER { NEVER } else { expires.saturating_sub(seconds) };
        self.order.stored(&self.chunks, chunk, Arrival { hash, lives }, now);
    }

    fn adopt(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        if let Some((chunk, now)) = self.place(id, newcomer, seconds) {
            self.order.adopted(&self.chunks, chunk, now);
        }
    }

    fn replace(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.remove(id);
        self.insert(id, newcomer, seconds);
        self.read(id, seconds);
    }

    fn remove(&mut self, id: u32) {
        if let Some(chunk) = self.chunk(id) {
            self.order.removed(&self.chunks, chunk);
            self.vacate(chunk);
        }
    }

    fn evict(&mut self, seconds: u32) -> Option<(u32, u32)> {
        let chunk = self.victim(self.moment(seconds))?;
        let HeldObject { id, weight } = self.held[chunk as usize];
        self.vacate(chunk);
        Some((id, weight))
    }

    fn tune(&mut self, policy: Policy) -> bool {
        policy.tune(&mut self.order)
    }

    fn resize(&mut self, limit: u64, seconds: u32) {
        self.limit = limit;
        self.evict_for(0, self.moment(seconds));
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn len(&self) -> usize {
        self.held.len() - self.free.len()
    }

    fn bytes(&self) -> usize {
        let keys = self.held.capacity() * size_of::<HeldObject>()
            + (self.free.capacity() + self.chunk_of.capacity()) * 4;
        keys + self.chunks.bytes() + self.order.bytes()
    }
}

impl Arrays {
    #[inline]
    fn occupy(&mut self, chunk: Chunk, newcomer: Newcomer) {
        let index = chunk as usize;
        if index >= self.hashes.len() {
            self.hashes.resize(index + 1, 0);
            self.notes.resize((index + 1) * self.noted.count(), Cell::new(0));
            if self.noted.has_links() {
                self.links.resize_with(index + 1, Default::default);
            }
        }
        self.ring.occupy(chunk);
        self.hashes[index] = newcomer.hash.max(1);
        self.renew(chunk, newcomer.expires);
    }

    #[inline]
    fn vacate(&mut self, chunk: Chunk) {
        self.hashes[chunk as usize] = 0;
        self.ring.vacate(chunk);
    }

    #[inline]
    fn renew(&mut self, chunk: Chunk, expires: u32) {
        let (index, expiries) = (chunk as usize, &mut self.expiries);
        if index >= expiries.len() {
            if expires == NEVER {
                return;
            }
            expiries.resize(index + 1, NEVER);
        }
        expiries[index] = expires;
    }

    fn reserve(&mut self, chunks: usize) {
        self.hashes.reserve_exact(chunks);
        self.notes.reserve_exact(chunks * self.noted.count());
        if self.noted.has_links() {
            self.links.reserve_exact(chunks);
        }
        self.ring.words.reserve_exact(chunks.div_ceil(64));
    }

    fn bytes(&self) -> usize {
        let words = self.notes.capacity()
            + 2 * self.links.capacity()
            + self.hashes.capacity()
            + self.expiries.capacity();
        words * 4 + self.ring.bytes()
    }
}

impl Chunks for Arrays {
    #[inline]
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.notes[chunk as usize * self.noted.count() + word].get()
    }

    #[inline]
    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.notes[chunk as usize * self.noted.count() + word].set(value);
    }

    #[inline]
    fn link(&self, chunk: Chunk, side: Side) -> u32 {
        self.links[chunk as usize][usize::from(side == Side::Older)].get()
    }

    #[inline]
    fn set_link(&self, chunk: Chunk, side: Side, link: u32) {
        self.links[chunk as usize][usize::from(side == Side::Older)].set(link);
    }

    #[inline]
    fn reads(&self, chunk: Chunk) -> u32 {
        self.ring.reads(chunk)
    }

    #[inline]
    fn fade(&self, chunk: Chunk) {
        self.ring.fade(chunk);
    }

    #[inline]
    fn is_recent(&self, chunk: Chunk) -> bool {
        self.ring.is_recent(chunk)
    }

    #[inline]
    fn forget(&self, chunk: Chunk) {
        self.ring.forget(chunk);
    }

    fn is_dead(&self, chunk: Chunk) -> bool {
        self.expiries.get(chunk as usize).is_some_and(|&second| second <= self.seconds)
    }

    fn hash(&self, chunk: Chunk) -> u32 {
        self.hashes[chunk as usize]
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        let chunk = ((random >> 32) * self.hashes.len() as u64) >> 32;
        (chunk < self.hashes.len() as u64).then_some(chunk as Chunk)
    }

    #[inline]
    fn is_held(&self, chunk: Chunk) -> bool {
        self.hashes[chunk as usize] != 0
    }

    #[inline]
    fn prefetch(&self, chunk: Chunk) {
        prefetch(&raw const self.hashes[chunk as usize]);
        if let Some(note) = self.notes.get(chunk as usize * self.noted.count()) {
            prefetch(note.as_ptr());
        }
    }

    #[inline]
    fn sweep(&self, counted: ReadBits, want: usize, mut take: impl FnMut(Chunk)) {
        let mut hand = self.hand.get();
        let mut ring = Counted { bits: &self.ring, counted };
        hand.sweep(&mut ring, want, |place| take(place.word as u32 * 64 + place.bit));
        self.hand.set(hand);
    }
}

/// Recency bits in plain memory, 64 chunks to a word.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<RingWord>,
}

#[derive(Debug, Default)]
struct RingWord {
    occupied: u64,
    recent: Cell<u64>,
    /// Read once more.
    again: Cell<u64>,
}

impl Bits {
    #[cfg(test)]
    pub(super) fn of(occupied: &[u64], recent: &[u64]) -> Self {
        let word =
            |(&occupied, &recent)| RingWord { occupied, recent: Cell::new(recent), again: Cell::new(0) };
        Bits { words: occupied.iter().zip(recent).map(word).collect() }
    }

    fn at(&self, chunk: Chunk) -> (&RingWord, u64) {
        (&self.words[chunk as usize / 64], 1 << (chunk % 64))
    }

    #[inline]
    pub(super) fn read(&self, chunk: Chunk) {
        let (word, bit) = self.at(chunk);
        word.again.set(word.again.get() | (word.recent.get() & bit));
        word.recent.set(word.recent.get() | bit);
    }

    fn is_recent(&self, chunk: Chunk) -> bool {
        let (word, bit) = self.at(chunk);
        word.recent.get() & bit != 0
    }

    fn reads(&self, chunk: Chunk) -> u32 {
        let (word, bit) = self.at(chunk);
        u32::from(word.recent.get() & bit != 0) + u32::from(word.again.get() & bit != 0)
    }

    fn fade(&self, chunk: Chunk) {
        let (word, bit) = self.at(chunk);
        let bits = if word.again.get() & bit != 0 { &word.again } else { &word.recent };
        bits.set(bits.get() & !bit);
    }

    fn forget(&self, chunk: Chunk) {
        let (word, bit) = self.at(chunk);
        word.recent.set(word.recent.get() & !bit);
        word.again.set(word.again.get() & !bit);
    }

    fn occupy(&mut self, chunk: Chunk) {
        let word = chunk as usize / 64;
        if word >= self.words.len() {
            self.words.resize_with(word + 1, RingWord::default);
        }
        self.words[word].occupied |= 1 << (chunk % 64);
        self.forget(chunk);
    }

    fn vacate(&mut self, chunk: Chunk) {
        self.words[chunk as usize / 64].occupied &= !(1 << (chunk % 64));
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<RingWord>()
    }
}

/// A ring of which one or two recency bits count.
pub(super) struct Counted<'a> {
    pub(super) bits: &'a Bits,
    pub(super) counted: ReadBits,
}

impl Ring for Counted<'_> {
    fn words(&self) -> usize {
        self.bits.words.len()
    }

    fn occupied(&self, word: usize) -> u64 {
        self.bits.words[word].occupied
    }

    fn recent(&self, word: usize) -> u64 {
        self.bits.words[word].recent.get()
    }

    fn fade(&self, word: usize, bits: u64) {
        let word = &self.bits.words[word];
        let again = if self.counted == ReadBits::Two { word.again.get() } else { 0 };
        word.recent.set(word.recent.get() & !(bits & !again));
        word.again.set(word.again.get() & !bits);
    }

    fn passed(&mut self, _word: usize) {}
}

#[cfg(test)]
mod tests {
    use super::{InOrder, Miniature as _, NEVER, Newcomer};
    use crate::policy::Order;
    use crate::policy::PolicyOptions;
    use crate::policy::clock::{Clock, ReadBits};
    use crate::policy::fifo::Fifo;
    use crate::policy::klru::{Klru, KlruOptions};
    use crate::policy::lazy_lru::{LazyLru, LazyLruOptions, TailReclaim};
    use crate::policy::lru::Lru;
    use crate::policy::seg_lru::{SegLru, SegLruOptions};
    use crate::policy::sieve::Sieve;

    fn light(id: u32) -> Newcomer {
        weighing(id, 1)
    }

    fn weighing(id: u32, weight: u32) -> Newcomer {
        Newcomer { weight, hash: id, expires: NEVER }
    }

    /// Which of these find their key, if a miss stores it.
    fn hits(order: impl Order, limit: u64, ids: &[u32]) -> Vec<u8> {
        let mut cache = InOrder::new(order, limit);
        let mut step = |id| {
            let hit = cache.read(id, 0);
            if !hit {
                cache.insert(id, light(id), 0);
            }
            u8::from(hit)
        };
        ids.iter().map(|&id| step(id)).collect()
    }

    #[test]
    fn the_hand_spares_what_was_read_since_it_came_by() {
        // 0 1 2 fill it and 0 is read. 3: the hand clears 0 and takes 1. 4: it takes 2. 0 hits; 1 misses: the hand
        // clears 0 once more and, past it, takes 3.
        let ids = [0, 1, 2, 0, 3, 4, 0, 1, 4, 3];
        assert_eq!(hits(Clock::default(), 3, &ids), [0, 0, 0, 1, 0, 0, 1, 0, 1, 0]);
        assert_eq!(hits(Clock::default(), 2, &[0, 1, 2, 3, 2, 0]), [0, 0, 0, 0, 1, 0], "nothing was read");
    }

    fn what_is_replaced_is_spared(order: impl Order) {
        let mut cache = InOrder::new(order, 3);
        (0..3).for_each(|id| cache.insert(id, light(id), 0));
        cache.replace(0, weighing(0, 1), 0);
        cache.insert(3, light(3), 0);
        assert!(cache.holds(0) && !cache.holds(1), "{:?}", [0, 1, 2].map(|id| cache.holds(id)));
    }

    #[test]
    fn to_store_over_a_key_counts_as_a_read() {
        what_is_replaced_is_spared(Clock::default());
        what_is_replaced_is_spared(ReadBits::One.order(0));
        what_is_replaced_is_spared(Lru::default());
        what_is_replaced_is_spared(Sieve::default());
    }

    #[test]
    fn the_order_of_the_engine_decides() {
        // 0 1 2 fill it, 0 is read, 3 takes the place of 1, or with FIFO of 0.
        let ids = [0, 1, 2, 0, 3, 0, 1];
        assert_eq!(hits(Lru::default(), 3, &ids), [0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(hits(Fifo::default(), 3, &ids), [0, 0, 0, 1, 0, 0, 0]);
    }

    /// What is held of 0, 1, 2 and 3 if 1 has expired when 3 is stored into a cache of three.
    fn held_after_expiry(order: impl Order) -> [bool; 4] {
        let mut cache = InOrder::new(order, 3);
        for (id, expires, seconds) in [(0, NEVER, 0), (1, 5, 0), (2, NEVER, 0), (3, NEVER, 9)] {
            cache.insert(id, Newcomer { expires, ..light(id) }, seconds);
        }
        assert_eq!((cache.used(), cache.len()), (3, 3));
        [0, 1, 2, 3].map(|id| cache.holds(id))
    }

    #[test]
    fn what_has_expired_is_known_to_those_who_ask() {
        assert_eq!(held_after_expiry(Lru::default()), [false, true, true, true], "it was not asked");
        let expired_goes = [true, false, true, true];
        let options = LazyLruOptions { tail_reclaim: TailReclaim::On, ..LazyLruOptions::default() };
        assert_eq!(held_after_expiry(LazyLru::new(options)), expired_goes);
        let options = SegLruOptions { temp_ttl: Some(61), ..SegLruOptions::default() };
        assert_eq!(held_after_expiry(SegLru::new(options)), expired_goes);
        let options = KlruOptions { samples: 32, ..KlruOptions::default() };
        assert_eq!(held_after_expiry(Klru::new(options, 1)), expired_goes);
    }

    fn a_removed_key_leaves_its_chunk(order: impl Order) {
        let mut cache = InOrder::new(order, 200);
        (0..200).for_each(|id| cache.insert(id, light(id), 0));
        cache.remove(77);
        cache.remove(77);
        cache.insert(250, light(250), 0);
        assert_eq!((cache.used(), cache.held.len(), cache.chunk_of[250]), (200, 200, 77));
        cache.insert(300, weighing(300, 201), 0);
        assert_eq!(cache.used(), 200, "nothing was evicted in vain");
    }

    #[test]
    fn a_removed_key_leaves_its_chunk_to_the_next() {
        a_removed_key_leaves_its_chunk(Clock::default());
        a_removed_key_leaves_its_chunk(Lru::default());
    }

    fn is_never_overdrawn(order: impl Order) {
        let mut cache = InOrder::new(order, 100);
        for id in 0..50 {
            cache.insert(id, weighing(id, 1 + id), 0);
            assert!(cache.used() <= 100 && cache.read(id, 0));
        }
        assert_eq!(cache.used(), 50 + 49);
        cache.resize(60, 0);
        assert!(cache.used() <= 60 && cache.len() == 1, "{}", cache.used());
        cache.resize(0, 0);
        assert!(cache.is_empty());
    }

    #[test]
    fn the_room_is_never_overdrawn_even_if_it_becomes_smaller() {
        is_never_overdrawn(Clock::default());
        is_never_overdrawn(Lru::default());
    }
}

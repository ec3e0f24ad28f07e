//! A cache of keys alone, in the order of any policy: for simulations and estimates. What evicts here is the very code that evicts in the
//! engine, over plain arrays.
//!
//! A key has a chunk, as an item has in a slab class; a victim's chunk is taken by the next key. There are as many chunks as were ever used
//! at once.

use super::clock::{Hand, ReadBits, Ring};
use super::table::Policy;
use super::{Arrival, Chunk, Chunks, Moment, Order, Reads};
use guira_memory::prefetch;
use std::cell::Cell;
use std::fmt::Debug;

/// No chunk, or no key.
const NONE: u32 = u32::MAX;

/// The second in which nothing expires.
pub const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// How much of the room it takes.
    pub weight: u32,
    pub hash: u32,
    /// The second in which it expires, or [`NEVER`].
    pub expires: u32,
}

/// How the chunks of a [`Miniature`] are kept in order.
pub trait Keeper {
    /// The key in `chunk` was read.
    fn read(&mut self, chunk: Chunk, now: Moment);
    /// A key was stored in `chunk`; this is the first one that has that number, or it was vacated.
    fn stored(&mut self, chunk: Chunk, newcomer: Newcomer, now: Moment);
    /// The same of a key that comes from another order, which would have evicted those before it sooner.
    fn adopted(&mut self, chunk: Chunk, newcomer: Newcomer, now: Moment) {
        self.stored(chunk, newcomer, now);
    }
    /// `chunk` is not what was evicted, and is going to be vacated.
    fn removed(&mut self, chunk: Chunk);
    /// The key in `chunk` expires then.
    fn renewed(&mut self, _chunk: Chunk, _expires: u32) {}
    /// Shows chunks to `take` that hold what has expired, if the policy looks for such before each store.
    fn reclaim(&mut self, _now: Moment, _take: impl FnMut(Chunk)) {}
    fn victim(&mut self, now: Moment) -> Option<Chunk>;
    /// `chunk` holds nothing any more.
    fn vacated(&mut self, chunk: Chunk);
    /// Goes on by the options of this policy, if it is the same. False if that takes a new order.
    fn tune(&mut self, _policy: Policy) -> bool {
        false
    }
    /// There will be about so many chunks.
    fn reserve(&mut self, _chunks: usize) {}
    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize;
}

/// What can be done with a [`Keeper`], whichever it is.
pub trait KeeperUser {
    type Output;
    fn with<K: Keeper + Debug + Send + 'static>(self, keeper: K) -> Self::Output;
}

/// A cache of keys, which are small numbers, without values.
#[derive(Debug)]
pub struct Miniature<K> {
    keeper: K,
    limit: u64,
    used: u64,
    chunk_of: Vec<Chunk>,
    /// The key in each chunk, and what it takes of the room.
    held: Vec<HeldObject>,
    free: Vec<Chunk>,
    /// Chunks that were taken out of the order, for a moment.
    taken: Vec<Chunk>,
    tick: u32,
}

#[derive(Clone, Copy, Debug)]
struct HeldObject {
    id: u32,
    weight: u32,
}

impl<K: Keeper> Miniature<K> {
    /// A cache with room for `limit`, in the unit of the weights.
    pub fn new(keeper: K, limit: u64) -> Self {
        let (chunk_of, held, free, taken) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Miniature { keeper, limit, used: 0, chunk_of, held, free, taken, tick: 0 }
    }

    /// The same, if it is known how many keys there will be.
    #[must_use]
    pub fn with_keys(mut self, keys: usize) -> Self {
        self.chunk_of.resize(keys, NONE);
        self
    }

    /// The same with arrays that need not grow as long as no more keys are held. They take their whole memory at once, and no more.
    #[must_use]
    pub fn with_chunks(mut self, chunks: usize) -> Self {
        self.held.reserve_exact(chunks);
        self.free.reserve_exact(chunks);
        self.keeper.reserve(chunks);
        self
    }

    #[inline]
    fn chunk(&self, id: u32) -> Option<Chunk> {
        self.chunk_of.get(id as usize).copied().filter(|&chunk| chunk != NONE)
    }

    fn moment(&self, seconds: u32) -> Moment {
        Moment { tick: self.tick, seconds }
    }

    /// Whether `id` is held.
    pub fn holds(&self, id: u32) -> bool {
        self.chunk(id).is_some()
    }

    /// Whether `id` is held. If it is, it has been read, at second `seconds`.
    #[inline]
    pub fn read(&mut self, id: u32, seconds: impl FnOnce() -> u32) -> bool {
        let Some(chunk) = self.chunk(id) else {
            return false;
        };
        let tick = self.tick;
        self.keeper.read(chunk, Moment { tick, seconds: seconds() });
        true
    }

    /// `id`, if it is held, expires at another second.
    pub fn renew(&mut self, id: u32, expires: u32) {
        if let Some(chunk) = self.chunk(id) {
            self.keeper.renewed(chunk, expires);
        }
    }

    /// Stores `id`, which is not held, after evicting what has to go for it; unless it is larger than all the room. Time, as eviction
    /// counts it, goes on by one.
    pub fn insert(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.put(id, newcomer, seconds, K::stored);
    }

    /// Stores `id`, which is not held, and which another cache would have evicted after those that were adopted before.
    pub fn adopt(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.put(id, newcomer, seconds, K::adopted);
    }

    fn put(&mut self, id: u32, newcomer: Newcomer, seconds: u32, enter: fn(&mut K, Chunk, Newcomer, Moment)) {
        if u64::from(newcomer.weight) > self.limit {
            return;
        }
        self.tick = self.tick.wrapping_add(1);
        let now = self.moment(seconds);
        let taken = &mut self.taken;
        self.keeper.reclaim(now, |chunk| taken.push(chunk));
        while let Some(chunk) = self.taken.pop() {
            self.vacate(chunk);
        }
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
        enter(&mut self.keeper, chunk, newcomer, now);
    }

    /// Stores another value under `id`, which is held: in other memory, as the engine does. That counts as a read of the new one.
    pub fn replace(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.remove(id);
        self.insert(id, newcomer, seconds);
        self.read(id, || seconds);
    }

    fn evict_for(&mut self, weight: u32, now: Moment) {
        while self.used + u64::from(weight) > self.limit {
            let Some(chunk) = self.keeper.victim(now) else {
                return;
            };
            self.vacate(chunk);
        }
    }

    /// Goes on by the options of this policy, if it is the same. False if that takes a new order.
    pub fn tune(&mut self, policy: Policy) -> bool {
        self.keeper.tune(policy)
    }

    /// Has the key go that would go next, if there is one: returns it, and what it took of the room.
    pub fn evict(&mut self, seconds: u32) -> Option<(u32, u32)> {
        let chunk = self.keeper.victim(self.moment(seconds))?;
        let HeldObject { id, weight } = self.held[chunk as usize];
        self.vacate(chunk);
        Some((id, weight))
    }

    fn vacate(&mut self, chunk: Chunk) {
        let HeldObject { id, weight } =
            std::mem::replace(&mut self.held[chunk as usize], HeldObject { id: NONE, weight: 0 });
        self.keeper.vacated(chunk);
        self.chunk_of[id as usize] = NONE;
        self.used -= u64::from(weight);
        self.free.push(chunk);
    }

    /// Forgets `id`, if it is held.
    pub fn remove(&mut self, id: u32) {
        if let Some(chunk) = self.chunk(id) {
            self.keeper.removed(chunk);
            self.vacate(chunk);
        }
    }

    /// Changes the room; what does not fit any more goes.
    pub fn resize(&mut self, limit: u64, seconds: u32) {
        self.limit = limit;
        self.evict_for(0, self.moment(seconds));
    }

    /// How much of the room is taken.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn len(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let chunks = self.held.capacity() * size_of::<HeldObject>()
            + (self.free.capacity() + self.chunk_of.capacity()) * 4;
        self.keeper.bytes() + chunks
    }
}

/// Keeps chunks as an [`Order`] does.
#[derive(Debug)]
pub struct InOrder<O> {
    order: O,
    chunks: Arrays,
}

#[derive(Debug, Default)]
struct Arrays {
    /// Words of notes on each chunk.
    words: usize,
    notes: Vec<Cell<u32>>,
    ring: Bits,
    hand: Cell<Hand>,
    /// The hash of the key in each chunk, never 0 while there is one.
    hashes: Vec<u32>,
    /// When what is in each chunk expires; nothing as long as nothing does.
    expiries: Vec<u32>,
    seconds: u32,
}

impl<O: Order> InOrder<O> {
    /// Chunks in this order, of which there are none yet.
    pub fn new(order: O) -> Self {
        let chunks = Arrays { words: order.words(), ..Arrays::default() };
        InOrder { order, chunks }
    }

    #[inline]
    fn occupy(&mut self, chunk: Chunk, newcomer: Newcomer) {
        let index = chunk as usize;
        if index >= self.chunks.hashes.len() {
            self.chunks.hashes.resize(index + 1, 0);
            self.chunks.notes.resize((index + 1) * self.chunks.words, Cell::new(0));
        }
        self.chunks.ring.occupy(chunk);
        self.chunks.hashes[index] = newcomer.hash.max(1);
        self.renewed(chunk, newcomer.expires);
    }
}

impl<O: Order> Keeper for InOrder<O> {
    #[inline]
    fn read(&mut self, chunk: Chunk, now: Moment) {
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
    }

    #[inline]
    fn stored(&mut self, chunk: Chunk, newcomer: Newcomer, now: Moment) {
        self.occupy(chunk, newcomer);
        let lives =
            if newcomer.expires == NEVER { NEVER } else { newcomer.expires.saturating_sub(now.seconds) };
        self.order.stored(&self.chunks, chunk, Arrival { hash: newcomer.hash, lives }, now);
    }

    fn adopted(&mut self, chunk: Chunk, newcomer: Newcomer, now: Moment) {
        self.occupy(chunk, newcomer);
        self.order.adopted(&self.chunks, chunk, now);
    }

    fn removed(&mut self, chunk: Chunk) {
        self.order.removed(&self.chunks, chunk);
    }

    #[inline]
    fn renewed(&mut self, chunk: Chunk, expires: u32) {
        let (index, expiries) = (chunk as usize, &mut self.chunks.expiries);
        if index >= expiries.len() {
            if expires == NEVER {
                return;
            }
            expiries.resize(index + 1, NEVER);
        }
        expiries[index] = expires;
    }

    #[inline]
    fn reclaim(&mut self, now: Moment, take: impl FnMut(Chunk)) {
        self.chunks.seconds = now.seconds;
        self.order.reclaim(&self.chunks, now, take);
    }

    #[inline]
    fn victim(&mut self, now: Moment) -> Option<Chunk> {
        let mut victim = None;
        self.order.victims(&self.chunks, 1, now, |chunk| victim = Some(chunk));
        victim
    }

    #[inline]
    fn vacated(&mut self, chunk: Chunk) {
        self.chunks.hashes[chunk as usize] = 0;
        self.chunks.ring.vacate(chunk);
    }

    fn tune(&mut self, policy: Policy) -> bool {
        policy.tune(&mut self.order)
    }

    fn reserve(&mut self, chunks: usize) {
        let arrays = &mut self.chunks;
        arrays.hashes.reserve_exact(chunks);
        arrays.notes.reserve_exact(chunks * arrays.words);
        arrays.ring.words.reserve_exact(chunks.div_ceil(64));
    }

    fn bytes(&self) -> usize {
        let chunks = &self.chunks;
        let words = chunks.notes.capacity() + chunks.hashes.capacity() + chunks.expiries.capacity();
        words * 4 + chunks.ring.bytes() + self.order.bytes()
    }
}

impl Chunks for Arrays {
    #[inline]
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.notes[chunk as usize * self.words + word].get()
    }

    #[inline]
    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.notes[chunk as usize * self.words + word].set(value);
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
        if let Some(note) = self.notes.get(chunk as usize * self.words) {
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
    use super::{InOrder, Keeper, Miniature, NEVER, Newcomer};
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
    fn hits<K: Keeper>(keeper: K, limit: u64, ids: &[u32]) -> Vec<u8> {
        let mut cache = Miniature::new(keeper, limit);
        let mut step = |id| {
            let hit = cache.read(id, || 0);
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
        assert_eq!(hits(InOrder::new(Clock::default()), 3, &ids), [0, 0, 0, 1, 0, 0, 1, 0, 1, 0]);
        assert_eq!(
            hits(InOrder::new(Clock::default()), 2, &[0, 1, 2, 3, 2, 0]),
            [0, 0, 0, 0, 1, 0],
            "nothing was read"
        );
    }

    fn what_is_replaced_is_spared(keeper: impl Keeper) {
        let mut cache = Miniature::new(keeper, 3);
        (0..3).for_each(|id| cache.insert(id, light(id), 0));
        cache.replace(0, weighing(0, 1), 0);
        cache.insert(3, light(3), 0);
        assert!(cache.holds(0) && !cache.holds(1), "{:?}", [0, 1, 2].map(|id| cache.holds(id)));
    }

    #[test]
    fn to_store_over_a_key_counts_as_a_read() {
        what_is_replaced_is_spared(InOrder::new(Clock::default()));
        what_is_replaced_is_spared(InOrder::new(ReadBits::One.order(0)));
        what_is_replaced_is_spared(InOrder::new(Lru::default()));
        what_is_replaced_is_spared(InOrder::new(Sieve::default()));
    }

    #[test]
    fn the_order_of_the_engine_decides() {
        // 0 1 2 fill it, 0 is read, 3 takes the place of 1, or with FIFO of 0.
        let ids = [0, 1, 2, 0, 3, 0, 1];
        assert_eq!(hits(InOrder::new(Lru::default()), 3, &ids), [0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(hits(InOrder::new(Fifo::default()), 3, &ids), [0, 0, 0, 1, 0, 0, 0]);
    }

    /// What is held of 0, 1, 2 and 3 if 1 has expired when 3 is stored into a cache of three.
    fn held_after_expiry<K: Keeper>(keeper: K) -> [bool; 4] {
        let mut cache = Miniature::new(keeper, 3);
        for (id, expires, seconds) in [(0, NEVER, 0), (1, 5, 0), (2, NEVER, 0), (3, NEVER, 9)] {
            cache.insert(id, Newcomer { expires, ..light(id) }, seconds);
        }
        assert_eq!((cache.used(), cache.len()), (3, 3));
        [0, 1, 2, 3].map(|id| cache.holds(id))
    }

    #[test]
    fn what_has_expired_is_known_to_those_who_ask() {
        assert_eq!(
            held_after_expiry(InOrder::new(Lru::default())),
            [false, true, true, true],
            "it was not asked"
        );
        let expired_goes = [true, false, true, true];
        let options = LazyLruOptions { tail_reclaim: TailReclaim::On, ..LazyLruOptions::default() };
        assert_eq!(held_after_expiry(InOrder::new(LazyLru::new(options))), expired_goes);
        let options = SegLruOptions { temp_ttl: Some(61), ..SegLruOptions::default() };
        assert_eq!(held_after_expiry(InOrder::new(SegLru::new(options))), expired_goes);
        let options = KlruOptions { samples: 32, ..KlruOptions::default() };
        assert_eq!(held_after_expiry(InOrder::new(Klru::new(options, 1))), expired_goes);
    }

    fn a_removed_key_leaves_its_chunk<K: Keeper>(keeper: K) {
        let mut cache = Miniature::new(keeper, 200);
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
        a_removed_key_leaves_its_chunk(InOrder::new(Clock::default()));
        a_removed_key_leaves_its_chunk(InOrder::new(Lru::default()));
    }

    fn is_never_overdrawn<K: Keeper>(keeper: K) {
        let mut cache = Miniature::new(keeper, 100);
        for id in 0..50 {
            cache.insert(id, weighing(id, 1 + id), 0);
            assert!(cache.used() <= 100 && cache.read(id, || 0));
        }
        assert_eq!(cache.used(), 50 + 49);
        cache.resize(60, 0);
        assert!(cache.used() <= 60 && cache.len() == 1, "{}", cache.used());
        cache.resize(0, 0);
        assert!(cache.is_empty());
    }

    #[test]
    fn the_room_is_never_overdrawn_even_if_it_becomes_smaller() {
        is_never_overdrawn(InOrder::new(Clock::default()));
        is_never_overdrawn(InOrder::new(Lru::default()));
    }
}

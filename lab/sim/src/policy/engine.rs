//! The engine's own policies over plain arrays: any [`Order`] behind [`Policy`], so that what is simulated is the very
//! code that evicts in the server.
//!
//! A key has a chunk, as an item has in a slab class; a victim's chunk is taken by the next insert. There are as many
//! chunks as were ever used at once. Time, as eviction counts it, goes on by one with every store. Seconds are those
//! of the stream, or so many requests each if it tells no time.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use guira_slab::policy::{Arrival, Chunk, Chunks, Moment, Order, Reads};
use guira_workload::rng::mix64;
use guira_workload::trace::Action;

use super::{Id, Policy, Room};
use crate::stream::Stream;

/// No chunk, or no key.
const NONE: u32 = u32::MAX;

/// Never.
const NEVER: u32 = u32::MAX;

/// Requests in a second of a stream that tells no time, if nobody says otherwise.
pub(crate) const PACE: u64 = 1000;

/// A cache in the order of an engine.
pub struct Engine<'a, O> {
    order: O,
    room: Room,
    chunks: Arrays<O>,
    /// The chunk of each key.
    chunk_of: Vec<Chunk>,
    free: Vec<Chunk>,
    /// Chunks that were taken out of the order, for a moment.
    taken: Vec<Chunk>,
    stream: &'a Stream,
    pace: u64,
    /// The request that is being simulated.
    number: usize,
    tick: u32,
}

impl<O> fmt::Debug for Engine<'_, O> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Engine").field("room", &self.room).finish_non_exhaustive()
    }
}

/// Chunks in plain arrays.
struct Arrays<O> {
    notes: Vec<Cell<u32>>,
    recent: Vec<Cell<bool>>,
    /// The key in each chunk.
    key_in: Vec<Id>,
    /// When what is in each chunk expires; nothing for a stream without expiry.
    expiries: Vec<u32>,
    seconds: u32,
    order: PhantomData<O>,
}

impl<O: Order> Arrays<O> {
    fn add(&mut self) -> Chunk {
        let chunk = self.key_in.len() as Chunk;
        self.key_in.push(NONE);
        self.recent.push(Cell::new(false));
        self.notes.resize(self.notes.len() + O::WORDS, Cell::new(0));
        chunk
    }

    fn expires(&mut self, chunk: Chunk, second: u32) {
        let index = chunk as usize;
        if index >= self.expiries.len() {
            self.expiries.resize(index + 1, NEVER);
        }
        self.expiries[index] = second;
    }
}

impl<O: Order> Chunks for Arrays<O> {
    #[inline]
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.notes[chunk as usize * O::WORDS + word].get()
    }

    #[inline]
    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.notes[chunk as usize * O::WORDS + word].set(value);
    }

    #[inline]
    fn is_recent(&self, chunk: Chunk) -> bool {
        self.recent[chunk as usize].get()
    }

    #[inline]
    fn forget(&self, chunk: Chunk) {
        self.recent[chunk as usize].set(false);
    }

    fn is_dead(&self, chunk: Chunk) -> bool {
        self.expiries.get(chunk as usize).is_some_and(|&second| second <= self.seconds)
    }

    fn hash(&self, chunk: Chunk) -> u32 {
        hash(self.key_in[chunk as usize])
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        let chunk = ((random >> 32) * self.key_in.len() as u64) >> 32;
        self.key_in.get(chunk as usize).is_some_and(|&id| id != NONE).then_some(chunk as Chunk)
    }
}

fn hash(id: Id) -> u32 {
    mix64(u64::from(id)) as u32
}

impl<'a, O: Order> Engine<'a, O> {
    /// A cache for `stream`, of which `pace` requests take a second if it tells no time.
    pub fn new(order: O, limit: u64, stream: &'a Stream, pace: u64) -> Self {
        let (notes, recent, key_in, expiries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            order,
            room: Room::new(limit),
            chunks: Arrays { notes, recent, key_in, expiries, seconds: 0, order: PhantomData },
            chunk_of: vec![NONE; stream.keys()],
            free: Vec::new(),
            taken: Vec::new(),
            stream,
            pace,
            number: 0,
            tick: 0,
        }
    }

    fn now(&self) -> Moment {
        let times = &self.stream.times;
        let seconds =
            if times.is_usual() { (self.number as u64 / self.pace) as u32 } else { times.get(self.number) };
        Moment { tick: self.tick, seconds }
    }

    /// In how many seconds the object of this request expires.
    fn lives(&self) -> u32 {
        match self.stream.ttls.get(self.number) {
            0 => NEVER,
            seconds => seconds,
        }
    }

    fn set_expiry(&mut self, chunk: Chunk) {
        if !self.stream.ttls.is_usual() {
            self.chunks.expires(chunk, self.now().seconds.saturating_add(self.lives()));
        }
    }

    /// Evicts what goes next; false when there is nothing.
    fn evict(&mut self, now: Moment) -> bool {
        let mut victim = None;
        self.order.victims(&self.chunks, 1, now, |chunk| victim = Some(chunk));
        victim.map(|chunk| self.vacate(chunk)).is_some()
    }

    fn vacate(&mut self, chunk: Chunk) {
        let id = std::mem::replace(&mut self.chunks.key_in[chunk as usize], NONE);
        self.chunk_of[id as usize] = NONE;
        self.room.give_back(id);
        self.free.push(chunk);
    }

    fn reclaim(&mut self, now: Moment) {
        let taken = &mut self.taken;
        self.order.reclaim(&self.chunks, now, |chunk| taken.push(chunk));
        while let Some(chunk) = self.taken.pop() {
            self.vacate(chunk);
        }
    }
}

impl<O: Order> Policy for Engine<'_, O> {
    #[inline]
    fn begin(&mut self, number: usize) {
        self.number = number;
    }

    #[inline]
    fn read(&mut self, id: Id) -> bool {
        let chunk = self.chunk_of[id as usize];
        if chunk == NONE {
            return false;
        }
        self.chunks.recent[chunk as usize].set(true);
        match O::READS {
            Reads::Bit => {}
            Reads::Touch => O::touch(&self.chunks, chunk, self.now()),
            Reads::Queue => {
                let now = self.now();
                if O::is_due(&self.chunks, chunk, now) {
                    self.order.was_read(&self.chunks, chunk, now);
                }
            }
        }
        // With objects a store of what is held is driven as a read, since nothing moves; its expiry is new.
        if self.stream.actions.get(self.number) == Action::Set {
            self.set_expiry(chunk);
        }
        true
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if !self.room.admits(weight) {
            return;
        }
        self.tick = self.tick.wrapping_add(1);
        let now = self.now();
        self.chunks.seconds = now.seconds;
        self.reclaim(now);
        while !self.room.fits(weight) && self.evict(now) {}
        self.room.take(id, weight);
        let chunk = self.free.pop().unwrap_or_else(|| self.chunks.add());
        self.chunk_of[id as usize] = chunk;
        self.chunks.key_in[chunk as usize] = id;
        self.set_expiry(chunk);
        self.order.stored(&self.chunks, chunk, Arrival { hash: hash(id), lives: self.lives() }, now);
    }

    fn remove(&mut self, id: Id) {
        let chunk = self.chunk_of[id as usize];
        if chunk != NONE {
            self.order.removed(&self.chunks, chunk);
            self.vacate(chunk);
        }
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use guira_slab::policy::fifo::Fifo;
    use guira_slab::policy::klru::{Klru, Recency};
    use guira_slab::policy::lazy_lru::{LazyLru, LazyLruOptions, TailReclaim};
    use guira_slab::policy::lru::Lru;
    use guira_slab::policy::seg_lru::{SegLru, SegLruOptions};
    use guira_workload::trace::Trace;

    use super::{Engine, Order, PACE};
    use crate::policy::Policy;
    use crate::sample::Sample;
    use crate::stream::{Reading, Stream, Writes};
    use crate::testing::hits;

    fn stream(text: &'static str) -> Stream {
        let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
        Stream::read(Trace::new(text.as_bytes(), None).unwrap(), reading).unwrap()
    }

    /// Hits of numbers below 5 in a cache of three.
    fn hits_in_three(order: impl Order, pace: u64, ids: &[u32]) -> Vec<u8> {
        hits(Engine::new(order, 3, &stream("a\nb\nc\nd\ne\n"), pace), ids)
    }

    #[test]
    fn the_order_of_the_engine_decides() {
        // 0 1 2 fill it, 0 is read, 3 takes the place of 1, or with FIFO of 0.
        let ids = [0, 1, 2, 0, 3, 0, 1];
        assert_eq!(hits_in_three(Lru::default(), PACE, &ids), [0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(hits_in_three(Fifo::default(), PACE, &ids), [0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn requests_take_time_where_the_stream_tells_none() {
        let lazy = |interval| LazyLru::new(LazyLruOptions { interval, ..LazyLruOptions::default() });
        let ids = [0, 1, 2, 0, 3, 0];
        assert_eq!(hits_in_three(lazy(4), 1, &ids), [0, 0, 0, 1, 0, 0], "read three seconds after the store");
        assert_eq!(hits_in_three(lazy(3), 1, &ids), [0, 0, 0, 1, 0, 1]);
    }

    /// What is held of a, b, c and d after the first three requests, of which the first expires, and a store of d.
    fn held_after_expiry(order: impl Order) -> [bool; 4] {
        let text = "0,b,1,5,1,set,0\n0,a,1,5,1,set,5\n0,c,1,5,1,set,0\n9,d,1,5,1,set,0\n";
        let stream = stream(text);
        let mut engine = Engine::new(order, 3, &stream, PACE);
        for (number, id) in [0, 1, 2, 3].into_iter().enumerate() {
            engine.begin(number);
            engine.insert(id, 1);
        }
        assert_eq!(engine.held(), 3);
        [1, 0, 2, 3].map(|id| engine.read(id))
    }

    #[test]
    fn what_has_expired_is_known_to_those_who_ask() {
        assert_eq!(held_after_expiry(Lru::default()), [true, false, true, true], "nobody asked");
        let expired_goes = [false, true, true, true];
        let options = LazyLruOptions { tail_reclaim: TailReclaim::On, ..LazyLruOptions::default() };
        assert_eq!(held_after_expiry(LazyLru::new(options)), expired_goes);
        let options = SegLruOptions { temp_ttl: Some(61), ..SegLruOptions::default() };
        assert_eq!(held_after_expiry(SegLru::new(options)), expired_goes);
        assert_eq!(held_after_expiry(Klru::<Recency>::new(32, 1)), expired_goes);
    }

    #[test]
    fn a_removed_key_leaves_its_chunk_to_the_next() {
        let stream = stream("a\nb\nc\nd\n");
        let mut engine = Engine::new(Lru::default(), 100, &stream, PACE);
        (0..3).for_each(|id| engine.insert(id, 30));
        engine.remove(1);
        engine.remove(1);
        engine.insert(3, 40);
        assert_eq!((engine.held(), engine.chunk_of[3], engine.chunks.key_in.len()), (100, 1, 3));
        engine.insert(1, 101);
        assert_eq!(engine.held(), 100, "nothing was evicted in vain");
        engine.insert(1, 60);
        assert_eq!([0, 1, 2, 3].map(|id| engine.read(id)), [false, true, false, true]);
    }
}

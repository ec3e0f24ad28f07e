//! The engine's own policies: a cache of keys without values ([`Miniature`]) behind [`Policy`]. It evicts with
//! the code of the server.
//!
//! Seconds are those of the stream, or a fixed number of requests each if it has no times.

use guira_slab::policy::Order;
use guira_slab::policy::miniature::{InOrder, Miniature, NEVER, Newcomer};
use guira_workload::rng::mix64;
use guira_workload::trace::Action;

use super::{Id, Policy};
use crate::stream::Stream;

/// Requests in a second of a stream without times, by default.
pub(crate) const PACE: u64 = 1000;

/// A cache in the order of an engine.
#[derive(Debug)]
pub struct Engine<'a, M: ?Sized> {
    stream: &'a Stream,
    pace: u64,
    /// The request that is being simulated.
    number: usize,
    cache: Box<M>,
}

impl<'a, O: Order> Engine<'a, InOrder<O>> {
    /// A cache for `stream`, of which `pace` requests take a second if it has no times.
    pub fn new(order: O, limit: u64, stream: &'a Stream, pace: u64) -> Self {
        let cache = InOrder::new(order, limit).with_keys(stream.keys());
        Self { stream, pace, number: 0, cache: Box::new(cache) }
    }
}

impl<'a> Engine<'a, dyn Miniature> {
    /// The same with a policy that is known at run time.
    pub(crate) fn of(cache: Box<dyn Miniature>, stream: &'a Stream, pace: u64) -> Self {
        Self { stream, pace, number: 0, cache }
    }
}

impl<M: Miniature + ?Sized> Engine<'_, M> {
    fn expires(&self) -> u32 {
        expires(self.stream, self.pace, self.number)
    }
}

/// When what request `number` stores expires.
pub(super) fn expires(stream: &Stream, pace: u64, number: usize) -> u32 {
    match stream.ttls.get(number) {
        0 => NEVER,
        seconds => second(stream, pace, number).saturating_add(seconds),
    }
}

#[inline]
pub(super) fn second(stream: &Stream, pace: u64, number: usize) -> u32 {
    if stream.times.is_usual() { (number as u64 / pace) as u32 } else { stream.times.get(number) }
}

impl<M: Miniature + ?Sized> Policy for Engine<'_, M> {
    #[inline]
    fn begin(&mut self, number: usize) {
        self.number = number;
    }

    #[inline]
    fn read(&mut self, id: Id) -> bool {
        let (stream, pace, number) = (self.stream, self.pace, self.number);
        let hit = self.cache.holds(id) && self.cache.read(id, second(stream, pace, number));
        // With objects a store of what is held is driven as a read, since nothing moves; its expiry is new.
        if hit && stream.actions.get(number) == Action::Set && !stream.ttls.is_usual() {
            self.cache.renew(id, self.expires());
        }
        hit
    }

    fn insert(&mut self, id: Id, weight: u32) {
        let hash = mix64(u64::from(id)) as u32;
        let newcomer = Newcomer { weight, hash, expires: self.expires() };
        self.cache.insert(id, newcomer, second(self.stream, self.pace, self.number));
    }

    fn remove(&mut self, id: Id) -> bool {
        let was_held = self.cache.holds(id);
        self.cache.remove(id);
        was_held
    }

    fn held(&self) -> u64 {
        self.cache.used()
    }
}

#[cfg(test)]
mod tests {
    use guira_slab::policy::Order;
    use guira_slab::policy::lazy_lru::{LazyLru, LazyLruOptions, TailReclaim};
    use guira_slab::policy::lru::Lru;
    use guira_workload::trace::Trace;

    use super::{Engine, PACE};
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
    fn requests_take_time_where_the_stream_tells_none() {
        let lazy = |interval| LazyLru::new(LazyLruOptions { interval, ..LazyLruOptions::default() });
        let ids = [0, 1, 2, 0, 3, 0];
        assert_eq!(hits_in_three(lazy(4), 1, &ids), [0, 0, 0, 1, 0, 0], "read three seconds after the store");
        assert_eq!(hits_in_three(lazy(3), 1, &ids), [0, 0, 0, 1, 0, 1]);
        assert_eq!(hits_in_three(Lru::default(), PACE, &ids), [0, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn expiry_is_that_of_the_stream() {
        let text = "0,b,1,5,1,set,0\n0,a,1,5,1,set,5\n0,c,1,5,1,set,0\n9,d,1,5,1,set,0\n";
        let stream = stream(text);
        let options = LazyLruOptions { tail_reclaim: TailReclaim::On, ..LazyLruOptions::default() };
        let mut engine = Engine::new(LazyLru::new(options), 3, &stream, PACE);
        for (number, id) in [0, 1, 2, 3].into_iter().enumerate() {
            engine.begin(number);
            engine.insert(id, 1);
        }
        assert_eq!(engine.held(), 3);
        assert_eq!([1, 0, 2, 3].map(|id| engine.read(id)), [false, true, true, true]);
    }
}

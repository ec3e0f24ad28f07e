//! The engine's own policies: a cache of keys alone ([`Miniature`]) behind [`Policy`], so that what is simulated is the
//! very code that evicts in the server.
//!
//! Seconds are those of the stream, or a fixed number of requests each if it has no times.

use guira_slab::policy::miniature::{Keeper, Miniature, NEVER, Newcomer};
use guira_workload::rng::mix64;
use guira_workload::trace::Action;

use super::{Id, Policy};
use crate::stream::Stream;

/// Requests in a second of a stream without times, by default.
pub(crate) const PACE: u64 = 1000;

/// A cache in the order of an engine.
#[derive(Debug)]
pub struct Engine<'a, K> {
    cache: Miniature<K>,
    stream: &'a Stream,
    pace: u64,
    /// The request that is being simulated.
    number: usize,
}

impl<'a, K: Keeper> Engine<'a, K> {
    /// A cache for `stream`, of which `pace` requests take a second if it tells no time.
    pub fn new(keeper: K, limit: u64, stream: &'a Stream, pace: u64) -> Self {
        Self::of_keys(keeper, limit, stream, pace, stream.keys())
    }

    /// The same for a cache that has only so many keys, which it numbers itself.
    pub(crate) fn of_keys(keeper: K, limit: u64, stream: &'a Stream, pace: u64, keys: usize) -> Self {
        let cache = Miniature::new(keeper, limit).with_keys(keys);
        Self { cache, stream, pace, number: 0 }
    }

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

impl<K: Keeper> Policy for Engine<'_, K> {
    #[inline]
    fn begin(&mut self, number: usize) {
        self.number = number;
    }

    #[inline]
    fn read(&mut self, id: Id) -> bool {
        let (stream, pace, number) = (self.stream, self.pace, self.number);
        let hit = self.cache.read(id, || second(stream, pace, number));
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
    use guira_slab::policy::miniature::InOrder;
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
        hits(Engine::new(InOrder::new(order), 3, &stream("a\nb\nc\nd\ne\n"), pace), ids)
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
        let mut engine = Engine::new(InOrder::new(LazyLru::new(options)), 3, &stream, PACE);
        for (number, id) in [0, 1, 2, 3].into_iter().enumerate() {
            engine.begin(number);
            engine.insert(id, 1);
        }
        assert_eq!(engine.held(), 3);
        assert_eq!([1, 0, 2, 3].map(|id| engine.read(id)), [false, true, true, true]);
    }
}

//! Requests with their keys numbered densely, once, so that a simulation touches arrays and no hash table.

use std::collections::HashMap;
use std::sync::OnceLock;

use guira_workload::rng::mix64;
use guira_workload::trace::{Action, Request};
use rapidhash::fast::RandomState;

use crate::policy::{self, Id};

/// Requests in memory: four bytes each, and as much again for every field that any of them has.
#[derive(Debug)]
pub struct Stream {
    pub(crate) ids: Vec<Id>,
    pub(crate) actions: Column<Action>,
    /// Bytes of key and value.
    pub(crate) sizes: Column<u32>,
    /// Seconds, on the trace's own clock.
    pub(crate) times: Column<u32>,
    /// Seconds from a store to the expiry, 0 for never.
    pub(crate) ttls: Column<u32>,
    keys: usize,
    /// For Belady's optimum, worked out when it is first asked for.
    next_reads: OnceLock<Vec<u32>>,
}

/// How requests of a trace become requests of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// What a request that writes is.
    pub writes: Writes,
    /// Which keys are taken.
    pub sample: Sample,
    /// At most so many requests are taken, and never more than 4 billion.
    pub limit: u64,
}

/// What a request that writes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// It stores, and is neither a hit nor a miss: a cache in front of a database.
    Store,
    /// It asks, as one that reads: a block cache, in whose traces every request is counted.
    Ask,
}

/// A share of the keys, chosen by their hash, so that all requests of a key are taken or none (SHARDS, section 3;
/// Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC construction with SHARDS", FAST 2015).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    rate: f64,
}

impl Sample {
    /// Every key.
    pub const ALL: Sample = Sample { rate: 1.0 };

    /// A share of the keys, above 0 and at most 1.
    #[must_use]
    pub fn new(rate: f64) -> Option<Self> {
        (rate > 0.0 && rate <= 1.0).then_some(Self { rate })
    }

    /// The share.
    #[must_use]
    pub const fn rate(self) -> f64 {
        self.rate
    }

    /// Whether keys with this hash are taken.
    #[inline]
    pub(crate) fn takes(self, hash: u64) -> bool {
        // All of 2^64 as a float; at rate 1 the product saturates and nothing is left out.
        self.rate >= 1.0 || hash < (self.rate * 18_446_744_073_709_551_616.0) as u64
    }
}

/// The hash by which keys are sampled: of the bits, none of which is used elsewhere to place a key.
#[inline]
fn sample_hash(key: u64) -> u64 {
    mix64(key.wrapping_add(0x7368_6172_6473_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Stream {
    /// Takes requests until there are no more, or the limit is reached.
    ///
    /// # Errors
    /// The first error of `requests`.
    pub fn read<E>(
        requests: impl IntoIterator<Item = Result<Request, E>>,
        reading: Reading,
    ) -> Result<Self, E> {
        let mut stream = Self::empty();
        let mut numbers: HashMap<u64, Id, RandomState> = HashMap::default();
        let mut first_time = None;
        // Requests are numbered in 32 bits.
        let limit = reading.limit.min(u64::from(u32::MAX - 1)) as usize;
        for request in requests.into_iter().take(limit) {
            let request = request?;
            let key = request.key.id();
            if reading.sample.takes(sample_hash(key)) {
                let next = numbers.len() as Id;
                let id = *numbers.entry(key).or_insert(next);
                let since = request.time.saturating_sub(*first_time.get_or_insert(request.time));
                stream.push(id, since, &request, reading.writes);
            }
        }
        stream.keys = numbers.len();
        Ok(stream)
    }

    fn empty() -> Self {
        Self {
            ids: Vec::new(),
            actions: Column::new(Action::Get),
            sizes: Column::new(0),
            times: Column::new(0),
            ttls: Column::new(0),
            keys: 0,
            next_reads: OnceLock::new(),
        }
    }

    fn push(&mut self, id: Id, since: u64, request: &Request, writes: Writes) {
        let number = self.ids.len();
        let action = match (request.action, writes) {
            (Action::Set, Writes::Ask) => Action::Get,
            (action, _) => action,
        };
        let size = request.value_len.map_or(0, |len| len.saturating_add(request.key_len.unwrap_or(0) as u32));
        self.ids.push(id);
        self.actions.push(number, action);
        self.sizes.push(number, size);
        self.times.push(number, u32::try_from(since).unwrap_or(u32::MAX));
        self.ttls.push(number, request.ttl);
    }

    /// How many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many different keys they ask for.
    #[must_use]
    pub const fn keys(&self) -> usize {
        self.keys
    }

    /// Whether any request tells how large its object is.
    #[must_use]
    pub fn has_sizes(&self) -> bool {
        !self.sizes.is_usual()
    }

    /// For each request, the one that reads its key next.
    pub(crate) fn next_reads(&self) -> &[u32] {
        self.next_reads.get_or_init(|| {
            policy::next_reads(&self.ids, self.keys, |number| self.actions.get(number) == Action::Get)
        })
    }

    /// Whether every request reads, and nothing ever expires.
    pub(crate) fn is_plain(&self) -> bool {
        self.actions.is_usual() && self.ttls.is_usual()
    }
}

/// One field of all requests; it takes no memory while it has the same value in all.
#[derive(Debug)]
pub(crate) struct Column<T> {
    usual: T,
    values: Vec<T>,
}

impl<T: Copy + PartialEq> Column<T> {
    const fn new(usual: T) -> Self {
        Self { usual, values: Vec::new() }
    }

    /// Sets the value of request `number`, the one after the last.
    fn push(&mut self, number: usize, value: T) {
        if !self.values.is_empty() {
            self.values.push(value);
        } else if value != self.usual {
            self.values.resize(number, self.usual);
            self.values.push(value);
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> T {
        self.values.get(number).copied().unwrap_or(self.usual)
    }

    /// Whether all requests have the usual value.
    pub(crate) fn is_usual(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use guira_workload::trace::{Action, Trace};

    use super::{Column, Reading, Sample, Stream, Writes};

    const ALL: Reading = Reading { writes: Writes::Store, sample: Sample::ALL, limit: u64::MAX };

    fn stream(text: &'static str, reading: Reading) -> Stream {
        Stream::read(Trace::new(text.as_bytes(), None).unwrap(), reading).unwrap()
    }

    #[test]
    fn keys_are_numbered_in_the_order_of_their_first_requests() {
        let stream = stream("7\n3\n7\n9\n3\n", ALL);
        assert_eq!((stream.ids.as_slice(), stream.keys(), stream.len()), (&[0, 1, 0, 2, 1][..], 3, 5));
        assert!(stream.is_plain() && !stream.has_sizes());
    }

    #[test]
    fn fields_that_a_trace_tells_are_kept_and_times_begin_at_its_first_request() {
        const TEXT: &str = "100,a,3,0,1,get,0\n130,a,3,40,1,set,60\n131,a,3,40,1,delete,0\n";
        let kept = stream(TEXT, ALL);
        assert!(!kept.is_plain() && kept.has_sizes());
        let action = |number| kept.actions.get(number);
        assert_eq!((action(0), action(1), action(2)), (Action::Get, Action::Set, Action::Delete));
        assert_eq!((kept.sizes.get(0), kept.sizes.get(1)), (0, 43));
        assert_eq!((kept.times.get(0), kept.times.get(2), kept.ttls.get(1)), (0, 31, 60));
        let asked = stream(TEXT, Reading { writes: Writes::Ask, ..ALL });
        assert_eq!((asked.actions.get(1), asked.actions.get(2)), (Action::Get, Action::Delete));
    }

    #[test]
    fn a_sample_has_its_share_of_the_keys_and_all_their_requests() {
        let requests = || {
            (0..40_000_u64).map(|n| Ok::<_, Infallible>(guira_workload::trace::Request::number(n % 20_000)))
        };
        let sample = Sample::new(0.1).unwrap();
        let Ok(stream) = Stream::read(requests(), Reading { sample, ..ALL });
        assert!((1_850..2_150).contains(&stream.keys()), "{}", stream.keys());
        assert_eq!(stream.len(), 2 * stream.keys());
        let Ok(all) = Stream::read(requests(), Reading { limit: 5, ..ALL });
        assert_eq!(all.len(), 5);
        assert_eq!((Sample::new(0.0), Sample::new(1.1), Sample::new(1.0)), (None, None, Some(Sample::ALL)));
    }

    #[test]
    fn a_column_takes_memory_only_when_values_differ() {
        let mut column = Column::new(0);
        (0..5).for_each(|number| column.push(number, 0));
        assert!(column.is_usual() && column.values.capacity() == 0);
        column.push(5, 9);
        column.push(6, 0);
        assert_eq!((column.get(4), column.get(5), column.get(6)), (0, 9, 0));
    }
}

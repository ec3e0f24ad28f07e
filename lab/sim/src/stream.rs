//! Requests with their keys numbered densely, once, so that a simulation touches arrays and no hash table.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use guira_workload::rng::mix64;
use guira_workload::trace::{Action, Request};
use rapidhash::fast::RandomState;

use crate::distinct::Distinct;
use crate::policy::{self, Id};
use crate::sample::{Sample, Sampler, sample_hash};

/// Requests in memory: four bytes each, and as much again for every field that any of them has.
#[derive(Debug, Clone)]
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
    /// Requests that read, of all that there were, whether they were taken or not.
    reads_seen: u64,
    /// The share of the keys that was taken.
    rate: f64,
    /// For Belady's optimum, worked out when it is first asked for.
    next_reads: OnceLock<Vec<u32>>,
}

/// How requests of a trace become requests of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// What a request that writes is.
    pub writes: Writes,
    pub sample: Sample,
    /// The most requests that are taken, never more than 4 billion.
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

impl Stream {
    /// Takes requests until there are no more, or the limit is reached.
    ///
    /// # Errors
    /// The first error of `requests`.
    pub fn read<E>(
        requests: impl IntoIterator<Item = Result<Request, E>>,
        reading: Reading,
    ) -> Result<Self, E> {
        let mut reader = Reader::new(reading);
        // Requests are numbered in 32 bits.
        let limit = reading.limit.min(u64::from(u32::MAX - 1)) as usize;
        for request in requests.into_iter().take(limit) {
            reader.take(&request?);
        }
        Ok(reader.finish())
    }

    fn empty() -> Self {
        Self {
            ids: Vec::new(),
            actions: Column::new(Action::Get),
            sizes: Column::new(0),
            times: Column::new(0),
            ttls: Column::new(0),
            keys: 0,
            reads_seen: 0,
            rate: 1.0,
            next_reads: OnceLock::new(),
        }
    }

    fn push(&mut self, id: Id, action: Action, since: u64, request: &Request) {
        let number = self.ids.len();
        let size = request.value_len.map_or(0, |len| len.saturating_add(request.key_len.unwrap_or(0) as u32));
        self.ids.push(id);
        self.actions.push(number, action);
        self.sizes.push(number, size);
        self.times.push(number, u32::try_from(since).unwrap_or(u32::MAX));
        self.ttls.push(number, request.ttl);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The keys of the requests, in their order.
    #[must_use]
    pub fn ids(&self) -> &[Id] {
        &self.ids
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

    /// Whether anything that is stored expires.
    pub(crate) fn has_expiries(&self) -> bool {
        !self.ttls.is_usual()
    }

    /// Whether the requests tell when they were made.
    pub(crate) fn has_times(&self) -> bool {
        !self.times.is_usual()
    }

    /// The share of the keys that was taken when they were sampled.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// How many reads the requests stand for: all that were seen, times the share of the keys. That there are more or
    /// fewer in the sample is chance, by which the most popular keys were taken or not; to count from what should be
    /// there is SHARDS' correction (section 4.3 of the paper).
    pub(crate) fn reads_expected(&self) -> f64 {
        self.reads_seen as f64 * self.rate
    }

    /// For each request, the one that reads its key next.
    pub(crate) fn next_reads(&self) -> &[u32] {
        self.next_reads
            .get_or_init(|| policy::next_reads(&self.ids, self.keys, |number| self.actions.get(number)))
    }

    /// Part `index` of `count` of about the same size, by keys: each a sample by itself.
    #[must_use]
    pub fn part(&self, index: u64, count: u64) -> Self {
        let mut part = self.clone();
        part.keep(|id| mix64(u64::from(id) ^ 0x7061_7274_7321) % count == index);
        part.renumber();
        part.rate = self.rate / count as f64;
        part
    }

    /// Keeps the requests of some keys, and those without a key.
    fn keep(&mut self, keeps: impl Fn(Id) -> bool) {
        let kept: Vec<bool> = self
            .ids
            .iter()
            .enumerate()
            .map(|(number, &id)| is_lone(self.actions.get(number)) || keeps(id))
            .collect();
        let mut mask = kept.iter();
        self.ids.retain(|_| mask.next().copied().unwrap_or(true));
        self.actions.keep(&kept);
        self.sizes.keep(&kept);
        self.times.keep(&kept);
        self.ttls.keep(&kept);
        self.next_reads = OnceLock::new();
    }

    /// Numbers the keys anew, so that there are no gaps.
    fn renumber(&mut self) {
        let mut numbers: Vec<Option<Id>> = vec![None; self.keys];
        let mut keys = 0;
        for (number, id) in self.ids.iter_mut().enumerate() {
            if !is_lone(self.actions.get(number)) {
                *id = *numbers[*id as usize].get_or_insert_with(|| {
                    keys += 1;
                    keys - 1
                });
            }
        }
        self.keys = keys as usize;
    }

    /// Whether every request reads, and nothing ever expires.
    pub(crate) fn is_plain(&self) -> bool {
        self.actions.is_usual() && self.ttls.is_usual()
    }
}

/// Whether the key is one that is never stored: it gets no number.
fn is_lone(action: Action) -> bool {
    matches!(action, Action::LoneGet | Action::LoneDelete)
}

struct Reader {
    stream: Stream,
    sampler: Sampler,
    /// All keys, unless all are taken.
    distinct: Option<Distinct>,
    writes: Writes,
    numbers: HashMap<u64, Id, RandomState>,
    first_time: Option<u64>,
    /// Keys that were taken and have gone from the sample since.
    gone: HashSet<Id, RandomState>,
    /// Requests at which those are taken out, so that memory is bounded.
    prune_at: usize,
}

impl Reader {
    fn new(reading: Reading) -> Self {
        Self {
            stream: Stream::empty(),
            sampler: Sampler::new(reading.sample),
            distinct: (reading.sample != Sample::All).then(Distinct::new),
            writes: reading.writes,
            numbers: HashMap::default(),
            first_time: None,
            gone: HashSet::default(),
            prune_at: 1 << 20,
        }
    }

    fn take(&mut self, request: &Request) {
        let action = match (request.action, self.writes) {
            (Action::Set, Writes::Ask) => Action::Get,
            (action, _) => action,
        };
        self.stream.reads_seen += u64::from(matches!(action, Action::Get | Action::LoneGet));
        let key = request.key.id();
        let hash = sample_hash(key);
        if let Some(distinct) = self.distinct.as_mut().filter(|_| !is_lone(action)) {
            distinct.see(hash);
        }
        if !self.sampler.takes(hash) {
            return;
        }
        let id = if is_lone(action) { 0 } else { self.number(key, hash) };
        let since = request.time.saturating_sub(*self.first_time.get_or_insert(request.time));
        self.stream.push(id, action, since, request);
        if !self.gone.is_empty() && self.stream.len() >= self.prune_at {
            self.prune();
        }
    }

    fn number(&mut self, key: u64, hash: u64) -> Id {
        let next = self.stream.keys as Id;
        match self.numbers.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(next);
                self.stream.keys += 1;
                self.gone.extend(self.sampler.add(hash, next));
                next
            }
        }
    }

    /// Forgets keys that have gone from the sample, and their requests.
    fn prune(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        self.stream.keep(|id| !gone.contains(&id));
        self.numbers.retain(|_, id| !gone.contains(id));
        self.prune_at = (2 * self.stream.len()).max(1 << 20);
    }

    fn finish(mut self) -> Stream {
        if !self.gone.is_empty() {
            self.prune();
        }
        self.stream.renumber();
        self.stream.rate = self.rate();
        self.stream
    }

    /// The share of the keys that was taken: what came of it, not what was aimed at. Chance makes it a little more or
    /// less than the share of the hashes, which would make every miss ratio wrong by as much.
    fn rate(&self) -> f64 {
        let aimed_at = self.sampler.rate();
        match &self.distinct {
            Some(distinct) if aimed_at < 1.0 && self.stream.keys > 0 => {
                (self.stream.keys as f64 / distinct.estimate()).min(1.0)
            }
            _ => aimed_at,
        }
    }
}

/// One field of all requests; it takes no memory while it has the same value in all.
#[derive(Debug, Clone)]
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

    /// Keeps the values of the requests that are marked.
    fn keep(&mut self, kept: &[bool]) {
        let mut mask = kept.iter();
        self.values.retain(|_| mask.next().copied().unwrap_or(true));
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

    use guira_workload::trace::{Action, Request, Trace};

    use super::{Column, Reading, Sample, Stream, Writes};

    const ALL: Reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };

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

    fn numbers(count: u64, keys: u64) -> impl Iterator<Item = Result<Request, Infallible>> {
        (0..count).map(move |number| Ok(Request::number(number % keys)))
    }

    fn sampled(sample: Sample) -> Stream {
        let Ok(stream) = Stream::read(numbers(40_000, 20_000), Reading { sample, ..ALL });
        stream
    }

    #[test]
    fn a_sample_has_its_share_of_the_keys_and_all_their_requests() {
        let stream = sampled(Sample::Rate(0.1));
        assert!((1_850..2_150).contains(&stream.keys()), "{}", stream.keys());
        assert_eq!(stream.len(), 2 * stream.keys());
        assert!((stream.rate() / (stream.keys() as f64 / 20_000.0) - 1.0).abs() < 0.01, "{}", stream.rate());
        assert!((stream.reads_expected() / stream.len() as f64 - 1.0).abs() < 0.01);
        let Ok(all) = Stream::read(numbers(40_000, 20_000), Reading { limit: 5, ..ALL });
        assert_eq!((all.len(), all.rate(), all.reads_expected()), (5, 1.0, 5.0));
    }

    #[test]
    fn a_sample_of_fixed_size_has_as_many_keys_and_all_their_requests() {
        let fixed = sampled(Sample::Keys(1000));
        assert_eq!((fixed.keys(), fixed.len()), (1000, 2000));
        assert!((fixed.rate() - 0.05).abs() < 0.0005, "{}", fixed.rate());
        assert_eq!(sampled(Sample::Keys(30_000)).keys(), 20_000, "all, if there are no more");
    }

    #[test]
    fn parts_are_all_of_the_keys_and_their_requests() {
        let whole = stream("0,a,1,5,1,set,0\n1,b,1,6,1,get,0\n2,a,1,7,1,get,0\n3,c,1,8,1,get,9\n", ALL);
        let parts = [whole.part(0, 2), whole.part(1, 2)];
        assert_eq!((parts[0].len() + parts[1].len(), parts[0].keys() + parts[1].keys()), (4, 3));
        for part in &parts {
            assert!(part.ids.iter().all(|&id| (id as usize) < part.keys()));
            assert_eq!(part.rate(), 0.5);
        }
    }

    #[test]
    fn what_is_never_stored_has_no_number() {
        let lone = |action| Request { action, ..Request::number(77) };
        let requests =
            [Request::number(5), lone(Action::LoneGet), lone(Action::LoneDelete), Request::number(5)];
        let Ok(stream) = Stream::read(requests.map(Ok::<_, Infallible>), ALL);
        assert_eq!((stream.keys(), stream.len(), stream.reads_expected()), (1, 4, 3.0));
        assert_eq!(stream.next_reads(), [3, u32::MAX, u32::MAX, u32::MAX]);
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

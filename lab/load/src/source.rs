//! Where requests come from: a generator's draws, a sequence that fills the server, a trace.

use guira_workload::{KeyShape, Mix, Operation, Popularity, Rng, SizeModel};

/// What is done with a key that a get does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMiss {
    /// Set it, as a look-aside client does.
    Fill,
    /// Leave it.
    Leave,
}

/// What the engine must know about a key that it writes into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The number from which the value's contents follow.
    pub id: u64,
    /// The length of its value.
    pub value_len: u32,
    /// Seconds until it expires, 0 for never.
    pub exptime: u32,
    /// What a miss leads to.
    pub on_miss: OnMiss,
}

/// A stream of requests.
pub trait Source {
    /// The next operation, or none when the stream is at its end.
    fn next_operation(&mut self) -> Option<Operation>;

    /// Appends a key for the operation just drawn. A multiget asks several times, any other operation once.
    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject;
}

impl<S: Source> Source for &mut S {
    fn next_operation(&mut self) -> Option<Operation> {
        (**self).next_operation()
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        (**self).append_key(out)
    }
}

/// What a [`Generator`] draws from.
#[derive(Debug, Clone)]
pub struct Model {
    /// Which key.
    pub popularity: Popularity,
    /// How it is spelled.
    pub keys: KeyShape,
    /// How long its value is.
    pub sizes: SizeModel,
    /// What is done with it.
    pub mix: Mix,
    /// Seconds until an item expires, 0 for never.
    pub exptime: u32,
    /// What a miss leads to.
    pub on_miss: OnMiss,
}

impl Model {
    fn subject(&self, id: u64) -> Subject {
        Subject { id, value_len: self.sizes.of(id), exptime: self.exptime, on_miss: self.on_miss }
    }
}

/// An endless stream of independent draws.
#[derive(Debug, Clone)]
pub struct Generator {
    model: Model,
    rng: Rng,
    current: Operation,
}

impl Generator {
    /// The stream that `model` and `rng` give.
    #[must_use]
    pub const fn new(model: Model, rng: Rng) -> Self {
        Self { model, rng, current: Operation::Get }
    }
}

impl Source for Generator {
    #[inline]
    fn next_operation(&mut self) -> Option<Operation> {
        self.current = self.model.mix.draw(&mut self.rng);
        Some(self.current)
    }

    #[inline]
    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        let mut id = self.model.popularity.draw(&mut self.rng);
        let mut on_miss = self.model.on_miss;
        if self.current == Operation::LoneGet {
            // Numbers beyond the set of keys are never set, so they are never found.
            id += self.model.popularity.count();
            on_miss = OnMiss::Leave;
        }
        self.model.keys.append(id, out);
        Subject { on_miss, ..self.model.subject(id) }
    }
}

/// The first requests of another stream.
#[derive(Debug, Clone)]
pub struct Limited<S> {
    source: S,
    left: u64,
}

impl<S> Limited<S> {
    /// The first `count` requests of `source`.
    #[must_use]
    pub const fn new(source: S, count: u64) -> Self {
        Self { source, left: count }
    }
}

impl<S: Source> Source for Limited<S> {
    fn next_operation(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        self.source.next_operation()
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        self.source.append_key(out)
    }
}

/// One set of each key of a range, the highest number first: fills a server before it is measured.
///
/// Under Zipf's law low numbers are popular, so a server that cannot hold all keeps the popular ones.
#[derive(Debug, Clone)]
pub struct Preload {
    model: Model,
    from: u64,
    /// One above the number that comes next.
    above: u64,
}

impl Preload {
    /// Sets of the keys numbered `from..to`.
    #[must_use]
    pub const fn new(model: Model, from: u64, to: u64) -> Self {
        Self { model, from, above: to }
    }
}

impl Source for Preload {
    fn next_operation(&mut self) -> Option<Operation> {
        (self.above > self.from).then_some(Operation::Set)
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        self.above -= 1;
        let id = self.above;
        self.model.keys.append(id, out);
        self.model.subject(id)
    }
}

#[cfg(test)]
mod tests {
    use guira_workload::mix::Weights;
    use guira_workload::{KeyShape, Mix, Operation, Popularity, Rng, SizeModel};

    use super::{Generator, Limited, Model, OnMiss, Preload, Source};

    fn model(weights: Weights) -> Model {
        Model {
            popularity: Popularity::Uniform { count: 10 },
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(8),
            mix: Mix::new(&weights).unwrap(),
            exptime: 0,
            on_miss: OnMiss::Fill,
        }
    }

    #[test]
    fn preload_names_each_key_once_and_ends() {
        let mut preload = Preload::new(model(Weights { get: 1.0, ..Weights::default() }), 3, 6);
        let mut ids = Vec::new();
        while let Some(operation) = preload.next_operation() {
            assert_eq!(operation, Operation::Set);
            ids.push(preload.append_key(&mut Vec::new()).id);
        }
        assert_eq!(ids, [5, 4, 3]);
    }

    #[test]
    fn a_limited_stream_ends() {
        let endless = Generator::new(model(Weights { get: 1.0, ..Weights::default() }), Rng::new(1));
        let mut limited = Limited::new(endless, 3);
        assert_eq!((0..10).filter_map(|_| limited.next_operation()).count(), 3);
    }

    #[test]
    fn lone_gets_ask_for_keys_outside_the_set_and_are_not_filled() {
        let mut lone = Generator::new(model(Weights { lone_get: 1.0, ..Weights::default() }), Rng::new(1));
        assert_eq!(lone.next_operation(), Some(Operation::LoneGet));
        let subject = lone.append_key(&mut Vec::new());
        assert!((10..20).contains(&subject.id));
        assert_eq!(subject.on_miss, OnMiss::Leave);
    }
}

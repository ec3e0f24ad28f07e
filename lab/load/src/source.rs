//! Sources of requests: a generator's draws, a sequence that fills the server, a trace.

use guira_workload::{Generator, Model, OnMiss, Operation};

/// The properties of a key that the engine writes into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The number from which the value's contents follow.
    pub id: u64,
    pub value_len: u32,
    /// Seconds until it expires, 0 for never.
    pub exptime: u32,
    pub on_miss: OnMiss,
}

pub trait Source {
    /// The next operation, or none when the stream is at its end.
    fn next_operation(&mut self) -> Option<Operation>;

    /// Appends a key for the last drawn operation. A multiget calls this several times, any other
    /// operation once.
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

/// An endless stream of independent draws.
#[derive(Debug, Clone)]
pub struct Draws {
    generator: Generator,
    current: Operation,
}

impl Draws {
    /// The stream that `generator` gives.
    #[must_use]
    pub const fn new(generator: Generator) -> Self {
        Self { generator, current: Operation::Get }
    }
}

impl Source for Draws {
    #[inline]
    fn next_operation(&mut self) -> Option<Operation> {
        self.current = self.generator.operation();
        Some(self.current)
    }

    #[inline]
    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        let id = self.generator.id(self.current);
        let model = self.generator.model();
        model.keys.append(id, out);
        let subject = subject(model, id);
        if self.current.is_lone() { Subject { on_miss: OnMiss::Leave, ..subject } } else { subject }
    }
}

/// The properties of key number `id` of a model.
fn subject(model: &Model, id: u64) -> Subject {
    Subject { id, value_len: model.sizes.of(id), exptime: model.expiry.of(id), on_miss: model.on_miss }
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
    /// One more than the next number.
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
        subject(&self.model, id)
    }
}

#[cfg(test)]
mod tests {
    use guira_workload::mix::Weights;
    use guira_workload::{
        Expiry, Generator, KeyShape, Mix, Model, OnMiss, Operation, Popularity, Rng, SizeModel,
    };

    use super::{Draws, Limited, Preload, Source};

    fn model(weights: Weights) -> Model {
        Model {
            popularity: Popularity::Uniform { count: 10 },
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(8),
            mix: Mix::new(&weights).unwrap(),
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Fill,
        }
    }

    fn draws(weights: Weights) -> Draws {
        Draws::new(Generator::new(model(weights), Rng::new(1)))
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
        let endless = draws(Weights { get: 1.0, ..Weights::default() });
        let mut limited = Limited::new(endless, 3);
        assert_eq!((0..10).filter_map(|_| limited.next_operation()).count(), 3);
    }

    #[test]
    fn lone_gets_ask_for_keys_outside_the_set_and_are_not_filled() {
        let mut lone = draws(Weights { lone_get: 1.0, ..Weights::default() });
        assert_eq!(lone.next_operation(), Some(Operation::LoneGet));
        let subject = lone.append_key(&mut Vec::new());
        assert!((10..20).contains(&subject.id));
        assert_eq!(subject.on_miss, OnMiss::Leave);
    }
}

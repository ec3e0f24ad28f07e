//! A batch of work for a target.

/// The work of a target, and the number by which it is acknowledged.
#[derive(Debug)]
pub(crate) struct Batch {
    number: u64,
    work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// Delete these keys, each of which is there once.
    Delete(Vec<Box<[u8]>>),
    /// Flush everything, since it is unknown what has changed.
    Flush,
}

impl Batch {
    /// Batches of the log have numbers from 1.
    pub(crate) fn new(number: u64, work: Work) -> Self {
        Batch { number, work }
    }

    #[cfg(test)]
    pub(crate) fn of_keys(number: u64, keys: &[&str]) -> Self {
        Batch::new(number, Work::Delete(keys.iter().map(|key| key.as_bytes().into()).collect()))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    /// How many keys it has; a flush has none.
    pub(crate) fn keys(&self) -> usize {
        match &self.work {
            Work::Delete(keys) => keys.len(),
            Work::Flush => 0,
        }
    }

    /// Whether there is nothing to do: it only carries a position.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.work, Work::Delete(keys) if keys.is_empty())
    }
}

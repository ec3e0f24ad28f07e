//! What each worker counts.

use guira_routing::{Op, Outcome};
use guira_sync::counters;

/// Operations, then outcomes, then what is sent to servers.
const OPS: usize = Op::FlushAll as usize + 1;
const OUTCOMES: usize = Outcome::ClientError as usize + 1;
const SENT: usize = OPS + OUTCOMES;
const DATAGRAMS: usize = SENT + 1;

/// Counters of one worker.
#[derive(Debug, Default)]
pub(crate) struct Counters(counters::Counters<{ DATAGRAMS + 1 }>);

impl Counters {
    /// A client has asked for one key.
    #[inline]
    pub(crate) fn asked(&self, op: Op) {
        self.0.add(op as usize, 1);
    }

    /// It was answered.
    #[inline]
    pub(crate) fn answered(&self, outcome: Outcome) {
        self.0.add(OPS + outcome as usize, 1);
    }

    /// A request has come in a datagram.
    pub(crate) fn datagram(&self) {
        self.0.add(DATAGRAMS, 1);
    }

    /// A server was asked.
    #[inline]
    pub(crate) fn sent(&self) {
        self.0.add(SENT, 1);
    }
}

/// What all workers have counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums<'a>(pub(crate) &'a [std::sync::Arc<Counters>]);

impl Sums<'_> {
    fn sum(self, index: usize) -> u64 {
        self.0.iter().map(|counters| counters.0.get(index)).sum()
    }

    pub(crate) fn of_op(self, op: Op) -> u64 {
        self.sum(op as usize)
    }

    pub(crate) fn of_outcome(self, outcome: Outcome) -> u64 {
        self.sum(OPS + outcome as usize)
    }

    pub(crate) fn asked(self) -> u64 {
        (0..OPS).map(|index| self.sum(index)).sum()
    }

    pub(crate) fn answered(self) -> u64 {
        (OPS..SENT).map(|index| self.sum(index)).sum()
    }

    pub(crate) fn sent(self) -> u64 {
        self.sum(SENT)
    }

    pub(crate) fn datagrams(self) -> u64 {
        self.sum(DATAGRAMS)
    }
}

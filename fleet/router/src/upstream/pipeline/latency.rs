//! The latency of replies. One request at a time is measured, so that most requests cost nothing.

use super::Pipeline;
use guira_routing::Group;

/// The request whose latency is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// How many requests were pushed before it.
    number: u64,
    since_us: u64,
    group: Group,
}

/// A measured latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) struct Latency {
    pub(in crate::upstream) group: Group,
    pub(in crate::upstream) micros: u64,
}

impl Pipeline {
    /// Measures the first request that is about to be sent, if none is being measured.
    pub(super) fn begin_sample(&mut self, now_us: u64) {
        let unsent = (self.pushed - self.all_sent) as usize;
        if self.sample.is_some() || unsent == 0 {
            return;
        }
        let first = self.requests.len().checked_sub(unsent).and_then(|index| self.requests.get(index));
        let group = first.and_then(|first| first.kind.group());
        self.sample = group.map(|group| Sample { number: self.all_sent, since_us: now_us, group });
    }

    /// The latency of the measured request, if its reply has arrived.
    #[inline]
    pub(in crate::upstream) fn take_latency(&mut self, now_us: u64) -> Option<Latency> {
        let replies = self.pushed - self.requests.len() as u64;
        self.sample.filter(|sample| replies > sample.number)?;
        self.end_sample(now_us)
    }

    pub(super) fn is_sample(&self, number: u64) -> bool {
        self.sample.is_some_and(|sample| sample.number == number)
    }

    pub(super) fn end_sample(&mut self, now_us: u64) -> Option<Latency> {
        let Sample { since_us, group, .. } = self.sample.take()?;
        Some(Latency { group, micros: now_us.saturating_sub(since_us).max(1) })
    }
}

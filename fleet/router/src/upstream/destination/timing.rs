//! How long replies take, and how many are outstanding: for statistics.

use super::leases::Asked;
use super::{DELIVERY, Destination, Expected, Kind, Timed};
use guira_routing::Group;

impl Destination {
    /// How many requests there ever were, probes among them.
    pub(super) fn pushed(&self) -> u64 {
        self.meter.pushed()
    }

    pub(super) fn show_outstanding(&self) {
        let (pending, awaited) = (self.pending(), self.awaited());
        self.meter.set_outstanding(pending, awaited - pending);
    }

    /// How many requests somebody waits for.
    fn awaited(&self) -> u64 {
        (self.expected.len() - self.dead) as u64
    }

    /// How many of them were not sent.
    fn pending(&self) -> u64 {
        (self.pushed() - self.flushed).min(self.awaited())
    }

    /// Requests are about to be sent: the first of them is timed, if none is.
    pub(super) fn begin_timing(&mut self, now_us: u64) {
        self.meter.note_pending(self.pending());
        let unsent = (self.pushed() - self.flushed) as usize;
        if self.timed.is_some() || unsent == 0 {
            return;
        }
        let first = self.expected.len().checked_sub(unsent).and_then(|at| self.expected.get(at));
        let group = match first.map(|first| first.kind) {
            Some(Kind::Key | Kind::LastKey) => Group::Get,
            Some(Kind::Line(op) | Kind::Meta(op)) => op.group(),
            Some(Kind::Delete(_)) => Group::Delete,
            Some(Kind::Lease(asked)) => asked.group(),
            Some(Kind::Probe) | None => return,
        };
        self.timed = Some(Timed { number: self.flushed, since_us: now_us, group });
    }

    /// The time limit of a request begins when the request is sent: the round in which it was made may have begun long
    /// before, if it has copied long values. A lease that is sent once more keeps its first time.
    pub(super) fn begin_waiting(&mut self, now_us: u64) {
        let new = (self.pushed() - self.offered) as usize;
        self.offered = self.pushed();
        let now_ms = (now_us / 1000) as u32;
        let first = self.expected.len().saturating_sub(new);
        // The first was made before the others: usually the clock has not moved since.
        if self.expected.get(first).is_none_or(|request| request.asked_ms == now_ms) {
            return;
        }
        for request in self.expected.range_mut(first..) {
            if !matches!(request.kind, Kind::Lease(Asked::Again | Asked::AgainTouched | Asked::Time)) {
                request.asked_ms = now_ms;
            }
        }
    }

    pub(super) fn end_timing(&mut self, now_us: u64) {
        if let Some(Timed { since_us, group, .. }) = self.timed.take() {
            let micros = now_us.saturating_sub(since_us).max(1);
            self.meter.took(micros as f64);
            self.counters.took(group, micros);
        }
    }

    /// All replies that have come were dealt with.
    pub(crate) fn end_replies(&mut self, now_us: u64) {
        let answered = self.pushed() - self.expected.len() as u64;
        if self.timed.is_some_and(|timed| answered > timed.number) {
            self.end_timing(now_us);
        }
        self.show_outstanding();
    }

    /// For how long a request has waited, without the time in which the server was at work on long replies to those before it; while the
    /// server is connected to, since that began: requests may be left of an earlier connection.
    pub(super) fn waited_ms(&self, request: &Expected, now_ms: u64) -> u32 {
        let since = |then: u32| (now_ms as u32).wrapping_sub(then);
        let begun = self.link.attempt().map_or(self.delivered_ms, |attempt| attempt.started_ms as u32);
        since(request.asked_ms).min(since(begun))
    }

    /// So many bytes of replies have come.
    pub(super) fn note_delivery(&mut self, bytes: usize, now_ms: u64) {
        if bytes >= DELIVERY {
            self.delivered_ms = now_ms as u32;
        }
    }

    /// How long the oldest request may wait: the first one, while it is connected to.
    pub(super) fn patience_ms(&self) -> u32 {
        self.link.attempt().map_or(self.timeout_ms, |attempt| attempt.timeout_ms.min(self.timeout_ms))
    }
}

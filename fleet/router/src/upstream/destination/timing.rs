//! How long replies take, and how many are outstanding: for statistics.

use super::{Destination, Kind, Timed};
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
}

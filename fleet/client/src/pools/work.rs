//! Calls in a session: their keys are requested as the window allows.

use super::core::{Reply, Ticket};
use super::counters::Counts;
use super::error::{Error, ErrorKind};
use super::operation::Operation;
use super::session::Session;
use super::shared_window::{SharedWindow, UnderWay};
use super::window::Era;
use std::collections::{HashMap, VecDeque};

/// The calls of one session that are under way.
#[derive(Debug, Default)]
pub(super) struct Work<'a> {
    /// Calls with keys that were not started, in order.
    waiting: VecDeque<Waiting>,
    calls: HashMap<u32, Vec<Operation<'a>>>,
    /// The number of keys in flight.
    under_way: u32,
}

/// A call whose keys wait for places.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    call: u32,
    /// The first key that was not started.
    next: usize,
    /// When it has begun, or got its last place.
    since_ms: u64,
}

/// A call waits this many times the timeout of a server for a place that other calls take, before
/// its keys fail.
pub(super) const WAITS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    Enough,
    /// No key is under way, and there is no place for one.
    None,
}

impl<'a> Work<'a> {
    /// Begins a call. Returns its number.
    pub(super) fn begin(&mut self, session: &mut Session, operations: Vec<Operation<'a>>) -> u32 {
        let call = session.core.begin(operations.len());
        if !operations.is_empty() {
            self.waiting.push_back(Waiting { call, next: 0, since_ms: session.core.now_ms() });
        }
        self.calls.insert(call, operations);
        call
    }

    /// Starts as many keys as there are places for.
    pub(super) fn start(&mut self, session: &mut Session, window: &SharedWindow) -> Places {
        while let Some(Waiting { call, next, .. }) = self.waiting.front().copied() {
            let operations = self.calls.get(&call).map_or(&[][..], Vec::as_slice);
            let wanted = (operations.len() - next) as u32;
            let under_way = if self.under_way > 0 { UnderWay::Something } else { UnderWay::Nothing };
            let (taken, era) = window.take(wanted, under_way);
            for (part, operation) in (next..).zip(&operations[next..]).take(taken as usize) {
                let ticket = Ticket { call, part: part as u32 };
                start(session, window, ticket, operation, era, &mut self.under_way);
            }
            match self.waiting.front_mut() {
                Some(first) if taken < wanted => {
                    first.next = next + taken as usize;
                    if taken > 0 {
                        first.since_ms = session.core.now_ms();
                    }
                }
                _ => drop(self.waiting.pop_front()),
            }
            if taken < wanted {
                return if self.under_way > 0 { Places::Enough } else { Places::None };
            }
        }
        Places::Enough
    }

    /// Takes answered keys out of the window.
    pub(super) fn settle(&mut self, session: &mut Session, window: &SharedWindow, counts: &Counts) {
        let leaving = session.core.take_leaving();
        for era in &leaving.lost {
            counts.window_shrinks.add(usize::from(window.lost(*era)));
        }
        let left = leaving.answered + leaving.put_back;
        if left > 0 {
            self.under_way -= left.min(self.under_way);
            window.leave(leaving.answered, leaving.put_back);
        }
    }

    /// The session is given up, with all that is under way.
    pub(super) fn forget(self, window: &SharedWindow) {
        window.leave(0, self.under_way);
    }

    /// All keys that wait for places fail: nothing is under way that could make room.
    pub(super) fn refuse(&mut self, session: &mut Session) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.fail(waiting, session);
        }
    }

    /// Fails keys that have waited for a place for longer than `patience_ms`.
    pub(super) fn refuse_overdue(&mut self, session: &mut Session, patience_ms: u64) {
        if self.waiting.is_empty() {
            return;
        }
        let now_ms = session.core.now_ms();
        let is_due = |waiting: &Waiting| now_ms >= waiting.since_ms + patience_ms;
        let (overdue, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(is_due);
        self.waiting = waiting;
        let overdue: VecDeque<Waiting> = overdue;
        overdue.into_iter().for_each(|waiting| self.fail(waiting, session));
    }

    fn fail(&self, Waiting { call, next, .. }: Waiting, session: &mut Session) {
        let keys = self.calls.get(&call).map_or(0, Vec::len);
        for part in next..keys {
            session.core.settle(
                Ticket { call, part: part as u32 },
                Err(Error::from(ErrorKind::Busy).because("too many keys are in progress")),
            );
        }
    }

    /// Calls that are done, with their replies.
    pub(super) fn take_done(&mut self, session: &mut Session, counts: &Counts) -> Vec<(u32, Vec<Reply>)> {
        let mut done = Vec::new();
        for call in session.core.take_done() {
            let replies = session.core.take(call);
            if let Some(operations) = self.calls.remove(&call) {
                super::operation::count(&operations, &replies, counts);
            }
            done.push((call, replies));
        }
        done
    }
}

/// Sends a key's request on its way.
fn start(
    session: &mut Session,
    window: &SharedWindow,
    ticket: Ticket,
    operation: &Operation<'_>,
    era: Era,
    under_way: &mut u32,
) {
    if let Some(error) = operation.problem() {
        window.leave(0, 1);
        session.core.settle(ticket, Err(error));
    } else {
        *under_way += 1;
        session.core.start(ticket, &operation.request(), era);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::plan::{Builder, Plan};
    use guira_routing::Op;
    use std::sync::Arc;

    #[test]
    fn keys_that_find_no_place_fail_when_their_time_is_over() {
        let plan = Arc::new(Plan::new(&Builder::servers(&["127.0.0.1:1"])).unwrap());
        let (window, counts) = (SharedWindow::default(), Arc::default());
        let mut session = Session::new(&plan, &counts, window.era()).unwrap();
        let mut work = Work::default();
        let operation = || vec![Operation::of(Op::Get, b"k"), Operation::of(Op::Get, b"l")];
        let refused = || vec![Err(Error::from(ErrorKind::Busy).because("too many keys are in progress")); 2];
        // Others have all places.
        window.take(u32::MAX, UnderWay::Nothing);
        let first = work.begin(&mut session, operation());
        session.core.set_time(1_800_000_000, 10);
        let second = work.begin(&mut session, operation());
        assert_eq!(work.start(&mut session, &window), Places::None);
        work.refuse_overdue(&mut session, 11);
        assert!(work.take_done(&mut session, &counts).is_empty());
        work.refuse_overdue(&mut session, 10);
        assert_eq!(work.take_done(&mut session, &counts), [(first, refused())]);
        session.core.set_time(1_800_000_000, 20);
        work.refuse_overdue(&mut session, 10);
        assert_eq!(work.take_done(&mut session, &counts), [(second, refused())]);
        assert_eq!(work.start(&mut session, &window), Places::Enough, "nobody waits any more");
    }
}

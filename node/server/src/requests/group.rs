//! Requests of several connections, executed as one batch.

use super::batch::{BATCH, Batch, Kind, Request};
use super::interpreter::Interpreter;
use super::reader::Reader;
use super::state::{Phase, Protocol, ProtocolState};
use arrayvec::ArrayVec;
use guira_contract::Session;
use guira_serving::{Access, GROUP_MAX, Member, Outbox, Slice, Speaks};

/// Whether all that a connection sent goes into a batch.
enum Fits {
    Wholly,
    /// There is too little room left in this batch.
    LaterBatch,
    No,
}

impl<S: Session> Reader<'_, S> {
    /// Reads what a connection sent into a batch.
    #[inline(always)]
    fn read_member<'a>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess>,
        member: &Member,
        input: &'a [u8],
    ) -> Fits {
        let (requests, mut at) = (member.requests(input), 0);
        while at < requests.len() {
            if batch.len() == BATCH {
                return Fits::LaterBatch;
            }
            let is_read = match member.speaks {
                Speaks::Binary => self.read_packet(batch, requests, at).is_ok(),
                Speaks::Any | Speaks::Text => self.read_command(batch, requests, at).is_ok(),
            };
            match batch.requests().last() {
                Some(Request { kind: Kind::Item(..), end, .. }) if is_read => at = *end,
                _ => return Fits::No,
            }
        }
        Fits::Wholly
    }
}

impl<S: Session> Interpreter<S> {
    /// Whether a connection's next requests may be executed together with those of others.
    #[inline]
    pub(crate) fn may_join(&self, state: &ProtocolState<S>) -> bool {
        matches!(state.phase, Phase::Command)
            && state.protocol != Protocol::Undecided
            && state.login.access() == Access::Free
            && state.waits.is_none()
    }

    /// Executes requests of several connections as one batch, while the connections have sent only
    /// whole requests about items. Returns the number of connections that were examined: the others
    /// are for another batch.
    pub(crate) fn run_group(
        &mut self,
        input: &[u8],
        members: &mut [Member],
        full: usize,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        // Forwarded requests need the states of their connections.
        if self.runner.forwarding.is_in_use() {
            return members.len();
        }
        let mut batch = Batch::<Kind<'_>, S::Guess>::new();
        let runner = &mut self.runner;
        runner.begin_turn(full, Slice::ENDLESS);
        runner.meter.begin();
        // The end of each member's requests in the batch.
        let mut ends = ArrayVec::<usize, GROUP_MAX>::new();
        for member in &*members {
            let begin = batch.len();
            match runner.reader().read_member(&mut batch, member, input) {
                Fits::Wholly => {}
                Fits::LaterBatch if begin > 0 => {
                    batch.truncate(begin);
                    break;
                }
                Fits::LaterBatch | Fits::No => batch.truncate(begin),
            }
            ends.push(batch.len());
        }
        runner.begin_uses(batch.len());
        batch.prefetch_items(&runner.executor, |_| true);
        let (mut number, mut done) = (0, 0);
        for (member, end) in members.iter_mut().zip(ends) {
            self.event_sink.serve(member.client);
            let mut is_full = false;
            while number < end && !is_full {
                let request = &batch.requests()[number];
                if let Kind::Item(hash, item) = &request.kind {
                    runner.executor.execute(item, *hash, request.guess, outbox);
                }
                member.taken = request.end;
                is_full = outbox.has_inserts() || outbox.weight() >= full;
                number += 1;
            }
            member.replied = outbox.end();
            done += 1;
            if is_full {
                break;
            }
        }
        runner.end_uses();
        if runner.meter.is_on() {
            runner.measure(&batch.requests()[..number]);
        }
        done
    }
}

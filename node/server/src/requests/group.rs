//! Requests of several connections, executed as one batch.

use super::batch::{BATCH, Batch, Kind};
use super::interpreter::Interpreter;
use super::state::{Phase, Protocol, ProtocolState};
use arrayvec::ArrayVec;
use guira_contract::Session;
use guira_serving::{Access, GROUP_MAX, Member, Outbox, Slice, Speaks};

impl<S: Session> Interpreter<S> {
    /// Whether a connection's next requests may be executed together with those of others.
    #[inline]
    pub(crate) fn may_join(&self, state: &ProtocolState<S>) -> bool {
        matches!(state.phase, Phase::Command)
            && state.protocol != Protocol::Undecided
            && state.login.access() == Access::Free
            && state.waits.is_none()
            && !self.runner.forwarding.is_in_use()
    }

    /// Executes requests of several connections as one batch, each connection's up to the first that does not belong into a batch of items.
    /// Returns the number of connections that were looked at: the rest is for another batch.
    pub(crate) fn run_group(
        &mut self,
        input: &[u8],
        members: &mut [Member],
        full: usize,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let mut batch = Batch::<Kind<'_>, S::Guess>::new();
        let runner = &mut self.runner;
        runner.begin_turn(full, Slice::ENDLESS);
        runner.meter.begin();
        let reader = runner.reader();
        // Where the requests of each member end in the batch.
        let mut ends = ArrayVec::<usize, GROUP_MAX>::new();
        for member in &*members {
            let (requests, mut at) = (member.requests(input), 0);
            while at < requests.len() && batch.len() < BATCH {
                let is_item = match member.speaks {
                    Speaks::Binary => reader.read_packet(&mut batch, requests, at).is_ok(),
                    Speaks::Any | Speaks::Text => reader.read_command(&mut batch, requests, at).is_ok(),
                };
                match batch.last_mut().filter(|_| is_item) {
                    Some(request) if matches!(request.kind, Kind::Item(..)) => at = request.end,
                    Some(_) => {
                        batch.truncate(batch.len() - 1);
                        break;
                    }
                    None => break,
                }
            }
            ends.push(batch.len());
            if batch.len() == BATCH {
                break;
            }
        }
        runner.begin_uses(batch.len());
        batch.prefetch_items(&runner.executor, |_| true);
        let (mut number, mut done) = (0, 0);
        for (member, end) in members.iter_mut().zip(ends) {
            self.tap.serve(member.client);
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

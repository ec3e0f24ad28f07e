//! Where a request is executed; and executing those of other workers.

use super::{ForwardBatch, Requests};
use crate::batch::{BATCH, Batch, Execute, Kind, Order, Pause, Subject};
use crate::interpreter::{Interpreter, ProtocolState};
use guira_commands::Item;
use guira_contract::{KeyHash, Session};
use guira_serving::{Access, OUTBOX_FULL, Outbox, Slice, Speaks};

/// The most requests of a connection that may be under way: what follows waits for their replies.
const SLOTS_MAX: usize = 2 * BATCH;

/// Where a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Here.
    Here,
    /// It was forwarded.
    Forwarded,
    /// It has to wait until replies have come.
    Waits,
}

impl<S: Session> Interpreter<S> {
    /// Forwards a request if it is to be executed elsewhere.
    #[inline(never)]
    pub(crate) fn route<K: Execute<S>>(
        &mut self,
        state: &ProtocolState<S>,
        kind: &K,
        outbox: &mut Outbox<S::Pin>,
    ) -> Route {
        match kind.subject() {
            Subject::Item(hash, item) => self.route_item(state, hash, &item, outbox),
            Subject::Server(Order::OfEffects) if outbox.open_slots() > 0 => Route::Waits,
            Subject::Server(_) => Route::Here,
        }
    }

    fn route_item(
        &mut self,
        state: &ProtocolState<S>,
        hash: KeyHash,
        item: &Item<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Route {
        let open = outbox.open_slots();
        let home = self.forwarding.home_elsewhere(hash, item.effect(), open > 0);
        let (Some(home), Some(sender)) = (home, state.sender) else {
            return Route::Here;
        };
        // Replies of other workers come whether there is memory for them or not: while it is short, nothing is forwarded.
        if self.full < OUTBOX_FULL {
            return if open > 0 { Route::Waits } else { Route::Here };
        }
        if open >= SLOTS_MAX || self.forwarding.is_too_much(home) {
            return Route::Waits;
        }
        let Some(batch) = self.forwarding.batch_for(home) else {
            return if open > 0 { Route::Waits } else { Route::Here };
        };
        batch.push(sender, item, hash, outbox.defer());
        Route::Forwarded
    }

    /// Executes the requests of another worker's connection, until the replies are long.
    pub(crate) fn run_forwarded(&mut self, batch: &mut ForwardBatch<S::Pin>) {
        self.tap.serve(batch.sender.client);
        self.full = batch.full;
        self.slice = Slice::ENDLESS;
        let mut state = ProtocolState::new(Speaks::Text, Access::Free, None);
        let ForwardBatch { requests: Requests { list, bytes }, replies, done, .. } = batch;
        let mut begin = 0;
        for requests in list.chunks_mut(BATCH) {
            let mut batch = Batch::<Kind<'_>, S::Guess>::new();
            self.meter.begin();
            for request in &*requests {
                self.executor.prefetch_hash(request.hash);
                batch.push(Kind::Item(request.hash, request.item(bytes, begin)), request.end());
                begin = request.end();
            }
            self.begin_uses(batch.len());
            let ran = self.run_batch(&mut state, &mut batch, replies, |number, replies| {
                requests[number].reply_end = replies.end();
            });
            self.end_uses();
            if self.meter.is_on() {
                self.measure(&batch.requests()[..ran.done]);
            }
            *done += ran.done;
            if ran.pause != Pause::Done {
                return;
            }
        }
    }
}

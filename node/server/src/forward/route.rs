//! Decides which worker executes a request.

use super::Forwarding;
use crate::requests::{BATCH, Order, Subject};
use guira_commands::Item;
use guira_contract::{KeyHash, ValuePin};
use guira_serving::{OUTBOX_FULL, Outbox, ReplyTo};

/// The most requests of a connection that may be under way: what follows waits for their replies.
const SLOTS_MAX: usize = 2 * BATCH;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Here,
    Forwarded,
    /// The request has to wait for earlier replies.
    Waits,
}

impl<P: ValuePin> Forwarding<P> {
    /// Forwards a request if another worker has to execute it. Without a `sender` no reply could come back, so the
    /// request is executed here. `full` is when the outbox counts as full, in bytes.
    #[inline(never)]
    pub(crate) fn route(
        &mut self,
        sender: Option<ReplyTo>,
        subject: Subject<'_>,
        full: usize,
        outbox: &mut Outbox<P>,
    ) -> Route {
        match subject {
            Subject::Item(hash, item) => self.route_item(sender, (hash, &item), full, outbox),
            Subject::Server(Order::OfEffects) if outbox.open_slots() > 0 => Route::Waits,
            Subject::Server(_) => Route::Here,
        }
    }

    fn route_item(
        &mut self,
        sender: Option<ReplyTo>,
        (hash, item): (KeyHash, &Item<'_>),
        full: usize,
        outbox: &mut Outbox<P>,
    ) -> Route {
        let open = outbox.open_slots();
        let home = self.home_elsewhere(hash, item.effect(), open > 0);
        let (Some(home), Some(sender)) = (home, sender) else {
            return Route::Here;
        };
        // Replies of other workers arrive whether there is memory for them or not: while it is short, nothing is
        // forwarded.
        if full < OUTBOX_FULL {
            return if open > 0 { Route::Waits } else { Route::Here };
        }
        if open >= SLOTS_MAX || self.is_too_much(home) {
            return Route::Waits;
        }
        let Some(batch) = self.batch_for(home) else {
            return if open > 0 { Route::Waits } else { Route::Here };
        };
        batch.push(sender, item, hash, outbox.defer());
        Route::Forwarded
    }
}

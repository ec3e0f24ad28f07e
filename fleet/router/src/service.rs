//! One worker of a router.

use crate::client::{Client, Turn};
use crate::config::SharedPlan;
use crate::flow::{Flow, Ticket};
use crate::shared::Shared;
use guira_memory::ValuePin;
use guira_routing::Walks;
use guira_serving::{
    Access, Clients, Outbox, ReplyTo, Round, Service, Slice, Speaks, Stopped, service_token,
};
use guira_sync::clock::{CoarseClock, Seconds, Stopwatch};
use guira_transport::{Interest, Mailbox, Poll};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Requests of a worker's clients go through its tree to servers, and their replies back.
#[derive(Debug)]
pub(crate) struct RouterService {
    walks: Walks<Ticket>,
    flow: Flow,
    clock: CoarseClock,
    watch: Stopwatch,
    now: Seconds,
    /// New configurations.
    plans: Arc<Mailbox<SharedPlan>>,
    shared: Arc<Shared>,
}

/// The number of the mailbox among the service's sockets: servers have the others.
const PLANS: u32 = (1 << 31) - 1;

/// Values are copied.
#[derive(Debug)]
pub(crate) enum NoPin {}

impl ValuePin for NoPin {
    fn value_len(&self) -> usize {
        match *self {}
    }

    fn piece(&self, _from: usize) -> &[u8] {
        match *self {}
    }
}

impl RouterService {
    pub(crate) fn new(
        walks: Walks<Ticket>,
        flow: Flow,
        plans: Arc<Mailbox<SharedPlan>>,
        shared: Arc<Shared>,
    ) -> Self {
        let clock = CoarseClock::system();
        let now = clock.now();
        RouterService { walks, flow, clock, watch: Stopwatch::start(), now, plans, shared }
    }
}

impl Service for RouterService {
    type Pin = NoPin;
    type State = Client;

    fn now(&self) -> Seconds {
        self.now
    }

    fn open(&mut self, _speaks: Speaks, _access: Access, from: ReplyTo) -> Client {
        Client::new(from)
    }

    fn run(
        &mut self,
        client: &mut Client,
        slice: &mut Slice,
        full: usize,
        input: &[u8],
        outbox: &mut Outbox<NoPin>,
    ) -> (usize, Stopped) {
        let RouterService { walks, flow, shared, .. } = self;
        let first = flow.calls.done();
        let result = Turn { client, walks, flow, outbox, shared }.run(slice, full, input);
        // What no server had to be asked for.
        if self.flow.calls.done() > first {
            outbox.fill_bytes(self.flow.calls.replies(first).map(|(reply, bytes)| (reply.slot, bytes)));
            self.flow.calls.forget(first);
        }
        result
    }

    fn deadline(&self) -> Option<Duration> {
        self.flow.patience_ms().map(|patience| Duration::from_millis(patience))
    }

    fn begin_round(&mut self) {
        self.now = self.clock.now();
        self.flow.now_ms = self.watch.elapsed().as_millis() as u64;
    }

    fn listen(&self, poll: &Poll) -> io::Result<()> {
        poll.add(&*self.plans, service_token(PLANS), Interest::Read)
    }

    fn on_event(&mut self, number: u32, round: &mut Round<'_, Self>) {
        if number == PLANS {
            return self.change_plan();
        }
        self.flow.hear(number, &mut self.walks, round.clients.poll());
    }

    fn deliver(&mut self, round: &mut Round<'_, Self>) -> bool {
        self.flow.give_up(&mut self.walks);
        if self.flow.calls.done() == 0 {
            return false;
        }
        self.flow.calls.sort();
        self.hand_out(round.clients);
        self.flow.calls.forget(0);
        false
    }

    fn end_round(&mut self, round: &mut Round<'_, Self>) -> bool {
        self.flow.flush(&mut self.walks, round.clients.poll());
        // Requests that could not be sent are answered already.
        self.flow.calls.done() > 0
    }
}

impl RouterService {
    /// Requests that come from now on go by the newest configuration; those under way stay with the one that they began with.
    fn change_plan(&mut self) {
        let Some(plan) = self.plans.take().pop() else { return };
        match plan.tree(self.shared.settings()) {
            Ok(tree) => {
                self.flow.add_servers(&plan.servers);
                self.walks.replace(Rc::new(tree));
            }
            Err(error) => {
                tracing::error!("a worker cannot use a configuration that was found right: {error}")
            }
        }
    }

    /// Puts replies into the slots of those who wait for them.
    fn hand_out(&self, clients: &mut Clients<Self>) {
        let mut replies = self.flow.calls.replies(0);
        while let Some((first, _)) = replies.clone().next() {
            let to = first.to;
            let ours = replies.clone().take_while(|(reply, _)| reply.to == to);
            let count = ours.clone().count();
            let parts = ours.map(|(reply, bytes)| (reply.slot, bytes));
            clients.answer(to, self.now, |_, unsent| {
                if let Some(unsent) = unsent {
                    unsent.fill_bytes(parts);
                }
            });
            replies.nth(count - 1);
        }
    }
}

//! One worker of a router.

use crate::client::{Client, Turn};
use crate::flow::{Flow, Ticket};
use guira_memory::ValuePin;
use guira_routing::Walks;
use guira_serving::{Access, Clients, Outbox, ReplyTo, Round, Service, Slice, Speaks, Stopped};
use guira_sync::clock::{CoarseClock, Seconds, Stopwatch};
use std::time::Duration;

/// Requests of a worker's clients go through its tree to servers, and their replies back.
#[derive(Debug)]
pub(crate) struct RouterService {
    walks: Walks<Ticket>,
    flow: Flow,
    clock: CoarseClock,
    watch: Stopwatch,
    now: Seconds,
}

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
    pub(crate) fn new(walks: Walks<Ticket>, flow: Flow) -> Self {
        let clock = CoarseClock::system();
        let now = clock.now();
        RouterService { walks, flow, clock, watch: Stopwatch::start(), now }
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
        let RouterService { walks, flow, .. } = self;
        let first = flow.calls.done();
        let result = Turn { client, walks, flow, outbox }.run(slice, full, input);
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

    fn on_event(&mut self, number: u32, round: &mut Round<'_, Self>) {
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

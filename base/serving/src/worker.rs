//! A worker: one thread, one event loop, one service.

use crate::acceptor::ACCEPTS;
use crate::clients::{Clients, Received};
use crate::group::Group;
use crate::outbox::{OUTBOX_FULL, Outbox};
use crate::queue::Rank;
use crate::service::{Next, Round, Service, Woken};
use crate::tokens::{FIRST_CONNECTION, FIRST_SERVICE};
use crate::{Acceptor, Arrival, Doing, Host, Slice};
use guira_sync::clock::Seconds;
use guira_transport::{Event, Interest, Mailbox, Park, Token};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read at once at most: those of a long value.
pub const INPUT_BYTES: usize = 128 << 10;
/// The longest wait of the worker that keeps the time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The bell of the mailbox. Listeners come next, then what the service listens to ([`FIRST_SERVICE`]), then connections
/// ([`FIRST_CONNECTION`]).
const BELL: Token = Token(0);
const FIRST_LISTENER: u64 = 1;

/// A worker: owns its connections, and shares nothing of them.
#[derive(Debug)]
pub struct Worker<S: Service> {
    service: S,
    clients: Clients<S>,
    input: Box<[u8]>,
    group: Group,
    /// Used for one connection after another, and empty between them.
    outbox: Outbox<S::Pin>,
    host: Arc<Host>,
    mailbox: Arc<Mailbox<Arrival>>,
    acceptor: Option<Acceptor>,
    /// It stops, and its last connection is gone.
    is_finished: bool,
    /// When idle connections were last looked for.
    kicked: Seconds,
    /// When certificates were last looked for.
    looked: Seconds,
}

impl<S: Service> Worker<S> {
    /// # Errors
    /// What the system says.
    pub fn new(index: usize, service: S, host: Arc<Host>, acceptor: Option<Acceptor>) -> io::Result<Self> {
        const { assert!(S::READ_BYTES <= INPUT_BYTES) };
        let clients = Clients::new(index, host.clone())?;
        let mailbox = host.mailboxes[index].clone();
        clients.poll.add(&*mailbox, BELL, Interest::Read)?;
        if let Some(acceptor) = &acceptor {
            acceptor.listen(&clients.poll, FIRST_LISTENER)?;
            host.lifecycle.begin_to_accept();
        }
        service.listen(&clients.poll)?;
        Ok(Worker {
            service,
            clients,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            group: Group::new(S::READ_BYTES),
            outbox: Outbox::with_capacity(2 * OUTBOX_FULL),
            host,
            mailbox,
            acceptor,
            is_finished: false,
            kicked: Seconds(0),
            looked: Seconds(0),
        })
    }

    /// Works until the server stops.
    ///
    /// # Errors
    /// What the system says about waiting.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        let mut has_more = true;
        loop {
            let next = self.service.before_round();
            if next == Next::Again {
                continue;
            }
            self.wait(&mut events, has_more || next == Next::LookAround)?;
            self.service.begin_round();
            let is_idle = events.is_empty() && self.clients.again.is_empty();
            self.clients.wake_up(self.service.now());
            if let Some(acceptor) = self.acceptor.as_mut() {
                acceptor.wake_up(&self.clients.poll, FIRST_LISTENER, &self.host);
            }
            for event in events.drain(..) {
                self.on_event(event, is_idle);
            }
            self.serve_group();
            let (service, mut round) = self.round(is_idle);
            let has_delivered = service.deliver(&mut round);
            self.serve_again();
            let (service, mut round) = self.round(is_idle);
            has_more = service.end_round(&mut round) || has_delivered;
            self.close_idle();
            self.look_after_certificates();
            if self.host.is_stopping() && self.is_over() {
                return Ok(());
            }
        }
    }

    fn round(&mut self, is_idle: bool) -> (&mut S, Round<'_, S>) {
        (&mut self.service, Round { clients: &mut self.clients, outbox: &mut self.outbox, is_idle })
    }

    fn wait(&mut self, events: &mut Vec<Event>, has_more: bool) -> io::Result<()> {
        if has_more || !self.clients.again.is_empty() || self.service.park() == Park::Pending {
            return self.clients.poll.wait(Some(Duration::ZERO), events);
        }
        // One worker keeps the time; the others sleep until they are called.
        let wakes = self.acceptor.is_some() || self.host.idle.is_some() || self.host.is_stopping();
        let heartbeat = wakes.then_some(HEARTBEAT);
        let own = sooner(heartbeat, self.acceptor.as_ref().and_then(Acceptor::patience));
        let timeout = sooner(own, sooner(self.clients.patience(), self.service.deadline()));
        let result = self.clients.poll.wait(timeout, events);
        self.service.unpark(if events.is_empty() { Woken::ByTime } else { Woken::ByEvent });
        result
    }

    fn on_event(&mut self, event: Event, is_idle: bool) {
        // Accepting and closing connections may close those of the group.
        if event.token.0 < FIRST_CONNECTION {
            self.serve_group();
        }
        match event.token {
            BELL => {
                self.admit_arrivals();
                self.clients.close_evicted();
            }
            Token(token @ FIRST_CONNECTION..) => {
                let index = (token - FIRST_CONNECTION) as usize;
                if self.clients.has_turn(index, event, self.service.now()) {
                    self.receive(index);
                }
            }
            Token(token @ FIRST_SERVICE..) => {
                let (service, mut round) = self.round(is_idle);
                service.on_event((token - FIRST_SERVICE) as u32, &mut round);
            }
            Token(token) => self.accept((token - FIRST_LISTENER) as usize),
        }
    }

    /// Receives from a connection, which has its turn with others, or at once.
    fn receive(&mut self, index: usize) {
        match self.clients.receive(index, &self.service, &mut self.group) {
            Received::Done if self.group.is_full() => self.serve_group(),
            Received::Done => {}
            Received::Turn(bytes) => {
                let received = self.group.last(bytes);
                // A long turn does not delay the connections of the group.
                if bytes > 0 {
                    self.serve_group();
                }
                self.serve(index, received);
            }
        }
    }

    /// Executes what the connections of the group have sent, and sends the replies.
    fn serve_group(&mut self) {
        if self.group.is_empty() {
            return;
        }
        let (input, mut members) = self.group.parts();
        while !members.is_empty() {
            let done = self.service.run_group(input, members, OUTBOX_FULL, &mut self.outbox);
            let (served, others) = members.split_at_mut(done);
            self.clients.send_replies(served, self.service.now(), &mut self.outbox);
            members = others;
        }
        self.service.end_turn();
        for number in 0..self.group.len() {
            if let Some((index, rest)) = self.clients.rest_of(&self.group.member(number), &self.group) {
                self.serve(index, rest);
            }
        }
        self.group.clear();
    }

    fn admit_arrivals(&mut self) {
        for arrival in self.mailbox.take() {
            self.clients.admit(arrival, &mut self.service);
        }
    }

    /// One more turn for those that have more to do: for all that ask for little, and then for the others, as long as they take no more
    /// than a slice together. Connections that ask for little meanwhile come before the rest of them.
    fn serve_again(&mut self) {
        for _ in 0..self.clients.again.len(Rank::Light) {
            if let Some(index) = self.clients.again.pop(Rank::Light) {
                self.serve(index, 0..0);
            }
        }
        let mut slice = Slice::of(Rank::Heavy);
        for _ in 0..self.clients.again.len(Rank::Heavy) {
            if slice.is_over() {
                return;
            }
            if let Some(index) = self.clients.again.pop(Rank::Heavy) {
                slice.copied(self.serve(index, 0..0));
            }
        }
    }

    /// Gives a connection its turn; a part of the group's input was received from it. Returns what that has taken.
    fn serve(&mut self, index: usize, received: Range<usize>) -> usize {
        let input = (&mut *self.input, self.group.input(received));
        let (spent, leaving) = self.clients.serve(index, &mut self.service, input, &mut self.outbox);
        if let Some(connection) = leaving {
            connection.facts.set_doing(Doing::Watching);
            let (state, arrival) = connection.into_parts();
            if let Some(arrival) = self.service.detach(state, arrival) {
                self.clients.admit(arrival, &mut self.service);
            }
        }
        spent
    }

    fn accept(&mut self, port: usize) {
        let is_stopping = self.host.is_stopping();
        let Some(acceptor) = self.acceptor.as_mut().filter(|_| !is_stopping) else {
            return;
        };
        let now = self.service.now();
        let most = self.host.connections.room(ACCEPTS).unwrap_or_else(|| {
            self.clients.close_quietest(&mut self.service, &mut self.outbox);
            1
        });
        for arrival in acceptor.accept(port, most, &self.clients.poll, &self.host, now) {
            self.clients.admit(arrival, &mut self.service);
        }
    }

    /// Once a second, one worker looks whether there are new certificates.
    fn look_after_certificates(&mut self) {
        let now = self.service.now();
        if self.acceptor.is_some() && self.host.tls.is_some() && now != self.looked {
            self.looked = now;
            self.host.reload_changed_tls();
        }
    }

    /// Closes connections that have not said anything for too long.
    fn close_idle(&mut self) {
        let now = self.service.now();
        if let Some(limit) = self.host.idle.filter(|_| now != self.kicked) {
            self.kicked = now;
            self.clients.close_idle(now, limit.as_secs(), &mut self.service, &mut self.outbox);
        }
    }

    fn end_to_accept(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.ignore(&self.clients.poll);
            self.host.end_to_accept();
        }
    }

    /// The server stops: whether this worker may end.
    fn is_over(&mut self) -> bool {
        self.end_to_accept();
        let is_abandoned = self.host.lifecycle.is_abandoned();
        if self.host.lifecycle.is_accepting() && !is_abandoned {
            return false;
        }
        // Those that were accepted last.
        self.admit_arrivals();
        let is_empty = if self.host.lifecycle.is_handing_over() {
            self.clients.hand_over(self.service.now())
        } else {
            self.clients.close_those_at_rest()
        };
        // Other workers may wait for replies of this one.
        if (is_empty || is_abandoned) && !std::mem::replace(&mut self.is_finished, true) {
            self.service.finish();
        }
        is_abandoned || (is_empty && self.service.is_finished())
    }
}

impl<S: Service> Drop for Worker<S> {
    /// If it has failed, the others need not wait for what it would have accepted.
    fn drop(&mut self) {
        self.end_to_accept();
    }
}

fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Access, CloseReason, ConnLimits, ConnectionFacts, Conversation, Crew, Placement, ReplyTo,
        RequestHandler, SlotId, Speaks, Stopped,
    };
    use guira_memory::ValuePin;
    use guira_protocol::Replies;
    use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering, yield_now};
    use guira_sync::clock::Stopwatch;
    use guira_transport::net::UnixStream;
    use guira_transport::{Address, Stream};
    use std::io::{BufRead, BufReader, Read, Write};

    /// Answers `now …` at once, `wait` when it may, and other lines at the end of the round, the last one first; `quit` ends a connection.
    #[derive(Debug, Default)]
    struct Later {
        mode: Mode,
        asked: Vec<(ReplyTo, SlotId, Vec<u8>)>,
        replies: Option<Outbox<Bytes>>,
        waiting: Arc<Waiting>,
    }

    /// How requests are executed, and late replies sent.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum Mode {
        #[default]
        Turns,
        /// Requests that were received together are executed together.
        Joined,
        /// The same, and a reply that a client waits for alone is sent at once.
        Alone,
    }

    const MODES: [Mode; 3] = [Mode::Turns, Mode::Joined, Mode::Alone];

    #[derive(Debug, Default)]
    struct Waiting {
        is_over: AtomicBool,
        /// Turns that ended in another wait.
        turns: AtomicU64,
    }

    #[derive(Debug)]
    struct Client(ReplyTo);

    #[derive(Debug)]
    struct Bytes(Vec<u8>);

    impl ValuePin for Bytes {
        fn value_len(&self) -> usize {
            self.0.len()
        }
        fn piece(&self, from: usize) -> &[u8] {
            &self.0[from..]
        }
    }

    impl Conversation for Client {
        fn speaks(&self) -> Speaks {
            Speaks::Text
        }
        fn access(&self) -> Access {
            Access::Free
        }
        fn has_partial_request(&self) -> bool {
            false
        }
    }

    impl RequestHandler for Later {
        type Pin = Bytes;
        type State = Client;

        fn now(&self) -> Seconds {
            Seconds(1)
        }

        fn open(&mut self, _arrival: &Arrival, from: ReplyTo) -> Client {
            Client(from)
        }

        fn may_join(&self, _client: &Client) -> bool {
            self.mode != Mode::Turns
        }

        fn run(
            &mut self,
            client: &mut Client,
            _slice: &mut Slice,
            _full: usize,
            input: &[u8],
            outbox: &mut Outbox<Bytes>,
        ) -> (usize, Stopped) {
            let mut taken = 0;
            for line in input.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
                if line == b"wait\n" && !self.waiting.is_over.load(Ordering::Relaxed) {
                    self.waiting.turns.fetch_add(1, Ordering::Relaxed);
                    return (taken, Stopped::Waits);
                }
                taken += line.len();
                match line {
                    b"quit\n" => return (taken, Stopped::Over(CloseReason::Normal)),
                    line if line.starts_with(b"now") || line == b"wait\n" => outbox.buffer().put(line),
                    line => self.asked.push((client.0, outbox.defer(), line.to_vec())),
                }
            }
            (taken, Stopped::NeedsInput)
        }
    }

    impl Service for Later {
        fn begin_round(&mut self) {}

        fn end_round(&mut self, round: &mut Round<'_, Self>) -> bool {
            let replies = self.replies.get_or_insert_with(|| Outbox::with_capacity(0));
            for (to, slot, line) in self.asked.drain(..).rev() {
                if self.mode == Mode::Alone
                    && round.clients.answer_alone(to, (slot, Seconds(1)), &line, |_| ())
                {
                    continue;
                }
                replies.pin(Bytes(line));
                let part = [(slot, replies.end())];
                round.clients.answer(to, Seconds(1), |_, unsent| {
                    unsent.expect("a slot is open").fill(part.into_iter(), replies);
                });
                replies.forget(0);
            }
            false
        }
    }

    fn connect(host: &Host) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(ours);
        let address = Arc::new(Address::Unix("test".into()));
        let facts = Arc::new(ConnectionFacts::new(&stream, None, address, 0, Seconds(0)));
        host.connections.current.fetch_add(1, Ordering::SeqCst);
        let (input, output, carried) = (Vec::new(), Vec::new(), Box::default());
        let (speaks, access) = (Speaks::Text, Access::Free);
        host.mailboxes[0].send(Arrival { stream, facts, speaks, access, input, output, carried });
        theirs
    }

    fn host() -> Arc<Host> {
        Arc::new(Host::of_one_worker(ConnLimits { idle: 1 << 20, traffic: 1 << 20, pinned: 1 << 20 }))
    }

    /// A worker with this service.
    fn begin(host: &Arc<Host>, service: impl FnOnce() -> Later + Send + 'static) -> Crew {
        let mut crew = Crew::new(host.clone());
        let its = host.clone();
        crew.start(0, Placement::Anywhere, move || Worker::new(0, service(), its, None)).unwrap();
        crew.wait_until_ready().unwrap();
        crew.begin();
        crew
    }

    fn expect(lines: &mut BufReader<UnixStream>, expected: &str) {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with(expected), "{line} instead of {expected}");
    }

    fn assert_nothing_is_held(host: &Host) {
        let held = (host.budget.usage().0, host.budget.usage().1);
        assert_eq!((held, host.connections.current.load(Ordering::SeqCst)), ((0, 0), 0));
    }

    #[test]
    fn a_request_that_waits_for_other_threads_is_executed_again_after_a_moment() {
        for mode in MODES {
            let (host, waiting) = (host(), Arc::new(Waiting::default()));
            let its = waiting.clone();
            let crew = begin(&host, move || Later { mode, waiting: its, ..Later::default() });
            let mut client = connect(&host);
            // More input gives the connection no turn.
            client.write_all(b"wait\nnow four").unwrap();
            let turns = || waiting.turns.load(Ordering::Relaxed);
            let watch = Stopwatch::start();
            for turn in 1..=50 {
                while turns() < turn {
                    assert!(watch.elapsed() < Duration::from_secs(60), "the connection gets another turn");
                    yield_now();
                }
                client.write_all(b"x").unwrap();
            }
            // A connection that has joined others has one turn at once.
            let most = watch.elapsed().as_millis() as u64 + 2;
            assert!(turns() <= most + 2, "{} turns in {most} ms", turns());
            waiting.is_over.store(true, Ordering::Relaxed);
            client.write_all(b"\nquit\n").unwrap();
            let mut lines = BufReader::new(client);
            expect(&mut lines, "wait\n");
            expect(&mut lines, "now four");
            crew.end(Duration::from_secs(5)).unwrap();
        }
    }

    #[test]
    fn late_replies_are_sent_in_the_order_of_their_requests() {
        for mode in MODES {
            let host = host();
            let crew = begin(&host, move || Later { mode, ..Later::default() });
            let mut clients: Vec<UnixStream> = (0..3).map(|_| connect(&host)).collect();
            for client in &mut clients {
                client.write_all(b"one\nnow two\nthree\nfo").unwrap();
            }
            for client in &mut clients {
                client.write_all(b"ur\nnow five\nquit\nnever\n").unwrap();
                let mut lines = BufReader::new(client.try_clone().unwrap());
                for expected in ["one\n", "now two\n", "three\n", "four\n", "now five\n"] {
                    expect(&mut lines, expected);
                }
                assert_eq!(lines.read(&mut [0]).unwrap(), 0, "the client has quit");
            }
            crew.end(Duration::from_secs(5)).unwrap();
            assert_nothing_is_held(&host);
        }
    }

    #[test]
    fn a_late_reply_that_a_client_waits_for_alone_is_sent_whole() {
        for mode in MODES {
            let host = host();
            let crew = begin(&host, move || Later { mode, ..Later::default() });
            let mut client = connect(&host);
            let mut lines = BufReader::new(client.try_clone().unwrap());
            let mut exchange = |length: usize| {
                let line = format!("{}\n", "x".repeat(length));
                client.write_all(line.as_bytes()).unwrap();
                expect(&mut lines, &line);
            };
            // Lines of up to 512 bytes join; the reply to the last one does not go alone.
            [1, 511, 512, 9_000, crate::ALONE_MAX - 1, crate::ALONE_MAX].into_iter().for_each(&mut exchange);
            (0..100).for_each(|_| exchange(5));
            client.write_all(b"last\nquit\n").unwrap();
            expect(&mut lines, "last\n");
            assert_eq!(lines.read(&mut [0]).unwrap(), 0, "the client has quit");
            crew.end(Duration::from_secs(5)).unwrap();
            assert_nothing_is_held(&host);
        }
    }

    #[test]
    fn a_client_that_takes_no_replies_receives_all_of_them_later() {
        for mode in MODES {
            let host = host();
            let crew = begin(&host, move || Later { mode, ..Later::default() });
            let mut client = connect(&host);
            client.set_nonblocking(true).unwrap();
            let line = format!("{}\n", "y".repeat(500));
            let mut sent = 0;
            // Until nothing is read any more, since the replies fill the socket.
            let watch = Stopwatch::start();
            while watch.elapsed() < Duration::from_millis(50) {
                let part = &line.as_bytes()[sent % line.len()..];
                sent += client.write(part).unwrap_or_default();
            }
            client.set_nonblocking(false).unwrap();
            let mut writer = client.try_clone().unwrap();
            let rest = line.as_bytes()[sent % line.len()..].to_vec();
            let lines_sent = sent.div_ceil(line.len());
            let end = std::thread::scope(|scope| {
                scope.spawn(move || {
                    if rest.len() < 501 {
                        writer.write_all(&rest).unwrap();
                    }
                    writer.write_all(b"quit\n").unwrap();
                });
                let mut lines = BufReader::new(client);
                (0..lines_sent).for_each(|_| expect(&mut lines, &line));
                lines.read(&mut [0]).unwrap()
            });
            assert_eq!(end, 0, "the client has quit");
            crew.end(Duration::from_secs(5)).unwrap();
            assert_nothing_is_held(&host);
        }
    }
}

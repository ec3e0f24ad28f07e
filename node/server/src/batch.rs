//! Batches: requests that are read together, looked up together, and then executed in order.
//!
//! For the key of each request its buckets are asked for as it is read; when all are read, the items that the buckets lead to; then they are executed, by
//! when most of what they touch has arrived in the caches. Text, packets, the keys of a get, requests from other workers and datagrams all go through the
//! same stages; they differ in what a request is, their [`Keyed`] kind.

use crate::forward::{Forwarding, Route};
use crate::interpreter::{Interpreter, ProtocolState};
use crate::latency::Series;
use arrayvec::ArrayVec;
use guira_commands::{Answered, Executor, GetKey, Item};
use guira_contract::{KeyHash, Session};
use guira_protocol::binary::{Packet, ServerOperation};
use guira_protocol::{AdminVerb, ServerCommand};
use guira_serving::Outbox;

/// Requests in a batch.
pub(crate) const BATCH: usize = 64;

/// A request of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<K, G> {
    pub(crate) kind: K,
    /// What prefetching has learnt of its key.
    pub(crate) guess: G,
    /// Where the next request begins, in whatever the batch is read from.
    pub(crate) end: usize,
}

/// What a request is, as far as prefetching has to know.
pub(crate) trait Keyed {
    /// The hash of its key, if it is about an item.
    fn hash(&self) -> Option<KeyHash>;
}

/// What a request is, as far as executing it has to know.
pub(crate) trait Execute<S: Session>: Keyed {
    /// What it is about.
    fn subject(&self) -> Subject<'_>;

    /// Answers it.
    fn execute(
        &self,
        guess: S::Guess,
        interpreter: &mut Interpreter<S>,
        state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow;
}

/// What a request is about, which decides where it may be executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// The item under a key with this hash: the worker that has the key executes it.
    Item(KeyHash, Item<'a>),
    /// The server, or the connection: this worker executes it.
    Server(Order),
}

/// Whether a command without a key may be answered while requests before it are under way at other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It may: only its place among the replies matters.
    OfReplies,
    /// It may not, since what it does must come after what they do.
    OfEffects,
}

impl Order {
    fn of_command(command: &ServerCommand<'_>) -> Self {
        match command {
            ServerCommand::MetaNoop | ServerCommand::Version => Order::OfReplies,
            // They are refused if anything is before them.
            ServerCommand::Admin(AdminVerb::Watch | AdminVerb::LruCrawler, _) => Order::OfReplies,
            ServerCommand::Admin(..)
            | ServerCommand::FlushAll { .. }
            | ServerCommand::FlushPrefixes { .. }
            | ServerCommand::MetaFlushPrefix(_)
            | ServerCommand::Verbosity { .. }
            | ServerCommand::Stats(_)
            | ServerCommand::Quit => Order::OfEffects,
        }
    }

    fn of_operation(operation: &ServerOperation<'_>) -> Self {
        match operation {
            ServerOperation::Noop | ServerOperation::Version => Order::OfReplies,
            ServerOperation::Flush(_) | ServerOperation::Stat(_) | ServerOperation::Quit => Order::OfEffects,
        }
    }
}

/// Whether the next request of a batch is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
    /// It is not, and this one is executed again in the next turn: there was no reply yet.
    Later,
}

/// Why a batch was not executed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All of it was.
    Done,
    /// The next request has to wait, for replies of other workers or for another turn.
    Waits,
    /// The outbox is full.
    OutboxFull,
    /// The last request was one after which none is executed.
    Stopped,
}

/// How far a batch was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Requests that were executed, or are under way to other workers.
    pub(crate) done: usize,
    pub(crate) pause: Pause,
}

/// Requests that are executed together: at most `N`.
#[derive(Debug)]
pub(crate) struct Batch<K, G, const N: usize = BATCH> {
    requests: ArrayVec<Request<K, G>, N>,
}

impl<K: Keyed, G: Copy + Default, const N: usize> Batch<K, G, N> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Batch { requests: ArrayVec::new() }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    #[inline(always)]
    pub(crate) fn requests(&self) -> &[Request<K, G>] {
        &self.requests
    }

    /// Adds a request whose buckets have been asked for.
    #[inline(always)]
    pub(crate) fn push(&mut self, kind: K, end: usize) {
        self.requests.push(Request { kind, guess: G::default(), end });
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut Request<K, G>> {
        self.requests.last_mut()
    }

    /// Forgets all requests from number `from` on.
    #[inline(always)]
    pub(crate) fn truncate(&mut self, from: usize) {
        self.requests.truncate(from);
    }

    /// Reads requests until it is full, or `read` says that what comes next does not belong into a batch. `read` pushes the request that begins at the given position.
    #[inline(always)]
    pub(crate) fn fill<E>(&mut self, mut read: impl FnMut(&mut Self, usize) -> Result<(), E>) -> Option<E> {
        while !self.requests.is_full() {
            if let Err(other) = read(self, self.end(self.len(), 0)) {
                return Some(other);
            }
        }
        None
    }

    /// Asks for the items of all keys that are looked up here, and keeps what is learnt on the way.
    ///
    /// Not part of its callers: here, and not there, the processor's registers are what is short.
    #[inline(never)]
    pub(crate) fn prefetch_items<S>(&mut self, executor: &Executor<S>, is_local: impl Fn(&K) -> bool)
    where
        S: Session<Guess = G>,
    {
        for request in &mut self.requests {
            if let Some(hash) = request.kind.hash()
                && is_local(&request.kind)
            {
                request.guess = executor.prefetch_item(hash);
            }
        }
        for _ in 0..Executor::<S>::PREFETCH_STEPS {
            self.requests.iter_mut().for_each(|request| executor.prefetch_next(&mut request.guess));
        }
    }

    /// Where the request after the first `done` begins; the first one begins at `begin`.
    #[inline(always)]
    pub(crate) fn end(&self, done: usize, begin: usize) -> usize {
        done.checked_sub(1).map_or(begin, |last| self.requests[last].end)
    }
}

/// Whether a request is executed here, as far as is known before those in front of it are.
#[inline(always)]
pub(crate) fn is_local<S: Session, K: Execute<S>>(forwarding: &Forwarding<S::Pin>, kind: &K) -> bool {
    match kind.subject() {
        Subject::Item(hash, item) => forwarding.is_local(hash, || item.effect()),
        Subject::Server(_) => true,
    }
}

impl<S: Session> Interpreter<S> {
    /// Executes a batch in order, here or at other workers: all of it, unless a request has to wait, stops it, or fills the outbox. `replied` is called for each
    /// request that was answered here, right after its reply.
    #[inline(always)]
    pub(crate) fn run_batch<K: Execute<S>, const N: usize>(
        &mut self,
        state: &mut ProtocolState<S>,
        batch: &mut Batch<K, S::Guess, N>,
        outbox: &mut Outbox<S::Pin>,
        mut replied: impl FnMut(usize, &Outbox<S::Pin>),
    ) -> Ran {
        // Asked once: what is executed is out of the compiler's sight, and it would be asked again for each request.
        let forwards = self.forwarding.is_in_use();
        if forwards {
            let forwarding = &self.forwarding;
            batch.prefetch_items(&self.executor, |kind| is_local::<S, K>(forwarding, kind));
        } else {
            batch.prefetch_items(&self.executor, |_| true);
        }
        self.slice.executed(batch.len());
        for (number, request) in batch.requests.iter().enumerate() {
            if forwards {
                match self.route(state, &request.kind, outbox) {
                    Route::Here => {}
                    Route::Forwarded => continue,
                    Route::Waits => return Ran { done: number, pause: Pause::Waits },
                }
            }
            let flow = request.kind.execute(request.guess, self, state, outbox);
            replied(number, outbox);
            let pause = match flow {
                Flow::Stop => Pause::Stopped,
                Flow::Later => return Ran { done: number, pause: Pause::Waits },
                Flow::Continue if outbox.weight() >= self.full => Pause::OutboxFull,
                Flow::Continue => continue,
            };
            return Ran { done: number + 1, pause };
        }
        Ran { done: batch.len(), pause: Pause::Done }
    }
}

impl<S: Session> Interpreter<S> {
    /// A batch of so many requests is to be executed: it may be one whose requests are counted by key.
    #[inline(always)]
    pub(crate) fn begin_uses(&mut self, requests: usize) {
        if self.uses.begin(requests) {
            self.executor.observe_uses();
        }
    }

    /// It was.
    #[inline(always)]
    pub(crate) fn end_uses(&mut self) {
        if self.uses.end() {
            // It took longer than others.
            self.meter.forget();
            self.executor.stop_observing_uses();
        }
    }
}

impl<S: Session> Interpreter<S> {
    /// Reads a batch with `read`, which pushes the request that begins at the given position, and executes it. Returns how many bytes were taken.
    ///
    /// # Errors
    /// What comes first, if it does not belong into a batch.
    #[inline(always)]
    pub(crate) fn read_and_run<'a, E>(
        &mut self,
        state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
        read: impl Fn(&Self, &mut Batch<Kind<'a>, S::Guess>, usize) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut batch = Batch::new();
        self.meter.begin();
        match batch.fill(|batch, at| read(self, batch, at)) {
            Some(special) if batch.is_empty() => {
                self.slice.executed(1);
                Err(special)
            }
            _ => {
                self.begin_uses(batch.len());
                let ran = self.run_batch(state, &mut batch, outbox, |_, _| {});
                self.end_uses();
                if self.meter.is_on() {
                    self.measure(&batch.requests()[..ran.done]);
                }
                Ok(batch.end(ran.done, 0))
            }
        }
    }
}

impl<S: Session> Interpreter<S> {
    /// These requests were executed, of a batch that is measured. Those that were forwarded are measured where they are executed.
    #[cold]
    #[inline(never)]
    pub(crate) fn measure(&mut self, requests: &[Request<Kind<'_>, S::Guess>]) {
        let forwarding = &self.forwarding;
        let here = requests.iter().filter(|request| is_local::<S, _>(forwarding, &request.kind));
        self.meter.end(here.map(|request| match &request.kind {
            Kind::Item(_, item) => Series::of(item),
            Kind::Server(_) | Kind::ServerPacket(..) => Series::Other,
        }));
    }
}

/// A request that has arrived whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// About the item under a key with this hash.
    Item(KeyHash, Item<'a>),
    /// A command without a key, in the text protocol.
    Server(ServerCommand<'a>),
    /// A command without a key, in the binary protocol.
    ServerPacket(Packet, ServerOperation<'a>),
}

impl Keyed for Kind<'_> {
    #[inline(always)]
    fn hash(&self) -> Option<KeyHash> {
        match self {
            Kind::Item(hash, _) => Some(*hash),
            Kind::Server(_) | Kind::ServerPacket(..) => None,
        }
    }
}

impl<S: Session> Execute<S> for Kind<'_> {
    #[inline(always)]
    fn subject(&self) -> Subject<'_> {
        match self {
            Kind::Item(hash, item) => Subject::Item(*hash, *item),
            Kind::Server(command) => Subject::Server(Order::of_command(command)),
            Kind::ServerPacket(_, operation) => Subject::Server(Order::of_operation(operation)),
        }
    }

    #[inline(always)]
    fn execute(
        &self,
        guess: S::Guess,
        interpreter: &mut Interpreter<S>,
        state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow {
        match self {
            Kind::Item(hash, item) => {
                interpreter.executor.execute(item, *hash, guess, outbox);
                Flow::Continue
            }
            Kind::Server(command) => match Order::of_command(command) {
                Order::OfReplies => interpreter.server_command(state, command, outbox),
                Order::OfEffects => interpreter.timed(|this| this.server_command(state, command, outbox)),
            },
            Kind::ServerPacket(packet, operation) => match Order::of_operation(operation) {
                Order::OfReplies => interpreter.server_packet(state, *packet, operation, outbox),
                Order::OfEffects => {
                    interpreter.timed(|this| this.server_packet(state, *packet, operation, outbox))
                }
            },
        }
    }
}

/// A key of a get of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyOfGet<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) get: GetKey<'a>,
}

impl Keyed for KeyOfGet<'_> {
    #[inline(always)]
    fn hash(&self) -> Option<KeyHash> {
        Some(self.hash)
    }
}

impl<S: Session> Execute<S> for KeyOfGet<'_> {
    #[inline(always)]
    fn subject(&self) -> Subject<'_> {
        Subject::Item(self.hash, Item::KeyOfGet(self.get))
    }

    /// Stops after an error, which is the end of the whole reply.
    #[inline(always)]
    fn execute(
        &self,
        guess: S::Guess,
        interpreter: &mut Interpreter<S>,
        _state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow {
        match interpreter.executor.get_key(&self.get, self.hash, guess, outbox) {
            Answered::Wholly => Flow::Continue,
            Answered::Refused => Flow::Stop,
        }
    }
}

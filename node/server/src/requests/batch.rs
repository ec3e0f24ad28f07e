//! Batches: requests that are read together, prefetched together, and then executed in order.
//!
//! The buckets of a key are prefetched as its request is read. When all requests are read, the items that the buckets
//! lead to are prefetched. Then the requests are executed: by then most of what they touch is in the caches. Text,
//! packets, the keys of a get, requests from other workers and datagrams all go through these stages. They differ in
//! what a request is: the type that implements [`Keyed`].

use arrayvec::ArrayVec;
use guira_commands::{Executor, GetKey, Item};
use guira_contract::{KeyHash, Session};
use guira_protocol::binary::{Packet, ServerOperation};
use guira_protocol::{AdminVerb, ServerCommand};

pub(crate) const BATCH: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<K, G> {
    pub(crate) kind: K,
    /// The result of prefetching the key.
    pub(crate) guess: G,
    /// The start of the next request in the input.
    pub(crate) end: usize,
}

/// The part of a request that prefetching needs.
pub(crate) trait Keyed {
    /// The hash of the key, if the request is about an item.
    fn hash(&self) -> Option<KeyHash>;
}

/// The part of a request that forwarding needs.
pub(crate) trait Routed: Keyed {
    fn subject(&self) -> Subject<'_>;
}

/// The subject of a request, which decides where it may be executed.
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
    /// The command may be executed: only the order of replies matters.
    OfReplies,
    /// The command has to wait, since its effect must come after theirs.
    OfEffects,
}

impl Order {
    pub(crate) fn of_command(command: &ServerCommand<'_>) -> Self {
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

    pub(crate) fn of_operation(operation: &ServerOperation<'_>) -> Self {
        match operation {
            ServerOperation::Noop | ServerOperation::Version => Order::OfReplies,
            ServerOperation::Flush(_) | ServerOperation::Stat(_) | ServerOperation::Quit => Order::OfEffects,
        }
    }
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

    /// Adds a request whose buckets were prefetched.
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

    /// Reads requests until the batch is full, or `read` fails since the next request does not belong into a batch.
    /// `read` pushes the request that begins at the given position.
    #[inline(always)]
    pub(crate) fn fill<E>(&mut self, mut read: impl FnMut(&mut Self, usize) -> Result<(), E>) -> Option<E> {
        while !self.requests.is_full() {
            if let Err(other) = read(self, self.end(self.len(), 0)) {
                return Some(other);
            }
        }
        None
    }

    /// Prefetches the items of all keys that this worker looks up, and keeps what the prefetch learns of them.
    ///
    /// Not inlined: the callers would run out of registers.
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

    /// The start of the request after the first `done`; the first one starts at `begin`.
    #[inline(always)]
    pub(crate) fn end(&self, done: usize, begin: usize) -> usize {
        done.checked_sub(1).map_or(begin, |last| self.requests[last].end)
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

impl Routed for Kind<'_> {
    #[inline(always)]
    fn subject(&self) -> Subject<'_> {
        match self {
            Kind::Item(hash, item) => Subject::Item(*hash, *item),
            Kind::Server(command) => Subject::Server(Order::of_command(command)),
            Kind::ServerPacket(_, operation) => Subject::Server(Order::of_operation(operation)),
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

impl Routed for KeyOfGet<'_> {
    #[inline(always)]
    fn subject(&self) -> Subject<'_> {
        Subject::Item(self.hash, Item::KeyOfGet(self.get))
    }
}

//! Walks requests through a tree, and keeps the state of each handle that waits for its children.
//!
//! A handle that only selects a child keeps no state, so that a get in most configurations is a
//! plain walk down to a server. A handle that waits for its children has a *frame*, with its state
//! and a copy of the request. Nothing here does I/O: requests go to a [`Sink`], which passes
//! replies to [`Walks::answer`].

use crate::counted_pools::{Arrival, ArrivalWanted, CountedPool};
use crate::handle::AnyHandle;
use crate::outcome::{Answer, Item, KeptAnswer, Outcome};
use crate::request::{KeptRequest, Request};
use crate::step::{
    ChildRequest, Cx, DestinationId, Facts, Flags, Holds, Hop, LogName, NodeId, State, Step, Then, Wait,
    Wanted,
};
use crate::tree::Tree;

mod apply;
mod done;
mod kept;
mod trees;

pub(crate) use apply::{RewriteBuffer, apply};

use done::Done;
use kept::{Kept, Pieces};
use trees::{Inside, Planted, Trees};

/// The reply to a key whose routing prefix leads nowhere.
const NO_ROUTE: &[u8] = b"no route for this prefix";
/// The reply to a key that is only a routing prefix.
const NO_KEY: &[u8] = b"there is no key behind the routing prefix";

/// Sends requests to servers, and replies to clients.
pub trait Sink {
    type Ticket: Copy;

    /// Sends a request to a server. [`Walks::answer`] receives the reply exactly once, with
    /// `origin`. A delete may be logged under `log` instead of failing.
    ///
    /// # Errors
    /// The answer, if the request is not sent.
    fn send(
        &mut self,
        destination: DestinationId,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Self::Ticket>,
    ) -> Result<(), Outcome>;

    fn answer(&mut self, ticket: Self::Ticket, answer: &Answer<'_>);

    /// The time of [`Facts::now_ms`] by now.
    fn now_ms(&self) -> u64;

    /// Calls [`Walks::answer`] with [`Outcome::Ok`] for `origin` after `_ms` milliseconds.
    ///
    /// # Errors
    /// If the sink has no timers.
    fn wait(&mut self, _ms: u32, _origin: Origin<Self::Ticket>) -> Result<(), Outcome> {
        Err(Outcome::LocalError)
    }

    /// Replies to a client whose key leads nowhere; no server was involved.
    fn refuse(&mut self, ticket: Self::Ticket, why: &Answer<'_>) {
        self.answer(ticket, why);
    }

    /// A client's request is about to be sent to this server of a pool that is counted. [`Sink::answer_counted`] answers it.
    fn arrive(&mut self, _ticket: Self::Ticket, _at: DestinationId, _arrival: Arrival) {}

    /// Answers a client whose request has gone through a tree with pools that are counted.
    fn answer_counted(&mut self, ticket: Self::Ticket, answer: &Answer<'_>) {
        self.answer(ticket, answer);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<T> {
    Client(T),
    /// A client's request in a tree with counted pools.
    Counted(T),
    /// A frame, and the number of its child.
    Frame {
        frame: u32,
        child: u32,
    },
    /// The reply is dropped.
    NoClient,
}

#[derive(Debug)]
struct Frame<T> {
    /// The number of the request's tree, which may have been replaced since. `None` for a vacant
    /// frame.
    tree: Option<u32>,
    node: NodeId,
    facts: Facts,
    origin: Origin<T>,
    state: State,
    request: KeptRequest,
    held: Option<KeptAnswer>,
    pieces: Pieces,
    /// Bytes of the request, and of answers that are kept.
    bytes: usize,
    /// The number of children without a reply.
    outstanding: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The handle has replied. Further replies of children are dropped.
    Settled,
}

const NO_ANSWER: Answer<'static> = Answer::of(Outcome::NotFound);

/// All requests of a worker that are under way.
#[derive(Debug)]
pub struct Walks<T> {
    trees: Trees,
    under_way: UnderWay<T>,
}

#[derive(Debug)]
struct UnderWay<T> {
    frames: Vec<Frame<T>>,
    inside: Inside,
    vacant: Vec<u32>,
    /// The requests of handles: a stack, of which each handle uses the end.
    child_requests: Vec<ChildRequest>,
    scratch: Vec<u8>,
    /// The waits that a handle has just requested.
    waits: Vec<Wait>,
    random: u64,
    kept: Kept,
    /// While a request without a waiting client is sent: the client whose request caused it. Only
    /// set where pools are counted.
    for_client: Option<T>,
}

/// The end of a chain of handles that only select a child: a server, or a handle that does more.
#[inline]
fn hops(tree: &Tree, mut node: NodeId, request: &Request<'_>) -> Hop {
    loop {
        match tree.handle(node).hop(request) {
            Some(Hop::To(next)) => node = next,
            Some(send) => return send,
            None => return Hop::To(node),
        }
    }
}

impl<T: Copy> Walks<T> {
    pub fn new(tree: Tree, seed: u64) -> Self {
        Walks { trees: Trees::new(tree), under_way: UnderWay::new(seed) }
    }

    /// Requests go through another tree from now on. Those that are under way stay in theirs. Returns the tree before, if nothing is in it.
    pub fn replace(&mut self, tree: Tree) -> Option<Box<Tree>> {
        self.trees.replace(tree, &self.under_way.inside)
    }

    pub fn tree(&self) -> &Tree {
        self.trees.current().tree
    }

    /// Whether requests are still in the tree that was replaced `ago` trees ago, at least 1.
    pub fn has_requests(&self, ago: u64) -> bool {
        self.trees.has_former(ago)
    }

    pub fn frames(&self) -> usize {
        self.under_way.frames.len() - self.under_way.vacant.len()
    }

    /// Sends a client's request on its way. Its key may have a routing prefix.
    #[inline]
    pub fn start<S: Sink<Ticket = T>>(
        &mut self,
        request: &Request<'_>,
        facts: &Facts,
        ticket: T,
        sink: &mut S,
    ) {
        let planted = self.trees.current();
        let Some((root, prefix)) = planted.tree.root(request.key) else {
            return sink.refuse(ticket, &Answer { line: NO_ROUTE, ..Answer::of(Outcome::LocalError) });
        };
        let (prefix, key) = request.key.split_at(prefix);
        let bare;
        let mut request = request;
        if !prefix.is_empty() {
            if key.is_empty() {
                return sink.refuse(ticket, &Answer { line: NO_KEY, ..Answer::of(Outcome::ClientError) });
            }
            bare = Request { key, prefix, ..*request };
            request = &bare;
        }
        match hops(planted.tree, root, request) {
            // Most requests meet no handle that does more.
            Hop::Send(destination, log) => {
                if let Err(why) = sink.send(destination, request, log, Origin::Client(ticket)) {
                    sink.answer(ticket, &Answer::of(why));
                }
            }
            Hop::To(node) => self.under_way.enter(planted, node, request, facts, ticket, sink),
        }
    }

    /// Sends a request without a key to all servers of the tree, and answers what the worst has answered.
    pub fn broadcast<S: Sink<Ticket = T>>(
        &mut self,
        request: &Request<'_>,
        facts: &Facts,
        ticket: T,
        sink: &mut S,
    ) {
        let planted = self.trees.current();
        self.under_way.enter(planted, planted.tree.everywhere(), request, facts, ticket, sink);
    }

    /// A server has answered what it was sent for `origin`.
    pub fn answer<S: Sink<Ticket = T>>(&mut self, origin: Origin<T>, answer: &Answer<'_>, sink: &mut S) {
        self.under_way.answer(&self.trees, origin, answer, sink);
        self.trees.forget_empty(&self.under_way.inside);
    }
}

impl<T: Copy> UnderWay<T> {
    fn new(seed: u64) -> Self {
        let (frames, vacant, child_requests, scratch) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (inside, waits, kept) = (Inside::default(), Vec::new(), Kept::default());
        UnderWay {
            frames,
            inside,
            vacant,
            child_requests,
            scratch,
            waits,
            random: seed,
            kept,
            for_client: None,
        }
    }

    /// Sends a client's request to a handle, and answers it if that has its answer at once.
    fn enter<S: Sink<Ticket = T>>(
        &mut self,
        planted: Planted<'_>,
        node: NodeId,
        request: &Request<'_>,
        facts: &Facts,
        ticket: T,
        sink: &mut S,
    ) {
        let origin =
            if planted.tree.has_counted_pools() { Origin::Counted(ticket) } else { Origin::Client(ticket) };
        match (self.descend(planted, node, request, facts, origin, sink), origin) {
            (None, _) => {}
            (Some(done), Origin::Counted(_)) => {
                done.with(&NO_ANSWER, |answer| sink.answer_counted(ticket, answer));
            }
            (Some(done), _) => done.with(&NO_ANSWER, |answer| sink.answer(ticket, answer)),
        }
        self.scratch.clear();
    }

    /// Sends a request to a handle. Returns its answer, if it has one at once; otherwise that goes to `origin`.
    fn descend<S: Sink<Ticket = T>>(
        &mut self,
        planted: Planted<'_>,
        mut node: NodeId,
        request: &Request<'_>,
        facts: &Facts,
        origin: Origin<T>,
        sink: &mut S,
    ) -> Option<Done> {
        loop {
            match hops(planted.tree, node, request) {
                Hop::To(handle) => node = handle,
                Hop::Send(destination, log) => {
                    let refused = sink.send(destination, request, log, origin).err();
                    return refused.map(|why| Done::Refused(why, destination));
                }
            }
            // A server of a pool that is counted is still a server: nothing is kept for it.
            let is_server = matches!(planted.tree.handle(node), AnyHandle::Counted(_));
            if self.kept.is_full() && !is_server {
                return Some(Done::Made(Outcome::Busy));
            }
            let first = self.child_requests.len();
            let UnderWay { child_requests, scratch, random, waits, .. } = self;
            let now_ms = facts.now_ms;
            let (domains, holds) = (planted.tree.domains(), Holds::No);
            let mut cx = Cx { facts: *facts, now_ms, domains, child_requests, scratch, random, waits, holds };
            let step = planted.tree.handle(node).enter(&mut cx, request);
            if self.child_requests.len() > first && !matches!(step, Step::Await(_)) {
                self.notify(planted, first, (request, facts), origin, sink);
            }
            match step {
                Step::Tail(next) => node = next,
                Step::Send(destination, log) => {
                    let refused = sink.send(destination, request, log, origin).err();
                    return refused.map(|why| Done::Refused(why, destination));
                }
                Step::Counted(destination, log, pool) => {
                    self.arrive(pool, destination, facts, origin, sink);
                    let refused = sink.send(destination, request, log, origin).err();
                    return refused.map(|why| Done::Refused(why, destination));
                }
                Step::Answer(outcome) => return Some(Done::Made(outcome)),
                Step::Fail(outcome, text) => {
                    let line = &self.scratch[text.from as usize..text.to as usize];
                    return Some(Done::Held(KeptAnswer::of(&Answer { line, ..Answer::of(outcome) })));
                }
                Step::Rewritten(next, rewrite) => {
                    let mut key = RewriteBuffer::new();
                    let Some(changed) = apply(&self.scratch, &rewrite, request, &NO_ANSWER, &mut key) else {
                        return Some(Done::Made(Outcome::LocalError));
                    };
                    return self.descend(planted, next, &changed, facts, origin, sink);
                }
                Step::Await(state) => {
                    let frame = self.open(planted, node, request, facts, origin, state);
                    let done = self.pump(planted, frame, first, request, (Then::Wait, &NO_ANSWER), sink);
                    if done.is_some() {
                        self.settle(frame);
                    }
                    return done;
                }
            }
        }
    }

    /// Sends the requests from `first` on, whose replies are dropped.
    #[cold]
    fn notify<S: Sink<Ticket = T>>(
        &mut self,
        planted: Planted<'_>,
        first: usize,
        (request, facts): (&Request<'_>, &Facts),
        origin: Origin<T>,
        sink: &mut S,
    ) {
        let mut next = first;
        while let Some(child_request) = self.child_requests.get(next).copied() {
            next += 1;
            let mut key = RewriteBuffer::new();
            if let Some(changed) = apply(&self.scratch, &child_request.rewrite, request, &NO_ANSWER, &mut key)
            {
                self.notify_one(planted, child_request.node, (&changed, facts), origin, sink);
            }
        }
        self.child_requests.truncate(first);
    }

    /// Sends a request whose reply is dropped, for the request of `origin`.
    fn notify_one<S: Sink<Ticket = T>>(
        &mut self,
        planted: Planted<'_>,
        node: NodeId,
        (request, facts): (&Request<'_>, &Facts),
        origin: Origin<T>,
        sink: &mut S,
    ) {
        let before = self.for_client;
        if planted.tree.has_counted_pools() {
            self.for_client = self.client_of(origin).map(|(ticket, _)| ticket);
        }
        self.descend(planted, node, request, facts, Origin::NoClient, sink);
        self.for_client = before;
    }

    /// A request arrives at a server of a counted pool. Notifies the sink, if the request belongs
    /// to a client without a reply.
    fn arrive<S: Sink<Ticket = T>>(
        &self,
        pool: CountedPool,
        destination: DestinationId,
        facts: &Facts,
        origin: Origin<T>,
        sink: &mut S,
    ) {
        if let Some((ticket, wanted)) = self.client_of(origin) {
            sink.arrive(ticket, destination, Arrival { pool, sent_ms: facts.now_ms, wanted });
        }
    }

    /// The client whose request `origin` belongs to, if the client has no reply yet, and whether its reply depends on
    /// `origin`.
    fn client_of(&self, mut origin: Origin<T>) -> Option<(T, ArrivalWanted)> {
        loop {
            match origin {
                Origin::Client(ticket) | Origin::Counted(ticket) => {
                    return Some((ticket, ArrivalWanted::Yes));
                }
                Origin::NoClient => return self.for_client.map(|ticket| (ticket, ArrivalWanted::No)),
                Origin::Frame { frame, .. } => {
                    let it = &self.frames[frame as usize];
                    if it.phase == Phase::Settled {
                        return None;
                    }
                    origin = it.origin;
                }
            }
        }
    }

    /// Carries out a handle's reaction to this answer: sends the requests to children, from `first`
    /// on. Returns the handle's answer, if the replies so far are enough.
    fn pump<S: Sink<Ticket = T>>(
        &mut self,
        planted: Planted<'_>,
        frame: u32,
        first: usize,
        request: &Request<'_>,
        (then, answer): (Then, &Answer<'_>),
        sink: &mut S,
    ) -> Option<Done> {
        let facts = self.frames[frame as usize].facts;
        let mut done = self.conclude(frame, then, Done::Present);
        if !self.waits.is_empty() {
            done = self.pump_waits(planted, frame, request, sink);
        }
        // Requests that a reply causes while this loop runs do not use this answer.
        let of_answer = self.child_requests.len();
        let mut next = first;
        while let Some(child_request) = self.child_requests.get(next).copied() {
            let answer = if next < of_answer { answer } else { &NO_ANSWER };
            next += 1;
            let mut key = RewriteBuffer::new();
            let changed = apply(&self.scratch, &child_request.rewrite, request, answer, &mut key);
            let Wanted::By(child) = child_request.answer else {
                if let Some(changed) = changed {
                    let origin = self.frames[frame as usize].origin;
                    self.notify_one(planted, child_request.node, (&changed, &facts), origin, sink);
                }
                continue;
            };
            self.frames[frame as usize].outstanding += 1;
            let at_once = match changed {
                Some(changed) => self.descend(
                    planted,
                    child_request.node,
                    &changed,
                    &facts,
                    Origin::Frame { frame, child },
                    sink,
                ),
                None => Some(Done::Made(Outcome::LocalError)),
            };
            match at_once {
                None => {}
                Some(_) if done.is_some() => self.frames[frame as usize].outstanding -= 1,
                Some(at_once) => {
                    let then = at_once.with(answer, |answer| {
                        self.resume(planted.tree, frame, child, request, answer, sink.now_ms())
                    });
                    done = self.conclude(frame, then, at_once);
                    if !self.waits.is_empty() {
                        done = self.pump_waits(planted, frame, request, sink);
                    }
                }
            }
        }
        self.child_requests.truncate(first);
        let is_lost = done.is_none() && self.frames[frame as usize].outstanding == 0;
        debug_assert!(
            !is_lost,
            "{:?} waits without a pending request",
            planted.tree.handle(self.frames[frame as usize].node)
        );
        if is_lost { Some(Done::Made(Outcome::LocalError)) } else { done }
    }

    /// Starts the timers that a handle requested. Returns the handle's answer, if there are no
    /// timers and it is complete without them.
    #[cold]
    fn pump_waits<S: Sink<Ticket = T>>(
        &mut self,
        planted: Planted<'_>,
        frame: u32,
        request: &Request<'_>,
        sink: &mut S,
    ) -> Option<Done> {
        let mut done = None;
        while let Some(Wait { ms, child }) = self.waits.pop() {
            self.frames[frame as usize].outstanding += 1;
            let Err(why) = sink.wait(ms, Origin::Frame { frame, child }) else { continue };
            if done.is_some() {
                self.frames[frame as usize].outstanding -= 1;
                continue;
            }
            let then = self.resume(planted.tree, frame, child, request, &Answer::of(why), sink.now_ms());
            done = self.conclude(frame, then, Done::Made(why));
        }
        done
    }

    /// Passes the reply of a child to a handle. Its requests are then at the end of
    /// `child_requests`.
    fn resume(
        &mut self,
        tree: &Tree,
        frame: u32,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
        now_ms: u64,
    ) -> Then {
        let UnderWay { frames, child_requests, scratch, random, waits, kept, .. } = self;
        let it = &mut frames[frame as usize];
        it.outstanding -= 1;
        it.state.answers += 1;
        let (facts, domains, holds) = (it.facts, tree.domains(), Holds::No);
        let mut cx = Cx { facts, now_ms, domains, child_requests, scratch, random, waits, holds };
        let then = tree.handle(it.node).resume(&mut cx, &mut it.state, child, request, answer);
        match cx.holds {
            Holds::No => {}
            Holds::Yes => {
                it.held = Some(kept.answer(answer, &mut it.bytes));
                it.pieces = Pieces::default();
            }
            Holds::Item => {
                let item = Answer { line: b"", block: b"", number: 0, ..*answer };
                it.held = Some(kept.answer(&item, &mut it.bytes));
            }
            Holds::Whole => {
                it.pieces = Pieces::default();
                it.pieces.keep(0, kept.piece(answer, &mut it.bytes));
                let item = answer.item.map(|item| Item { value: b"", ..item });
                it.held = Some(KeptAnswer::of(&Answer { item, block: b"", ..*answer }));
            }
            Holds::Piece(number) => it.pieces.keep(number, kept.piece(answer, &mut it.bytes)),
        }
        then
    }

    fn conclude(&mut self, frame: u32, then: Then, present: Done) -> Option<Done> {
        match then {
            Then::Wait => None,
            Then::Pass => Some(present),
            Then::Answer(outcome) => Some(Done::Made(outcome)),
            Then::Numbered(outcome, number) => Some(Done::Numbered(outcome, number)),
            Then::Renumbered(number) => Some(present.renumbered(number)),
            Then::Held => Some(self.held(frame).map_or(Done::Made(Outcome::LocalError), Done::Held)),
            Then::Joined(flags) => Some(self.joined(frame, flags)),
        }
    }

    fn held(&mut self, frame: u32) -> Option<KeptAnswer> {
        let held = self.frames[frame as usize].held.take();
        debug_assert!(held.is_some(), "nothing is held");
        held
    }

    fn joined(&mut self, frame: u32, flags: Flags) -> Done {
        let value = std::mem::take(&mut self.frames[frame as usize].pieces).join();
        match (value, self.held(frame)) {
            (Some(value), Some(held)) => Done::Held(held.joined(flags, value)),
            _ => Done::Made(Outcome::LocalError),
        }
    }

    /// A server has answered what it was sent for `origin`.
    fn answer<S: Sink<Ticket = T>>(
        &mut self,
        trees: &Trees,
        origin: Origin<T>,
        answer: &Answer<'_>,
        sink: &mut S,
    ) {
        let (mut origin, mut done) = (origin, Done::Present);
        loop {
            let (frame, child) = match origin {
                Origin::Client(ticket) => {
                    done.with(answer, |answer| sink.answer(ticket, answer));
                    break;
                }
                Origin::Counted(ticket) => {
                    done.with(answer, |answer| sink.answer_counted(ticket, answer));
                    break;
                }
                Origin::NoClient => break,
                Origin::Frame { frame, child } => (frame, child),
            };
            let it = &self.frames[frame as usize];
            let above = it.origin;
            match done.with(answer, |answer| self.answer_frame(trees, frame, child, answer, sink)) {
                None => break,
                Some(Done::Present) => {}
                Some(Done::Renumbered(number)) => done = done.renumbered(number),
                Some(other) => done = other,
            }
            self.settle(frame);
            origin = above;
        }
        self.scratch.clear();
    }

    /// A child of a frame has answered. Returns what its handle answers, if it is satisfied now.
    fn answer_frame<S: Sink<Ticket = T>>(
        &mut self,
        trees: &Trees,
        frame: u32,
        child: u32,
        answer: &Answer<'_>,
        sink: &mut S,
    ) -> Option<Done> {
        let it = &mut self.frames[frame as usize];
        let open = it.tree.filter(|_| it.phase == Phase::Open);
        let Some(planted) = open.and_then(|number| trees.numbered(number)) else {
            it.outstanding -= 1;
            if it.outstanding == 0 {
                self.close(frame);
            }
            return None;
        };
        let request = std::mem::take(&mut it.request);
        let first = self.child_requests.len();
        let then = self.resume(planted.tree, frame, child, &request.request(), answer, sink.now_ms());
        let done = self.pump(planted, frame, first, &request.request(), (then, answer), sink);
        self.frames[frame as usize].request = request;
        done
    }

    fn open(
        &mut self,
        planted: Planted<'_>,
        node: NodeId,
        request: &Request<'_>,
        facts: &Facts,
        origin: Origin<T>,
        state: State,
    ) -> u32 {
        self.inside.enters(planted.number);
        let number = self.vacant.pop().unwrap_or(self.frames.len() as u32);
        if number as usize == self.frames.len() {
            self.frames.push(Frame {
                tree: None,
                node,
                facts: *facts,
                origin,
                state,
                request: KeptRequest::default(),
                held: None,
                pieces: Pieces::default(),
                bytes: 0,
                outstanding: 0,
                phase: Phase::Open,
            });
        }
        let it = &mut self.frames[number as usize];
        it.request.keep(request);
        (it.tree, it.node, it.facts, it.origin) = (Some(planted.number), node, *facts, origin);
        (it.state, it.held, it.outstanding, it.phase) = (state, None, 0, Phase::Open);
        it.bytes = request.bytes();
        self.kept.adds(it.bytes);
        number
    }

    /// A frame has answered. It stays as long as children have not.
    fn settle(&mut self, frame: u32) {
        let it = &mut self.frames[frame as usize];
        it.phase = Phase::Settled;
        if it.outstanding == 0 {
            self.close(frame);
        }
    }

    fn close(&mut self, frame: u32) {
        let it = &mut self.frames[frame as usize];
        if let Some(tree) = it.tree.take() {
            self.inside.leaves(tree);
        }
        it.held = None;
        it.pieces = Pieces::default();
        it.request.forget();
        self.kept.gives_back(std::mem::take(&mut it.bytes));
        self.vacant.push(frame);
    }
}

#[cfg(test)]
mod tests;

//! The runner: executes requests, here or by other workers, and writes their replies.

use super::batch::{BATCH, Batch, KeyOfGet, Kind, Order, Request, Routed, Subject};
use super::reader::Reader;
use super::state::ProtocolState;
use crate::admin::Admin;
use crate::forward::{ForwardBatch, Forwarding, Route};
use crate::latency::{BatchMeter, Series};
use crate::parts::Parts;
use crate::profile::Profile;
use crate::top_keys::UseSampler;
use guira_commands::{Answered, Executor};
use guira_contract::{Session, Switch, ValuePin};
use guira_serving::{Access, Cluster, Host, OUTBOX_FULL, Outbox, Slice, Speaks};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Runner<S: Session> {
    pub(crate) executor: Executor<S>,
    pub(crate) forwarding: Forwarding<S::Pin>,
    pub(crate) admin: Arc<Admin>,
    pub(crate) host: Arc<Host>,
    /// Whether clients may flush.
    pub(super) flush_commands: Switch,
    pub(super) profile: Profile,
    cluster: Option<Arc<Cluster>>,
    pub(super) meter: BatchMeter,
    pub(crate) uses: UseSampler,
    /// When an outbox counts as full, in bytes: [`OUTBOX_FULL`], or less where memory is short.
    pub(super) full: usize,
    /// The rest of the turn: endless for what no connection of this worker has sent.
    pub(super) slice: Slice,
}

/// How to continue after a request of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    /// The rest of the batch is not executed.
    Stop,
    /// The request is repeated in the next turn: it has no reply yet.
    Later,
}

/// Why a batch was not executed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Done,
    /// The next request has to wait, for replies of other workers or for another turn.
    Waits,
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

/// A request that a runner can execute.
pub(crate) trait Execute<S: Session>: Routed {
    /// Executes the request and writes its reply.
    fn execute(
        &self,
        guess: S::Guess,
        runner: &mut Runner<S>,
        state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow;
}

impl<S: Session> Execute<S> for Kind<'_> {
    #[inline(always)]
    fn execute(
        &self,
        guess: S::Guess,
        runner: &mut Runner<S>,
        state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow {
        match self {
            Kind::Item(hash, item) => {
                runner.executor.execute(item, *hash, guess, outbox);
                Flow::Continue
            }
            Kind::Server(command) => match Order::of_command(command) {
                Order::OfReplies => runner.server_command(state, command, outbox),
                Order::OfEffects => runner.timed(|this| this.server_command(state, command, outbox)),
            },
            Kind::ServerPacket(packet, operation) => match Order::of_operation(operation) {
                Order::OfReplies => runner.server_packet(state, *packet, operation, outbox),
                Order::OfEffects => {
                    runner.timed(|this| this.server_packet(state, *packet, operation, outbox))
                }
            },
        }
    }
}

impl<S: Session> Execute<S> for KeyOfGet<'_> {
    /// Stops after an error, which is the end of the whole reply.
    #[inline(always)]
    fn execute(
        &self,
        guess: S::Guess,
        runner: &mut Runner<S>,
        _state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow {
        match runner.executor.get_key(&self.get, self.hash, guess, outbox) {
            Answered::Wholly => Flow::Continue,
            Answered::Refused => Flow::Stop,
        }
    }
}

/// Whether a request is executed here, as far as is known before the requests in front of it are executed.
#[inline(always)]
pub(crate) fn is_local<P: ValuePin>(forwarding: &Forwarding<P>, kind: &impl Routed) -> bool {
    match kind.subject() {
        Subject::Item(hash, item) => forwarding.is_local(hash, || item.effect()),
        Subject::Server(_) => true,
    }
}

impl<S: Session> Runner<S> {
    pub(crate) fn new(
        executor: Executor<S>,
        forwarding: Forwarding<S::Pin>,
        (parts, admin): (&Parts, Arc<Admin>),
        worker: usize,
    ) -> Self {
        let meter = BatchMeter::new(worker, parts.statistics.workers()[worker].latencies.clone());
        let uses = UseSampler::new(parts.observers.top_keys.clone(), worker);
        let (full, slice) = (OUTBOX_FULL, Slice::ENDLESS);
        let flush_commands = if parts.options.disable_flush_all { Switch::Off } else { Switch::On };
        let host = parts.host.clone();
        let (profile, cluster) = (parts.options.profile, parts.cluster.clone());
        Runner {
            executor,
            forwarding,
            admin,
            host,
            flush_commands,
            profile,
            cluster,
            meter,
            uses,
            full,
            slice,
        }
    }

    /// The reply to a line that asks for the nodes of the cluster.
    #[cold]
    pub(super) fn cluster_reply(&self, line: &[u8]) -> Option<String> {
        self.cluster.as_ref()?.reply(line)
    }

    /// A client has its turn, for as long as `slice`. An outbox with `full` bytes counts as full.
    #[inline(always)]
    pub(crate) fn begin_turn(&mut self, full: usize, slice: Slice) {
        self.full = full;
        self.slice = slice;
    }

    /// The rest of the turn.
    #[inline(always)]
    pub(crate) fn slice(&self) -> Slice {
        self.slice
    }

    #[inline(always)]
    pub(crate) fn reader(&self) -> Reader<'_, S> {
        Reader::new(self)
    }

    /// Executes a batch in order, here or by other workers: all requests, unless one has to wait, ends the batch, or
    /// fills the outbox. `replied` is called after the reply of each request that is executed here.
    #[inline(always)]
    pub(crate) fn run_batch<K: Execute<S>, const N: usize>(
        &mut self,
        state: &mut ProtocolState<S>,
        batch: &mut Batch<K, S::Guess, N>,
        outbox: &mut Outbox<S::Pin>,
        mut replied: impl FnMut(usize, &Outbox<S::Pin>),
    ) -> Ran {
        // Read once: the compiler cannot see that executing a request does not change it.
        let forwards = self.forwarding.is_in_use();
        if forwards {
            let forwarding = &self.forwarding;
            batch.prefetch_items(&self.executor, |kind| is_local(forwarding, kind));
        } else {
            batch.prefetch_items(&self.executor, |_| true);
        }
        self.slice.executed(batch.len());
        for (number, request) in batch.requests().iter().enumerate() {
            if forwards {
                match self.forwarding.route(state.sender, request.kind.subject(), self.full, outbox) {
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

    /// A batch of this many requests begins. Its requests are counted by key if the batch is in the sample.
    #[inline(always)]
    pub(crate) fn begin_uses(&mut self, requests: usize) {
        if self.uses.begin(requests) {
            self.executor.observe_uses();
        }
    }

    #[inline(always)]
    pub(crate) fn end_uses(&mut self) {
        if self.uses.end() {
            // Counting took time, which is not the latency of requests.
            self.meter.forget();
            self.executor.stop_observing_uses();
        }
    }

    /// Reads a batch with `read`, which pushes the request that begins at the given position, and executes the batch.
    /// Returns how many bytes were taken.
    ///
    /// # Errors
    /// The first request, if it does not belong into a batch.
    #[inline(always)]
    pub(crate) fn read_and_run<'a, E>(
        &mut self,
        state: &mut ProtocolState<S>,
        outbox: &mut Outbox<S::Pin>,
        read: impl Fn(Reader<'_, S>, &mut Batch<Kind<'a>, S::Guess>, usize) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut batch = Batch::new();
        self.meter.begin();
        match batch.fill(|batch, at| read(self.reader(), batch, at)) {
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

    /// Records the latency of these requests of a batch. Forwarded requests are measured where they are executed.
    #[cold]
    #[inline(never)]
    pub(super) fn measure(&mut self, requests: &[Request<Kind<'_>, S::Guess>]) {
        let forwarding = &self.forwarding;
        let here = requests.iter().filter(|request| is_local(forwarding, &request.kind));
        self.meter.end(here.map(|request| match &request.kind {
            Kind::Item(_, item) => Series::of(item),
            Kind::Server(_) | Kind::ServerPacket(..) => Series::Other,
        }));
    }

    /// Executes requests that another worker has forwarded, until their replies are long.
    pub(crate) fn run_forwarded(&mut self, forwarded: &mut ForwardBatch<S::Pin>) {
        self.begin_turn(forwarded.full(), Slice::ENDLESS);
        let mut state = ProtocolState::new(Speaks::Text, Access::Free, None);
        let parts = forwarded.parts();
        let mut begin = 0;
        for requests in parts.requests.chunks_mut(BATCH) {
            let mut batch = Batch::<Kind<'_>, S::Guess>::new();
            self.meter.begin();
            for request in &*requests {
                self.executor.prefetch_hash(request.hash);
                batch.push(Kind::Item(request.hash, request.item(parts.bytes, begin)), request.end());
                begin = request.end();
            }
            self.begin_uses(batch.len());
            let ran = self.run_batch(&mut state, &mut batch, parts.replies, |number, replies| {
                requests[number].reply_end = replies.end();
            });
            self.end_uses();
            if self.meter.is_on() {
                self.measure(&batch.requests()[..ran.done]);
            }
            *parts.done += ran.done;
            if ran.pause != Pause::Done {
                return;
            }
        }
    }
}

//! The service of a node's worker: an engine's items over connections, over datagrams, and for
//! other workers.

use crate::admin::Admin;
use crate::background::DetachedConnection;
use crate::counters::WorkerCount;
use crate::direct::DatagramListener;
use crate::forward::{BATCHES_OF_ONE, Forwarding};
use crate::latency::RoundMeter;
use crate::parts::Parts;
use crate::requests::{Interpreter, Phase, ProtocolState, Runner};
use crate::statistics::WorkerStatistics;
use crate::udp::UdpListener;
use crate::upkeep::{TURN, Upkeep};
use crate::watch::{EventObserver, EventSink};
use guira_commands::Executor;
use guira_contract::{Pace, Session};
use guira_serving::{
    Arrival, CloseReason, Member, MoreRequested, Next, OUTBOX_FULL, Outbox, ReplyTo, RequestHandler, Round,
    Service, Slice, Stopped, Woken, service_token,
};
use guira_sync::clock::{Millis, Seconds};
use guira_transport::{Interest, Park, Poll};
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use guira_serving::INPUT_BYTES;

/// Small pieces of upkeep done after each round of connections, under load …
const BUSY_UPKEEP: usize = 32;
/// … and at a time when nothing else is to be done: few, since a step of the crawler takes some ten microseconds, and a
/// request may come at any moment.
const IDLE_UPKEEP: usize = 4;

/// Forward batches that are dealt with before connections have their turn.
const BATCHES_AT_ONCE: usize = 32;

/// Any of MICA's paths: all are polled in each round. UDP sockets come after it.
const PATH: u32 = 0;
const FIRST_UDP: u32 = 1;

/// The sources of requests other than connections.
#[derive(Debug)]
pub(crate) struct Ends<P> {
    pub(crate) udp: Option<UdpListener>,
    pub(crate) direct: DatagramListener,
    pub(crate) forwarding: Forwarding<P>,
}

/// One worker's part of a node.
#[derive(Debug)]
pub(crate) struct NodeService<S: Session> {
    index: usize,
    interpreter: Interpreter<S>,
    rounds: RoundMeter,
    udp: Option<UdpListener>,
    direct: DatagramListener,
    upkeep: Upkeep,
}

impl<S: Session> NodeService<S> {
    pub(crate) fn new(
        index: usize,
        session: S,
        (parts, admin): (&Parts, Arc<Admin>),
        ends: Ends<S::Pin>,
    ) -> Self {
        let Ends { udp, direct, forwarding } = ends;
        let WorkerStatistics { counters, commands, latencies, .. } =
            parts.statistics.workers()[index].clone();
        let event_sink = Arc::new(EventSink::new(&parts.observers, parts.clock.clone(), index));
        let observer = Box::new(EventObserver(event_sink.clone()));
        let executor = Executor::new(session, parts.clock.clone(), commands, observer);
        let executor = executor.with_uniques(parts.options.uniques()).with_leases(parts.options.leases());
        let traffic = parts.host.traffic(index).clone();
        let rounds = RoundMeter::new(index, latencies);
        let runner = Runner::new(executor, forwarding, (parts, admin), index);
        let interpreter = Interpreter { runner, counters, traffic, event_sink };
        NodeService { index, interpreter, rounds, udp, direct, upkeep: Upkeep::default() }
    }

    /// Looks at what changes between rounds: the time, and which events are wanted.
    fn look_around(&mut self) {
        let interpreter = &mut self.interpreter;
        interpreter.runner.executor.look_at_clock();
        interpreter.runner.executor.observe_kinds(interpreter.event_sink.kinds());
        interpreter.runner.executor.observe_sample(interpreter.event_sink.threshold());
    }

    fn serve_datagrams(&mut self, socket: usize, outbox: &mut Outbox<S::Pin>) {
        if let Some(udp) = &mut self.udp {
            udp.serve(socket, &mut self.interpreter, outbox);
        }
    }

    fn unanswered(&self) -> Option<usize> {
        self.udp.as_ref().and_then(UdpListener::unanswered)
    }

    fn maintain(&mut self, pace: Pace, budget: usize) -> usize {
        let executor = &mut self.interpreter.runner.executor;
        let now = executor.now();
        let session = executor.session();
        session.quiesce();
        session.maintain(now, pace, budget)
    }

    /// Runs the crawler's turn.
    #[cold]
    fn crawl(&mut self, now: Millis) {
        let took = self.interpreter.runner.executor.crawl_for(TURN);
        self.upkeep.end_turn(now, took);
    }
}

impl<S: Session> RequestHandler for NodeService<S> {
    type Pin = S::Pin;
    type State = ProtocolState<S>;

    #[inline(always)]
    fn now(&self) -> Seconds {
        self.interpreter.runner.executor.now()
    }

    fn open(&mut self, arrival: &Arrival, from: ReplyTo) -> ProtocolState<S> {
        ProtocolState::new(arrival.speaks, arrival.access, Some(from))
    }

    #[inline(always)]
    fn begin_turn(&mut self, client: i32) {
        self.interpreter.event_sink.serve(client);
        self.rounds.turn();
    }

    fn run(
        &mut self,
        state: &mut ProtocolState<S>,
        slice: &mut Slice,
        full: usize,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        self.interpreter.runner.begin_turn(full, *slice);
        let (taken, stopped) = self.interpreter.run(state, input, outbox);
        *slice = self.interpreter.runner.slice();
        let stopped = match state.phase {
            Phase::Background(_) => Stopped::Leaves,
            Phase::Over => Stopped::Over(state.ends),
            _ => stopped,
        };
        (taken, stopped)
    }

    fn may_join(&self, state: &ProtocolState<S>) -> bool {
        self.interpreter.may_join(state)
    }

    fn run_group(
        &mut self,
        input: &[u8],
        members: &mut [Member],
        full: usize,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let done = self.interpreter.run_group(input, members, full, outbox);
        // The others have turns of their own.
        members[..done].iter().filter(|member| member.taken > 0).for_each(|_| self.rounds.turn());
        done
    }

    /// A quiescent point: this thread holds nothing that it found without a lock.
    #[inline(always)]
    fn end_turn(&mut self) {
        self.interpreter.runner.executor.session().quiesce();
    }

    fn request_more(&mut self, state: &mut ProtocolState<S>, full: usize) -> MoreRequested {
        let forwarding = &mut self.interpreter.runner.forwarding;
        if let Some(sender) = state.sender {
            // The others when these have come and were sent.
            let most = if full < OUTBOX_FULL { 1 } else { BATCHES_OF_ONE };
            let mut put = 0;
            state.leftovers.retain(|leftover| {
                let is_put = put < most && forwarding.forward_again(sender, leftover);
                put += usize::from(is_put);
                !is_put
            });
            state.out += forwarding.dispatch(full);
        }
        // If all batches are under way, of others too, they will be back soon.
        if state.out > 0 || state.leftovers.is_empty() {
            MoreRequested::Awaited
        } else {
            MoreRequested::Later
        }
    }

    /// Hands a connection over to its background task.
    fn detach(&mut self, mut state: ProtocolState<S>, arrival: Arrival) -> Option<Arrival> {
        let Some(task) = state.take_background_task() else {
            self.interpreter.runner.host.gone(&arrival.facts, CloseReason::Error);
            return None;
        };
        let detached = DetachedConnection { arrival, home: self.index };
        let (mut detached, line) = self.interpreter.runner.admin.run(task, detached).err()?;
        // The line is short: a client that cannot take it takes nothing.
        let _ = detached.arrival.stream.write(format!("{line}\r\n").as_bytes());
        Some(detached.arrival)
    }
}

impl<S: Session> Service for NodeService<S> {
    fn listen(&self, poll: &Poll) -> io::Result<()> {
        for (socket, number) in self.udp.iter().flat_map(UdpListener::sockets).zip(FIRST_UDP..) {
            poll.add(socket, service_token(number), Interest::Read)?;
        }
        self.direct.listen(poll, service_token(PATH))
    }

    fn before_round(&mut self) -> Next {
        let next = self.direct.serve(&mut self.interpreter);
        if next != Next::Wait {
            self.upkeep.note_request();
        }
        next
    }

    fn park(&mut self) -> Park {
        let forwarding = &self.interpreter.runner.forwarding;
        if !forwarding.park() || self.direct.park() == Park::Pending {
            forwarding.unpark();
            self.direct.unpark();
            return Park::Pending;
        }
        self.interpreter.runner.executor.session().offline();
        Park::Quiet
    }

    fn unpark(&mut self, woken: Woken) {
        self.direct.unpark();
        self.interpreter.runner.forwarding.unpark();
        let session = self.interpreter.runner.executor.session();
        session.online();
        if self.upkeep.has_waited(woken) {
            session.release_caches();
        }
    }

    /// Each worker wakes up once more, soon, to give back what its session keeps: others may wait for it.
    fn deadline(&self) -> Option<Duration> {
        self.upkeep.deadline()
    }

    fn begin_round(&mut self) {
        self.look_around();
        self.rounds.begin();
    }

    fn on_event(&mut self, number: u32, round: &mut Round<'_, Self>) {
        if number != PATH {
            self.serve_datagrams((number - FIRST_UDP) as usize, round.outbox);
        }
    }

    /// Executes what other workers have forwarded, and takes the replies that come back.
    fn deliver(&mut self, round: &mut Round<'_, Self>) -> bool {
        for number in 0..BATCHES_AT_ONCE {
            let Some(mut batch) = self.interpreter.runner.forwarding.next() else {
                return number > 0;
            };
            self.upkeep.note_request();
            if !self.interpreter.runner.forwarding.is_own(&batch) {
                // Changes from before the request was forwarded apply to it.
                self.look_around();
                self.interpreter.event_sink.serve(batch.sender.client);
                self.interpreter.runner.run_forwarded(&mut batch);
                self.interpreter.runner.executor.session().quiesce();
                self.interpreter.counters.add(WorkerCount::Forwarded, batch.len() as u64);
                self.interpreter.runner.forwarding.give_back(batch);
                continue;
            }
            let budget = &self.interpreter.runner.host.budget;
            round.clients.answer(batch.sender, self.now(), |state, unsent| {
                state.out -= 1;
                if let Some(unsent) = unsent {
                    if budget.is_short() {
                        batch.put_off(unsent.next_slot());
                    }
                    batch.fill(unsent);
                    state.leftovers.extend(batch.leftover());
                }
            });
            self.interpreter.runner.forwarding.keep(batch);
        }
        true
    }

    fn end_round(&mut self, round: &mut Round<'_, Self>) -> bool {
        self.rounds.end();
        if let Some(socket) = self.unanswered() {
            self.serve_datagrams(socket, round.outbox);
        }
        if !round.is_idle {
            self.upkeep.note_request();
        }
        let has_worked = if self.upkeep.is_idle() {
            let has_worked = self.maintain(Pace::Idle, IDLE_UPKEEP) > 0;
            self.upkeep.has_looked(has_worked);
            has_worked
        } else {
            let now = self.interpreter.runner.executor.now_fine();
            if self.upkeep.is_turn(now) {
                self.crawl(now);
            }
            self.maintain(Pace::Busy, BUSY_UPKEEP) > 0
        };
        has_worked || self.unanswered().is_some()
    }

    fn finish(&mut self) {
        self.interpreter.runner.forwarding.finish();
    }

    fn is_finished(&self) -> bool {
        self.interpreter.runner.forwarding.is_over() && self.unanswered().is_none()
    }
}

//! The event loop of one load thread: many connections, one epoll set, closed or open loop.

use guira_workload::{Rng, ValuePool};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::clock::Clock;
use crate::connection::{Connection, Flow, ReadError};
use crate::error::LoadError;
use crate::pace::{Pace, Timetable};
use crate::reply::{Check, Judge};
use crate::request::ItemStyle;
use crate::source::Source;
use crate::tally::Tally;
use crate::target::Target;

/// Longest wait for events, so that a quiet server does not hold up the end of a phase.
const WAIT_NS_MAX: u64 = 20_000_000;
/// Silence after which a run is given up.
const SILENCE_NS_MAX: u64 = 30_000_000_000;
/// How often an observer hears of progress.
const PROGRESS_NS: u64 = 100_000_000;
/// An open loop looks for events without pause when its next request is nearer than this: epoll sleeps in whole
/// milliseconds, so a shorter sleep would make the request late.
const SLEEP_NS_MIN: u64 = 2_000_000;
const SLEEP_UNIT_NS: u64 = 1_000_000;
const EVENTS_MAX: usize = 256;

/// What one load thread does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// Connections of this thread.
    pub connections: usize,
    /// Requests in flight on each connection of a closed loop; they are written together.
    pub pipeline: usize,
    /// When requests are sent.
    pub pace: Pace,
    /// How items are set.
    pub style: ItemStyle,
    /// How replies are judged.
    pub check: Check,
    /// Which part of the run is measured.
    pub span: Span,
}

/// Which part of a run is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Nothing before this moment of the clock counts.
    pub from_ns: u64,
    /// The run ends at this moment; none is until the source is at its end.
    pub until_ns: Option<u64>,
}

/// Hears of a run's phases, on the thread that runs it.
pub trait Observer {
    /// The measured part begins now.
    fn started(&mut self) {}
    /// The measured part ends now.
    fn ended(&mut self) {}
    /// Ten times a second: the figures so far.
    fn progress(&mut self, _tally: &Tally) {}
}

/// An observer that does not listen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Observer for Quiet {}

/// What one load thread measured.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Counts and latencies.
    pub tally: Tally,
    /// Length of the measured part.
    pub elapsed_ns: u64,
}

/// Runs `plan` on this thread until its span or its source ends.
///
/// # Errors
/// When a connection fails, a reply breaks the protocol, or the server falls silent.
pub fn run<S: Source, C: Clock>(
    plan: &Plan,
    source: S,
    values: ValuePool,
    clock: C,
    rng: Rng,
    observer: &mut dyn Observer,
) -> Result<Measured, LoadError> {
    Engine::open(plan, source, values, clock, rng)?.run(observer)
}

struct Engine<'a, S, C> {
    plan: &'a Plan,
    source: S,
    clock: C,
    judge: Judge,
    tally: Tally,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Connections with unanswered requests.
    busy: usize,
    timetable: Option<Timetable>,
    /// The connection that takes the next request of an open loop.
    turn: usize,
    exhausted: bool,
    heard_ns: u64,
}

impl<'a, S: Source, C: Clock> Engine<'a, S, C> {
    fn open(plan: &'a Plan, source: S, values: ValuePool, clock: C, rng: Rng) -> Result<Self, LoadError> {
        let system = LoadError::system("cannot wait for events");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        let mut connections = Vec::with_capacity(plan.connections);
        for index in 0..plan.connections {
            let connection = Connection::open(&plan.target)?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, connection.socket(), data, epoll::EventFlags::IN)
                .map_err(|errno| system(errno.into()))?;
            connections.push(connection);
        }
        let now = clock.now_ns();
        let timetable = match plan.pace {
            Pace::Closed => None,
            Pace::Open { rate_per_s, arrivals } => Some(Timetable::new(rate_per_s, arrivals, now, rng)),
        };
        Ok(Self {
            plan,
            source,
            clock,
            judge: Judge::new(values, plan.check, plan.style.flags),
            tally: Tally::default(),
            epoll,
            connections,
            busy: 0,
            timetable,
            turn: 0,
            exhausted: false,
            heard_ns: now,
        })
    }

    fn run(mut self, observer: &mut dyn Observer) -> Result<Measured, LoadError> {
        let mut started_ns = None;
        let mut progress_ns = 0;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        if self.timetable.is_none() {
            (0..self.connections.len()).try_for_each(|index| self.next_batch(index))?;
        }
        loop {
            let now = self.clock.now_ns();
            if started_ns.is_none() && now >= self.plan.span.from_ns {
                self.tally.restart();
                started_ns = Some(now);
                observer.started();
            }
            if self.is_over(now) {
                observer.ended();
                let elapsed_ns = now.saturating_sub(started_ns.unwrap_or(now));
                return Ok(Measured { tally: self.tally, elapsed_ns });
            }
            if now >= progress_ns {
                progress_ns = now + PROGRESS_NS;
                observer.progress(&self.tally);
            }
            self.send_due(now)?;
            self.wait(&mut events, now)?;
        }
    }

    fn is_over(&self, now: u64) -> bool {
        self.plan.span.until_ns.is_some_and(|until| now >= until) || (self.exhausted && self.busy == 0)
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>, now: u64) -> Result<(), LoadError> {
        let timeout = self.timeout(now);
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(LoadError::system("cannot wait for events")(errno.into())),
        }
        if events.is_empty() {
            let silent_ns = self.clock.now_ns().saturating_sub(self.heard_ns);
            if self.busy > 0 && silent_ns > SILENCE_NS_MAX {
                return Err(LoadError::Silent { seconds: silent_ns / 1_000_000_000 });
            }
            return Ok(());
        }
        self.heard_ns = now;
        for event in events.iter() {
            let (index, flags) = (event.data.u64() as usize, event.flags);
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(index)?;
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.receive(index)?;
            }
        }
        Ok(())
    }

    fn timeout(&self, now: u64) -> Timespec {
        let wait_ns = self.timetable.as_ref().map_or(WAIT_NS_MAX, |timetable| {
            let until_due = timetable.next_ns().saturating_sub(now);
            if until_due < SLEEP_NS_MIN { 0 } else { (until_due - SLEEP_UNIT_NS).min(WAIT_NS_MAX) }
        });
        Timespec { tv_sec: 0, tv_nsec: wait_ns as _ }
    }

    /// Sends every request of an open loop whose moment has come.
    fn send_due(&mut self, now: u64) -> Result<(), LoadError> {
        let Some(timetable) = &mut self.timetable else { return Ok(()) };
        let first = self.turn;
        let mut sent = 0;
        while let Some(intended_ns) = timetable.take_due(now) {
            if self.exhausted {
                break;
            }
            let connection = &mut self.connections[self.turn];
            let was_idle = connection.outbox.open_requests() == 0;
            let style = self.plan.style;
            if !connection.outbox.push_next(&mut self.source, self.judge.values(), style, intended_ns)? {
                self.exhausted = true;
                break;
            }
            self.busy += usize::from(was_idle);
            self.turn = (self.turn + 1) % self.connections.len();
            sent += 1;
        }
        for step in 0..sent.min(self.connections.len()) {
            self.flush((first + step) % self.connections.len())?;
        }
        Ok(())
    }

    /// Fills the misses of an answered batch, and in a closed loop adds the next batch.
    fn next_batch(&mut self, index: usize) -> Result<(), LoadError> {
        let now = self.clock.now_ns();
        let style = self.plan.style;
        let outbox = &mut self.connections[index].outbox;
        let was_idle = outbox.open_requests() == 0;
        outbox.push_fills(self.judge.values(), style, now)?;
        if self.timetable.is_none() && !self.exhausted {
            for _ in 0..self.plan.pipeline {
                if !outbox.push_next(&mut self.source, self.judge.values(), style, now)? {
                    self.exhausted = true;
                    break;
                }
            }
        }
        if was_idle && outbox.open_requests() > 0 {
            self.busy += 1;
        }
        self.flush(index)
    }

    fn flush(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let flow =
            connection.flush(&mut self.tally).map_err(|source| LoadError::Connection { index, source })?;
        let is_full = flow == Flow::Full;
        if flow == Flow::Closed {
            return Err(LoadError::Closed { index, unanswered: connection.outbox.open_requests() });
        }
        if connection.awaits_room != is_full {
            connection.awaits_room = is_full;
            let room = if is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, connection.socket(), data, epoll::EventFlags::IN | room)
                .map_err(|errno| LoadError::system("cannot wait for events")(errno.into()))?;
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let was_busy = connection.outbox.open_requests() > 0;
        let clock = &self.clock;
        let flow =
            connection.receive(&mut self.judge, &mut self.tally, || clock.now_ns()).map_err(|error| {
                match error {
                    ReadError::Io(source) => LoadError::Connection { index, source },
                    ReadError::Reply(source) => LoadError::Reply { index, source },
                }
            })?;
        if flow == Flow::Closed {
            return Err(LoadError::Closed { index, unanswered: connection.outbox.open_requests() });
        }
        if connection.outbox.open_requests() == 0 {
            self.busy -= usize::from(was_busy);
            self.next_batch(index)?;
        } else if self.timetable.is_some() && connection.outbox.has_fills() {
            self.next_batch(index)?;
        }
        Ok(())
    }
}

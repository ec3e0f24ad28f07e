//! The event loop of one load thread: many connections, one epoll set, a closed or an open loop.

use std::time::Duration;

use guira_workload::trace::TraceError;
use guira_workload::{Rng, ValuePool};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::clock::Clock;
use crate::counters::Counters;
use crate::datagrams::PATIENCE_NS;
use crate::error::LoadError;
use crate::flow::{Flow, ReadError};
use crate::link::Link;
use crate::pace::{Pace, Timetable};
use crate::reply::{Check, Judge};
use crate::request::ItemStyle;
use crate::source::Source;
use crate::target::{Carrier, Target};

/// Longest wait for events, so that a quiet server does not delay the end of a phase.
const WAIT_NS_MAX: u64 = 20_000_000;
/// The silence of a server after which a run fails.
const SILENCE_NS_MAX: u64 = 30_000_000_000;
/// The same for a closed loop by datagrams, which continues without its server. A server that
/// restarts has this long.
const SILENCE_BY_ITSELF_NS_MAX: u64 = 5_000_000_000;
/// After a longer wait the process was stopped in between.
const STOPPED_NS_MIN: u64 = 1_000_000_000;
/// The interval of progress reports.
const PROGRESS_NS: u64 = 100_000_000;
/// An open loop polls without sleeping when its next request is nearer than this: epoll sleeps in
/// whole milliseconds, so a shorter sleep would delay the request.
const SLEEP_NS_MIN: u64 = 2_000_000;
const SLEEP_UNIT_NS: u64 = 1_000_000;
/// The interval of searches for requests to give up.
const GIVE_UP_NS: u64 = 10_000_000;
const EVENTS_MAX: usize = 256;
/// The most requests that an open loop makes before it reads replies.
const DUE_MAX: usize = 1024;
/// A run by datagrams fails if it ends after this long without a reply.
const GONE_NS: u64 = 2 * PATIENCE_NS;
/// A link that waits by itself sleeps only after this long without data: waking up costs more than
/// a reply takes.
const AWAKE_NS: u64 = 100_000;

#[derive(Debug, Clone)]
pub struct Plan {
    pub target: Target,
    pub connections: usize,
    /// Requests in flight on each connection of a closed loop; they are written together. Over UDP,
    /// each is a datagram.
    pub pipeline: usize,
    /// When requests are sent.
    pub pace: Pace,
    pub style: ItemStyle,
    pub check: Check,
    /// Which part of the run is measured.
    pub span: Span,
}

/// Which part of a run is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The measurement starts at this time.
    pub from_ns: u64,
    /// The run ends at this time; `None` is the end of the source.
    pub until_ns: Option<u64>,
}

/// Receives the phases of a run, on the thread that runs it.
pub trait Observer {
    /// The measured part begins now.
    fn started(&mut self) {}
    /// The measured part ends now.
    fn ended(&mut self) {}
    /// `count` broken requests of a trace were skipped; `first` is the first of them.
    fn skipped(&mut self, _count: u64, _first: &TraceError) {}
    /// Ten times a second: the figures so far.
    fn progress(&mut self, _tally: &Counters) {}
}

/// An observer that ignores all calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Observer for Quiet {}

/// The result of one load thread.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub counters: Counters,
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
    counters: Counters,
    epoll: OwnedFd,
    links: Vec<Link>,
    timetable: Option<Timetable>,
    /// The connection that takes the next request of an open loop.
    turn: usize,
    exhausted: bool,
    last_reply_ns: u64,
}

impl<'a, S: Source, C: Clock> Engine<'a, S, C> {
    fn open(plan: &'a Plan, source: S, values: ValuePool, clock: C, rng: Rng) -> Result<Self, LoadError> {
        let system = LoadError::system("cannot wait for events");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        let mut links = Vec::with_capacity(plan.connections);
        for index in 0..plan.connections {
            let link = Link::open(&plan.target)?;
            if let Some(descriptor) = link.descriptor() {
                let data = epoll::EventData::new_u64(index as u64);
                epoll::add(&epoll, descriptor, data, epoll::EventFlags::IN)
                    .map_err(|errno| system(errno.into()))?;
            }
            links.push(link);
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
            counters: Counters::default(),
            epoll,
            links,
            timetable,
            turn: 0,
            exhausted: false,
            last_reply_ns: now,
        })
    }

    fn run(mut self, observer: &mut dyn Observer) -> Result<Measured, LoadError> {
        let mut started_ns = None;
        let (mut progress_ns, mut give_up_ns) = (0, 0);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        if self.timetable.is_none() {
            (0..self.links.len()).try_for_each(|index| self.next_batch(index))?;
        }
        loop {
            let now = self.clock.now_ns();
            if started_ns.is_none() && now >= self.plan.span.from_ns {
                self.counters.restart();
                started_ns = Some(now);
                observer.started();
            }
            if self.is_over(now) {
                self.require_server(now)?;
                observer.ended();
                let next_ns = self.timetable.as_ref().filter(|_| !self.exhausted).map(Timetable::next_ns);
                self.counters.counts.behind_ns = next_ns.map_or(0, |next| now.saturating_sub(next));
                let elapsed_ns = now.saturating_sub(started_ns.unwrap_or(now));
                let measured = Measured { counters: self.counters.clone(), elapsed_ns };
                self.settle(now)?;
                return Ok(measured);
            }
            if now >= progress_ns {
                progress_ns = now + PROGRESS_NS;
                observer.progress(&self.counters);
            }
            if now >= give_up_ns {
                give_up_ns = now + GIVE_UP_NS;
                self.give_up(now)?;
            }
            self.send_due(now)?;
            self.wait(&mut events, now)?;
        }
    }

    /// Waits for the replies to datagrams in flight: a socket of the next load may get the port of
    /// one of these sockets, and would receive the replies.
    fn settle(&mut self, ended_ns: u64) -> Result<(), LoadError> {
        if !matches!(self.plan.target.carrier, Carrier::Udp(_)) {
            return Ok(());
        }
        self.exhausted = true;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut now = ended_ns;
        while self.is_busy() && now.saturating_sub(ended_ns) < PATIENCE_NS {
            self.wait(&mut events, now)?;
            now = self.clock.now_ns();
        }
        Ok(())
    }

    fn is_over(&self, now: u64) -> bool {
        self.plan.span.until_ns.is_some_and(|until| now >= until) || (self.exhausted && !self.is_busy())
    }

    fn is_busy(&self) -> bool {
        self.links.iter().any(|link| link.open_requests() > 0)
    }

    /// Gives up requests without a reply in time, and continues without them.
    fn give_up(&mut self, now: u64) -> Result<(), LoadError> {
        for index in 0..self.links.len() {
            if self.links[index].give_up(&mut self.counters, now) {
                self.next_batch(index)?;
            }
        }
        Ok(())
    }

    /// Receives from the first link if it waits by itself; false if it does not.
    fn wait_by_itself(&mut self, now: u64) -> Result<bool, LoadError> {
        let timeout = self.timeout(now);
        let Some(mica) = self.links[0].by_itself() else { return Ok(false) };
        if mica.quiet_since_ns().is_some_and(|since| now.saturating_sub(since) > AWAKE_NS) {
            let most = Duration::new(timeout.tv_sec as u64, timeout.tv_nsec as u32);
            mica.wait(most).map_err(|source| LoadError::Connection { index: 0, source })?;
        }
        self.receive(0)?;
        if self.links[0].by_itself().is_some_and(|mica| mica.quiet_since_ns().is_none()) {
            self.last_reply_ns = now;
        }
        self.require_sound(now, self.clock.now_ns())?;
        Ok(true)
    }

    /// Fails when a closed loop by datagrams ends without a server: the requests lost at the end
    /// may be too few to notice.
    fn require_server(&mut self, now: u64) -> Result<(), LoadError> {
        let silent_ns = now.saturating_sub(self.last_reply_ns);
        let is_closed = self.timetable.is_none();
        if is_closed && self.links[0].by_itself().is_some() && silent_ns > GONE_NS && self.is_busy() {
            return Err(LoadError::Silent { seconds: silent_ns / 1_000_000_000 });
        }
        Ok(())
    }

    /// Fails after too long a silence: `after` is the end of a wait that began at `now`.
    fn require_sound(&mut self, now: u64, after: u64) -> Result<(), LoadError> {
        if after.saturating_sub(now) > STOPPED_NS_MIN {
            // This process was stopped itself, and replies may wait in its sockets.
            self.last_reply_ns = after;
        }
        let silent_ns = after.saturating_sub(self.last_reply_ns);
        let is_closed = self.timetable.is_none();
        let most_ns = match self.links[0].by_itself() {
            Some(_) if is_closed => SILENCE_BY_ITSELF_NS_MAX,
            _ => SILENCE_NS_MAX,
        };
        if silent_ns > most_ns && self.is_busy() {
            return Err(LoadError::Silent { seconds: silent_ns / 1_000_000_000 });
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>, now: u64) -> Result<(), LoadError> {
        if self.wait_by_itself(now)? {
            return Ok(());
        }
        let timeout = self.timeout(now);
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(LoadError::system("cannot wait for events")(errno.into())),
        }
        if events.is_empty() {
            return self.require_sound(now, self.clock.now_ns());
        }
        self.last_reply_ns = now;
        for event in events.iter() {
            let (index, flags) = (event.data.u64() as usize, event.flags);
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(index, now)?;
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

    /// Sends every request of an open loop that is due.
    fn send_due(&mut self, now: u64) -> Result<(), LoadError> {
        let Some(timetable) = &mut self.timetable else { return Ok(()) };
        let first = self.turn;
        let mut sent = 0;
        while sent < DUE_MAX
            && !self.links[self.turn].is_full()
            && let Some(intended_ns) = timetable.take_due(now)
        {
            if self.exhausted {
                break;
            }
            let link = &mut self.links[self.turn];
            let style = self.plan.style;
            if !link.push_next(&mut self.source, self.judge.values(), style, intended_ns)? {
                self.exhausted = true;
                break;
            }
            self.turn = (self.turn + 1) % self.links.len();
            sent += 1;
        }
        let now = self.clock.now_ns();
        for step in 0..sent.min(self.links.len()) {
            self.flush((first + step) % self.links.len(), now)?;
        }
        Ok(())
    }

    /// Sets the missed keys of an answered batch, and in a closed loop adds the next batch.
    fn next_batch(&mut self, index: usize) -> Result<(), LoadError> {
        let now = self.clock.now_ns();
        let style = self.plan.style;
        let link = &mut self.links[index];
        let (room, together) = (link.room(self.plan.pipeline), link.sent_together());
        link.push_fills(self.judge.values(), style, now)?;
        if self.timetable.is_none() && !self.exhausted {
            for number in 1..=room {
                let link = &mut self.links[index];
                if !link.push_next(&mut self.source, self.judge.values(), style, now)? {
                    self.exhausted = true;
                    break;
                }
                if number % together == 0 {
                    self.flush(index, now)?;
                }
            }
        }
        self.flush(index, now)
    }

    fn flush(&mut self, index: usize, now: u64) -> Result<(), LoadError> {
        let link = &mut self.links[index];
        let flow =
            link.flush(&mut self.counters, now).map_err(|source| LoadError::Connection { index, source })?;
        let is_full = flow == Flow::Full;
        if flow == Flow::Closed {
            return Err(LoadError::Closed { index, unanswered: link.open_requests() });
        }
        if link.awaits_room != is_full {
            link.awaits_room = is_full;
            let room = if is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(index as u64);
            if let Some(descriptor) = link.descriptor() {
                epoll::modify(&self.epoll, descriptor, data, epoll::EventFlags::IN | room)
                    .map_err(|errno| LoadError::system("cannot wait for events")(errno.into()))?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) -> Result<(), LoadError> {
        let link = &mut self.links[index];
        let clock = &self.clock;
        let flow = link
            .receive(&mut self.judge, self.plan.style, &mut self.counters, || clock.now_ns())
            .map_err(|error| match error {
                ReadError::Io(source) => LoadError::Connection { index, source },
                ReadError::Reply(source) => LoadError::Reply { index, source },
                ReadError::Request(error) => error,
            })?;
        if flow == Flow::Closed {
            return Err(LoadError::Closed { index, unanswered: link.open_requests() });
        }
        let has_room = link.room(self.plan.pipeline) > 0;
        if has_room || (self.timetable.is_some() && link.has_fills()) {
            self.next_batch(index)?;
        }
        Ok(())
    }
}

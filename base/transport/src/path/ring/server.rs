//! The server's ends of the rings of all clients.

use super::bell::{Bell, Closed};
use super::handshake::{CORES_MAX, client_rings_bytes, new_memory, refuse, send_rings, server_ends};
use super::lane::{Broken, Consumer, Producer};
use crate::address::Address;
use crate::listener::{AcceptError, ListenError, ListenOptions, Listener};
use crate::path::buffers::{BURST_BUFFERS_BYTES, BurstBuffers};
use crate::path::{BURST_MAX, Park, Sent, ServerPath};
use crate::poll::{Event, Interest, Poll, Token};
use crate::stream::Stream;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::lock::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum RingError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("shared-memory rings support at most {CORES_MAX} workers, not {0}")]
    Cores(usize),
    #[error("cannot prepare rings")]
    System(#[from] io::Error),
}

/// Provides the memory of clients' rings.
pub trait Lender: Debug + Send + Sync {
    /// Takes `bytes` from the budget, if they are left.
    fn lend(&self, bytes: usize) -> bool;
    fn take_back(&self, bytes: usize);
}

/// A client, as long as it is connected or a thread still has rings to it.
#[derive(Debug)]
struct Link {
    stream: Stream,
    /// The client is gone, or was disconnected.
    closed: AtomicBool,
    lender: Arc<dyn Lender>,
    bytes: usize,
}

impl Link {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Stream::Unix(stream) = &self.stream {
            // The first thread notices it, and notifies the others.
            let _ = stream.shutdown(crate::net::Shutdown::Both);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.lender.take_back(self.bytes);
    }
}

/// The rings of a client to this thread.
#[derive(Debug)]
struct Lane {
    requests: Consumer,
    answers: Producer,
    bell: Bell,
    link: Arc<Link>,
}

/// New lanes that a thread has not taken over yet.
#[derive(Debug)]
struct Arrivals {
    /// There are new lanes, or a client is gone.
    changed: AtomicBool,
    /// LOCK: arrivals. Leaf.
    lanes: Mutex<Vec<Lane>>,
    bell: OwnedFd,
}

impl Arrivals {
    fn new() -> io::Result<Self> {
        Ok(Arrivals { changed: AtomicBool::new(false), lanes: Mutex::default(), bell: new_bell()? })
    }

    fn notify(&self) {
        // Release: pairs with the Acquire in `RingServerPath::take_arrivals`: a thread that sees the flag sees the change.
        self.changed.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

fn new_bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Discards the rings of a bell.
fn silence(bell: impl AsFd) {
    // It fails if there are none, which does no harm.
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

/// The first thread's additional duties: it accepts clients, and notices when they go.
#[derive(Debug)]
struct Host {
    listener: Listener,
    threads: Vec<Arc<Arrivals>>,
    clients: Vec<Option<Arc<Link>>>,
    lender: Arc<dyn Lender>,
    /// The process is out of descriptors: no client is accepted until the next round.
    is_paused: bool,
    /// Why no client is accepted, until [`ServerPath::failure`] has returned it.
    failure: Option<AcceptError>,
}

/// Clients that are accepted in one round.
const ADMITTED: usize = 4;

const LISTENER: Token = Token(0);
const BELL: Token = Token(1);
const FIRST_CLIENT: u64 = 2;

/// A server's end: the rings of all clients to one thread.
#[derive(Debug)]
pub struct RingServerPath {
    lanes: Vec<Lane>,
    arrivals: Arc<Arrivals>,
    /// Polled while the thread is blocked.
    poll: Poll,
    host: Option<Host>,
    datagrams: BurstBuffers,
    answers: BurstBuffers,
    /// The lane of each datagram of the burst.
    from: [usize; BURST_MAX],
    burst: usize,
    /// The lane that is polled first.
    first_lane: usize,
    /// Rounds until the bells are polled.
    rounds_until_poll: u32,
}

/// Memory of a [`RingServerPath`] without the rings, in bytes.
pub const RING_PATH_BYTES: usize = 2 * BURST_BUFFERS_BYTES + (16 << 10);

/// Rounds between two polls of the bells, as long as the thread is busy: clients rarely come and go.
const POLL_EVERY: u32 = 1024;

/// The ends of `cores` threads, for clients that connect to `socket`, whose permissions are `mode`.
///
/// # Errors
/// If the socket cannot be opened, or there are too many threads.
pub fn ring_paths(
    socket: PathBuf,
    mode: u32,
    cores: usize,
    lender: &Arc<dyn Lender>,
) -> Result<Vec<RingServerPath>, RingError> {
    if cores > CORES_MAX {
        return Err(RingError::Cores(cores));
    }
    let options = ListenOptions { backlog: 128, unix_mode: mode };
    let listener = Listener::bind(&Address::Unix(socket), options)?;
    let threads: Vec<Arc<Arrivals>> =
        (0..cores).map(|_| Arrivals::new().map(Arc::new)).collect::<io::Result<_>>()?;
    let mut host = Some(Host {
        listener,
        threads: threads.clone(),
        clients: Vec::new(),
        lender: lender.clone(),
        is_paused: false,
        failure: None,
    });
    let path = |arrivals| Ok(RingServerPath::new(arrivals, host.take())?);
    threads.into_iter().map(path).collect()
}

impl RingServerPath {
    fn new(arrivals: Arc<Arrivals>, host: Option<Host>) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&arrivals.bell, BELL, Interest::Read)?;
        if let Some(host) = &host {
            poll.add(&host.listener, LISTENER, Interest::Read)?;
        }
        Ok(RingServerPath {
            lanes: Vec::new(),
            arrivals,
            poll,
            host,
            datagrams: BurstBuffers::default(),
            answers: BurstBuffers::default(),
            from: [0; BURST_MAX],
            burst: 0,
            first_lane: 0,
            rounds_until_poll: 0,
        })
    }

    /// The number of clients with rings to this thread.
    #[cfg(test)]
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    #[cfg(test)]
    pub(super) fn listener(&self) -> &Listener {
        &self.host.as_ref().expect("the first thread's").listener
    }

    #[cold]
    #[inline(never)]
    fn poll_sources(&mut self) -> io::Result<()> {
        self.rounds_until_poll = POLL_EVERY;
        if let Some(host) = &mut self.host {
            host.listen_again(&self.poll);
        }
        let mut events: Vec<Event> = Vec::new();
        self.poll.wait(Some(Duration::ZERO), &mut events)?;
        for event in events {
            match (event.token, &mut self.host) {
                (BELL, _) => {
                    silence(&self.arrivals.bell);
                    // A bell whose other end is closed would wake this thread again and again.
                    let closed = self.lanes.iter().filter(|lane| lane.bell.silence() == Err(Closed));
                    let closed = closed.inspect(|lane| lane.link.close()).count();
                    if closed > 0 {
                        self.arrivals.notify();
                    }
                }
                (LISTENER, Some(host)) => host.admit(&self.poll),
                (Token(client), Some(host)) => host.end(&self.poll, (client - FIRST_CLIENT) as usize),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes over lanes of new clients, and drops those of clients that are gone.
    #[cold]
    #[inline(never)]
    fn take_arrivals(&mut self) {
        // Acquire: pairs with the Release in `Arrivals::notify`.
        self.arrivals.changed.swap(false, Ordering::Acquire);
        let arrived = std::mem::take(&mut *self.arrivals.lanes.lock());
        for lane in arrived {
            match self.poll.add(&lane.bell, BELL, Interest::Read) {
                Ok(()) => self.lanes.push(lane),
                // The system is short of memory for one more: that client has to come again.
                Err(_) => lane.link.close(),
            }
        }
        self.lanes.retain(|lane| !lane.link.closed.load(Ordering::Acquire));
        self.first_lane = 0;
    }

    #[inline(always)]
    fn drain(&mut self, number: usize) -> Result<(), Broken> {
        let lane = &mut self.lanes[number];
        let first = self.burst;
        while self.burst < BURST_MAX && lane.requests.look()? {
            // A client that does not take its answers is not served: the server makes no system call and buffers
            // nothing for it.
            if !lane.answers.has_space(self.burst - first + 1)? {
                break;
            }
            let Some(length) = lane.requests.pop(self.datagrams.buffer(self.burst))? else {
                break;
            };
            self.datagrams.fill(self.burst, length);
            self.from[self.burst] = number;
            self.burst += 1;
        }
        if lane.requests.release() {
            lane.bell.ring();
        }
        Ok(())
    }

    #[cold]
    fn disconnect(&mut self, number: usize) {
        self.lanes[number].link.close();
        self.arrivals.notify();
    }
}

impl Host {
    /// Accepts some of the waiting clients. The others keep the socket readable.
    fn admit(&mut self, poll: &Poll) {
        for _ in 0..ADMITTED {
            match self.listener.accept() {
                Ok(Some((stream, _))) => {
                    // An error affects only this client, or a resource is exhausted: the client sees that the
                    // connection is closed.
                    let _ = self.admit_one(stream, poll);
                }
                Ok(None) => return,
                // The socket would stay readable. The next round tries again, unless it listens no more.
                Err(error) => {
                    let is_removed = poll.remove(&self.listener).is_ok();
                    let is_broken = matches!(error, AcceptError::Broken(_));
                    self.is_paused = is_removed && !is_broken;
                    self.failure = (is_broken && is_removed).then_some(error);
                    return;
                }
            }
        }
    }

    /// Listens again after a lack of descriptors.
    fn listen_again(&mut self, poll: &Poll) {
        if self.is_paused {
            self.is_paused = poll.add(&self.listener, LISTENER, Interest::Read).is_err();
        }
    }

    fn admit_one(&mut self, stream: Stream, poll: &Poll) -> io::Result<()> {
        let (cores, bytes) = (self.threads.len(), client_rings_bytes(self.threads.len()));
        if !self.lender.lend(bytes) {
            refuse(&stream);
            return Ok(());
        }
        let lender = self.lender.clone();
        let link = Arc::new(Link { stream, closed: AtomicBool::new(false), lender, bytes });
        let (memory, file) = new_memory(cores)?;
        let (bells, given): (Vec<Bell>, Vec<OwnedFd>) =
            (0..cores).map(|_| Bell::pair()).collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        send_rings(&link.stream, &file, &given)?;
        let vacant = self.clients.iter().position(Option::is_none);
        let number = vacant.unwrap_or(self.clients.len());
        poll.add(&link.stream, Token(FIRST_CLIENT + number as u64), Interest::Read)?;
        if vacant.is_none() {
            self.clients.push(None);
        }
        for (core, (bell, thread)) in bells.into_iter().zip(&self.threads).enumerate() {
            let (requests, answers) = server_ends(&memory, core);
            let lane = Lane { requests, answers, bell, link: link.clone() };
            thread.lanes.lock().push(lane);
            thread.notify();
        }
        self.clients[number] = Some(link);
        Ok(())
    }

    /// A client's socket is readable: it was closed, or has sent something, which is a violation.
    fn end(&mut self, poll: &Poll, number: usize) {
        let Some(link) = self.clients.get_mut(number).and_then(Option::take) else {
            return;
        };
        // Other threads may keep the socket for a while, and the number is reused for the next client.
        let _ = poll.remove(&link.stream);
        link.closed.store(true, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.notify());
    }
}

impl ServerPath for RingServerPath {
    fn name(&self) -> &'static str {
        "rings"
    }

    #[inline(always)]
    fn receive(&mut self) -> io::Result<usize> {
        self.answers.clear(self.burst);
        self.burst = 0;
        if self.rounds_until_poll == 0 {
            self.poll_sources()?;
        }
        self.rounds_until_poll -= 1;
        // Relaxed: `take_arrivals` checks again.
        if self.arrivals.changed.load(Ordering::Relaxed) {
            self.take_arrivals();
        }
        let count = self.lanes.len();
        for step in 0..count {
            let number = (self.first_lane + step) % count;
            if self.drain(number) == Err(Broken) {
                self.disconnect(number);
            }
        }
        self.first_lane = if count == 0 { 0 } else { (self.first_lane + 1) % count };
        Ok(self.burst)
    }

    fn failure(&mut self) -> Option<AcceptError> {
        self.host.as_mut()?.failure.take()
    }

    #[inline(always)]
    fn exchange(&mut self, index: usize) -> (&[u8], &mut [u8]) {
        assert!(index < self.burst, "a datagram of the burst");
        (self.datagrams.get(index), self.answers.buffer(index))
    }

    #[inline(always)]
    fn answer(&mut self, index: usize, length: usize) {
        assert!(index < self.burst, "a datagram of the burst");
        self.answers.fill(index, length);
    }

    #[inline(always)]
    fn send(&mut self) -> Sent {
        let mut sent = Sent::default();
        let mut index = 0;
        // Datagrams of a lane are contiguous.
        while index < self.burst {
            let number = self.from[index];
            let lane = &mut self.lanes[number];
            while index < self.burst && self.from[index] == number {
                let bytes = self.answers.get(index);
                if !bytes.is_empty() {
                    lane.answers.push(bytes);
                    sent.datagrams += 1;
                    sent.bytes += bytes.len();
                }
                index += 1;
            }
            if lane.answers.publish() {
                lane.bell.ring();
            }
        }
        self.answers.clear(self.burst);
        self.burst = 0;
        sent
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn park(&mut self) -> Park {
        let mut park = Park::Quiet;
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            let disturbed = lane.requests.park().and_then(|is_something| {
                // A request that cannot be answered yet does not count: the client rings when it has taken answers.
                Ok(is_something && (lane.answers.has_space(1)? || lane.answers.wait_for_space()?))
            });
            match disturbed {
                Ok(false) => {}
                Ok(true) => park = Park::Pending,
                Err(Broken) => self.disconnect(number),
            }
        }
        park
    }

    fn unpark(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.requests.unpark());
        self.rounds_until_poll = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::UnixStream;

    #[derive(Debug)]
    struct Rich;

    impl Lender for Rich {
        fn lend(&self, _bytes: usize) -> bool {
            true
        }

        fn take_back(&self, _bytes: usize) {}
    }

    fn lane(bell: Bell) -> (Lane, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let lender = Arc::new(Rich);
        let link = Link { stream: Stream::Unix(ours), closed: AtomicBool::new(false), lender, bytes: 0 };
        let (requests, answers) = server_ends(&new_memory(1).unwrap().0, 0);
        (Lane { requests, answers, bell, link: Arc::new(link) }, theirs)
    }

    #[test]
    fn a_bell_that_cannot_be_polled_costs_its_own_client_only() {
        // A regular file cannot be polled.
        let (bad, gone) = lane(Bell::from_fd(std::fs::File::open("/proc/self/exe").unwrap().into()));
        let (good, _client) = lane(Bell::pair().unwrap().0);
        let mut path = RingServerPath::new(Arc::new(Arrivals::new().unwrap()), None).unwrap();
        path.arrivals.lanes.lock().extend([bad, good]);
        path.arrivals.notify();
        assert_eq!(path.receive().unwrap(), 0);
        assert_eq!(path.lanes(), 1);
        assert_eq!(std::io::Read::read(&mut &gone, &mut [0]).unwrap(), 0, "it is told");
    }
}

//! The client's ends of its rings.

use super::bell::Bell;
use super::handshake::{client_ends, receive_rings};
use super::lane::{Broken, Consumer, Producer};
use crate::net::UnixStream;
use crate::path::{BURST_MAX, ClientPath, PAYLOAD_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The rings to one thread of the server.
#[derive(Debug)]
struct Lane {
    requests: Producer,
    answers: Consumer,
    bell: Bell,
}

#[derive(Debug)]
struct Link {
    stream: UnixStream,
    lanes: Vec<Lane>,
}

impl Link {
    fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ACCEPT_TIMEOUT))?;
        let rings = receive_rings(&stream)?;
        let lane = |(core, bell)| {
            let (requests, answers) = client_ends(&rings.memory, core);
            Lane { requests, answers, bell: Bell::from_fd(bell) }
        };
        let lanes = rings.bells.into_iter().enumerate().map(lane).collect();
        Ok(Link { stream, lanes })
    }

    /// Whether the server is still connected.
    fn is_open(&self) -> bool {
        let mut sockets = [PollFd::new(&self.stream, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut sockets, Some(&now)), Ok(0))
    }
}

/// How long a server may take to accept a client.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(200);

/// Rounds without an answer between two checks of the connection.
const CHECK_EVERY: u32 = 4096;

/// A client's end: rings to all threads of a server on this host. If the server goes away, datagrams are lost until
/// another listens at the same place.
#[derive(Debug)]
pub struct RingClientPath {
    socket: PathBuf,
    link: Option<Link>,
    /// The number of threads when a server was last connected.
    cores: usize,
    /// The datagram that is written or read.
    buffer: Box<[u8]>,
    /// The lane of the last buffer.
    current: usize,
    /// The lane that is polled first for answers.
    first_lane: usize,
    /// Rounds without an answer.
    idle_rounds: u32,
}

impl RingClientPath {
    /// A path to the server that listens at `socket`.
    ///
    /// # Errors
    /// An error of the system, or that the server accepts no more clients.
    pub fn connect(socket: impl Into<PathBuf>) -> io::Result<Self> {
        let socket = socket.into();
        let link = Link::open(&socket)?;
        Ok(RingClientPath {
            socket,
            cores: link.lanes.len(),
            link: Some(link),
            buffer: vec![0; PAYLOAD_MAX].into_boxed_slice(),
            current: 0,
            first_lane: 0,
            idle_rounds: 0,
        })
    }

    /// Checks the connection, and connects to the server's successor if it is closed.
    #[cold]
    #[inline(never)]
    fn check_link(&mut self) {
        self.idle_rounds = 0;
        if self.link.as_ref().is_some_and(Link::is_open) {
            return;
        }
        self.link = Link::open(&self.socket).ok();
        if let Some(link) = &self.link {
            self.cores = link.lanes.len();
        }
        self.first_lane = 0;
    }

    /// Disconnects from a server whose rings are invalid.
    #[cold]
    fn disconnect(&mut self) {
        self.link = None;
    }

    /// Takes a burst from one lane.
    #[inline(always)]
    fn drain(&mut self, core: usize, take: &mut dyn FnMut(&[u8])) -> Result<usize, Broken> {
        let Some(lane) = self.link.as_mut().and_then(|link| link.lanes.get_mut(core)) else {
            return Ok(0);
        };
        let mut count = 0;
        while count < BURST_MAX
            && let Some(length) = lane.answers.pop(&mut self.buffer)?
        {
            take(&self.buffer[..length]);
            count += 1;
        }
        if lane.answers.release() {
            lane.bell.ring();
        }
        Ok(count)
    }
}

impl ClientPath for RingClientPath {
    fn cores(&self) -> usize {
        self.cores
    }

    fn reach(&mut self, _cores: usize) -> io::Result<()> {
        // There are as many rings as the server has threads. If their number changed, the server was replaced.
        if self.link.is_none() {
            self.check_link();
        }
        Ok(())
    }

    #[inline(always)]
    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        self.current = core;
        if let Some(lane) = self.link.as_mut().and_then(|link| link.lanes.get_mut(core)) {
            match lane.requests.has_space(1) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(Broken) => self.disconnect(),
            }
        }
        Some(&mut self.buffer)
    }

    #[inline(always)]
    fn post(&mut self, length: usize) {
        let bytes = &self.buffer[..length];
        if let Some(lane) = self.link.as_mut().and_then(|link| link.lanes.get_mut(self.current)) {
            lane.requests.push(bytes);
        }
    }

    #[inline(always)]
    fn flush(&mut self) -> io::Result<()> {
        for lane in self.link.iter_mut().flat_map(|link| &mut link.lanes) {
            if lane.requests.publish() {
                lane.bell.ring();
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        for step in 0..self.cores {
            let core = (self.first_lane + step) % self.cores;
            match self.drain(core, take) {
                Ok(0) => {}
                Ok(count) => {
                    self.first_lane = (core + 1) % self.cores;
                    self.idle_rounds = 0;
                    return Ok(count);
                }
                Err(Broken) => {
                    self.disconnect();
                    return Ok(0);
                }
            }
        }
        self.idle_rounds += 1;
        if self.idle_rounds >= CHECK_EVERY {
            self.check_link();
        }
        Ok(0)
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        if self.link.is_none() {
            self.check_link();
        }
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        let Some(link) = &mut self.link else {
            // No server is connected: no bell can ring.
            guira_sync::thread::sleep(most);
            return Ok(());
        };
        // Invalid rings are detected by the next poll.
        let is_something = link.lanes.iter_mut().any(|lane| lane.answers.park() != Ok(false));
        if !is_something {
            let link_source = std::iter::once(PollFd::new(&link.stream, PollFlags::IN));
            let bells = link.lanes.iter().map(|lane| PollFd::new(&lane.bell, PollFlags::IN));
            let mut sources: Vec<PollFd<'_>> = link_source.chain(bells).collect();
            match poll(&mut sources, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !sources[0].revents().is_empty() {
                // The server is gone: the next check finds its successor.
                self.idle_rounds = CHECK_EVERY;
            }
            for (lane, source) in link.lanes.iter().zip(&sources[1..]) {
                if !source.revents().is_empty() {
                    // A server that is gone has closed its link too, which is looked at.
                    let _ = lane.bell.silence();
                }
            }
        }
        link.lanes.iter_mut().for_each(|lane| lane.answers.unpark());
        Ok(())
    }
}

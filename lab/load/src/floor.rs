//! The floor: a server that moves the bytes of a cache and stores nothing.
//!
//! It reads requests, finds their ends (and skips the bodies of sets), and answers every get as a hit with a value
//! of a fixed length, out of memory that was written before the first request. What it costs is the price of the
//! event loop, the system calls and the kernel's TCP or UDP; no cache that answers over these sockets can cost less, so a
//! cache's distance from it is what the cache itself costs.

mod parser;
mod reply;
mod udp;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustls::{ServerConfig, ServerConnection};

use crate::stream::Stream;
use parser::Parser;
pub use reply::Shape;
use reply::{Queue, Templates};
use udp::Udp;

const EVENTS_MAX: usize = 64;
const LISTENER: u64 = u64::MAX;
const UDP: u64 = u64::MAX - 1;
const INPUT_LEN: usize = 256 << 10;

/// The floor server: one thread, one epoll set.
#[derive(Debug)]
pub struct Floor {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    udp: Option<Udp>,
    epoll: OwnedFd,
    peers: Vec<Option<Peer>>,
    templates: Templates,
}

/// One client of the floor server.
#[derive(Debug)]
struct Peer {
    stream: Stream,
    parser: Parser,
    input: Vec<u8>,
    filled: usize,
    queue: Queue,
    awaits: Awaits,
}

/// What the event loop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    Input,
    Room,
}

impl Floor {
    /// Listens at `addr`; every get is answered with a value of this shape.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn bind(addr: SocketAddr, shape: Shape) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        Ok(Self {
            listener,
            tls: None,
            udp: None,
            epoll,
            peers: Vec::new(),
            templates: Templates::new(shape),
        })
    }

    /// Speaks TLS on every connection from now on.
    pub fn speak_tls(&mut self, config: Arc<ServerConfig>) {
        self.tls = Some(config);
    }

    /// Answers datagrams at `addr` as well; returns where.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn bind_udp(&mut self, addr: SocketAddr) -> io::Result<SocketAddr> {
        let udp = self.udp.insert(Udp::bind(addr, &self.templates)?);
        epoll::add(&self.epoll, &*udp, epoll::EventData::new_u64(UDP), epoll::EventFlags::IN)?;
        udp.local_addr()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the event loop itself fails; a failing client only loses its connection.
    ///
    /// # Errors
    /// When waiting for events or accepting fails.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    UDP => self.udp.iter_mut().for_each(Udp::turn),
                    index => self.turn(index as usize),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let index = self.peers.iter().position(Option::is_none).unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            let stream = match &self.tls {
                Some(config) => {
                    let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                    Stream::tls(socket, session)
                }
                None => Stream::Plain(socket),
            };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            self.peers[index] = Some(Peer {
                stream,
                parser: Parser::default(),
                input: vec![0; INPUT_LEN],
                filled: 0,
                queue: Queue::default(),
                awaits: Awaits::Input,
            });
        }
    }

    fn turn(&mut self, index: usize) {
        let Some(peer) = self.peers[index].as_mut() else { return };
        let Ok(awaits) = peer.turn(&self.templates) else {
            // Dropping the socket takes it out of the epoll set.
            self.peers[index] = None;
            return;
        };
        if awaits != peer.awaits {
            peer.awaits = awaits;
            let flags = match awaits {
                Awaits::Room => epoll::EventFlags::OUT,
                Awaits::Input => epoll::EventFlags::IN,
            };
            let data = epoll::EventData::new_u64(index as u64);
            if epoll::modify(&self.epoll, &peer.stream, data, flags).is_err() {
                self.peers[index] = None;
            }
        }
    }
}

impl Peer {
    /// Sends what is queued; when nothing is left, reads and answers.
    fn turn(&mut self, templates: &Templates) -> io::Result<Awaits> {
        loop {
            if !self.send(templates)? {
                return Ok(Awaits::Room);
            }
            let room = self.input.len() - self.filled;
            let count = match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Awaits::Input),
                Err(error) => return Err(error),
            };
            self.filled += count;
            let used = self.parser.read(&self.input[..self.filled], &mut self.queue);
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
            if self.filled == self.input.len() {
                // A line as long as the whole buffer is no request.
                return Err(io::ErrorKind::InvalidData.into());
            }
            if !self.send(templates)? {
                return Ok(Awaits::Room);
            }
            if count < room {
                return Ok(Awaits::Input);
            }
        }
    }

    /// Sends what is queued; false when the socket has no room for all of it.
    fn send(&mut self, templates: &Templates) -> io::Result<bool> {
        loop {
            let stream = &mut self.stream;
            let written = match self.queue.is_empty() {
                true => stream.flush().map(|()| None),
                false => self.queue.with_slices(templates, |slices| stream.write(slices)).map(Some),
            };
            match written {
                Ok(None) => return Ok(true),
                Ok(Some(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Some(count)) => self.queue.wrote(templates, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests;

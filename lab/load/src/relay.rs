//! The forwarding floor: a proxy that moves the bytes of a client to one server and back, and looks at none of them.
//!
//! Each client has a connection of its own to one of the servers, which are taken in turn. One thread waits for all of
//! them, reads and writes: what it costs is the price of the kernel's TCP twice, so that a router's distance from it is
//! what reading requests and choosing servers cost. A router may cost less: it can send the requests of several clients
//! at once, which this one never does.

mod pair;

use std::io;
use std::net::SocketAddr;

use guira_transport::{Address, Event, Interest, ListenOptions, Listener, Poll, Stream, Token};

use pair::{Pair, Side};

/// Bytes that are read at once, and at most held for an end that does not take them.
const PIECE: usize = 64 << 10;
/// Clients that are accepted before others are served again.
const ACCEPTED_AT_ONCE: usize = 64;

const LISTENER: Token = Token(u64::MAX);

/// The proxy: one thread.
#[derive(Debug)]
pub struct Relay {
    listener: Listener,
    is_listening: bool,
    servers: Vec<Address>,
    accepted: usize,
    poll: Poll,
    pairs: Vec<Option<Pair>>,
    /// Places in `pairs` without one.
    free: Vec<usize>,
    piece: Vec<u8>,
}

impl Relay {
    /// Listens at `addr`; clients are given `servers` in turn.
    ///
    /// # Errors
    /// When there is no server, or the address cannot be used.
    pub fn bind(addr: SocketAddr, servers: &[SocketAddr]) -> io::Result<Self> {
        if servers.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there must be at least one server"));
        }
        let how = ListenOptions { backlog: 1024, unix_mode: 0o700 };
        let listener = Listener::bind(&Address::Tcp(addr), how).map_err(io::Error::other)?;
        let poll = Poll::new()?;
        poll.add(&listener, LISTENER, Interest::Read)?;
        Ok(Self {
            listener,
            is_listening: true,
            servers: servers.iter().copied().map(Address::Tcp).collect(),
            accepted: 0,
            poll,
            pairs: Vec::new(),
            free: Vec::new(),
            piece: vec![0; PIECE],
        })
    }

    /// The address on which the relay listens.
    ///
    /// # Errors
    /// If that is no TCP address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.listener.address() {
            Address::Tcp(addr) => Ok(*addr),
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Forwards until the event loop itself fails; a client or a server that fails only loses its connection.
    ///
    /// # Errors
    /// When waiting for events fails.
    pub fn serve(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            events.clear();
            self.poll.wait(None, &mut events)?;
            for event in &events {
                match event.token {
                    LISTENER => self.accept()?,
                    _ => self.turn(*event)?,
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok(Some((client, _))) => self.connect(client)?,
                Ok(None) => break,
                // Too many are open: those that wait are accepted when others have gone.
                Err(_) if self.free.len() < self.pairs.len() => return self.listen(Interest::End),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn listen(&mut self, interest: Interest) -> io::Result<()> {
        self.is_listening = interest == Interest::Read;
        self.poll.change(&self.listener, LISTENER, interest)
    }

    /// Gives a client its server. One that cannot be connected to costs it its connection.
    fn connect(&mut self, client: Stream) -> io::Result<()> {
        let server = &self.servers[self.accepted % self.servers.len()];
        self.accepted += 1;
        let Ok(server) = Stream::connect(server) else { return Ok(()) };
        let place = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        let pair = Pair::new(client, server);
        for side in Side::BOTH {
            self.poll.add(pair.socket(side), token(place, side), Interest::Read)?;
        }
        self.pairs[place] = Some(pair);
        Ok(())
    }

    fn turn(&mut self, event: Event) -> io::Result<()> {
        let (place, side) = place(event.token);
        // An event of a pair that has ended since may meet its successor, which then has nothing to do.
        let Some(pair) = self.pairs.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if pair.turn(side, event.failed, &mut self.piece).is_err() || pair.is_over() {
            // The poller forgets a socket that is closed.
            self.pairs[place] = None;
            self.free.push(place);
            return if self.is_listening { Ok(()) } else { self.listen(Interest::Read) };
        }
        for side in Side::BOTH {
            if let Some(interest) = pair.changed_interest(side) {
                self.poll.change(pair.socket(side), token(place, side), interest)?;
            }
        }
        Ok(())
    }
}

fn token(place: usize, side: Side) -> Token {
    Token(2 * place as u64 + side as u64)
}

fn place(token: Token) -> (usize, Side) {
    ((token.0 / 2) as usize, Side::BOTH[(token.0 % 2) as usize])
}

#[cfg(test)]
mod tests;

//! A non-blocking connection to a server: connecting, TLS, reads, writes and poll interest. It
//! knows no protocol.

use crate::dialer::{AddressChange, Addresses, Dialer};
use crate::keepalive::Keepalive;
use guira_transport::{Address, Interest, Poll, Progress, Stream, TlsConnector, TlsName, Token};
use std::io;
use std::sync::Arc;

/// The TLS settings of connections to a server.
#[derive(Clone, Debug)]
pub struct Secure {
    pub connector: TlsConnector,
    pub name: TlsName,
}

/// How connections to a server are made.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// `None`: without TLS.
    pub secure: Option<Secure>,
    /// The value of the service field in packets.
    pub service: u8,
    pub keepalive: Option<Keepalive>,
    pub connect_timeout_ms: u32,
}

/// A connection to a server, and the addresses to connect to.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    dialer: Dialer,
    state: State,
    interest: Interest,
    /// When the present attempt to connect began.
    started_ms: u64,
    /// The server has sent data over this connection.
    has_received: bool,
}

#[derive(Debug)]
enum State {
    Closed,
    Connecting(Stream),
    Handshaking(Stream),
    Up(Stream),
}

/// How far a connection is after [`Link::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The kernel connects, or the TLS handshake waits for the server.
    Connecting,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub started_ms: u64,
    pub timeout_ms: u32,
}

impl Link {
    pub fn new(addresses: &Arc<Addresses>, options: LinkOptions) -> Self {
        Self::closed(Dialer::new(addresses), options)
    }

    fn closed(dialer: Dialer, options: LinkOptions) -> Self {
        let (state, interest) = (State::Closed, Interest::Read);
        Link { options, dialer, state, interest, started_ms: 0, has_received: false }
    }

    /// A closed link to the same server.
    pub fn renewed(&self) -> Self {
        Self::closed(self.dialer.clone(), self.options.clone())
    }

    /// The address that is connected to.
    pub fn address(&self) -> Option<&Address> {
        self.dialer.address()
    }

    #[inline]
    pub fn is_secure(&self) -> bool {
        self.options.secure.is_some()
    }

    #[inline]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    #[inline]
    pub fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting(_) | State::Handshaking(_))
    }

    #[inline]
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether the connection is up and the server has accepted it: in TLS 1.3 the server may
    /// refuse the client's certificate after the client has finished the handshake.
    pub fn is_accepted(&self) -> bool {
        self.is_up() && (!self.is_secure() || self.has_received)
    }

    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking(_))
    }

    /// Whether the server has sent nothing over the TLS connection, so that a failure may be one of
    /// the handshake.
    pub fn is_handshake_unproven(&self) -> bool {
        self.is_secure() && !self.has_received
    }

    #[inline]
    pub fn attempt(&self) -> Option<Attempt> {
        let attempt = Attempt { started_ms: self.started_ms, timeout_ms: self.options.connect_timeout_ms };
        self.is_connecting().then_some(attempt)
    }

    /// Starts the timeout of the attempt that follows. Attempts at further addresses share it.
    #[inline]
    pub fn start_attempt(&mut self, now_ms: u64) {
        self.started_ms = now_ms;
    }

    /// Begins to connect a closed link.
    ///
    /// # Errors
    /// The error of the operating system: see [`Dialer::dial`].
    pub fn connect(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        let stream = self.dialer.dial(self.options.service)?;
        if let Some(keepalive) = self.options.keepalive {
            keepalive.enable(&stream, self.dialer.address())?;
        }
        poll.add(&stream, token, Interest::ReadWrite)?;
        (self.interest, self.has_received) = (Interest::ReadWrite, false);
        self.state = State::Connecting(stream);
        Ok(())
    }

    /// Takes the next steps of connecting after an event of the socket.
    ///
    /// # Errors
    /// Why no connection can be made. The link is closed then.
    pub fn advance(&mut self) -> io::Result<Stage> {
        let mut stream = match std::mem::replace(&mut self.state, State::Closed) {
            State::Connecting(stream) => {
                stream.take_error()?;
                match &self.options.secure {
                    Some(secure) => secure.connector.connect(stream, &secure.name)?,
                    None => return Ok(self.set_up(stream)),
                }
            }
            State::Handshaking(stream) => stream,
            other => {
                self.state = other;
                return Ok(if self.is_up() { Stage::Up } else { Stage::Connecting });
            }
        };
        match stream.read(&mut [0])? {
            Progress::Blocked => {}
            Progress::Moved(_) => return Err(io::Error::other("the server sent data before a request")),
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if stream.tls_facts().is_some() {
            return Ok(self.set_up(stream));
        }
        self.state = State::Handshaking(stream);
        Ok(Stage::Connecting)
    }

    fn set_up(&mut self, stream: Stream) -> Stage {
        self.dialer.succeed();
        self.state = State::Up(stream);
        Stage::Up
    }

    /// Writes as much as the socket accepts. [`Progress::Blocked`] if the connection is not up.
    ///
    /// # Errors
    /// The connection has failed.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Progress> {
        match &mut self.state {
            State::Up(stream) => stream.write(bytes),
            _ => Ok(Progress::Blocked),
        }
    }

    /// Reads what has arrived. [`Progress::Blocked`] if the connection is not up.
    ///
    /// # Errors
    /// The connection has failed.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Progress> {
        let State::Up(stream) = &mut self.state else { return Ok(Progress::Blocked) };
        let progress = stream.read(buffer);
        self.has_received |= matches!(progress, Ok(Progress::Moved(_)));
        progress
    }

    /// Whether TLS has decrypted more than was read.
    pub fn has_input(&self) -> bool {
        matches!(&self.state, State::Up(stream) if stream.has_input())
    }

    /// Whether the poller reports when the socket can be written to.
    #[inline]
    pub fn polls_writes(&self) -> bool {
        self.interest == Interest::ReadWrite
    }

    /// Registers this interest, and what TLS needs besides. Has no effect before the kernel has
    /// connected the socket.
    ///
    /// # Errors
    /// The error of the poller.
    #[inline]
    pub fn set_interest(&mut self, poll: &Poll, token: Token, interest: Interest) -> io::Result<()> {
        let (State::Handshaking(stream) | State::Up(stream)) = &self.state else { return Ok(()) };
        let interest = stream.wants(interest);
        if self.interest != interest {
            self.interest = interest;
            poll.change(stream, token, interest)?;
        }
        Ok(())
    }

    /// Registers the socket under another token.
    ///
    /// # Errors
    /// The error of the poller.
    pub fn set_token(&self, poll: &Poll, token: Token) -> io::Result<()> {
        self.stream().map_or(Ok(()), |stream| poll.change(stream, token, self.interest))
    }

    pub fn close(&mut self, poll: &Poll) {
        if let Some(stream) = self.stream() {
            // Closing the socket does the same.
            let _ = poll.remove(stream);
        }
        self.state = State::Closed;
    }

    fn stream(&self) -> Option<&Stream> {
        match &self.state {
            State::Closed => None,
            State::Connecting(stream) | State::Handshaking(stream) | State::Up(stream) => Some(stream),
        }
    }

    /// The current address cannot be connected to: selects the next one. True if that was not tried
    /// yet.
    pub fn try_next_address(&mut self) -> bool {
        self.dialer.fail()
    }

    /// Whether some addresses have failed and others were not tried.
    pub fn has_untried_addresses(&self) -> bool {
        self.dialer.has_untried()
    }

    /// Takes over the result of the last lookup.
    pub fn refresh_addresses(&mut self) -> AddressChange {
        self.dialer.refresh()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_transport::Event;
    use guira_transport::net::TcpListener;
    use std::io::{Read, Write};
    use std::time::Duration;

    const TOKEN: Token = Token(7);

    fn link(addresses: impl Into<Arc<[Address]>>) -> Link {
        let options = LinkOptions { secure: None, service: 0, keepalive: None, connect_timeout_ms: 50 };
        Link::new(&Arc::new(Addresses::new(addresses)), options)
    }

    fn wait(poll: &mut Poll) -> Vec<Event> {
        let mut events = Vec::new();
        poll.wait(Some(Duration::from_secs(60)), &mut events).unwrap();
        events
    }

    #[test]
    fn bytes_are_sent_and_received_once_the_connection_is_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut link = link([Address::Tcp(listener.local_addr().unwrap())]);
        let mut poll = Poll::new().unwrap();
        assert_eq!((link.is_closed(), link.attempt()), (true, None));
        link.start_attempt(5);
        link.connect(&poll, TOKEN).unwrap();
        assert_eq!(link.attempt(), Some(Attempt { started_ms: 5, timeout_ms: 50 }));
        assert_eq!(link.write(b"x").unwrap(), Progress::Blocked);
        assert_eq!(wait(&mut poll)[0].token, TOKEN);
        assert_eq!(link.advance().unwrap(), Stage::Up);
        assert_eq!((link.attempt(), link.is_accepted(), link.polls_writes()), (None, true, true));
        link.set_interest(&poll, TOKEN, Interest::Read).unwrap();
        assert!(!link.polls_writes());
        assert_eq!(link.write(b"ping").unwrap(), Progress::Moved(4));
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_exact(&mut [0; 4]).unwrap();
        peer.write_all(b"pong").unwrap();
        link.set_token(&poll, Token(8)).unwrap();
        assert_eq!(wait(&mut poll)[0].token, Token(8));
        let mut buffer = [0; 8];
        assert_eq!(link.read(&mut buffer).unwrap(), Progress::Moved(4));
        assert_eq!(&buffer[..4], b"pong");
        link.close(&poll);
        assert!(link.is_closed());
        assert_eq!(peer.read(&mut buffer).unwrap(), 0, "the connection is closed");
    }

    #[test]
    fn an_address_that_refuses_closes_the_link_and_the_next_one_is_tried() {
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let accepting = listener.local_addr().unwrap();
        let mut link = link([Address::Tcp(refusing), Address::Tcp(accepting)]);
        let mut poll = Poll::new().unwrap();
        link.connect(&poll, TOKEN).unwrap();
        wait(&mut poll);
        assert_eq!(link.advance().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(link.is_closed() && link.try_next_address() && link.has_untried_addresses());
        link.connect(&poll, TOKEN).unwrap();
        wait(&mut poll);
        assert_eq!(link.advance().unwrap(), Stage::Up);
        assert_eq!(link.address(), Some(&Address::Tcp(accepting)));
        assert!(!link.has_untried_addresses());
    }
}

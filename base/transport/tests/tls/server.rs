//! TLS over TCP in an event loop, as in a server: level-triggered, one thread, many clients.

use crate::support::{Dice, World, session};
use guira_transport::net::TcpStream;
use guira_transport::{
    Address, Event, Interest, ListenOptions, Listener, Poll, Progress, Stream, TlsAcceptor, Token,
};
use rustls::{ClientConfig, StreamOwned};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

const OPTIONS: ListenOptions = ListenOptions { backlog: 64, unix_mode: 0o700 };

struct Echo {
    stream: Stream,
    unsent: Vec<u8>,
    interest: Interest,
    over: bool,
}

impl Echo {
    /// The interest; `None` when the connection is over.
    fn turn(&mut self, buffer: &mut [u8]) -> Option<Interest> {
        loop {
            self.stream.flush().ok()?;
            while !self.unsent.is_empty() {
                match self.stream.write(&self.unsent).ok()? {
                    Progress::Moved(bytes) => drop(self.unsent.drain(..bytes)),
                    Progress::Blocked => return Some(Interest::Write),
                    Progress::Ended => return None,
                }
            }
            if self.over {
                return match self.stream.finish().ok()? {
                    Progress::Blocked => Some(Interest::Write),
                    _ => None,
                };
            }
            match self.stream.read(buffer).ok()? {
                Progress::Moved(bytes) => {
                    self.unsent.extend_from_slice(&buffer[..bytes]);
                    if bytes < buffer.len() {
                        // Drained: the poller reports more input. The reply is sent first.
                        continue;
                    }
                }
                Progress::Blocked => return Some(Interest::Read),
                Progress::Ended => self.over = true,
            }
        }
    }
}

/// Serves until this many clients have disconnected.
fn serve(listener: &Listener, acceptor: &TlsAcceptor, clients: u64) {
    let mut poll = Poll::new().unwrap();
    poll.add(listener, Token(0), Interest::Read).unwrap();
    let mut connections: BTreeMap<u64, Echo> = BTreeMap::new();
    let mut buffer = vec![0; 128 << 10];
    let (mut next, mut gone) = (1, 0);
    let mut events: Vec<Event> = Vec::new();
    while gone < clients {
        poll.wait(None, &mut events).unwrap();
        for event in events.drain(..) {
            if event.token == Token(0) {
                while let Some((stream, _)) = listener.accept().unwrap() {
                    let stream = acceptor.accept(stream).unwrap();
                    poll.add(&stream, Token(next), Interest::Read).unwrap();
                    let interest = Interest::Read;
                    connections.insert(next, Echo { stream, unsent: Vec::new(), interest, over: false });
                    next += 1;
                }
                continue;
            }
            let Some(echo) = connections.get_mut(&event.token.0) else { continue };
            match echo.turn(&mut buffer).map(|interest| echo.stream.wants(interest)) {
                Some(interest) if interest == echo.interest => {}
                Some(interest) => {
                    echo.interest = interest;
                    poll.change(&echo.stream, event.token, interest).unwrap();
                }
                None => {
                    poll.remove(&echo.stream).unwrap();
                    connections.remove(&event.token.0);
                    gone += 1;
                }
            }
        }
    }
}

fn listen() -> (Listener, SocketAddr) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("a TCP address") };
    (listener, address)
}

fn converse(address: SocketAddr, config: &Arc<ClientConfig>, seed: u64) {
    let mut dice = Dice::new(seed);
    let socket = TcpStream::connect(address).unwrap();
    let mut writer = StreamOwned::new(session(config), socket);
    for _ in 0..20 {
        let length = [10, 1_000, 20_000, 300_000][dice.below(4)];
        let length = 1 + dice.below(length);
        let sent = dice.bytes(length);
        let mut received = vec![0; sent.len()];
        writer.write_all(&sent).unwrap();
        writer.flush().unwrap();
        writer.read_exact(&mut received).unwrap();
        assert!(sent == received);
    }
    writer.conn.send_close_notify();
    writer.flush().unwrap();
    let mut rest = Vec::new();
    // A clean end rather than an error, since the server has sent a close_notify.
    assert_eq!(writer.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn many_concurrent_clients_are_echoed() {
    let mut world = World::new("echo");
    world.options.resumption = guira_transport::Resumption::Tickets;
    let acceptor = world.acceptor();
    let (listener, address) = listen();
    let config = world.client().config();
    guira_sync::thread::scope(|scope| {
        for seed in 0..8 {
            let config = &config;
            scope.spawn(move || converse(address, config, seed + 10));
        }
        serve(&listener, &acceptor, 8);
    });
    assert_eq!(acceptor.counters().full() + acceptor.counters().resumed(), 8);
    assert_eq!(acceptor.counters().failed_handshakes(), 0);
}

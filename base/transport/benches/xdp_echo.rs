//! How many datagrams one thread echoes to another: by AF_XDP, and by kernel sockets.
//!
//! `cargo bench -p guira-transport --bench xdp_echo`, as root; a part of a name, such as `native`, selects what is
//! run. Both threads are in this process, the server in one network namespace and the client in another, joined by a
//! veth pair; "loopback" is one namespace. Each figure is the median of rounds, with the minimum and maximum.
//! Processor time of the kernel is included: on a veth pair the sender also does the receiver's work.

#[path = "../tests/xdp/support.rs"]
mod support;

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_transport::net::UdpSocket;
use guira_transport::{
    BURST_MAX, ClientPath, Datagrams, Outgoing, PortSharing, ServerPath, XdpAttach, XdpChecksums,
    XdpClientOptions, XdpClientPath, XdpServerOptions, XdpServerPath, datagram_socket,
};
use std::net::SocketAddr;
use std::time::Duration;
use support::{Cable, INTERFACE};

const PORT: u16 = 11_300;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// The most datagrams in flight.
const WINDOW: usize = 4 * BURST_MAX;
/// A datagram without an answer for this long is lost.
const LOST_AFTER: Duration = Duration::from_millis(20);
/// The payload: as long as a request for a short key.
const PAYLOAD: [u8; 32] = [7; 32];

fn main() {
    let Some(cable) = Cable::new(1) else { return };
    // Cargo adds an option of its own.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, attach) in [("native", XdpAttach::NativeOnly), ("generic", XdpAttach::Generic)] {
        for server in ["10.0.0.1", "fd00::1"] {
            let name = format!("AF_XDP, cable, {name}, {server}");
            if name.contains(&wanted) {
                by_xdp(&cable, &name, attach, server);
            }
        }
    }
    let socket = |at: &str| datagram_socket(at.parse().unwrap(), PortSharing::Alone).unwrap();
    for (server, at, any) in
        [("10.0.0.1", "10.0.0.1:11300", "0.0.0.0:0"), ("fd00::1", "[fd00::1]:11300", "[::]:0")]
    {
        let name = format!("sockets, cable, {server}");
        if name.contains(&wanted) {
            by_sockets(&name, cable.server.run(|| socket(at)), cable.client.run(|| socket(any)));
        }
    }
    let (name, at) = ("sockets, loopback, 127.0.0.1", "127.0.0.1:0");
    if name.contains(&wanted) {
        by_sockets(name, cable.server.run(|| socket(at)), cable.server.run(|| socket(at)));
    }
}

/// The client's load: a burst is sent whenever the window allows one.
struct Window {
    under_way: usize,
    answered: u64,
    lost: u64,
    last: Stopwatch,
}

impl Window {
    fn new() -> Self {
        Window { under_way: 0, answered: 0, lost: 0, last: Stopwatch::start() }
    }

    fn took(&mut self, count: usize) {
        if count > 0 {
            self.answered += count as u64;
            self.under_way = self.under_way.saturating_sub(count);
            self.last = Stopwatch::start();
        } else if self.last.elapsed() > LOST_AFTER {
            self.lost += self.under_way as u64;
            self.under_way = 0;
            self.last = Stopwatch::start();
        }
    }

    fn has_room(&self) -> bool {
        self.under_way + BURST_MAX <= WINDOW
    }
}

fn report(name: &str, mut rounds: Vec<(f64, u64)>) {
    rounds.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (low, median, high) = (rounds[0].0, rounds[rounds.len() / 2].0, rounds[rounds.len() - 1].0);
    let lost: u64 = rounds.iter().map(|(_, lost)| lost).sum();
    println!("{name}: {median:.3} M echoes/s ({low:.3} to {high:.3}), {lost} lost");
}

/// Measures while `serve` runs in another thread.
fn measure(name: &str, serve: impl FnOnce(&AtomicBool) + Send, mut step: impl FnMut(&mut Window)) {
    let stop = AtomicBool::new(false);
    guira_sync::thread::scope(|scope| {
        scope.spawn(|| serve(&stop));
        let rounds = (0..ROUNDS).map(|_| {
            let mut window = Window::new();
            let start = Stopwatch::start();
            while start.elapsed() < ROUND {
                step(&mut window);
            }
            (window.answered as f64 / start.elapsed().as_secs_f64() / 1e6, window.lost)
        });
        let rounds = rounds.collect();
        stop.store(true, Ordering::Relaxed);
        report(name, rounds);
    });
}

fn by_xdp(cable: &Cable, name: &str, attach: XdpAttach, server: &str) {
    let server: std::net::IpAddr = server.parse().expect("an address");
    let options = XdpServerOptions {
        interface: INTERFACE.to_owned(),
        addresses: vec![server],
        first_port: PORT,
        cores: 1,
        attach,
        checksums: XdpChecksums::Trust,
    };
    let mut server_path = cable.server.run(|| XdpServerPath::open(&options)).expect("a path").remove(0);
    let options = XdpClientOptions {
        interface: INTERFACE.to_owned(),
        server: SocketAddr::new(server, PORT),
        cores: 1,
        threads: 1,
        attach,
    };
    let mut client = cable.client.run(|| XdpClientPath::open(&options)).expect("a path").remove(0);
    let serve = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            for index in 0..server_path.receive().expect("a burst") {
                let (request, buffer) = server_path.exchange(index);
                let length = request.len();
                buffer[..length].copy_from_slice(request);
                server_path.answer(index, length);
            }
            server_path.send();
        }
    };
    measure(name, serve, |window| {
        while window.has_room() {
            for _ in 0..BURST_MAX {
                let Some(buffer) = client.buffer(0) else { break };
                buffer[..PAYLOAD.len()].copy_from_slice(&PAYLOAD);
                client.post(PAYLOAD.len());
                window.under_way += 1;
            }
            client.flush().expect("an interface");
        }
        let count = client.receive(&mut |answer| assert_eq!(answer, PAYLOAD)).expect("a burst");
        window.took(count);
    });
}

fn by_sockets(name: &str, server: UdpSocket, client: UdpSocket) {
    let address = server.local_addr().expect("an address");
    client.connect(address).expect("a server");
    let serve = |stop: &AtomicBool| {
        let (mut datagrams, mut outgoing) = (Datagrams::default(), Outgoing::default());
        while !stop.load(Ordering::Relaxed) {
            if datagrams.receive(&server).unwrap_or(0) > 0 {
                datagrams.iter().for_each(|(peer, bytes)| outgoing.push(peer, &[bytes]));
                outgoing.send(&server);
            }
        }
    };
    let (mut datagrams, mut outgoing) = (Datagrams::default(), Outgoing::default());
    let mut server_peer = None;
    measure(name, serve, |window| {
        while window.has_room() {
            match server_peer {
                Some(peer) => {
                    (0..BURST_MAX).for_each(|_| outgoing.push(peer, &[&PAYLOAD]));
                    outgoing.send(&client);
                    window.under_way += BURST_MAX;
                }
                // The first answer reveals the address to send to.
                None => {
                    client.send(&PAYLOAD).expect("room");
                    window.under_way += 1;
                    break;
                }
            }
        }
        let count = datagrams.receive(&client).unwrap_or(0);
        server_peer = server_peer.or(datagrams.get(0).map(|(peer, _)| peer));
        window.took(count);
    });
}

//! Gets by UDP, through a relay that loses datagrams and turns them round.

use crate::name;
use guira_client::pools::{Builder, Client, ErrorKind, Store};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::random::Random;
use guira_tests::server::wait_for;
use guira_tests::{Server, Setup, skip};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const SEED: u64 = 1;
const KEYS: usize = 60;

/// What a relay does with answers, of which there are 100.
#[derive(Clone, Copy, Default)]
struct Faults {
    lost: u64,
    turned_round: u64,
    twice: u64,
}

/// Takes TCP and datagrams at one port, and passes both on to a server.
struct Relay {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn sockets() -> (TcpListener, UdpSocket) {
    wait_for("a port", || {
        let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
        let udp = UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
        Some((tcp, udp))
    })
}

impl Relay {
    fn new(tcp: SocketAddr, udp: SocketAddr, faults: Faults) -> Self {
        let (listener, socket) = sockets();
        let (address, ends) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(one), Ok(other)) = (stream, TcpStream::connect(tcp)) else { return };
                for (mut from, mut to) in [
                    (one.try_clone().unwrap(), other.try_clone().unwrap()),
                    (other.try_clone().unwrap(), one.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || io::copy(&mut from, &mut to));
                }
            }
        });
        let ended = Arc::clone(&ends);
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        std::thread::spawn(move || relay(&socket, udp, faults, &ended));
        Relay { address, ends }
    }
}

/// Passes datagrams on, each client over a socket of its own.
fn relay(socket: &UdpSocket, server: SocketAddr, faults: Faults, ends: &AtomicBool) {
    let (mut random, mut clients) = (Random::new(SEED), HashMap::<SocketAddr, UdpSocket>::new());
    let mut buffer = vec![0; 65_536];
    while !ends.load(Ordering::Relaxed) {
        if let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let upstream = clients.entry(client).or_insert_with(|| {
                let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
                upstream.connect(server).unwrap();
                upstream.set_nonblocking(true).unwrap();
                upstream
            });
            let _ = upstream.send(&buffer[..length]);
        }
        for (client, upstream) in &clients {
            let mut answers = Vec::new();
            while let Ok(length) = upstream.recv(&mut buffer) {
                answers.push(buffer[..length].to_vec());
            }
            if answers.len() > 1 && random.below(100) < faults.turned_round {
                let at = random.below(answers.len() as u64 - 1) as usize;
                answers.swap(at, at + 1);
            }
            for answer in answers {
                let times = if random.below(100) < faults.lost {
                    0
                } else {
                    1 + u32::from(random.below(100) < faults.twice)
                };
                (0..times).for_each(|_| drop(socket.send_to(&answer, client)));
            }
        }
    }
}

/// A node and memcached, if it is there, each with a socket for datagrams.
fn servers() -> Vec<Server> {
    let setup = Setup::new().options(&["-U", "-1"]);
    let mut all = vec![setup.start_guira()];
    match setup.start_peer() {
        Some(peer) => all.push(peer),
        None => skip::say("memcached is not installed"),
    }
    all
}

fn tcp_address(server: &Server) -> SocketAddr {
    name(server).parse().unwrap()
}

/// Keys with values of several datagrams among them; every third is missing.
fn store(client: &Client) -> HashMap<String, Vec<u8>> {
    let mut items = HashMap::new();
    for number in (0..KEYS).filter(|number| number % 3 != 0) {
        let key = format!("key{number}");
        let value = format!("{key}:{}", "x".repeat([1, 500, 4000][number % 2])).into_bytes();
        assert_eq!(client.set(&Store::new(key.as_bytes(), &value)), Ok(true));
        items.insert(key, value);
    }
    items
}

fn keys() -> Vec<String> {
    (0..KEYS).map(|number| format!("key{number}")).collect()
}

#[test]
fn gets_by_udp_find_what_was_stored_by_tcp() {
    for server in servers() {
        let what = format!("{:?}", server.subject());
        let relay = Relay::new(tcp_address(&server), server.udp_address(), Faults::default());
        let client = Client::new(&Builder::servers(&[relay.address.to_string()]).udp_gets()).unwrap();
        let items = store(&client);
        for round in 0..5 {
            for (key, found) in keys().iter().zip(client.get_many(&keys())) {
                let found = found.unwrap_or_else(|error| panic!("{what}, round {round}, {key}: {error}"));
                assert_eq!(
                    found.map(|item| item.value).as_ref(),
                    items.get(key),
                    "{what}, round {round}, {key}"
                );
            }
        }
        let unique = client.gets(b"key1").unwrap().unwrap().unique.unwrap();
        assert!(unique > 0, "{what}");
        let counters = client.counters();
        assert_eq!((counters.udp_keys, counters.opened), (5 * KEYS as u64 + 1, 1), "{what}: {counters:?}");
    }
}

#[test]
fn what_is_lost_or_turned_round_is_an_error_and_never_another_value() {
    for server in servers() {
        let what = format!("{:?}", server.subject());
        let faults = Faults { lost: 10, turned_round: 50, twice: 10 };
        let relay = Relay::new(tcp_address(&server), server.udp_address(), faults);
        let builder =
            Builder::servers(&[relay.address.to_string()]).udp_gets().timeout(Duration::from_millis(50));
        let patient = Client::new(&Builder::servers(&[name(&server)])).unwrap();
        let (client, items) = (Client::new(&builder).unwrap(), store(&patient));
        let (mut found_all, mut late) = (0, 0);
        for round in 0..8 {
            for (key, found) in keys().iter().zip(client.get_many(&keys())) {
                match found {
                    Ok(found) => {
                        let value = found.map(|item| item.value);
                        assert_eq!(
                            value.as_ref(),
                            items.get(key),
                            "{what}, seed {SEED}, round {round}, {key}"
                        );
                        found_all += 1;
                    }
                    Err(error) if error.kind() == &ErrorKind::Timeout => late += 1,
                    // Three in a row, and it is left alone for a second.
                    Err(error) if error.kind() == &ErrorKind::Down => {}
                    Err(error) => panic!("{what}, seed {SEED}, round {round}, {key}: {error}"),
                }
            }
        }
        let counters = client.counters();
        assert!(found_all > 0 && late > 0, "{what}: {found_all} and {late}");
        assert!(counters.udp_lost > 0 && counters.udp_disordered > 0, "{what}: {counters:?}");
        assert!(counters.window_shrinks > 0, "{what}: {counters:?}");
    }
}

#[test]
fn a_port_without_a_server_is_told_at_once() {
    let server = Setup::new().start_guira();
    // It listens on TCP only.
    let client = Client::new(&Builder::servers(&[name(&server)]).udp_gets()).unwrap();
    assert_eq!(client.set(&Store::new(b"k", b"v")), Ok(true));
    assert_eq!(client.get(b"k").unwrap_err().kind(), &ErrorKind::Unreachable);
}

//! Clients and a server in one process.

use super::server::Lender;
use super::{RingClientPath, RingServerPath, ring_paths};
use crate::AcceptError;
use crate::path::{BURST_MAX, ClientPath, PAYLOAD_MAX, Park, ServerPath};
use guira_sync::atomic::{AtomicUsize, Ordering};
use rustix::event::{PollFd, PollFlags, poll};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
struct Budget(AtomicUsize);

impl Lender for Budget {
    fn lend(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn take_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

struct Socket(PathBuf);

impl Socket {
    fn new(name: &str) -> Self {
        Socket(std::env::temp_dir().join(format!("guira-ring-{name}-{}", std::process::id())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn server(socket: &Path, cores: usize, purse: &Arc<Budget>) -> Vec<RingServerPath> {
    let lender: Arc<dyn Lender> = purse.clone();
    ring_paths(socket.to_owned(), 0o700, cores, &lender).unwrap()
}

fn rich() -> Arc<Budget> {
    Arc::new(Budget(AtomicUsize::new(1 << 30)))
}

/// Answers every datagram with its bytes reversed, and returns their number.
fn echo(server: &mut RingServerPath) -> usize {
    let count = server.receive().unwrap();
    for index in 0..count {
        let (datagram, buffer) = server.exchange(index);
        let length = datagram.len();
        buffer[..length].copy_from_slice(datagram);
        buffer[..length].reverse();
        server.answer(index, length);
    }
    assert_eq!(server.send().datagrams, count);
    count
}

/// Connects a client; one of `servers` accepts it.
fn connect(socket: &Path, servers: &mut [RingServerPath]) -> RingClientPath {
    let socket = socket.to_owned();
    let client = guira_sync::thread::spawn(move || RingClientPath::connect(socket).unwrap());
    while !client.is_finished() {
        servers.iter_mut().for_each(|server| {
            server.unpark();
            echo(server);
        });
    }
    while servers.iter().any(is_ringing) {
        servers.iter_mut().for_each(|server| {
            server.unpark();
            echo(server);
        });
    }
    client.join().unwrap()
}

fn ask(client: &mut RingClientPath, core: usize, bytes: &[u8]) {
    client.buffer(core).unwrap()[..bytes.len()].copy_from_slice(bytes);
    client.post(bytes.len());
    client.flush().unwrap();
}

fn answers(client: &mut RingClientPath) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    client.receive(&mut |bytes| all.push(bytes.to_vec())).unwrap();
    all
}

#[test]
fn each_thread_gets_its_datagrams_and_each_client_its_answers() {
    let socket = Socket::new("exchange");
    let mut servers = server(&socket.0, 2, &rich());
    let mut clients = [connect(&socket.0, &mut servers), connect(&socket.0, &mut servers)];
    for round in 0..2000u32 {
        for (number, client) in clients.iter_mut().enumerate() {
            let mut bytes = vec![round as u8; round as usize * 7 % (PAYLOAD_MAX - 5) + 5];
            bytes[..4].copy_from_slice(&round.to_le_bytes());
            bytes[4] = number as u8;
            ask(client, round as usize % 2, &bytes);
            assert_eq!(echo(&mut servers[(round as usize + 1) % 2]), 0, "it is the other thread's");
            assert_eq!(echo(&mut servers[round as usize % 2]), 1);
            bytes.reverse();
            assert_eq!(answers(client), [bytes]);
        }
    }
}

#[test]
fn a_client_that_reads_nothing_is_not_served_and_keeps_no_thread_awake() {
    let socket = Socket::new("greedy");
    let mut servers = server(&socket.0, 1, &rich());
    let (mut greedy, mut other) = (connect(&socket.0, &mut servers), connect(&socket.0, &mut servers));
    let mut asked = 0;
    while greedy.buffer(0).is_some() {
        greedy.post(PAYLOAD_MAX);
        greedy.flush().unwrap();
        asked += 1;
        // The requests' ring is full only when the answers' ring is.
        echo(&mut servers[0]);
    }
    assert!(asked > BURST_MAX);
    ask(&mut other, 0, b"hello");
    assert_eq!(echo(&mut servers[0]), 1);
    assert_eq!(answers(&mut other), [b"olleh"]);
    assert_eq!(servers[0].park(), Park::Quiet);
    assert!(!is_ringing(&servers[0]));
    // It is served again as soon as it reads.
    let mut taken = answers(&mut greedy).len();
    assert!(is_ringing(&servers[0]));
    servers[0].unpark();
    while taken < asked {
        echo(&mut servers[0]);
        taken += answers(&mut greedy).len();
    }
}

fn is_ringing(server: &RingServerPath) -> bool {
    let bell = server.bell();
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&now)).unwrap() > 0
}

#[test]
fn who_sleeps_is_woken_by_the_other() {
    let socket = Socket::new("sleep");
    let mut servers = server(&socket.0, 1, &rich());
    let mut client = connect(&socket.0, &mut servers);
    echo(&mut servers[0]);
    assert_eq!(servers[0].park(), Park::Quiet);
    assert!(!is_ringing(&servers[0]));
    ask(&mut client, 0, b"abc");
    assert!(is_ringing(&servers[0]));
    assert_eq!(servers[0].park(), Park::Pending);
    servers[0].unpark();
    let waiter = guira_sync::thread::spawn(move || {
        while answers(&mut client).is_empty() {
            client.wait(Duration::from_secs(60)).unwrap();
        }
    });
    assert_eq!(echo(&mut servers[0]), 1);
    waiter.join().unwrap();
    assert_eq!(servers[0].park(), Park::Quiet);
    servers[0].unpark();
    echo(&mut servers[0]);
    assert_eq!(servers[0].park(), Park::Quiet);
}

#[test]
fn memory_is_lent_and_taken_back_when_a_client_goes() {
    let socket = Socket::new("memory");
    let bytes = super::handshake::client_rings_bytes(2);
    let purse = Arc::new(Budget(AtomicUsize::new(bytes)));
    let mut servers = server(&socket.0, 2, &purse);
    let client = connect(&socket.0, &mut servers);
    assert_eq!(purse.0.load(Ordering::Relaxed), 0);
    let path = socket.0.clone();
    let refused = guira_sync::thread::spawn(move || RingClientPath::connect(path).unwrap_err().to_string());
    while !refused.is_finished() {
        servers[0].unpark();
        echo(&mut servers[0]);
    }
    assert_eq!(refused.join().unwrap(), "the server accepts no more clients");
    drop(client);
    while purse.0.load(Ordering::Relaxed) < bytes {
        servers.iter_mut().for_each(|server| {
            server.unpark();
            echo(server);
        });
    }
    assert!(servers.iter().all(|server| server.lanes() == 0));
}

#[test]
fn a_client_finds_the_server_that_comes_after_another() {
    let socket = Socket::new("successor");
    let mut servers = server(&socket.0, 1, &rich());
    let mut client = connect(&socket.0, &mut servers);
    drop(servers);
    ask(&mut client, 0, b"lost");
    assert!(answers(&mut client).is_empty());
    client.wait(Duration::ZERO).unwrap();
    assert!(answers(&mut client).is_empty(), "no server");
    ask(&mut client, 0, b"lost too");
    let mut servers = server(&socket.0, 2, &rich());
    let patient = guira_sync::thread::spawn(move || {
        while client.cores() == 1 {
            client.wait(Duration::from_millis(1)).unwrap();
            answers(&mut client);
        }
        client
    });
    while !patient.is_finished() {
        servers.iter_mut().for_each(|server| {
            server.unpark();
            echo(server);
        });
    }
    let mut client = patient.join().unwrap();
    for (core, server) in servers.iter_mut().enumerate() {
        ask(&mut client, core, b"abc");
        while echo(server) == 0 {}
        assert_eq!(answers(&mut client), [b"cba"]);
    }
}

// Attacks by a hostile client.

use super::handshake::{Rings, receive_rings};
use crate::net::UnixStream;
use guira_sync::clock::Stopwatch;
use rustix::fs::{OFlags, fcntl_setfl};

/// A client that can write anything into its rings.
fn connect_raw(socket: &Path, servers: &mut [RingServerPath]) -> (UnixStream, Rings) {
    let stream = UnixStream::connect(socket).unwrap();
    settle(servers);
    let rings = receive_rings(&stream).unwrap();
    (stream, rings)
}

fn settle_once(servers: &mut [RingServerPath]) {
    servers.iter_mut().for_each(|server| {
        server.unpark();
        echo(server);
    });
}

fn settle(servers: &mut [RingServerPath]) {
    (0..20).for_each(|_| settle_once(servers));
}

/// Whether `what` finishes within a second.
fn ends(what: impl FnOnce() + Send + 'static) -> bool {
    let thread = guira_sync::thread::spawn(what);
    let begin = Stopwatch::start();
    while begin.elapsed() < Duration::from_secs(1) {
        if thread.is_finished() {
            return true;
        }
        guira_sync::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_client_cannot_make_a_worker_wait_for_its_bell() {
    let socket = Socket::new("attack-bell-read");
    let mut servers = server(&socket.0, 1, &rich());
    let (stream, rings) = connect_raw(&socket.0, &mut servers);
    // O_NONBLOCK would be lost at the server's end too if the file description were shared.
    fcntl_setfl(&rings.bells[0], OFlags::empty()).unwrap();
    let path = socket.0.clone();
    // Any client's arrival rings.
    let other = guira_sync::thread::spawn(move || UnixStream::connect(path).unwrap());
    let other = other.join().unwrap();
    let ended = ends(move || settle(&mut servers));
    drop((stream, other));
    assert!(ended, "the worker blocks forever in a bell");
}

#[test]
fn a_client_that_never_reads_its_bell_cannot_block_a_worker() {
    let socket = Socket::new("attack-bell-write");
    let mut servers = server(&socket.0, 1, &rich());
    let (stream, rings) = connect_raw(&socket.0, &mut servers);
    fcntl_setfl(&rings.bells[0], OFlags::empty()).unwrap();
    let (mut requests, mut answers) = super::handshake::client_ends(&rings.memory, 0);
    assert_eq!(answers.park(), Ok(false));
    // The client does not read: the server may ring any number of times.
    for _ in 0..5000 {
        requests.push(b"hello");
        requests.publish();
        settle_once(&mut servers);
        let mut out = [0; PAYLOAD_MAX];
        while answers.pop(&mut out) != Ok(None) {}
        answers.release();
        assert!(answers.park().is_ok());
    }
    let ended = ends(move || settle(&mut servers));
    drop(stream);
    assert!(ended, "the worker rings a bell that blocks, for ever");
}

#[test]
fn a_bell_is_not_polled_after_its_client_is_gone() {
    let socket = Socket::new("attack-dead-bell");
    let mut servers = server(&socket.0, 1, &rich());
    let (stream, rings) = connect_raw(&socket.0, &mut servers);
    assert_eq!(servers[0].lanes(), 1);
    drop(stream);
    settle(&mut servers);
    assert_eq!(servers[0].lanes(), 0, "it is gone");
    assert!(!is_ringing(&servers[0]));
    // Its end is still open.
    let _ = rustix::io::write(&rings.bells[0], &[1]);
    settle(&mut servers);
    assert_eq!(servers[0].park(), Park::Quiet);
    assert!(
        !is_ringing(&servers[0]),
        "the client is gone, and its bell stays readable: the worker never sleeps again"
    );
}

#[test]
fn a_listener_that_listens_no_more_is_told_of_once_and_clients_that_are_there_are_served() {
    let socket = Socket::new("broken-listener");
    let mut servers = server(&socket.0, 1, &rich());
    let (_stream, _rings) = connect_raw(&socket.0, &mut servers);
    assert!(servers[0].failure().is_none());
    rustix::net::shutdown(servers[0].listener(), rustix::net::Shutdown::Both).unwrap();
    settle(&mut servers);
    assert!(matches!(servers[0].failure(), Some(AcceptError::Broken(_))));
    settle(&mut servers);
    assert!(servers[0].failure().is_none() && !is_ringing(&servers[0]));
    assert_eq!(servers[0].lanes(), 1);
}

#[test]
fn a_client_that_closes_its_bell_keeps_no_worker_awake() {
    let socket = Socket::new("attack-closed-bell");
    let mut servers = server(&socket.0, 2, &rich());
    let (stream, mut rings) = connect_raw(&socket.0, &mut servers);
    // Of the second worker, which does not look after links.
    drop(rings.bells.pop());
    settle(&mut servers);
    assert!(!servers.iter().any(is_ringing), "its worker never sleeps again");
    assert_eq!((servers[0].lanes(), servers[1].lanes()), (0, 0), "the client is disconnected");
    drop((stream, rings));
}

#[test]
fn a_client_that_goes_does_not_take_its_successor_along() {
    let socket = Socket::new("attack-successor");
    let mut servers = server(&socket.0, 2, &rich());
    let (first, _rings) = connect_raw(&socket.0, &mut servers);
    drop(first);
    // The second worker is busy elsewhere, and does not know of it yet: it keeps the first client's socket open.
    settle(&mut servers[..1]);
    let second = UnixStream::connect(&socket.0).unwrap();
    settle(&mut servers[..1]);
    settle(&mut servers[..1]);
    settle(&mut servers);
    let _rings = receive_rings(&second).unwrap();
    assert_eq!(servers[0].lanes(), 1, "the second client is connected and was dropped");
}

//! The AF_XDP path, over a veth pair between two network namespaces.

mod forged;
mod support;

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_sync::thread::{JoinHandle, spawn};
use guira_transport::net::{TcpListener, TcpStream, UdpSocket};
use guira_transport::{
    ClientPath, Interest, Losses, PAYLOAD_MAX, Park, Poll, ServerPath, Token, XdpAttach, XdpChecksums,
    XdpClientOptions, XdpClientPath, XdpError, XdpMode, XdpServerOptions, XdpServerPath,
};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use support::{Cable, INTERFACE};

const FIRST_PORT: u16 = 11_300;
/// The timeout of a failing test.
const DEADLINE: Duration = Duration::from_secs(20);

fn server_options(cores: usize) -> XdpServerOptions {
    XdpServerOptions {
        interface: INTERFACE.to_owned(),
        addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        first_port: FIRST_PORT,
        cores,
        attach: XdpAttach::NativeOnly,
        checksums: XdpChecksums::Trust,
    }
}

fn client_options(server: &str, cores: usize) -> XdpClientOptions {
    XdpClientOptions {
        interface: INTERFACE.to_owned(),
        server: SocketAddr::new(server.parse().unwrap(), FIRST_PORT),
        cores,
        threads: 1,
        attach: XdpAttach::NativeOnly,
    }
}

/// A thread's answer to a request: its number, and every byte changed.
fn reply(core: usize, request: &[u8]) -> Vec<u8> {
    std::iter::once(core as u8).chain(request.iter().map(|byte| byte ^ 0x5a)).collect()
}

/// A thread for each path, which answers, and blocks when there is nothing to do.
struct Server {
    stop: std::sync::Arc<AtomicBool>,
    threads: Vec<JoinHandle<XdpServerPath>>,
}

impl Server {
    fn open(cable: &Cable, options: &XdpServerOptions) -> Self {
        let paths = cable.server.run(|| XdpServerPath::open(options)).unwrap();
        assert_eq!(paths.len(), options.cores);
        Self::start(paths)
    }

    fn start(paths: Vec<XdpServerPath>) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let threads = paths.into_iter().enumerate().map(|(core, path)| {
            let stop = stop.clone();
            spawn(move || serve(core, path, &stop))
        });
        Server { threads: threads.collect(), stop }
    }

    fn stop(mut self) -> Vec<XdpServerPath> {
        self.stop.store(true, Ordering::Relaxed);
        std::mem::take(&mut self.threads).into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn losses(path: &XdpServerPath) -> Losses {
    path.meter().unwrap().losses()
}

fn serve(core: usize, mut path: XdpServerPath, stop: &AtomicBool) -> XdpServerPath {
    let mut poll = Poll::new().unwrap();
    poll.add(path.bell(), Token(0), Interest::Read).unwrap();
    let mut events = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let count = path.receive().unwrap();
        for index in 0..count {
            let (request, buffer) = path.exchange(index);
            let answer = reply(core, request);
            // The longest request has no space for another byte.
            let length = answer.len().min(PAYLOAD_MAX);
            buffer[..length].copy_from_slice(&answer[..length]);
            path.answer(index, length);
        }
        if count > 0 {
            assert_eq!(path.send().datagrams, count);
            continue;
        }
        if path.park() == Park::Quiet {
            poll.wait(Some(Duration::from_millis(20)), &mut events).unwrap();
            events.clear();
        }
        path.unpark();
    }
    path
}

/// The request with a number: the number, and bytes derived from it.
fn request(number: u32) -> Vec<u8> {
    let length = 4 + number as usize * 37 % (PAYLOAD_MAX - 5);
    let filling = (0..).map(|at: u32| (number.wrapping_mul(31).wrapping_add(at) >> 2) as u8);
    number.to_be_bytes().into_iter().chain(filling).take(length).collect()
}

fn core_of(number: u32, cores: usize) -> usize {
    number as usize % cores
}

/// Exchanges `count` requests and checks each answer. Returns the number of retries.
fn exchange(client: &mut dyn ClientPath, count: u32) -> usize {
    // As many as fit into a socket's default buffer.
    const WINDOW: usize = 64;
    let cores = client.cores();
    let (mut next, mut answered, mut again) = (0, 0, 0);
    let mut under_way: HashMap<u32, Stopwatch> = HashMap::new();
    let start = Stopwatch::start();
    while answered < count {
        assert!(start.elapsed() < DEADLINE, "{answered} of {count} are answered");
        let late = under_way.iter().find(|(_, since)| since.elapsed() > Duration::from_secs(1));
        let late = late.map(|(number, _)| *number);
        again += usize::from(late.is_some());
        let new = (next..count).take(WINDOW.saturating_sub(under_way.len()));
        for number in late.into_iter().chain(new) {
            let Some(buffer) = client.buffer(core_of(number, cores)) else {
                break;
            };
            let request = request(number);
            buffer[..request.len()].copy_from_slice(&request);
            client.post(request.len());
            under_way.insert(number, Stopwatch::start());
            next = next.max(number + 1);
        }
        client.flush().unwrap();
        let mut take = |answer: &[u8]| {
            let number = u32::from_be_bytes(std::array::from_fn(|at| answer[1 + at] ^ 0x5a));
            assert_eq!(answer, reply(core_of(number, cores), &request(number)), "{number}");
            answered += u32::from(under_way.remove(&number).is_some());
        };
        if client.receive(&mut take).unwrap() == 0 {
            client.wait(Duration::from_millis(20)).unwrap();
        }
    }
    again
}

/// The same by a kernel socket.
fn exchange_by_kernel(server: &str, cores: usize, count: u32) {
    let local = if server.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    for core in 0..cores {
        let socket = UdpSocket::bind(local).unwrap();
        socket.connect(SocketAddr::new(server.parse().unwrap(), FIRST_PORT + core as u16)).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut buffer = vec![0; 2048];
        for number in 0..count {
            let request = request(number);
            socket.send(&request).unwrap();
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..length], reply(core, &request));
        }
    }
}

#[test]
fn ten_thousand_datagrams_are_answered_between_two_af_xdp_paths() {
    let Some(cable) = Cable::new(1) else { return };
    let server = Server::open(&cable, &server_options(3));
    for address in ["10.0.0.1", "fd00::1"] {
        let mut clients = cable.client.run(|| XdpClientPath::open(&client_options(address, 1))).unwrap();
        let client = &mut clients[0];
        assert!(client.buffer(0).is_some());
        client.reach(3).unwrap();
        assert!(client.reach(60_000).is_err(), "beyond the last port");
        assert_eq!(client.cores(), 3);
        assert_eq!(client.facts().mode, XdpMode::Native);
        let again = exchange(client, 10_000);
        assert!(again < 100, "{again} were lost");
    }
    for path in server.stop() {
        assert_eq!(losses(&path).unreadable, 0);
        assert_eq!(path.facts().mode, XdpMode::Native);
    }
}

#[test]
fn several_threads_of_a_client_share_an_interface() {
    let Some(cable) = Cable::new(1) else { return };
    let server = Server::open(&cable, &server_options(2));
    let options = XdpClientOptions { threads: 3, ..client_options("10.0.0.1", 2) };
    let clients = cable.client.run(|| XdpClientPath::open(&options)).unwrap();
    let ports: Vec<u16> = clients.iter().map(|client| client.local_address().unwrap().port()).collect();
    assert_eq!(ports, [ports[0], ports[0] + 1, ports[0] + 2]);
    let threads = clients.into_iter().map(|mut client| spawn(move || exchange(&mut client, 3_000)));
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| assert!(thread.join().unwrap() < 100));
    server.stop();
}

#[test]
fn a_client_of_the_kernels_is_answered_natively_and_generically() {
    let Some(cable) = Cable::new(1) else { return };
    for (attach, mode) in [
        (XdpAttach::NativeFirst, XdpMode::Native),
        (XdpAttach::NativeOnly, XdpMode::Native),
        (XdpAttach::Generic, XdpMode::Generic),
    ] {
        let server = Server::open(&cable, &XdpServerOptions { attach, ..server_options(2) });
        cable.client.run(|| exchange_by_kernel("10.0.0.1", 2, 200));
        cable.client.run(|| exchange_by_kernel("fd00::1", 2, 200));
        assert!(server.stop().iter().all(|path| path.facts().mode == mode));
    }
}

#[test]
fn a_client_by_af_xdp_is_answered_by_a_server_of_the_kernels() {
    let Some(cable) = Cable::new(1) else { return };
    for address in ["10.0.0.1", "fd00::1"] {
        let stop = AtomicBool::new(false);
        let bind = || UdpSocket::bind((address, FIRST_PORT)).unwrap();
        let socket = cable.server.run(bind);
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        guira_sync::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = vec![0; 2048];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                        socket.send_to(&reply(0, &buffer[..length]), peer).unwrap();
                    }
                }
            });
            let clients = cable.client.run(|| XdpClientPath::open(&client_options(address, 1)));
            let result = clients.map(|mut clients| exchange(&mut clients[0], 2_000));
            stop.store(true, Ordering::Relaxed);
            assert!(result.unwrap() < 100);
        });
    }
}

#[test]
fn whatever_queue_a_packet_comes_by_it_finds_its_thread() {
    let Some(cable) = Cable::new(3) else { return };
    let server = Server::open(&cable, &server_options(2));
    // The kernel chooses queues by a hash: of many sockets, some reach each.
    for _ in 0..12 {
        cable.client.run(|| exchange_by_kernel("10.0.0.1", 2, 5));
    }
    let options = XdpClientOptions { threads: 3, ..client_options("fd00::1", 2) };
    for mut client in cable.client.run(|| XdpClientPath::open(&options)).unwrap() {
        assert_eq!(client.facts().queues, 3);
        assert!(exchange(&mut client, 1_000) < 100);
    }
    server.stop();
}

#[test]
fn everything_else_is_the_kernels() {
    let Some(cable) = Cable::new(1) else { return };
    let server = Server::open(&cable, &server_options(2));
    cable.client.ip(&format!("neigh flush dev {INTERFACE}"));
    cable.server.ip(&format!("neigh flush dev {INTERFACE}"));
    for address in ["10.0.0.1", "fd00::1"] {
        let listener = cable.server.run(|| TcpListener::bind((address, FIRST_PORT))).unwrap();
        let mut stream = cable.client.run(|| TcpStream::connect((address, FIRST_PORT))).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        stream.write_all(b"hello").unwrap();
        let mut text = [0; 5];
        accepted.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
    }
    // The ports before and after, and another address.
    for address in [
        SocketAddr::new("10.0.0.1".parse().unwrap(), FIRST_PORT - 1),
        SocketAddr::new("10.0.0.1".parse().unwrap(), FIRST_PORT + 2),
        SocketAddr::new("10.0.0.3".parse().unwrap(), FIRST_PORT),
        SocketAddr::new("fd00::1".parse().unwrap(), FIRST_PORT + 2),
    ] {
        let receiver = cable.server.run(|| UdpSocket::bind(address)).unwrap();
        receiver.set_read_timeout(Some(DEADLINE)).unwrap();
        let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sender = cable.client.run(|| UdpSocket::bind(local)).unwrap();
        sender.send_to(b"for the kernel", address).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 14, "{address}");
    }
    server.stop();
}

#[test]
fn an_unspecified_address_stands_for_all_of_its_family() {
    let Some(cable) = Cable::new(1) else { return };
    let addresses = vec!["0.0.0.0".parse().unwrap()];
    let server = Server::open(&cable, &XdpServerOptions { addresses, ..server_options(1) });
    cable.client.run(|| exchange_by_kernel("10.0.0.1", 1, 20));
    cable.client.run(|| exchange_by_kernel("10.0.0.3", 1, 20));
    let v6 = SocketAddr::new("fd00::1".parse().unwrap(), FIRST_PORT);
    let receiver = cable.server.run(|| UdpSocket::bind(v6)).unwrap();
    receiver.set_read_timeout(Some(DEADLINE)).unwrap();
    cable.client.run(|| UdpSocket::bind("[::]:0").unwrap().send_to(b"for the kernel", v6)).unwrap();
    assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 14);
    server.stop();
}

#[test]
fn an_interface_has_one_owner_and_can_be_opened_again() {
    let Some(cable) = Cable::new(1) else { return };
    for _ in 0..5 {
        let server = Server::open(&cable, &server_options(1));
        cable.client.run(|| exchange_by_kernel("10.0.0.1", 1, 5));
        drop(server.stop());
    }
    let mut paths = cable.server.run(|| XdpServerPath::open(&server_options(2))).unwrap();
    let error = cable.server.run(|| XdpServerPath::open(&server_options(2))).unwrap_err();
    assert!(matches!(error, XdpError::Occupied { .. }), "{error}");
    // A thread that goes leaves its port to the kernel, and the other one serves on.
    drop(paths.remove(0));
    let receiver = cable.server.run(|| UdpSocket::bind(("10.0.0.1", FIRST_PORT))).unwrap();
    receiver.set_read_timeout(Some(DEADLINE)).unwrap();
    let sender = cable.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    sender.send_to(b"for the kernel", ("10.0.0.1", FIRST_PORT)).unwrap();
    assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 14);
    sender.send_to(b"for us", ("10.0.0.1", FIRST_PORT + 1)).unwrap();
    let start = Stopwatch::start();
    while paths[0].receive().unwrap() == 0 {
        assert!(start.elapsed() < DEADLINE);
    }
    assert_eq!(paths[0].exchange(0).0, b"for us");
}

#[test]
fn the_bell_rings_when_something_arrives_while_the_thread_sleeps() {
    let Some(cable) = Cable::new(2) else { return };
    let mut path = cable.server.run(|| XdpServerPath::open(&server_options(1))).unwrap().remove(0);
    let mut poll = Poll::new().unwrap();
    poll.add(path.bell(), Token(3), Interest::Read).unwrap();
    let mut events = Vec::new();
    let sender = cable.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    for _ in 0..3 {
        assert_eq!((path.receive().unwrap(), path.park()), (0, Park::Quiet));
        poll.wait(Some(Duration::ZERO), &mut events).unwrap();
        assert!(events.is_empty(), "the bell is silent");
        sender.send_to(b"wake up", ("10.0.0.1", FIRST_PORT)).unwrap();
        poll.wait(Some(DEADLINE), &mut events).unwrap();
        assert_eq!(events.pop().map(|event| event.token), Some(Token(3)));
        assert_eq!(path.park(), Park::Pending);
        path.unpark();
        assert_eq!(path.receive().unwrap(), 1);
        assert_eq!(path.exchange(0).0, b"wake up");
        // It gets no answer, nor do the datagrams of earlier bursts.
        assert_eq!(path.send().datagrams, 0);
    }
}

#[test]
fn a_thread_that_is_too_slow_loses_datagrams_and_the_others_none() {
    const HELD: usize = 1024;
    let Some(cable) = Cable::new(1) else { return };
    let mut paths = cable.server.run(|| XdpServerPath::open(&server_options(2))).unwrap();
    let client = cable.client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    for _ in 0..6 * HELD {
        client.send_to(b"too many", ("10.0.0.1", FIRST_PORT)).unwrap();
    }
    // The other one has more to do than there are frames, and answers every second one.
    for _ in 0..200 {
        let burst = 60;
        (0..burst).for_each(|_| assert!(client.send_to(b"hello", ("10.0.0.1", FIRST_PORT + 1)).is_ok()));
        let (mut received, start) = (0, Stopwatch::start());
        while received < burst {
            assert!(start.elapsed() < DEADLINE, "{received} of {burst} came");
            let count = paths[1].receive().unwrap();
            (0..count)
                .filter(|index| (received + index) % 2 == 0)
                .for_each(|index| paths[1].answer(index, 3));
            let sent = paths[1].send();
            assert_eq!(sent.bytes, 3 * sent.datagrams);
            received += count;
        }
    }
    assert_eq!(losses(&paths[1]).overrun, 0);
    assert!(losses(&paths[0]).overrun > 0);
    let (mut held, start) = (0, Stopwatch::start());
    while held < HELD {
        assert!(start.elapsed() < DEADLINE);
        held += paths[0].receive().unwrap();
    }
    assert_eq!(paths[0].receive().unwrap(), 0);
    client.send_to(b"again", ("10.0.0.1", FIRST_PORT)).unwrap();
    while paths[0].receive().unwrap() == 0 {
        assert!(start.elapsed() < DEADLINE);
    }
    assert_eq!(paths[0].exchange(0).0, b"again");
}

#[test]
fn a_path_to_an_interface_that_goes_says_so() {
    let Some(cable) = Cable::new(1) else { return };
    let mut path = cable.server.run(|| XdpServerPath::open(&server_options(1))).unwrap().remove(0);
    assert_eq!(path.park(), Park::Quiet);
    path.unpark();
    cable.server.ip(&format!("link del {INTERFACE}"));
    let start = Stopwatch::start();
    while path.receive().is_ok() {
        assert!(start.elapsed() < DEADLINE);
        path.park();
        path.unpark();
    }
}

#[test]
fn more_than_there_is_room_for_is_refused_and_nothing_is_lost_for_good() {
    let Some(cable) = Cable::new(1) else { return };
    let mut client =
        cable.client.run(|| XdpClientPath::open(&client_options("10.0.0.1", 1))).unwrap().remove(0);
    cable.client.ip(&format!("link set {INTERFACE} down"));
    let mut posted = 0;
    while let Some(buffer) = client.buffer(0) {
        buffer[0] = 1;
        client.post(1);
        posted += 1;
        assert!(posted <= 1 << 20);
    }
    client.flush().unwrap();
    cable.client.ip(&format!("link set {INTERFACE} up"));
    let start = Stopwatch::start();
    while client.buffer(0).is_none() {
        assert!(start.elapsed() < DEADLINE);
        client.flush().unwrap();
    }
    let server = Server::open(&cable, &server_options(1));
    cable.client.ip(&format!("addr replace 10.0.0.2/24 dev {INTERFACE}"));
    exchange(&mut client, 2_000);
    server.stop();
}

#[test]
fn a_path_that_cannot_be_opened_says_why() {
    let Some(cable) = Cable::new(2) else { return };
    let open = |options: XdpServerOptions| {
        let error = cable.server.run(|| XdpServerPath::open(&options)).unwrap_err();
        (error.to_string(), error)
    };
    let (text, error) = open(XdpServerOptions { interface: "nowhere".to_owned(), ..server_options(1) });
    assert!(matches!(error, XdpError::NoInterface { .. }), "{error:?}");
    assert_eq!(text, "there is no network interface nowhere");
    let (_, error) = open(XdpServerOptions {
        attach: XdpAttach::NativeOnly,
        interface: "lo".to_owned(),
        ..server_options(1)
    });
    assert!(matches!(error, XdpError::NoNativeMode { .. }), "{error:?}");
    let (_, error) = open(XdpServerOptions { first_port: 65_535, ..server_options(2) });
    assert!(matches!(error, XdpError::Options(_)), "{error:?}");
    let (_, error) = open(server_options(0));
    assert!(matches!(error, XdpError::Options(_)), "{error:?}");
    let (_, error) = open(XdpServerOptions { addresses: vec![], ..server_options(1) });
    assert!(matches!(error, XdpError::Options(_)), "{error:?}");
    // A driver without native mode runs in generic mode.
    let options =
        XdpServerOptions { attach: XdpAttach::NativeFirst, interface: "lo".to_owned(), ..server_options(1) };
    let paths = cable.server.run(|| XdpServerPath::open(&options)).unwrap();
    assert_eq!(paths[0].facts().mode, XdpMode::Generic);
    let missing = client_options("10.0.0.77", 1);
    let error = cable.client.run(|| XdpClientPath::open(&missing)).unwrap_err();
    assert!(matches!(error, XdpError::NoNeighbour { .. }), "{error:?}");
    // For the kernel's IPv4 every address is a neighbour, if an interface is named and no route is known.
    let elsewhere = client_options("2001:db8::1", 1);
    let error = cable.client.run(|| XdpClientPath::open(&elsewhere)).unwrap_err();
    assert!(matches!(error, XdpError::NoRoute { .. }), "{error:?}");
}

//! The cost of TLS against plain sockets: memory of idle connections, and processor time of writes.
//!
//! `cargo bench -p guira-transport --bench tls`. Memory is the resident set, while the clients are another process
//! (this program, called with `client`). Processor time is that of the writing thread, in user and kernel mode, over
//! TCP on the loopback, whose receiving half the kernel charges to the sender.

use guira_transport::net::TcpStream;
use guira_transport::{Address, ListenOptions, Listener, Progress, Stream, TlsAcceptor, TlsOptions};
use rcgen::{CertificateParams, KeyPair};
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{IoSlice, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const OPTIONS: ListenOptions = ListenOptions { backlog: 1_024, unix_mode: 0o700 };

const IDLE: usize = 1_000;
const SMALL_WRITES: usize = 200_000;
const LARGE_WRITES: usize = 20_000;
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Tls,
}

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["client", address, trusted, request] => {
            let request = request.parse().expect("a length");
            idle_client(address.parse().expect("an address"), trusted, request);
        }
        // Cargo adds an option of its own.
        _ => server(),
    }
}

fn server() {
    let folder = std::env::temp_dir().join(format!("guira-tls-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (chain, acceptor) = acceptor(&folder);
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: Some(8_192), maximum: Some(8_192) },
    );
    let mut held = Vec::new();
    for kind in [Kind::Plain, Kind::Tls] {
        for request in [100, 100_000] {
            held.push(idle(kind, &acceptor, &chain, request));
        }
    }
    drop(held);
    let small = vec![b'x'; 50];
    let large = vec![b'x'; 64 << 10];
    for kind in [Kind::Plain, Kind::Tls] {
        let parts = [IoSlice::new(&small); 32];
        report(kind, "32 x 50 bytes", writes(kind, &acceptor, &chain, &parts, SMALL_WRITES));
        let parts = [IoSlice::new(&large)];
        report(kind, "64 KiB", writes(kind, &acceptor, &chain, &parts, LARGE_WRITES));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

fn report(kind: Kind, what: &str, mut nanoseconds: Vec<u64>) {
    nanoseconds.sort_unstable();
    let (low, high) = (nanoseconds[0], nanoseconds[nanoseconds.len() - 1]);
    println!("{kind:?}: {what} in one writev: {} ns ({low} to {high})", nanoseconds[nanoseconds.len() / 2]);
}

fn acceptor(folder: &Path) -> (PathBuf, TlsAcceptor) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.self_signed(&key).expect("a certificate");
    let chain = folder.join("chain.pem");
    std::fs::write(&chain, certificate.pem()).expect("a file");
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).expect("a file");
    let mut options = TlsOptions::new(&chain);
    options.key = Some(folder.join("key.pem"));
    options.ciphers = "TLS_AES_128_GCM_SHA256".parse().expect("a suite");
    (chain, TlsAcceptor::new(options, 0).expect("an acceptor"))
}

fn start(address: SocketAddr, kind: Kind, chain: &Path, request: usize) -> Child {
    let program = std::env::current_exe().expect("this program");
    let trusted = if kind == Kind::Tls { chain.display().to_string() } else { "-".to_owned() };
    Command::new(program)
        .args(["client", &address.to_string(), &trusted, &request.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a client")
}

fn listen() -> (Listener, SocketAddr) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().expect("an address"), OPTIONS).expect("a listener");
    let Address::Tcp(address) = *listener.address() else { unreachable!("it was TCP") };
    (listener, address)
}

fn accept(listener: &Listener, kind: Kind, acceptor: &TlsAcceptor) -> Stream {
    loop {
        if let Some((stream, _)) = listener.accept().expect("a connection") {
            return if kind == Kind::Tls { acceptor.accept(stream).expect("a session") } else { stream };
        }
        guira_sync::thread::yield_now();
    }
}

/// Resident memory, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number");
    pages * rustix::param::page_size()
}

/// Serves one request of each of many connections, and prints their memory after that. Returns them, so that the next
/// ones cannot reuse their memory.
fn idle(kind: Kind, acceptor: &TlsAcceptor, chain: &Path, request: usize) -> Vec<Stream> {
    let (listener, address) = listen();
    let mut client = start(address, kind, chain, request);
    let mut buffer = vec![1; 128 << 10];
    let mut streams = Vec::with_capacity(IDLE + 1);
    let mut before = 0;
    while streams.len() <= IDLE {
        let mut stream = accept(&listener, kind, acceptor);
        let mut left = request;
        while left > 0 {
            match stream.read(&mut buffer).expect("a request") {
                Progress::Moved(bytes) => left -= bytes,
                Progress::Blocked => guira_sync::thread::yield_now(),
                Progress::Ended => panic!("the client is gone"),
            }
        }
        stream.write(&[b'x'; 1_000]).expect("a reply");
        assert_eq!(stream.read(&mut buffer).expect("nothing"), Progress::Blocked);
        streams.push(stream);
        if streams.len() == 1 {
            // The first one also allocates code and tables.
            before = resident();
        }
    }
    let each = (resident() - before) / IDLE;
    println!(
        "{kind:?}: {each} bytes resident a connection at rest, of {IDLE}, after a request of {request} bytes"
    );
    drop(client.stdin.take());
    client.wait().expect("the client's end");
    streams
}

/// Opens connections, and makes one request on each.
fn idle_client(address: SocketAddr, trusted: &str, request: usize) {
    fn exchange(stream: &mut (impl Read + Write), request: usize) {
        stream.write_all(&vec![b'x'; request]).expect("a request");
        stream.flush().expect("a request");
        stream.read_exact(&mut [0; 1_000]).expect("a reply");
    }
    let config = config(trusted);
    let (mut plain, mut encrypted) = (Vec::new(), Vec::new());
    for _ in 0..=IDLE {
        let mut socket = TcpStream::connect(address).expect("a connection");
        match &config {
            None => {
                exchange(&mut socket, request);
                plain.push(socket);
            }
            Some(config) => {
                let mut stream = StreamOwned::new(session(config), socket);
                exchange(&mut stream, request);
                encrypted.push(stream);
            }
        }
    }
    // Until the server has measured.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Processor time of one write, of several rounds. The same thread reads the other end while the clock is stopped, so
/// that no thread is woken.
fn writes(kind: Kind, acceptor: &TlsAcceptor, chain: &Path, parts: &[IoSlice<'_>], count: usize) -> Vec<u64> {
    let (listener, address) = listen();
    let config = if kind == Kind::Tls { config(&chain.display().to_string()) } else { None };
    let client = guira_sync::thread::spawn(move || greet(address, config));
    let mut stream = accept(&listener, kind, acceptor);
    let mut buffer = vec![0; 1 << 20];
    while !matches!(stream.read(&mut buffer).expect("a request"), Progress::Moved(_)) {
        guira_sync::thread::yield_now();
    }
    let mut other_end = client.join().expect("a client");
    other_end.set_nonblocking(true).expect("no blocking");
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut one_round = || {
        let (mut left, mut time) = (length * count, 0);
        while left > 0 {
            let start = processor_time();
            // The socket always accepts this many bytes.
            for _ in 0..(128 << 10) / length {
                let Progress::Moved(bytes) = stream.write_vectored(parts).expect("a write") else { break };
                left = left.saturating_sub(bytes);
            }
            time += processor_time() - start;
            while other_end.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        }
        time / count as u64
    };
    one_round();
    (0..ROUNDS).map(|_| one_round()).collect()
}

/// Connects, and sends one byte.
fn greet(address: SocketAddr, config: Option<Arc<ClientConfig>>) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("a connection");
    let Some(config) = config else {
        socket.write_all(b"x").expect("a request");
        return socket;
    };
    let mut stream = StreamOwned::new(session(&config), socket);
    stream.write_all(b"x").expect("a request");
    stream.flush().expect("a request");
    stream.sock
}

fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(config.clone(), name).expect("a session")
}

/// `None` without a certificate.
fn config(trusted: &str) -> Option<Arc<ClientConfig>> {
    if trusted == "-" {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).expect("a certificate")).expect("a root");
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

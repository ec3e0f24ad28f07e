//! A DNS server over UDP that answers what a test wants, and something else a moment later.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const NO_ERROR: u16 = 0;
const SERVER_FAILURE: u16 = 2;
const NO_SUCH_NAME: u16 = 3;
/// Seconds for which an answer holds.
const TTL: u32 = 1;
/// The bytes of a header.
const HEADER: usize = 12;

/// A type, and its data.
type Record = (u16, Vec<u8>);

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Dns {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Zone {
    /// By name, in small letters and without a dot at the end.
    names: HashMap<String, Vec<Record>>,
    /// All questions are answered with a failure.
    is_broken: bool,
    /// Questions for addresses of IPv6 are not answered.
    is_silent: bool,
    asked: usize,
    is_over: bool,
}

impl Dns {
    /// One that knows no names.
    pub fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let zone = Arc::<Mutex<Zone>>::default();
        let shared = zone.clone();
        let thread = std::thread::spawn(move || serve(&socket, &shared));
        Dns { address, zone, thread: Some(thread) }
    }

    /// The option by which a router asks it.
    pub fn option(&self) -> String {
        format!("--dns-server={}", self.address)
    }

    /// A name has these addresses, for a second.
    pub fn host(&self, name: &str, addresses: &[&str]) {
        let data = |address: &&str| match address.parse().expect("an address") {
            IpAddr::V4(ip) => (A, ip.octets().to_vec()),
            IpAddr::V6(ip) => (AAAA, ip.octets().to_vec()),
        };
        self.set(name, addresses.iter().map(data).collect());
    }

    /// An SRV record has these targets, for a second.
    pub fn service<N: AsRef<str>>(&self, name: &str, targets: &[(N, u16)]) {
        let data = |(host, port): &(N, u16)| {
            // Priority and weight.
            let mut data = [7u16.to_be_bytes(), 3u16.to_be_bytes(), port.to_be_bytes()].concat();
            data.extend(labels(host.as_ref()));
            (SRV, data)
        };
        self.set(name, targets.iter().map(data).collect());
    }

    fn set(&self, name: &str, records: Vec<Record>) {
        self.zone().names.insert(name.to_owned(), records);
    }

    /// There is no such name any more.
    pub fn remove(&self, name: &str) {
        self.zone().names.remove(name);
    }

    /// From now on every question is answered with a failure.
    pub fn fail(&self) {
        self.zone().is_broken = true;
    }

    /// From now on questions for addresses of IPv6 are not answered.
    pub fn pass_over_ipv6(&self) {
        self.zone().is_silent = true;
    }

    pub fn recover(&self) {
        self.zone().is_broken = false;
    }

    pub fn asked(&self) -> usize {
        self.zone().asked
    }

    fn zone(&self) -> MutexGuard<'_, Zone> {
        self.zone.lock().expect("nobody has panicked with it")
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.zone().is_over = true;
        // Whatever comes wakes it up.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(b"", self.address);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, zone: &Mutex<Zone>) {
    let mut buffer = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let mut zone = zone.lock().expect("nobody has panicked with it");
        if zone.is_over {
            return;
        }
        if let Some(reply) = zone.answer(&buffer[..length]) {
            let _ = socket.send_to(&reply, from);
        }
    }
}

impl Zone {
    fn answer(&mut self, question: &[u8]) -> Option<Vec<u8>> {
        self.asked += 1;
        let (name, end) = name(question)?;
        let kind = u16::from_be_bytes(question.get(end..end + 2)?.try_into().ok()?);
        if self.is_silent && kind == AAAA {
            return None;
        }
        let (records, code) = match self.names.get(&name) {
            _ if self.is_broken => (Vec::new(), SERVER_FAILURE),
            None => (Vec::new(), NO_SUCH_NAME),
            Some(records) => (records.iter().filter(|(own, _)| *own == kind).collect(), NO_ERROR),
        };
        let mut reply = question.get(..2)?.to_vec();
        // A response, with recursion wanted and available.
        let counts = [0x8180 | code, 1, records.len() as u16, 0, 0];
        counts.iter().for_each(|count| reply.extend(count.to_be_bytes()));
        reply.extend(question.get(HEADER..end + 4)?);
        for (kind, data) in records {
            // A pointer to the name in the question, the type, and the class of the internet.
            [0xc000 | HEADER as u16, *kind, 1].iter().for_each(|word| reply.extend(word.to_be_bytes()));
            reply.extend(TTL.to_be_bytes());
            reply.extend((data.len() as u16).to_be_bytes());
            reply.extend(data);
        }
        Some(reply)
    }
}

/// The name in a question, and where it ends.
fn name(question: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*question.get(at)?);
        let label = question.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
    }
}

fn labels(name: &str) -> Vec<u8> {
    let label = |label: &str| [&[label.len() as u8], label.as_bytes()].concat();
    let mut all: Vec<u8> = name.split('.').flat_map(label).collect();
    all.push(0);
    all
}

//! Bare echoes: what a path costs without a cache behind it.

use guira_harness::affinity::pin_thread;
use guira_harness::scratch::Scratch;
use guira_harness::server::READY;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_transport::{
    ClientPath, Interest, Lender, Park, Poll, ServerPath, Token, UdpServerPath, XdpChecksums,
    XdpServerOptions, XdpServerPath, ring_paths,
};
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::near;
use super::net::{BURST, Path, WINDOW, attach, connect};
use crate::experiment::{Failure, failed};
use crate::servers::{CLIENT_CORE, SERVER_CORE};

/// Sends everything back that has arrived, and tells how much that was.
fn send_back(end: &mut dyn ServerPath) -> io::Result<usize> {
    let count = end.receive()?;
    for index in 0..count {
        let (datagram, buffer) = end.exchange(index);
        let length = datagram.len();
        buffer[..length].copy_from_slice(datagram);
        end.answer(index, length);
    }
    end.send();
    Ok(count)
}

/// Empty rounds before an echo sleeps, so that its processor is idle for `near` to look at.
const IDLE_ROUNDS: u32 = 1000;
/// How long it sleeps at most, before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// Sends everything back until it is to stop.
fn send_back_until(end: &mut dyn ServerPath, stops: impl Fn() -> bool) -> io::Result<()> {
    let mut poll = Poll::new()?;
    poll.add(end.bell(), Token(0), Interest::Read)?;
    let (mut idle, mut events) = (0, Vec::new());
    while !stops() {
        let count = send_back(end)?;
        idle = if count == 0 { idle + 1 } else { 0 };
        if idle > IDLE_ROUNDS {
            if end.park() == Park::Quiet {
                poll.wait(Some(NAP), &mut events)?;
                events.clear();
            }
            end.unpark();
            idle = 0;
        }
    }
    Ok(())
}

/// A thread that sends back what it gets.
pub(super) struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    path: Path,
    scratch: Scratch,
    udp: SocketAddr,
}

/// Lends as much as is asked.
#[derive(Debug)]
struct Rich;

impl Lender for Rich {
    fn lend(&self, _bytes: usize) -> bool {
        true
    }

    fn take_back(&self, _bytes: usize) {}
}

impl Echo {
    /// Starts one on the server's core.
    pub(super) fn start(path: Path) -> Result<Self, Failure> {
        let scratch = Scratch::new();
        let mut udp = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut end: Box<dyn ServerPath> = match path {
            Path::Kernel => {
                let path = UdpServerPath::bind(udp).map_err(failed)?;
                udp = path.address().map_err(failed)?;
                Box::new(path)
            }
            Path::Ring => {
                let lender: Arc<dyn Lender> = Arc::new(Rich);
                let paths = ring_paths(scratch.file("socket"), 0o700, 1, &lender).map_err(failed)?;
                Box::new(paths.into_iter().next().ok_or_else(|| Failure::Other("no path".to_owned()))?)
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            // If it cannot be kept there, or ends early, the figures say so by being low.
            let _ = pin_thread(&[SERVER_CORE]);
            let _ = send_back_until(&mut *end, || stopped.load(Ordering::Relaxed));
        });
        Ok(Echo { stop, thread: Some(thread), path, scratch, udp })
    }

    pub(super) fn connect(&self) -> Result<Box<dyn ClientPath>, Failure> {
        connect(self.path, &self.scratch.file("socket"), self.udp)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}

/// Datagrams of `length` bytes that come back in a second, from a client that has as many under way as one that is measured.
pub(super) fn per_s(
    mut client: Box<dyn ClientPath>,
    length: usize,
    duration: Duration,
) -> Result<f64, Failure> {
    near::measured(|| per_s_once(&mut *client, length, duration))
}

fn per_s_once(client: &mut dyn ClientPath, length: usize, duration: Duration) -> Result<f64, Failure> {
    pin_thread(&[CLIENT_CORE]).map_err(failed)?;
    let watch = Stopwatch::start();
    let (mut sent, mut back, mut heard) = (0u64, 0u64, Duration::ZERO);
    // All before this one are back or lost: nothing is overtaken on the way.
    let mut settled = 0u64;
    while watch.elapsed() < duration {
        for _ in 0..BURST {
            if sent - settled >= WINDOW as u64 {
                break;
            }
            let Some(buffer) = client.buffer(0) else { break };
            buffer[..length].fill(1);
            buffer[..size_of::<u64>()].copy_from_slice(&sent.to_le_bytes());
            client.post(length);
            sent += 1;
        }
        client.flush().map_err(failed)?;
        let mut last = settled;
        let take = &mut |bytes: &[u8]| {
            let number = bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
            last = last.max(number + 1);
        };
        let count = client.receive(take).map_err(failed)?;
        settled = last.min(sent);
        if count > 0 {
            heard = watch.elapsed();
        } else if watch.elapsed() > heard + Duration::from_millis(20) {
            (settled, heard) = (sent, watch.elapsed());
        }
        back += count as u64;
    }
    Ok(back as f64 / watch.elapsed().as_secs_f64())
}

/// Where a process sends back what it gets, past the kernel's network stack: `ADDRESS:PORT,INTERFACE,MODE`.
#[derive(Debug, Clone)]
pub(crate) struct EchoAt {
    address: SocketAddr,
    interface: String,
    mode: String,
}

impl FromStr for EchoAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [address, interface, mode] = text.split(',').collect::<Vec<_>>()[..] else {
            return Err("must be ADDRESS:PORT,INTERFACE,MODE".to_owned());
        };
        let address = address.parse().map_err(|_| "must begin with ADDRESS:PORT".to_owned())?;
        Ok(EchoAt { address, interface: interface.to_owned(), mode: mode.to_owned() })
    }
}

/// Sends back what comes, on the server's core, until the process is ended.
pub(crate) fn send_back_at(at: &EchoAt) -> Result<(), Failure> {
    pin_thread(&[SERVER_CORE]).map_err(failed)?;
    let options = XdpServerOptions {
        interface: at.interface.clone(),
        addresses: vec![at.address.ip()],
        first_port: at.address.port(),
        cores: 1,
        attach: attach(&at.mode),
        checksums: XdpChecksums::Trust,
    };
    let paths = XdpServerPath::open(&options).map_err(failed)?;
    let mut end = paths.into_iter().next().ok_or_else(|| Failure::Other("no path".to_owned()))?;
    println!("{READY}{}", options.memory());
    send_back_until(&mut end, || false).map_err(failed)
}

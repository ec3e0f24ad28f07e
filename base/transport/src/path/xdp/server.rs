//! A server's end.

use super::error::XdpError;
use super::interface::{self, Endpoint, InterfaceOptions, XdpFacts};
use super::packet::{self, Datagram};
use super::socket::{self, Arrived, IDLE_ROUNDS, Kick, Socket};
use super::umem::{Frame, PAYLOAD_AT};
use super::{XdpAttach, XdpChecksums};
use crate::path::losses::{LossMeter, SocketMeter, Unreadable};
use crate::path::{BURST_MAX, PAYLOAD_MAX, Park, Sent, ServerPath};
use rustix::fd::BorrowedFd;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Where and how a server receives datagrams.
#[derive(Clone, Debug)]
pub struct XdpServerOptions {
    pub interface: String,
    /// The server's addresses. An unspecified one stands for all addresses of its family.
    pub addresses: Vec<IpAddr>,
    /// The port of the first thread.
    pub first_port: u16,
    /// The number of threads, each with its own port.
    pub cores: usize,
    pub attach: XdpAttach,
    pub checksums: XdpChecksums,
}

impl XdpServerOptions {
    fn interface_options(&self) -> InterfaceOptions {
        InterfaceOptions { interface: self.interface.clone(), attach: self.attach }
    }

    /// The memory that all paths share with the kernel, in bytes. It is committed from the start.
    pub fn memory(&self) -> usize {
        interface::memory(&self.interface_options(), u32::try_from(self.cores).unwrap_or(0))
    }
}

/// A datagram of the burst, and its answer.
#[derive(Debug)]
struct Exchange {
    frame: Frame,
    /// The offset of the packet in its half, and its length.
    at: usize,
    length: usize,
    datagram: Datagram,
    answer: Option<usize>,
}

/// One thread's AF_XDP path at an interface.
#[derive(Debug)]
pub struct XdpServerPath {
    endpoint: Endpoint,
    checksums: XdpChecksums,
    /// The socket of the burst; its answers leave by the same.
    current: usize,
    burst: Vec<Exchange>,
    /// Frames of that socket to be recycled.
    done: Vec<Frame>,
    /// Rounds without datagrams since one arrived.
    idle: usize,
    /// The result of the last kick.
    kick: Kick,
    unreadable: Unreadable,
}

impl XdpServerPath {
    /// Opens an interface for a server: one path for each of its threads, which receive its datagrams from now on;
    /// when the last path is dropped, or the process ends, they go to the kernel again.
    ///
    /// # Errors
    /// If options are invalid, privileges are missing, the kernel or the driver does not support it, or another
    /// program uses the interface's XDP.
    pub fn open(options: &XdpServerOptions) -> Result<Vec<XdpServerPath>, XdpError> {
        let ports = u32::try_from(options.cores).unwrap_or(u32::MAX);
        let first = options.first_port;
        if ports == 0 || first == 0 || u32::from(first).saturating_add(ports) > 1 << 16 {
            return Err(XdpError::Options("ports of all threads do not lie between 1 and 65535"));
        }
        if options.addresses.is_empty() {
            return Err(XdpError::Options("a server has at least one address"));
        }
        let endpoints =
            interface::open(&options.interface_options(), options.addresses.clone(), first, ports)?;
        Ok(endpoints.into_iter().map(|endpoint| Self::new(endpoint, options.checksums)).collect())
    }

    fn new(endpoint: Endpoint, checksums: XdpChecksums) -> Self {
        XdpServerPath {
            endpoint,
            checksums,
            current: 0,
            burst: Vec::with_capacity(BURST_MAX),
            done: Vec::with_capacity(BURST_MAX),
            idle: 0,
            kick: Kick::Done,
            unreadable: Unreadable::default(),
        }
    }

    pub fn facts(&self) -> XdpFacts {
        self.endpoint.facts()
    }

    /// Selects the next socket with packets, if any, and keeps frames of all of them circulating.
    fn select_socket(&mut self) {
        let sockets = &mut self.endpoint.sockets;
        // Before the switch: these frames belong to the current socket's queue.
        if self.idle == 0 || !self.done.is_empty() {
            sockets[self.current].recycle(&mut self.done);
        }
        for step in 1..=sockets.len() {
            let next = (self.current + step) % sockets.len();
            if sockets[next].has_arrived() {
                self.current = next;
                self.idle = 0;
                return;
            }
        }
        self.idle += 1;
        if self.idle.is_multiple_of(IDLE_ROUNDS) {
            sockets.iter().for_each(|socket| socket.recycle(&mut self.done));
        }
    }
}

impl ServerPath for XdpServerPath {
    fn name(&self) -> &'static str {
        "AF_XDP"
    }

    fn receive(&mut self) -> io::Result<usize> {
        if self.kick == Kick::Busy {
            self.kick = self.endpoint.kick();
        }
        if let Kick::Gone(errno) = self.kick {
            return Err(errno.into());
        }
        self.done.extend(self.burst.drain(..).map(|exchange| exchange.frame));
        self.select_socket();
        let Self { endpoint, checksums, current, burst, done, unreadable, .. } = self;
        endpoint.sockets[*current].receive(BURST_MAX, |umem, arrived| {
            let datagram = arrived.packet(umem).and_then(|packet| packet::parse(packet, *checksums));
            let Arrived { frame, at, length } = arrived;
            match datagram {
                Some(datagram) if datagram.length <= PAYLOAD_MAX => {
                    burst.push(Exchange { frame, at, length, datagram, answer: None });
                }
                _ => {
                    unreadable.note();
                    done.push(frame);
                }
            }
        });
        Ok(burst.len())
    }

    #[inline]
    fn exchange(&mut self, index: usize) -> (&[u8], &mut [u8]) {
        let umem = self.endpoint.sockets[self.current].umem();
        let exchange = &mut self.burst[index];
        let (lower, upper) = umem.halves(&mut exchange.frame);
        let from = exchange.at + exchange.datagram.family.headers();
        (&lower[from..from + exchange.datagram.length], &mut upper[PAYLOAD_AT..PAYLOAD_AT + PAYLOAD_MAX])
    }

    #[inline]
    fn answer(&mut self, index: usize, length: usize) {
        assert!(length <= PAYLOAD_MAX);
        self.burst[index].answer = (length > 0).then_some(length);
    }

    fn send(&mut self) -> Sent {
        let mut sent = Sent::default();
        let socket = &mut self.endpoint.sockets[self.current];
        let room = socket.free_slots(self.burst.len());
        for mut exchange in self.burst.drain(..) {
            let length = match exchange.answer {
                Some(length) if sent.datagrams < room => length,
                _ => {
                    self.done.push(exchange.frame);
                    continue;
                }
            };
            let family = exchange.datagram.family;
            let begin = PAYLOAD_AT - family.headers();
            let (lower, upper) = socket.umem().halves(&mut exchange.frame);
            let request = &lower[exchange.at..exchange.at + exchange.length];
            let ends = packet::ends(request, family).swapped();
            packet::write_headers(&mut upper[begin..PAYLOAD_AT + length], &ends);
            socket.post(exchange.frame, begin, family.headers() + length);
            sent.datagrams += 1;
            sent.bytes += length;
        }
        if sent.datagrams > 0 {
            self.kick = socket.kick();
        }
        sent
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.endpoint.bell()
    }

    fn park(&mut self) -> Park {
        if let Some(errno) = self.endpoint.error() {
            self.kick = Kick::Gone(errno);
        }
        let may_sleep = self.endpoint.sockets.iter_mut().all(Socket::may_sleep);
        if may_sleep && !matches!(self.kick, Kick::Gone(_)) { Park::Quiet } else { Park::Pending }
    }

    fn meter(&self) -> Option<Arc<dyn LossMeter>> {
        let sockets = self.endpoint.sockets.iter().map(Socket::descriptor);
        Some(Arc::new(SocketMeter::new(sockets, &self.unreadable, socket::lost)))
    }

    fn unpark(&mut self) {}
}

impl Drop for XdpServerPath {
    fn drop(&mut self) {
        // Other threads of the queue may go on, and need the frames.
        self.done.extend(self.burst.drain(..).map(|exchange| exchange.frame));
        self.endpoint.sockets[self.current].abandon(&mut self.done);
    }
}

#[cfg(test)]
#[path = "../../../tests/xdp/support.rs"]
#[allow(dead_code)]
mod support;

#[cfg(test)]
mod tests {
    use super::support::{Cable, INTERFACE};
    use super::*;
    use crate::net::UdpSocket;
    use guira_sync::atomic::{AtomicBool, Ordering};
    use guira_sync::clock::Stopwatch;
    use std::time::Duration;

    /// A server of one thread at an interface with two queues, and client sockets whose packets arrive by either.
    fn two_queues() -> Option<(Cable, XdpServerPath, Vec<UdpSocket>)> {
        let cable = Cable::new(2)?;
        let options = XdpServerOptions {
            interface: INTERFACE.to_owned(),
            addresses: vec!["10.0.0.1".parse().unwrap()],
            first_port: 11_300,
            cores: 1,
            attach: XdpAttach::NativeOnly,
            checksums: XdpChecksums::Trust,
        };
        let path = cable.server.run(|| XdpServerPath::open(&options)).unwrap().remove(0);
        assert_eq!(path.endpoint.sockets.len(), 2);
        let sockets = cable.client.run(|| (0..16).map(|_| UdpSocket::bind("0.0.0.0:0").unwrap()).collect());
        Some((cable, path, sockets))
    }

    #[test]
    fn frames_go_back_to_the_queue_that_they_are_of() {
        let Some((_cable, mut path, sockets)) = two_queues() else { return };
        let stop = AtomicBool::new(false);
        let mut received = [0; 2];
        guira_sync::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0usize.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let _ = sockets[number * 7 % 16].send_to(b"foreign", "10.0.0.1:11300");
                    for _ in 0..number * 31 % 3000 {
                        std::hint::spin_loop();
                    }
                }
            });
            let begin = Stopwatch::start();
            while begin.elapsed() < Duration::from_secs(3) {
                let count = path.receive().unwrap();
                received[path.current] += count;
                path.send();
            }
            stop.store(true, Ordering::Relaxed);
        });
        // No traffic: after some rounds every frame is spare, or given to the kernel.
        for _ in 0..10 * IDLE_ROUNDS {
            path.receive().unwrap();
            path.send();
        }
        let frames: Vec<usize> = path.endpoint.sockets.iter().map(|socket| socket.count_frames().1).collect();
        assert_eq!(frames, [4096, 4096], "frames of each queue, after {received:?} datagrams");
    }

    #[test]
    fn no_datagram_comes_in_the_place_of_another() {
        let Some((_cable, mut path, sockets)) = two_queues() else { return };
        let stop = AtomicBool::new(false);
        let mut seen = std::collections::HashMap::<u64, u32>::new();
        guira_sync::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let socket = &sockets[number as usize * 7 % 16];
                    let _ = socket.send_to(&number.to_le_bytes(), "10.0.0.1:11300");
                    // Sometimes without a pause, so that many packets queue up.
                    if number / 4000 % 2 == 0 {
                        for _ in 0..number * 31 % 3000 {
                            std::hint::spin_loop();
                        }
                    }
                }
            });
            let begin = Stopwatch::start();
            while begin.elapsed() < Duration::from_secs(4) {
                if begin.elapsed().as_millis() % 4 == 3 {
                    // A thread that is busy for a moment.
                    guira_sync::thread::sleep(Duration::from_micros(800));
                }
                let count = path.receive().unwrap();
                for index in 0..count {
                    let bytes: [u8; 8] = path.exchange(index).0.try_into().unwrap();
                    *seen.entry(u64::from_le_bytes(bytes)).or_default() += 1;
                }
                path.send();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let doubled = seen.values().filter(|count| **count > 1).count();
        assert_eq!(doubled, 0, "of {} datagrams some came twice", seen.len());
    }
}

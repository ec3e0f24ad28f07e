//! The state of all sockets of the world.

use super::sockets::Sockets;
use crate::failure::error;
use crate::scheduler::{self, Own, Process};
use crate::wait::Waiters;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What the network does to connections.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The least time of a packet from one host to another, and what may be added.
    pub latency: (Duration, Duration),
    /// The most bytes that are on the way and not read.
    pub window: usize,
    /// One in this many writes takes only a part of the bytes; 0 for none.
    pub partial: u64,
    /// One in this many writes resets its connection; 0 for none.
    pub resets: u64,
}

impl Default for Faults {
    fn default() -> Self {
        let latency = (Duration::from_micros(30), Duration::from_micros(200));
        Faults { latency, window: 64 << 10, partial: 16, resets: 0 }
    }
}

/// A packet that cannot pass is sent again after this time.
const AGAIN: Duration = Duration::from_millis(200);
/// Connections that wait to be accepted.
const BACKLOG: usize = 128;
const PORTS: u16 = 32_768;

#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Bytes that have arrived and were not read.
    pub(super) received: VecDeque<u8>,
    /// Packets on the way, in the order of sending; `None` is the end of the bytes.
    packets: VecDeque<Option<Vec<u8>>>,
    on_the_way: usize,
    /// When the last byte on the way arrives.
    last: Duration,
    /// The sender has sent its last byte, and the receiver knows.
    pub(super) has_ended: bool,
    is_closed: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    Listener {
        waiting: VecDeque<i32>,
    },
    Connecting,
    Connected {
        peer: i32,
    },
    /// The error is reported once.
    Failed(Option<io::ErrorKind>),
    Bell {
        is_rung: bool,
    },
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) process: Process,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) kind: Kind,
    pub(super) flow: Flow,
    handles: u32,
    /// Tasks that wait for a change, and pollers.
    pub(super) waiters: Arc<Waiters>,
    pub(super) polls: Vec<Arc<Waiters>>,
}

#[derive(Debug, Default)]
pub(super) struct Net {
    pub(super) sockets: Sockets,
    listeners: BTreeMap<SocketAddr, i32>,
    hosts: BTreeMap<Process, IpAddr>,
    /// Where sockets with names of files listen.
    pub(super) paths: BTreeMap<(IpAddr, PathBuf), SocketAddr>,
    cuts: BTreeSet<(IpAddr, IpAddr)>,
    /// Addresses at which the listener of another address accepts.
    redirected: BTreeMap<SocketAddr, SocketAddr>,
    faults: Faults,
    port: u16,
}

thread_local! {
    static NET: Own<Net> = const { Own::new() };
}

pub(super) fn with<R>(work: impl FnOnce(&mut Net) -> R) -> R {
    NET.with(|net| net.with(|| scheduler::at_end(end_process), work))
}

/// What the network does from now on.
pub fn set_faults(faults: Faults) {
    with(|net| net.faults = faults);
}

pub fn set_host(process: Process, host: IpAddr) {
    with(|net| net.hosts.insert(process, host));
}

/// The address of a process: that of the loopback interface unless it was set.
pub fn host_of(process: Process) -> IpAddr {
    with(|net| net.hosts.get(&process).copied()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// No packet passes from one host to another, in this direction.
pub fn cut(from: IpAddr, to: IpAddr) {
    with(|net| net.cuts.insert((from, to)));
}

pub fn heal(from: IpAddr, to: IpAddr) {
    with(|net| net.cuts.remove(&(from, to)));
}

/// Redirects connections that are opened to the address `from` to the listener of `to`, or ends the redirection. Open
/// connections of `from` are reset.
pub fn redirect(from: SocketAddr, to: Option<SocketAddr>) {
    let connections = with(|net| {
        match to {
            Some(to) => net.redirected.insert(from, to),
            None => net.redirected.remove(&from),
        };
        net.sockets.select(|socket| socket.local == from)
    });
    connections.into_iter().for_each(break_off);
}

/// Ends a process as a loss of power does: its sockets are gone, and the other ends are notified when they send.
pub fn crash(process: Process) {
    let gone: Vec<i32> = with(|net| net.of(process));
    for socket in gone {
        with(|net| net.forget(socket));
    }
    scheduler::kill(process);
}

/// The system closes the sockets of a process that has ended.
fn end_process(process: Process) {
    for socket in with(|net| net.of(process)) {
        close(socket);
    }
}

impl Flow {
    fn arrive(&mut self) {
        match self.packets.pop_front() {
            Some(Some(bytes)) => {
                self.on_the_way -= bytes.len();
                self.received.extend(bytes);
            }
            Some(None) => self.has_ended = true,
            None => {}
        }
    }

    /// Bytes that may be sent; some at a closed end, where a write fails.
    pub(super) fn room(&self, window: usize) -> usize {
        if self.is_closed { 1 } else { window.saturating_sub(self.on_the_way + self.received.len()) }
    }
}

impl Net {
    pub(super) fn window(&self) -> usize {
        self.faults.window
    }

    fn of(&self, process: Process) -> Vec<i32> {
        self.sockets.select(|socket| socket.process == process)
    }

    fn forget(&mut self, fd: i32) -> Option<Socket> {
        let socket = self.sockets.remove(fd)?;
        if matches!(socket.kind, Kind::Listener { .. }) {
            self.listeners.remove(&socket.local);
        }
        Some(socket)
    }

    fn add(&mut self, local: SocketAddr, remote: SocketAddr, kind: Kind, process: Process) -> i32 {
        let (flow, waiters, polls) = (Flow::default(), Arc::default(), Vec::new());
        self.sockets.add(Socket { process, local, remote, kind, flow, handles: 1, waiters, polls })
    }

    fn free_port(&mut self) -> u16 {
        self.port = if self.port < PORTS || self.port == u16::MAX { PORTS } else { self.port + 1 };
        self.port
    }
}

/// Wakes what waits for a change of a socket.
fn notify(fd: i32) {
    let waiters = with(|net| {
        let socket = net.sockets.get(fd)?;
        Some(std::iter::once(&socket.waiters).chain(&socket.polls).cloned().collect::<Vec<_>>())
    });
    waiters.into_iter().flatten().for_each(|waiters| waiters.wake_all());
}

fn latency() -> Duration {
    let (least, more) = with(|net| net.faults.latency);
    least + Duration::from_nanos(scheduler::draw(more.as_nanos() as u64 + 1))
}

/// Calls `arrive` when a packet from one host has reached the other.
fn travel(from: IpAddr, to: IpAddr, time: Duration, arrive: impl FnOnce() + 'static) {
    scheduler::call_after(time, move || {
        if with(|net| net.cuts.contains(&(from, to))) {
            travel(from, to, AGAIN, arrive);
        } else {
            arrive();
        }
    });
}

/// A listener at an address of the process's host.
pub(super) fn listen(address: SocketAddr) -> io::Result<i32> {
    let process = scheduler::current_process();
    let host = host_of(process);
    with(|net| {
        let port = if address.port() == 0 { net.free_port() } else { address.port() };
        let local = SocketAddr::new(if address.ip().is_unspecified() { host } else { address.ip() }, port);
        if net.listeners.contains_key(&local) {
            return Err(error(io::ErrorKind::AddrInUse));
        }
        let fd = net.add(local, local, Kind::Listener { waiting: VecDeque::new() }, process);
        net.listeners.insert(local, fd);
        Ok(fd)
    })
}

/// A descriptor that is readable while it is rung.
pub(super) fn bell() -> i32 {
    let process = scheduler::current_process();
    let host = SocketAddr::new(host_of(process), 0);
    with(|net| net.add(host, host, Kind::Bell { is_rung: false }, process))
}

/// Rings a bell, or resets it.
pub(super) fn set_bell(fd: i32, rings: bool) {
    with(|net| {
        if let Some(Kind::Bell { is_rung }) = net.sockets.get_mut(fd).map(|socket| &mut socket.kind) {
            *is_rung = rings;
        }
    });
    if rings {
        notify(fd);
    }
}

/// Two connected sockets of a process.
pub(super) fn pair() -> (i32, i32) {
    let process = scheduler::current_process();
    let host = SocketAddr::new(host_of(process), 0);
    with(|net| {
        let one = net.add(host, host, Kind::Connecting, process);
        let other = net.add(host, host, Kind::Connected { peer: one }, process);
        if let Some(socket) = net.sockets.get_mut(one) {
            socket.kind = Kind::Connected { peer: other };
        }
        (one, other)
    })
}

pub(super) fn connect(remote: SocketAddr) -> i32 {
    let process = scheduler::current_process();
    let host = host_of(process);
    let (fd, local) = with(|net| {
        let local = SocketAddr::new(host, net.free_port());
        (net.add(local, remote, Kind::Connecting, process), local)
    });
    travel(host, remote.ip(), latency(), move || {
        let accepted = with(|net| {
            let listening = net.redirected.get(&remote).unwrap_or(&remote);
            let listener = *net.listeners.get(listening)?;
            let process = net.sockets.get(listener)?.process;
            let Kind::Listener { waiting } = &net.sockets.get(listener)?.kind else { return None };
            if waiting.len() >= BACKLOG || scheduler::is_dead(process) {
                return None;
            }
            let other = net.add(remote, local, Kind::Connected { peer: fd }, process);
            let Kind::Listener { waiting } = &mut net.sockets.get_mut(listener)?.kind else { return None };
            waiting.push_back(other);
            Some((listener, other))
        });
        if let Some((listener, _)) = accepted {
            notify(listener);
        }
        travel(remote.ip(), local.ip(), latency(), move || {
            with(|net| {
                if let Some(socket) = net.sockets.get_mut(fd) {
                    socket.kind = match accepted {
                        Some((_, peer)) => Kind::Connected { peer },
                        None => Kind::Failed(Some(io::ErrorKind::ConnectionRefused)),
                    };
                }
            });
            notify(fd);
        });
    });
    fd
}

/// The next connection of a listener.
pub(super) fn accept(fd: i32) -> Option<(i32, SocketAddr)> {
    with(|net| {
        let Kind::Listener { waiting } = &mut net.sockets.get_mut(fd)?.kind else { return None };
        let accepted = waiting.pop_front()?;
        Some((accepted, net.sockets.get(accepted)?.remote))
    })
}

fn blocked() -> io::Error {
    error(io::ErrorKind::WouldBlock)
}

/// Sends some of the bytes.
pub(super) fn send(fd: i32, bytes: &[u8]) -> io::Result<usize> {
    let (peer, local, remote, faults) = with(|net| {
        let faults = net.faults;
        let socket = net.sockets.get_mut(fd).ok_or_else(|| error(io::ErrorKind::BrokenPipe))?;
        match &mut socket.kind {
            Kind::Connected { peer } => Ok((*peer, socket.local.ip(), socket.remote.ip(), faults)),
            Kind::Failed(fault) => Err(error(fault.take().unwrap_or(io::ErrorKind::BrokenPipe))),
            Kind::Connecting | Kind::Listener { .. } | Kind::Bell { .. } => Err(blocked()),
        }
    })?;
    let hits = |one_of: u64| one_of > 0 && scheduler::draw(one_of) == 0;
    if hits(faults.resets) {
        break_off(fd);
        return Err(error(io::ErrorKind::ConnectionReset));
    }
    let room = with(|net| match net.sockets.get_mut(peer) {
        Some(other) if other.flow.is_closed => Err(error(io::ErrorKind::BrokenPipe)),
        Some(other) => Ok(faults.window.saturating_sub(other.flow.on_the_way + other.flow.received.len())),
        // The other end is gone without a word.
        None => Ok(faults.window),
    })?;
    let mut length = room.min(bytes.len());
    if length == 0 {
        return Err(blocked());
    }
    if length > 1 && hits(faults.partial) {
        length = 1 + scheduler::draw(length as u64 - 1) as usize;
    }
    dispatch(fd, peer, (local, remote), Some(bytes[..length].to_vec()));
    Ok(length)
}

/// Sends a packet of a connection to the other end; `None` is the end.
fn dispatch(fd: i32, peer: i32, (local, remote): (IpAddr, IpAddr), packet: Option<Vec<u8>>) {
    let (time, now) = (latency(), scheduler::now());
    let arrival = with(|net| {
        let Some(other) = net.sockets.get_mut(peer) else { return now + time };
        other.flow.on_the_way += packet.as_ref().map_or(0, Vec::len);
        other.flow.packets.push_back(packet);
        other.flow.last = other.flow.last.max(now + time);
        other.flow.last
    });
    travel(local, remote, arrival - now, move || {
        let is_there = with(|net| net.sockets.get_mut(peer).map(|other| other.flow.arrive()).is_some());
        if is_there {
            notify(peer);
        } else {
            break_off(fd);
        }
    });
}

pub(super) fn receive(fd: i32, buffer: &mut [u8]) -> io::Result<usize> {
    let (length, peer) = with(|net| {
        let socket = net.sockets.get_mut(fd).ok_or_else(|| error(io::ErrorKind::NotConnected))?;
        let peer = match &mut socket.kind {
            Kind::Connected { peer } => *peer,
            Kind::Failed(error) => {
                return error.take().map_or(Ok((0, 0)), |error| Err(io::Error::from(error)));
            }
            Kind::Connecting | Kind::Listener { .. } | Kind::Bell { .. } => return Err(blocked()),
        };
        let received = &mut socket.flow.received;
        let length = buffer.len().min(received.len());
        if length == 0 && !buffer.is_empty() && !socket.flow.has_ended {
            return Err(blocked());
        }
        let (first, second) = received.as_slices();
        let split = first.len().min(length);
        buffer[..split].copy_from_slice(&first[..split]);
        buffer[split..length].copy_from_slice(&second[..length - split]);
        received.drain(..length);
        Ok((length, peer))
    })?;
    if length > 0 {
        // There is room again.
        notify(peer);
    }
    Ok(length)
}

/// Ends the sender's direction. The other end is notified after the bytes on the way.
pub(super) fn end(fd: i32) {
    let found = with(|net| {
        let socket = net.sockets.get(fd)?;
        let Kind::Connected { peer } = socket.kind else { return None };
        Some((peer, (socket.local.ip(), socket.remote.ip())))
    });
    if let Some((peer, hosts)) = found {
        dispatch(fd, peer, hosts, None);
    }
}

/// Both ends see the connection reset, the other one after a while.
pub(super) fn break_off(fd: i32) {
    let found = with(|net| {
        let socket = net.sockets.get_mut(fd)?;
        let Kind::Connected { peer } = socket.kind else { return None };
        socket.kind = Kind::Failed(Some(io::ErrorKind::ConnectionReset));
        Some((peer, socket.local.ip(), socket.remote.ip()))
    });
    let Some((peer, local, remote)) = found else { return };
    notify(fd);
    travel(local, remote, latency(), move || {
        with(|net| {
            net.sockets.get_mut(peer).map(|other| {
                other.kind = Kind::Failed(Some(io::ErrorKind::ConnectionReset));
                other.flow.received.clear();
            })
        });
        notify(peer);
    });
}

/// The error of a socket since the previous call.
pub fn take_error(source: impl AsFd) -> Option<io::Error> {
    let fd = source.as_fd().as_raw_fd();
    with(|net| match net.sockets.get_mut(fd).map(|socket| &mut socket.kind) {
        Some(Kind::Failed(error)) => error.take().map(io::Error::from),
        _ => None,
    })
}

pub(super) fn share(fd: i32) {
    with(|net| net.sockets.get_mut(fd).map(|socket| socket.handles += 1));
}

/// A handle is dropped; with the last one, the socket is closed.
pub(super) fn drop_handle(fd: i32) {
    let is_last = with(|net| {
        net.sockets.get_mut(fd).is_some_and(|socket| {
            socket.handles -= 1;
            socket.handles == 0
        })
    });
    if is_last {
        close(fd);
    }
}

fn close(fd: i32) {
    let has_unread = with(|net| {
        let socket = net.sockets.get_mut(fd)?;
        socket.flow.is_closed = true;
        Some(!socket.flow.received.is_empty())
    });
    match has_unread {
        // As TCP does.
        Some(true) => break_off(fd),
        Some(false) => end(fd),
        None => return,
    }
    let socket = with(|net| net.forget(fd));
    if let Some(Kind::Listener { waiting }) = socket.map(|socket| socket.kind) {
        waiting.into_iter().for_each(close);
    }
}

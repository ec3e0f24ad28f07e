//! A client's end.

use super::error::XdpError;
use super::interface::{self, Endpoint, InterfaceOptions, XdpFacts};
use super::netlink::{self, Mac, Route};
use super::packet::{self, Ends, Family};
use super::socket::{IDLE_ROUNDS, Kick, Socket};
use super::umem::{Frame, PAYLOAD_AT};
use super::{XdpAttach, XdpChecksums, sys};
use crate::datagram::{PortSharing, datagram_socket};
use crate::net::UdpSocket;
use crate::path::{BURST_MAX, ClientPath, PAYLOAD_MAX};
use guira_sync::clock::Stopwatch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// The server of a client, and how to reach it.
#[derive(Clone, Debug)]
pub struct XdpClientOptions {
    /// The interface that leads to the server.
    pub interface: String,
    /// The server, with the port of its first thread.
    pub server: SocketAddr,
    /// The number of the server's threads.
    pub cores: usize,
    /// The number of the client's threads: a process opens an interface once for all of them.
    pub threads: usize,
    pub attach: XdpAttach,
}

/// How long neighbour discovery may take. The kernel asks three times, once a second.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);
/// The port of a datagram that only triggers neighbour discovery ("discard").
const DISCARD_PORT: u16 = 9;
/// Attempts to find consecutive free ports.
const ATTEMPTS: usize = 100;

/// One thread's AF_XDP path to a server.
///
/// The server's MAC address is resolved once, when the path is opened: if the server moves to another card, the path
/// has to be opened again.
#[derive(Debug)]
pub struct XdpClientPath {
    endpoint: Endpoint,
    /// The index of the socket for sending.
    home: usize,
    /// Reserves the source port. Receives nothing.
    port: UdpSocket,
    source_port: u16,
    link: Link,
    server_port: u16,
    cores: usize,
    spare: Vec<Frame>,
    /// The frame of the last buffer, and its thread.
    open: Option<(Frame, usize)>,
    done: Vec<Frame>,
    /// Rounds without datagrams, since one arrived or frames were recycled.
    idle: usize,
    /// The result of the last kick.
    kick: Kick,
}

/// The part that all datagrams share.
#[derive(Clone, Debug)]
struct Link {
    family: Family,
    source_mac: Mac,
    destination_mac: Mac,
    source: Vec<u8>,
    destination: Vec<u8>,
}

impl XdpClientPath {
    /// Opens an interface for a client: one path for each of its threads.
    ///
    /// # Errors
    /// If options are invalid, privileges are missing, the kernel or the driver does not support it, another program
    /// uses the interface's XDP, or the server is not reachable by this interface.
    pub fn open(options: &XdpClientOptions) -> Result<Vec<XdpClientPath>, XdpError> {
        let first = usize::from(options.server.port());
        if options.cores == 0 || first == 0 || first.saturating_add(options.cores) > 1 << 16 {
            return Err(XdpError::Options("ports of all threads do not lie between 1 and 65535"));
        }
        if options.threads == 0 || options.threads > 1024 {
            return Err(XdpError::Options("a client has between 1 and 1024 threads"));
        }
        let index = interface::index(&options.interface)?;
        let server = options.server.ip();
        let route = netlink::route(server, index).map_err(|errno| XdpError::NoRoute {
            address: server,
            interface: options.interface.clone(),
            source: errno.into(),
        })?;
        let source_mac = interface::mac(index)?;
        let destination_mac = resolve(&options.interface, index, server, route)?;
        let ports = reserve_ports(scoped(route.source, index), options.threads)
            .map_err(|source| XdpError::System { step: "find free source ports", source })?;
        let first_port = ports[0].1;
        let interface_options =
            InterfaceOptions { interface: options.interface.clone(), attach: options.attach };
        let family = if server.is_ipv4() { Family::V4 } else { Family::V6 };
        let (source, destination) = (octets(route.source), octets(server));
        let link = Link { family, source_mac, destination_mac, source, destination };
        let endpoints =
            interface::open(&interface_options, vec![route.source], first_port, options.threads as u32)?;
        let paths = endpoints.into_iter().zip(ports).enumerate();
        Ok(paths
            .map(|(thread, (endpoint, (port, source_port)))| XdpClientPath {
                home: thread % endpoint.sockets.len(),
                endpoint,
                port,
                source_port,
                link: link.clone(),
                server_port: options.server.port(),
                cores: options.cores,
                spare: Vec::with_capacity(BURST_MAX),
                open: None,
                done: Vec::with_capacity(BURST_MAX),
                idle: 0,
                kick: Kick::Done,
            })
            .collect())
    }

    pub fn facts(&self) -> XdpFacts {
        self.endpoint.facts()
    }

    /// The local address.
    ///
    /// # Errors
    /// An error of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.port.local_addr()
    }
}

/// The payload of a packet, if it is an answer of the server.
fn answer<'a>(packet: &'a [u8], link: &Link, server_port: u16, cores: usize) -> Option<&'a [u8]> {
    let datagram = packet::parse(packet, XdpChecksums::Trust)?;
    if datagram.family != link.family || datagram.length > PAYLOAD_MAX {
        return None;
    }
    let ends = packet::ends(packet, datagram.family);
    let core = usize::from(ends.source_port.wrapping_sub(server_port));
    let from_server = ends.source == link.destination && core < cores;
    let headers = datagram.family.headers();
    from_server.then(|| &packet[headers..headers + datagram.length])
}

impl ClientPath for XdpClientPath {
    fn cores(&self) -> usize {
        self.cores
    }

    fn reach(&mut self, cores: usize) -> io::Result<()> {
        if usize::from(self.server_port).saturating_add(cores) > 1 << 16 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.cores = cores;
        self.spare.extend(self.open.take().map(|(frame, _)| frame));
        Ok(())
    }

    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        assert!(core < self.cores);
        let socket = &mut self.endpoint.sockets[self.home];
        if socket.free_slots(1) == 0 {
            socket.kick();
            if socket.free_slots(1) == 0 {
                return None;
            }
        }
        let frame = match self.open.take() {
            Some((frame, _)) => frame,
            None => {
                if self.spare.is_empty() {
                    socket.take_frames(BURST_MAX, &mut self.spare);
                }
                self.spare.pop()?
            }
        };
        let (frame, _) = self.open.insert((frame, core));
        let (_, upper) = socket.umem().halves(frame);
        Some(&mut upper[PAYLOAD_AT..PAYLOAD_AT + PAYLOAD_MAX])
    }

    fn post(&mut self, length: usize) {
        assert!(length <= PAYLOAD_MAX);
        let (mut frame, core) = self.open.take().expect("a buffer was taken");
        let socket = &mut self.endpoint.sockets[self.home];
        let (family, begin) = (self.link.family, PAYLOAD_AT - self.link.family.headers());
        let ends = Ends {
            family,
            source_mac: &self.link.source_mac,
            destination_mac: &self.link.destination_mac,
            source: &self.link.source,
            destination: &self.link.destination,
            source_port: self.source_port,
            destination_port: self.server_port + core as u16,
        };
        let (_, upper) = socket.umem().halves(&mut frame);
        packet::write_headers(&mut upper[begin..PAYLOAD_AT + length], &ends);
        socket.post(frame, begin, family.headers() + length);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.kick = self.endpoint.kick();
        match self.kick {
            Kick::Done | Kick::Busy => Ok(()),
            Kick::Gone(errno) => Err(errno.into()),
        }
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        if self.kick != Kick::Done {
            self.flush()?;
        }
        let Self { endpoint, link, server_port, cores, done, idle, .. } = self;
        let (mut looked_at, mut count) = (0, 0);
        for socket in &mut endpoint.sockets {
            looked_at += socket.receive(BURST_MAX - looked_at, |umem, arrived| {
                let packet = arrived.packet(umem);
                if let Some(payload) = packet.and_then(|packet| answer(packet, link, *server_port, *cores)) {
                    count += 1;
                    take(payload);
                }
                done.push(arrived.frame);
            });
            if !done.is_empty() || *idle == IDLE_ROUNDS {
                socket.recycle(done);
            }
        }
        *idle = if looked_at > 0 || *idle == IDLE_ROUNDS { 0 } else { *idle + 1 };
        Ok(count)
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        if !self.endpoint.sockets.iter_mut().all(Socket::may_sleep) {
            return self.endpoint.error().map_or(Ok(()), |errno| Err(errno.into()));
        }
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        let mut bell = [PollFd::from_borrowed_fd(self.endpoint.bell(), PollFlags::IN)];
        match poll(&mut bell, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if bell[0].revents().contains(PollFlags::ERR) || self.endpoint.sockets.len() > 1 {
            return self.endpoint.error().map_or(Ok(()), |errno| Err(errno.into()));
        }
        Ok(())
    }
}

impl Drop for XdpClientPath {
    fn drop(&mut self) {
        // Other threads of the queue may go on, and need the frames.
        self.spare.extend(self.open.take().map(|(frame, _)| frame));
        self.endpoint.sockets[self.home].abandon(&mut self.spare);
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The address with port 0, and with the interface as the scope of a link-local one.
fn scoped(address: IpAddr, interface: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddr::V6(SocketAddrV6::new(address, 0, 0, interface))
        }
        address => SocketAddr::new(address, 0),
    }
}

/// The MAC address of the next hop to the server. The kernel resolves it when it has a packet to send there.
fn resolve(name: &str, interface: u32, server: IpAddr, route: Route) -> Result<Mac, XdpError> {
    let at = XdpError::at("send a datagram, to find out a MAC address");
    let system = |source| XdpError::System { step: "open a socket", source };
    let socket = datagram_socket(scoped(route.source, interface), PortSharing::Alone).map_err(system)?;
    sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes()).map_err(at)?;
    let mut target = scoped(server, interface);
    target.set_port(DISCARD_PORT);
    let stopwatch = Stopwatch::start();
    for look in 0.. {
        let known = netlink::neighbour(route.next_hop, interface);
        if let Some(mac) = known.map_err(XdpError::at("look for a neighbour"))? {
            return Ok(mac);
        }
        if stopwatch.elapsed() > RESOLVE_TIMEOUT {
            break;
        }
        if look % 100 == 0 {
            // If it cannot be sent, there will be no neighbour entry either.
            let _ = socket.send_to(&[], target);
        }
        // There is no notification; this is the pause between two checks.
        guira_sync::thread::sleep(Duration::from_millis(1));
    }
    Err(XdpError::NoNeighbour { address: route.next_hop, interface: name.to_owned() })
}

/// Consecutive free ports, each with the socket that reserves it.
fn reserve_ports(address: SocketAddr, count: usize) -> io::Result<Vec<(UdpSocket, u16)>> {
    let mut error = None;
    for _ in 0..ATTEMPTS {
        match try_ports(address, count) {
            Ok(ports) => return Ok(ports),
            Err(failed) => error = Some(failed),
        }
    }
    Err(error.unwrap_or_else(|| io::Error::other("no attempt was made")))
}

fn try_ports(mut address: SocketAddr, count: usize) -> io::Result<Vec<(UdpSocket, u16)>> {
    let mut ports = Vec::new();
    while ports.len() < count {
        let socket = datagram_socket(address, PortSharing::Alone)?;
        let port = socket.local_addr()?.port();
        ports.push((socket, port));
        address.set_port(port.checked_add(1).ok_or(io::ErrorKind::AddrInUse)?);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_consecutive_and_taken() {
        let ports = reserve_ports("127.0.0.1:0".parse().unwrap(), 5).unwrap();
        for (index, (socket, port)) in ports.iter().enumerate() {
            assert_eq!(usize::from(*port), usize::from(ports[0].1) + index);
            assert!(datagram_socket(socket.local_addr().unwrap(), PortSharing::Alone).is_err());
        }
    }
}

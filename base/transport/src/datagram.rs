//! Datagrams, many with one call (recvmmsg, sendmmsg).

use crate::net::UdpSocket;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};

pub const DATAGRAMS_AT_ONCE: usize = 32;
/// The longest datagram, rounded up. Pages that no datagram reaches are never touched, and so not committed.
const DATAGRAM_MAX: usize = 64 << 10;
/// The most memory of a [`Datagrams`], in bytes.
pub const DATAGRAMS_BYTES: usize = DATAGRAMS_AT_ONCE * DATAGRAM_MAX;
const SENT_AT_ONCE: usize = 64;
/// The receive buffer requested from the system, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Whether several sockets may share a port, among which the system distributes the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSharing {
    /// Share it with other sockets of this user.
    Shared,
    /// Share it with later sockets; fail if another socket has it already.
    First,
    /// Do not share it.
    Alone,
}

/// Opens a non-blocking UDP socket.
///
/// # Errors
/// An error of the system.
pub fn datagram_socket(address: SocketAddr, sharing: PortSharing) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if sharing == PortSharing::Shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    // The system may grant less, which costs datagrams under load.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
    bind(&socket, &address)?;
    if sharing == PortSharing::First {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    Ok(UdpSocket::from(socket))
}

#[derive(Clone, Copy)]
pub struct Peer {
    pub(crate) address: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl Peer {
    pub fn host(&self) -> Option<IpAddr> {
        let bytes = self.bytes();
        let address = |from: usize, length| bytes.get(from..from + length);
        // Behind the family and the port; in version 6 also behind the flow.
        match i32::from(self.address.ss_family) {
            libc::AF_INET => <[u8; 4]>::try_from(address(4, 4)?).ok().map(IpAddr::from),
            libc::AF_INET6 => <[u8; 16]>::try_from(address(8, 16)?).ok().map(IpAddr::from),
            _ => None,
        }
    }

    pub(crate) fn is(&self, other: &Peer) -> bool {
        self.bytes() == other.bytes()
    }

    fn bytes(&self) -> &[u8] {
        let length = (self.length as usize).min(size_of::<libc::sockaddr_storage>());
        // SAFETY: all bytes of the address are initialized: it began as zeroes, and the system has overwritten some
        // of them.
        unsafe { std::slice::from_raw_parts((&raw const self.address).cast(), length) }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Peer").field("length", &self.length).finish_non_exhaustive()
    }
}

/// No address.
pub(crate) const NO_PEER: Peer = Peer {
    // SAFETY: zeroes are an address of no family.
    address: unsafe { std::mem::zeroed() },
    length: 0,
};

/// Buffers for datagrams that are received together.
#[derive(Debug)]
pub struct Datagrams {
    bytes: Box<[u8]>,
    received: [(Peer, usize); DATAGRAMS_AT_ONCE],
    count: usize,
}

impl Default for Datagrams {
    fn default() -> Self {
        Datagrams {
            bytes: vec![0; DATAGRAMS_BYTES].into_boxed_slice(),
            received: [(NO_PEER, 0); DATAGRAMS_AT_ONCE],
            count: 0,
        }
    }
}

impl Datagrams {
    /// Receives all datagrams that have arrived, as far as the buffers allow. Returns their number; 0 if none has
    /// arrived.
    ///
    /// # Errors
    /// An error of the system, except that it would block or was interrupted.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let mut pieces: [libc::iovec; DATAGRAMS_AT_ONCE] = std::array::from_fn(|index| libc::iovec {
            iov_base: self.bytes[index * DATAGRAM_MAX..].as_mut_ptr().cast(),
            iov_len: DATAGRAM_MAX,
        });
        // SAFETY: zeroes are a header without name, pieces and control data.
        let mut headers: [libc::mmsghdr; DATAGRAMS_AT_ONCE] = unsafe { std::mem::zeroed() };
        for ((header, piece), (peer, _)) in headers.iter_mut().zip(&mut pieces).zip(&mut self.received) {
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut peer.address).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        let socket = socket.as_fd().as_raw_fd();
        // SAFETY: each header names one piece of `bytes`, no two the same, and the address of one entry of `received`; all of them
        // outlive the call, and nothing else refers to them meanwhile.
        let result = unsafe {
            libc::recvmmsg(
                socket,
                headers.as_mut_ptr(),
                DATAGRAMS_AT_ONCE as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        self.count = none_if_blocked(result)?;
        for (header, (peer, length)) in headers.iter().zip(&mut self.received).take(self.count) {
            peer.length = header.msg_hdr.msg_namelen;
            *length = (header.msg_len as usize).min(DATAGRAM_MAX);
        }
        Ok(self.count)
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One datagram, and its sender.
    pub fn get(&self, index: usize) -> Option<(Peer, &[u8])> {
        let (peer, length) = self.received[..self.count].get(index)?;
        let from = index * DATAGRAM_MAX;
        Some((*peer, &self.bytes[from..from + length]))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Peer, &[u8])> {
        (0..self.count).filter_map(|index| self.get(index))
    }
}

#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// The receiver of each datagram, and its end in `bytes`.
    ends: Vec<(Peer, usize)>,
}

impl Outgoing {
    /// Adds a datagram made of these parts.
    pub fn push(&mut self, peer: Peer, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push((peer, self.bytes.len()));
    }

    /// The number of bytes to be sent.
    pub fn weight(&self) -> usize {
        self.bytes.len()
    }

    /// Sends and removes all datagrams. Returns the numbers of datagrams and bytes sent; those that the system does
    /// not accept are lost.
    pub fn send(&mut self, socket: impl AsFd) -> (usize, usize) {
        let socket = socket.as_fd();
        let (mut datagrams, mut bytes) = (0, 0);
        while datagrams < self.ends.len() {
            let until = self.ends.len().min(datagrams + SENT_AT_ONCE);
            let Ok(sent @ 1..) = self.send_some(socket, datagrams, until) else {
                break;
            };
            datagrams += sent;
            bytes = self.ends[datagrams - 1].1;
        }
        self.bytes.clear();
        self.ends.clear();
        (datagrams, bytes)
    }

    fn send_some(&mut self, socket: BorrowedFd<'_>, from: usize, until: usize) -> io::Result<usize> {
        // SAFETY: zeroes are a piece of nothing.
        let mut pieces: [libc::iovec; SENT_AT_ONCE] = unsafe { std::mem::zeroed() };
        // SAFETY: zeroes are a header without name, pieces and control data.
        let mut headers: [libc::mmsghdr; SENT_AT_ONCE] = unsafe { std::mem::zeroed() };
        let mut begin = if from == 0 { 0 } else { self.ends[from - 1].1 };
        let slots = headers.iter_mut().zip(&mut pieces);
        for ((header, piece), (peer, end)) in slots.zip(&mut self.ends[from..until]) {
            let payload = &mut self.bytes[begin..*end];
            begin = *end;
            piece.iov_base = payload.as_mut_ptr().cast();
            piece.iov_len = payload.len();
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut peer.address).cast();
            header.msg_hdr.msg_namelen = peer.length;
        }
        let count = (until - from) as u32;
        // SAFETY: each of the first `count` headers names a part of `bytes` and an address in `ends`, which outlive the call and are
        // only read.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        none_if_blocked(result)
    }
}

/// The count in the result of a system call; 0 if it would have blocked.
pub(crate) fn none_if_blocked(result: libc::c_int) -> io::Result<usize> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(count);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> UdpSocket {
        datagram_socket("127.0.0.1:0".parse().unwrap(), PortSharing::Alone).unwrap()
    }

    fn receive_all(datagrams: &mut Datagrams, socket: &UdpSocket, expected: usize) -> Vec<(Peer, Vec<u8>)> {
        let mut all = Vec::new();
        while all.len() < expected {
            datagrams.receive(socket).unwrap();
            all.extend(datagrams.iter().map(|(peer, bytes)| (peer, bytes.to_vec())));
        }
        all
    }

    #[test]
    fn datagrams_come_with_their_senders_and_answers_reach_them() {
        let server = socket();
        let clients = [socket(), socket()];
        let mut datagrams = Datagrams::default();
        assert_eq!(datagrams.receive(&server).unwrap(), 0);
        for (index, client) in clients.iter().enumerate() {
            for number in 0..40 {
                let text = format!("{index}:{number}");
                client.send_to(text.as_bytes(), server.local_addr().unwrap()).unwrap();
            }
        }
        let mut outgoing = Outgoing::default();
        for (peer, bytes) in receive_all(&mut datagrams, &server, 80) {
            outgoing.push(peer, &[b"re ", &bytes]);
        }
        let weight = outgoing.weight();
        assert_eq!(outgoing.send(&server), (80, weight));
        assert_eq!(outgoing.weight(), 0);
        for (index, client) in clients.iter().enumerate() {
            let answers = receive_all(&mut datagrams, client, 40);
            let texts: Vec<String> =
                answers.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
            let expected: Vec<String> = (0..40).map(|number| format!("re {index}:{number}")).collect();
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn the_longest_datagram_fits_and_an_empty_one_is_one() {
        let (server, client) = (socket(), socket());
        let long = vec![7; 65_507];
        client.send_to(&long, server.local_addr().unwrap()).unwrap();
        client.send_to(b"", server.local_addr().unwrap()).unwrap();
        let mut datagrams = Datagrams::default();
        let all = receive_all(&mut datagrams, &server, 2);
        assert!(all[0].1 == long && all[1].1.is_empty());
    }

    #[test]
    fn a_port_is_shared_only_with_sockets_opened_after_its_first_owner() {
        let first = datagram_socket("127.0.0.1:0".parse().unwrap(), PortSharing::First).unwrap();
        let address = first.local_addr().unwrap();
        let second = datagram_socket(address, PortSharing::Shared).unwrap();
        assert!(datagram_socket(address, PortSharing::First).is_err());
        assert!(datagram_socket(address, PortSharing::Alone).is_err());
        // The system distributes clients between the two.
        let clients: Vec<UdpSocket> = (0..64).map(|_| socket()).collect();
        clients.iter().for_each(|client| assert_eq!(client.send_to(b"x", address).unwrap(), 1));
        let count = |socket: &UdpSocket| (0..64).take_while(|_| socket.recv(&mut [0; 8]).is_ok()).count();
        let counts = [count(&first), count(&second)];
        assert!(counts.iter().sum::<usize>() == 64 && !counts.contains(&0), "{counts:?}");
    }
}

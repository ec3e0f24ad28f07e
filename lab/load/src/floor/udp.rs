//! The floor over UDP: a datagram comes, its number is put before a reply that was written before, and that is sent.
//!
//! Each datagram costs two system calls here, as in memcached. Sending all replies of a turn with one call (sendmmsg)
//! made no difference on loopback: nearly all of the cost is the kernel's way from socket to socket. Receiving many with
//! one call was not tried; a server that does may come a little below this floor.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::fd::{AsFd, BorrowedFd};

use super::parser::datagram_template;
use super::reply::{Template, Templates};
use crate::datagrams::HEADER_LEN;

/// Text in one datagram: memcached sends no more than 1,400 bytes.
const PAYLOAD_LEN: usize = 1400 - HEADER_LEN;
const INPUT_LEN: usize = 1 << 16;
/// Datagrams answered before the event loop looks at other sockets.
const TURN_MAX: usize = 64;

/// The possible answers to a datagram.
const ANSWERS: [Template; 4] = [Template::Hit, Template::Stored, Template::Deleted, Template::Error];

#[derive(Debug)]
pub(super) struct Udp {
    socket: UdpSocket,
    input: Vec<u8>,
    /// For each answer its datagrams, whose headers lack only the number of the request.
    replies: [Vec<Vec<u8>>; ANSWERS.len()],
}

fn datagrams(text: &[u8]) -> Vec<Vec<u8>> {
    let total = text.len().div_ceil(PAYLOAD_LEN) as u16;
    let pieces = text.chunks(PAYLOAD_LEN).zip(0_u16..);
    pieces
        .map(|(piece, sequence)| {
            let mut bytes = vec![0; 2];
            bytes.extend_from_slice(&sequence.to_be_bytes());
            bytes.extend_from_slice(&total.to_be_bytes());
            bytes.extend_from_slice(&[0; 2]);
            bytes.extend_from_slice(piece);
            bytes
        })
        .collect()
}

impl Udp {
    /// Binds to `addr`.
    pub(super) fn bind(addr: SocketAddr, templates: &Templates) -> io::Result<Self> {
        let socket = UdpSocket::bind(addr)?;
        socket.set_nonblocking(true)?;
        let replies = ANSWERS.map(|template| datagrams(templates.one(template)));
        Ok(Self { socket, input: vec![0; INPUT_LEN], replies })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers what has come. A datagram that cannot be sent is lost, as the network might lose it.
    pub(super) fn turn(&mut self) {
        for _ in 0..TURN_MAX {
            let Ok((count, from)) = self.socket.recv_from(&mut self.input) else { return };
            let Some((header, text)) = self.input[..count].split_first_chunk::<HEADER_LEN>() else {
                continue;
            };
            let template = datagram_template(text);
            let index = ANSWERS.iter().position(|&answer| answer == template).unwrap_or(0);
            for datagram in &mut self.replies[index] {
                datagram[..2].copy_from_slice(&header[..2]);
                let _lost = self.socket.send_to(datagram, from);
            }
        }
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

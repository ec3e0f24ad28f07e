//! A client over UDP: memcached's frame of 8 bytes around requests and replies.

use crate::deadline::PATIENCE;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

/// A socket with a server on its other end.
#[derive(Debug)]
pub struct UdpClient(UdpSocket);

impl UdpClient {
    /// A client of the server at `address`.
    ///
    /// # Panics
    /// If the system has no socket.
    pub fn connect(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
        socket.connect(address).expect("a local address can be reached");
        socket.set_read_timeout(Some(PATIENCE)).expect("a wait is not zero");
        UdpClient(socket)
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// If the system does not take them.
    pub fn send(&self, datagram: &[u8]) {
        self.0.send(datagram).expect("a datagram can be sent");
    }

    /// Sends a request with this number.
    pub fn request(&self, id: u16, request: impl AsRef<[u8]>) {
        let [high, low] = id.to_be_bytes();
        self.send(&[&[high, low, 0, 0, 0, 1, 0, 0], request.as_ref()].concat());
    }

    /// Receives the reply to request `id`, put together from its datagrams in whatever order they come.
    ///
    /// # Panics
    /// If a datagram is missing, or is not of this reply.
    #[track_caller]
    pub fn reply(&self, id: u16) -> Vec<u8> {
        let mut parts: Vec<Option<Vec<u8>>> = Vec::new();
        while parts.is_empty() || parts.iter().any(Option::is_none) {
            let mut buffer = [0; 65_536];
            let length = loop {
                match self.0.recv(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    received => break received.expect("a datagram comes"),
                }
            };
            let (frame, payload) = buffer[..length].split_at(8);
            let number = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            assert_eq!((number(0), number(6)), (id, 0), "the frame is {frame:?}");
            assert!(length <= 1400, "{length} bytes in a datagram");
            if parts.is_empty() {
                parts = vec![None; usize::from(number(4))];
            }
            assert_eq!(usize::from(number(4)), parts.len(), "all tell how many there are");
            assert!(parts[usize::from(number(2))].replace(payload.to_vec()).is_none(), "each comes once");
        }
        parts.into_iter().flatten().flatten().collect()
    }

    /// Sends a request and expects this reply.
    ///
    /// # Panics
    /// If another comes.
    #[track_caller]
    pub fn exchange(&self, id: u16, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        self.request(id, request);
        self.hear(id, reply);
    }

    /// Expects this as the next reply to request `id`.
    ///
    /// # Panics
    /// If another comes.
    #[track_caller]
    pub fn hear(&self, id: u16, reply: impl AsRef<[u8]>) {
        let got = self.reply(id);
        assert!(
            got == reply.as_ref(),
            "expected \"{}\", got \"{}\"",
            crate::escape::bytes(reply.as_ref()),
            crate::escape::bytes(&got)
        );
    }
}

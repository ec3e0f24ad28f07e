//! A client of the admin listener: bytes of HTTP out, replies in.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::deadline::PATIENCE;

#[derive(Debug)]
pub struct HttpClient {
    socket: TcpStream,
    heard: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    /// The lines of its head, without the first.
    pub headers: Vec<String>,
    pub body: String,
}

impl HttpReply {
    /// The reply at the beginning of `bytes`, and how long it is, if it is there altogether. That to HEAD has no body.
    fn read(bytes: &[u8], has_body: bool) -> Option<(Self, usize)> {
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(bytes[..head_end - 4].to_vec()).expect("a head is text");
        let mut lines = head.split("\r\n").map(str::to_owned);
        let first = lines.next().expect("a status line");
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {first}"));
        let headers: Vec<String> = lines.collect();
        let length =
            headers.iter().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        let length = if has_body { length.expect("a length") } else { 0 };
        let body = bytes.get(head_end..head_end + length)?;
        let body = String::from_utf8(body.to_vec()).expect("a body is text");
        Some((HttpReply { status, headers, body }, head_end + length))
    }

    /// Whether it has this line in its head.
    pub fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|line| line == header)
    }
}

impl HttpClient {
    /// Connects to `address`.
    ///
    /// # Panics
    /// If nothing listens there.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { socket, heard: Vec::new() }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the server does not take them.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).expect("the server takes it");
    }

    /// Sends as much as the server takes before it closes the connection.
    pub fn send_until_closed(&mut self, bytes: &[u8]) {
        // An error is an expected outcome.
        let _ = self.socket.write_all(bytes);
    }

    /// Says that nothing more is sent.
    ///
    /// # Panics
    /// If the connection is broken.
    pub fn finish(&mut self) {
        self.socket.shutdown(Shutdown::Write).expect("a connection");
    }

    /// The next reply, to a GET.
    #[track_caller]
    pub fn hear(&mut self) -> HttpReply {
        self.hear_reply(true)
    }

    /// The next reply, to a HEAD.
    #[track_caller]
    pub fn hear_head(&mut self) -> HttpReply {
        self.hear_reply(false)
    }

    #[track_caller]
    fn hear_reply(&mut self, has_body: bool) -> HttpReply {
        loop {
            if let Some((reply, length)) = HttpReply::read(&self.heard, has_body) {
                self.heard.drain(..length);
                return reply;
            }
            assert!(self.fill(), "it ended after {:?}", String::from_utf8_lossy(&self.heard));
        }
    }

    /// Expects that the server closes the connection and says nothing more.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        let is_open = self.fill();
        assert!(!is_open && self.heard.is_empty(), "{:?}", String::from_utf8_lossy(&self.heard));
    }

    /// Expects that the server closes the connection, whatever it says before.
    #[track_caller]
    pub fn expect_ended(&mut self) {
        while self.fill() {}
    }

    /// Reads what comes next. False at the end.
    #[track_caller]
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.heard.extend_from_slice(&buffer[..length]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&self.heard)),
        }
    }

    /// Connects again if the server has closed the connection, as it does after a minute without a request.
    fn reconnect_if_closed(&mut self) {
        let address = self.socket.peer_addr();
        self.socket.set_nonblocking(true).expect("a socket");
        let is_closed = matches!(self.socket.peek(&mut [0]), Ok(0));
        self.socket.set_nonblocking(false).expect("a socket");
        if let (true, Ok(address)) = (is_closed, address) {
            *self = Self::connect(address);
        }
    }

    /// Requests `path`, with these further lines of a head.
    #[track_caller]
    pub fn get(&mut self, path: &str, headers: &str) -> HttpReply {
        self.reconnect_if_closed();
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
        self.hear()
    }
}

//! A connection of the text protocol that waits for every reply.

use std::io;
use std::net::SocketAddr;

use guira_harness::socket::{Address, Socket};
use guira_protocol::client::Reply;

use crate::client::Wire;
use crate::link::{Link, PATIENCE};

pub(crate) struct Line(Wire);

impl Line {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::connect(&Address::Tcp(address))?;
        socket.set_timeouts(PATIENCE)?;
        Ok(Line(Wire::new(Link::Plain(socket))))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(bytes)
    }

    pub(crate) fn line(&mut self) -> io::Result<String> {
        self.0.line()
    }

    /// The next reply about an item.
    pub(crate) fn reply(&mut self) -> io::Result<Reply<'_>> {
        self.0.reply()?.map_err(io::Error::other)
    }

    pub(crate) fn request(&mut self, request: &str) -> io::Result<String> {
        self.send(request.as_bytes())?;
        self.line()
    }

    /// One number of `stats`; 0 if it is not there.
    pub(crate) fn stat(&mut self, name: &str) -> io::Result<u64> {
        self.send(b"stats\r\n")?;
        let (mut found, prefix) = (0, format!("STAT {name} "));
        loop {
            let line = self.line()?;
            if line == "END" {
                return Ok(found);
            }
            found = line.strip_prefix(&prefix).and_then(|value| value.parse().ok()).unwrap_or(found);
        }
    }
}

//! A connection of the text protocol that waits for every reply.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Line(BufReader<TcpStream>);

impl Line {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Line(BufReader::new(stream)))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    pub(crate) fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes)
    }

    pub(crate) fn ask(&mut self, request: &str) -> io::Result<String> {
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

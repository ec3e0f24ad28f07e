//! A cache by the text protocol, over a connection of its own.

use crate::client::{Cache, Reply, Trouble};
use crate::tasks::connect;
use guira_world::net::TcpStream;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a client waits for a reply.
const TIMEOUT: Duration = Duration::from_secs(2);
const VALUE_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct TextCache {
    server: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl TextCache {
    pub(crate) fn new(server: SocketAddr) -> Self {
        TextCache { server, connection: None }
    }

    fn connection(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        if self.connection.is_none() {
            self.connection = Some(connect(self.server, TIMEOUT)?);
        }
        self.connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a request and reads the first line of its reply.
    fn line(&mut self, request: &[u8]) -> io::Result<String> {
        let connection = self.connection()?;
        connection.get_mut().write_all(request)?;
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn call(&mut self, request: &[u8]) -> Reply<String> {
        let line = self.line(request).map_err(|_| self.disconnect())?;
        // A router did not reach the server, or got no reply in time.
        if line.starts_with("SERVER_ERROR") { Err(Trouble::Failed) } else { Ok(line) }
    }

    fn disconnect(&mut self) -> Trouble {
        self.connection = None;
        Trouble::Failed
    }

    /// Reads a value and what is behind it.
    fn value(&mut self, length: usize) -> io::Result<(Vec<u8>, [u8; 7])> {
        let (mut value, mut end) = (vec![0; length], [0; 7]);
        let connection = self.connection()?;
        connection.read_exact(&mut value)?;
        connection.read_exact(&mut end)?;
        Ok((value, end))
    }
}

impl Cache for TextCache {
    fn set(&mut self, key: &str, value: &[u8], seconds: u32) -> Reply<()> {
        let mut request = format!("set {key} 0 {seconds} {}\r\n", value.len()).into_bytes();
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
        let line = self.call(&request)?;
        if line == "STORED" { Ok(()) } else { Err(Trouble::Wrong(format!("set {key}: {line}"))) }
    }

    fn delete(&mut self, key: &str) -> Reply<bool> {
        let line = self.call(format!("delete {key}\r\n").as_bytes())?;
        match line.as_str() {
            "NOT_FOUND" => Ok(false),
            "DELETED" => Ok(true),
            _ => Err(Trouble::Wrong(format!("delete {key}: {line}"))),
        }
    }

    fn get(&mut self, key: &str) -> Reply<Option<Vec<u8>>> {
        let line = self.call(format!("get {key}\r\n").as_bytes())?;
        if line == "END" {
            return Ok(None);
        }
        let wrong = |what: &dyn std::fmt::Display| Trouble::Wrong(format!("get {key}: {what}"));
        let length = line.strip_prefix(&format!("VALUE {key} 0 ")).and_then(|length| length.parse().ok());
        let length = length.filter(|length| *length <= VALUE_MAX).ok_or_else(|| wrong(&line))?;
        let (value, end) = self.value(length).map_err(|_| self.disconnect())?;
        if end == *b"\r\nEND\r\n" { Ok(Some(value)) } else { Err(wrong(&end.escape_ascii())) }
    }
}

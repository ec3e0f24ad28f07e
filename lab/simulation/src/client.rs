//! Clients of a node that check each reply against what they know.

use crate::found::Counts;
use crate::tasks::connect;
use guira_world::net::TcpStream;
use guira_world::scheduler::draw;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a client waits for a reply.
const TIMEOUT: Duration = Duration::from_secs(2);
const KEYS: u64 = 8;

/// What a client may read under a key.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The value, which may have been evicted; `None` for a miss.
    value: Option<Vec<u8>>,
    /// Keys are given up when the fate of a request is not known: it may still be executed later.
    generation: u32,
}

/// A client that has some keys alone.
#[derive(Debug)]
pub(crate) struct Client {
    number: u32,
    server: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    keys: Vec<Known>,
    stored: u64,
    pub(crate) counts: Counts,
}

impl Client {
    pub(crate) fn new(number: u32, server: SocketAddr) -> Self {
        let keys = vec![Known::default(); KEYS as usize];
        Client { number, server, connection: None, keys, stored: 0, counts: Counts::default() }
    }

    /// One request.
    ///
    /// # Errors
    /// What the client has read and must not.
    pub(crate) fn act(&mut self) -> Result<(), String> {
        let at = draw(KEYS) as usize;
        let result = match draw(8) {
            0..3 => self.set(at),
            3 => self.delete(at),
            _ => self.get(at),
        };
        match result {
            Ok(fault) => fault.map_or(Ok(()), Err),
            Err(error) => {
                // Whether the request is executed, and when, is not known.
                if error.kind() != io::ErrorKind::Other {
                    self.connection = None;
                }
                self.counts.failures += 1;
                let generation = self.keys[at].generation + 1;
                self.keys[at] = Known { value: None, generation };
                Ok(())
            }
        }
    }

    fn key(&self, at: usize) -> String {
        format!("client-{}-{at}-{}", self.number, self.keys[at].generation)
    }

    fn connection(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        if self.connection.is_none() {
            self.connection = Some(connect(self.server, TIMEOUT)?);
        }
        self.connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a request and reads the first line of its reply.
    fn call(&mut self, request: &[u8]) -> io::Result<String> {
        let connection = self.connection()?;
        connection.get_mut().write_all(request)?;
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        if line.starts_with("SERVER_ERROR") {
            // A router did not reach the server, or got no reply in time.
            return Err(io::Error::other(line));
        }
        Ok(line)
    }

    fn set(&mut self, at: usize) -> io::Result<Option<String>> {
        let key = self.key(at);
        self.stored += 1;
        let mut value = format!("{key}={}.", self.stored).into_bytes();
        value.resize(value.len() + draw(2000) as usize, b'.');
        let mut request = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        request.extend_from_slice(&value);
        request.extend_from_slice(b"\r\n");
        let line = self.call(&request)?;
        self.counts.writes += 1;
        if line != "STORED" {
            return Ok(Some(format!("set {key}: {line}")));
        }
        self.keys[at].value = Some(value);
        Ok(None)
    }

    fn delete(&mut self, at: usize) -> io::Result<Option<String>> {
        let key = self.key(at);
        let line = self.call(format!("delete {key}\r\n").as_bytes())?;
        self.counts.writes += 1;
        let known = self.keys[at].value.take();
        match line.as_str() {
            "NOT_FOUND" => Ok(None),
            "DELETED" if known.is_some() => Ok(None),
            _ => Ok(Some(format!("delete {key}: {line}"))),
        }
    }

    fn get(&mut self, at: usize) -> io::Result<Option<String>> {
        let key = self.key(at);
        let line = self.call(format!("get {key}\r\n").as_bytes())?;
        self.counts.reads += 1;
        if line == "END" {
            // Evicted, or the node was started again.
            self.keys[at].value = None;
            return Ok(None);
        }
        let length = line.strip_prefix(&format!("VALUE {key} 0 ")).and_then(|length| length.parse().ok());
        let Some(length) = length.filter(|length| *length <= 1 << 20) else {
            return Ok(Some(format!("get {key}: {line}")));
        };
        let mut value: Vec<u8> = vec![0; length];
        let connection = self.connection()?;
        connection.read_exact(&mut value)?;
        let mut end = [0; 7];
        connection.read_exact(&mut end)?;
        self.counts.hits += 1;
        let is_known = self.keys[at].value.as_deref() == Some(&value);
        if !is_known || end != *b"\r\nEND\r\n" {
            let begin = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
            return Ok(Some(format!("get {key}: {begin:?} instead of {:?}", self.known(at))));
        }
        Ok(None)
    }

    fn known(&self, at: usize) -> Option<String> {
        let value = self.keys[at].value.as_deref()?;
        Some(String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned())
    }
}

//! A client that speaks one of the protocols over one connection, and opens another when that breaks.

use std::io::{self, Read as _, Write};
use std::time::Duration;

use guira_protocol::client::{PacketReply, Read, ReadPacket, Reply, read, read_packet};
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;

use crate::field::Field;
use crate::link::{Carrier, Link, PATIENCE};
use crate::speech::{Answer, Request, SeenAll, Speech};

/// The longest line of an answer.
const LINE_MAX: usize = 4096;

const READ: usize = 64 << 10;

/// The longest value that a server may have, and the longest body of a packet.
const VALUE_MAX: u32 = 2 << 20;

/// How long to wait before another attempt to connect.
const BACKOFF: Duration = Duration::from_millis(50);

/// A connection, with what has arrived and was not read yet.
#[derive(Debug)]
pub(crate) struct Wire {
    link: Link,
    inbox: Vec<u8>,
    at: usize,
}

impl Wire {
    pub(crate) fn new(link: Link) -> Self {
        Wire { link, inbox: Vec::new(), at: 0 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.link.write_all(bytes)?;
        self.link.flush()
    }

    fn fill(&mut self) -> io::Result<()> {
        self.inbox.drain(..self.at);
        self.at = 0;
        let have = self.inbox.len();
        self.inbox.resize(have + READ, 0);
        let read = self.link.read(&mut self.inbox[have..]);
        self.inbox.truncate(have + read.as_ref().map_or(0, |bytes| *bytes));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        self.until(b"\r\n")
    }

    /// The next line of a list of keys or of a log, most of which end with a line feed alone, as in memcached.
    pub(crate) fn log_line(&mut self) -> io::Result<String> {
        self.until(b"\n").map(|line| line.trim_end().to_owned())
    }

    fn until(&mut self, end: &[u8]) -> io::Result<String> {
        let mut looked = 0;
        loop {
            let waiting = &self.inbox[self.at..];
            if let Some(found) = waiting[looked..].windows(end.len()).position(|window| window == end) {
                let line = String::from_utf8_lossy(&waiting[..looked + found]).into_owned();
                self.at += looked + found + end.len();
                return Ok(line);
            }
            if waiting.len() > LINE_MAX {
                return Err(io::Error::other("a line without an end"));
            }
            looked = waiting.len().saturating_sub(1);
            self.fill()?;
        }
    }

    /// The next reply of the text protocols; the received text, if it is no reply.
    pub(crate) fn reply(&mut self) -> io::Result<Result<Reply<'_>, String>> {
        loop {
            match read(&self.inbox[self.at..], VALUE_MAX) {
                Read::Unfinished(_) => self.fill()?,
                Read::Reply(_, length) => {
                    let at = self.at;
                    self.at += length;
                    break Ok(match read(&self.inbox[at..], VALUE_MAX) {
                        Read::Reply(reply, _) => Ok(reply),
                        _ => Err(shown(&self.inbox[at..])),
                    });
                }
                Read::TooLong { .. } | Read::Broken => break Ok(Err(shown(&self.inbox[self.at..]))),
            }
        }
    }

    /// The next reply of the binary protocol, as [`Wire::reply`].
    pub(crate) fn packet(&mut self) -> io::Result<Result<PacketReply<'_>, String>> {
        loop {
            match read_packet(&self.inbox[self.at..], VALUE_MAX) {
                ReadPacket::Unfinished(_) => self.fill()?,
                ReadPacket::Reply(_, length) => {
                    let at = self.at;
                    self.at += length;
                    break Ok(match read_packet(&self.inbox[at..], VALUE_MAX) {
                        ReadPacket::Reply(reply, _) => Ok(reply),
                        _ => Err(shown(&self.inbox[at..])),
                    });
                }
                ReadPacket::Broken(problem) => {
                    break Ok(Err(format!("a packet {problem}: {}", shown(&self.inbox[self.at..]))));
                }
            }
        }
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The first bytes of a malformed reply.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(100)].escape_ascii().to_string()
}

/// Whether an error means that the server has not replied for too long, and not that the connection
/// is closed.
pub(crate) fn is_stall(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) speech: Speech,
    pub(crate) carrier: Carrier,
    wire: Wire,
}

impl Client {
    /// Connects, and tries again while the server has too many connections; `None` if the run ends before it succeeds.
    pub(crate) fn open(field: &Field, carrier: Carrier, speech: Speech) -> Option<Self> {
        let begin = Stopwatch::start();
        loop {
            let error = match Self::try_open(field, carrier, speech) {
                Ok(client) => return Some(client),
                Err(error) => error,
            };
            if !field.goes_on() {
                return None;
            }
            if begin.elapsed() > PATIENCE {
                field.fail(format!("no connection over {carrier:?} for {PATIENCE:?}: {error}"));
                return None;
            }
            std::thread::sleep(BACKOFF);
        }
    }

    /// A client with a random protocol over a random transport.
    pub(crate) fn random(field: &Field, random: &mut Rng) -> Option<Self> {
        Self::open(field, Carrier::random(random), Speech::random(random))
    }

    /// Connects.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) fn try_open(field: &Field, carrier: Carrier, speech: Speech) -> io::Result<Self> {
        let wire = Wire::new(field.addresses.open(carrier)?);
        let mut client = Client { speech, carrier, wire };
        client.many(&[])?.map_err(io::Error::other)?;
        Ok(client)
    }

    /// The connection, for commands that only one protocol has.
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Sends all requests, then reads all answers.
    ///
    /// # Errors
    /// If the connection breaks, with the answers so far.
    pub(crate) fn call(&mut self, requests: &[Request]) -> Result<Vec<Answer>, (Vec<Answer>, io::Error)> {
        let mut bytes = Vec::new();
        for request in requests {
            self.speech.write(request, &mut bytes);
        }
        let mut answers = Vec::with_capacity(requests.len());
        if let Err(error) = self.wire.send(&bytes) {
            return Err((answers, error));
        }
        for request in requests {
            match self.speech.read(request, &mut self.wire) {
                Ok(answer) => answers.push(answer),
                Err(error) => return Err((answers, error)),
            }
        }
        Ok(answers)
    }

    /// Requests many keys at once.
    pub(crate) fn many(&mut self, names: &[Vec<u8>]) -> io::Result<SeenAll> {
        let mut bytes = Vec::new();
        if names.is_empty() && self.speech == Speech::Text {
            // A get without keys is an error; any other command shows too that the server answers.
            self.wire.send(b"version\r\n")?;
            let line = self.wire.line()?;
            return Ok(if line.starts_with("VERSION ") { Ok(Vec::new()) } else { Err(line) });
        }
        self.speech.write_many(names, &mut bytes);
        self.wire.send(&bytes)?;
        self.speech.read_many(names, &mut self.wire)
    }
}

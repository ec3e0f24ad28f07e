//! Messages: a letter, a length and a body.

use crate::SourceError;
use crate::wire::{Wire, Writer};
use guira_sync::clock::Stopwatch;
use guira_sync::stop::Stop;
use std::io::{self, Read};
use std::time::Duration;

/// The most bytes of a message that are kept. It is far more than a row should have, and bounds the
/// memory that a server can make this process use.
const KEPT_MAX: usize = 64 << 20;
/// The buffer of a longer message is freed after its use.
const CAPACITY_MAX: usize = 1 << 20;
const BUFFER: usize = 64 << 10;
/// The letter and the length, which counts itself.
const HEAD: usize = 5;

/// The timeout of a reply.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Messages {
    wire: Wire,
    stop: Stop,
    /// The longest silence.
    patience: Duration,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    /// The bytes of a truncated message that are still to be skipped.
    skip: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub kind: u8,
    pub body: &'a [u8],
    /// Whether the message is complete, and not the first 64 MiB only.
    pub is_whole: bool,
}

impl Messages {
    pub(super) fn new(wire: Wire, stop: &Stop) -> io::Result<Self> {
        wire.shorten_reads()?;
        let buffer = vec![0; BUFFER];
        Ok(Messages { wire, stop: stop.clone(), patience: PATIENCE, buffer, start: 0, end: 0, skip: 0 })
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub fn writer(&self) -> Writer {
        self.wire.writer()
    }

    /// Sets how long the database may be silent.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    pub fn reset_patience(&mut self) {
        self.patience = PATIENCE;
    }

    /// Whether the next message has to be waited for.
    pub fn is_drained(&self) -> bool {
        !matches!(self.pending(), Ok(Some((kept, _))) if self.skip == 0 && self.end - self.start >= kept)
    }

    /// The next message.
    ///
    /// # Errors
    /// When the connection fails, nothing comes for too long, or the thread is to end.
    pub fn read(&mut self) -> Result<Message<'_>, SourceError> {
        let since = Stopwatch::start();
        let (kept, whole) = loop {
            let skipped = self.skip.min(self.end - self.start);
            self.start += skipped;
            self.skip -= skipped;
            let pending = self.pending()?;
            match pending {
                Some((kept, whole)) if self.skip == 0 && self.end - self.start >= kept => {
                    break (kept, whole);
                }
                _ => self.fill(pending.map_or(HEAD, |(kept, _)| kept), &since)?,
            }
        };
        let at = self.start;
        self.start += kept;
        self.skip = whole - kept;
        Ok(Message {
            kind: self.buffer[at],
            body: &self.buffer[at + HEAD..at + kept],
            is_whole: whole == kept,
        })
    }

    /// The kept and the whole length of the next message.
    fn pending(&self) -> io::Result<Option<(usize, usize)>> {
        let Some(head) = self.buffer[self.start..self.end].first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [_, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        if length < 4 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message has an invalid length"));
        }
        Ok(Some(((length + 1).min(KEPT_MAX), length + 1)))
    }

    /// Reads available bytes into a buffer with room for `needed` bytes.
    fn fill(&mut self, needed: usize, since: &Stopwatch) -> Result<(), SourceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let length = needed.max(BUFFER).max(self.end + 1);
        if length > self.buffer.len() || self.buffer.len() > CAPACITY_MAX {
            self.buffer.resize(length, 0);
            self.buffer.shrink_to(length);
        }
        match self.wire.read(&mut self.buffer[self.end..]) {
            Ok(0) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the database closed the connection").into())
            }
            Ok(count) => {
                self.end += count;
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                self.stop.check()?;
                if since.elapsed() < self.patience {
                    return Ok(());
                }
                Err(io::Error::new(io::ErrorKind::TimedOut, "timeout: the database sends no data").into())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub fn write(&self, kind: u8, body: &[u8]) -> io::Result<()> {
        self.wire.write(&framed(kind, body)?)
    }
}

/// A message with its header.
pub fn framed(kind: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(body.len() + 4).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok([&[kind], &length.to_be_bytes()[..], body].concat())
}

/// A server whose replies are all scripted, for tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing {
    use super::{Messages, Stop, Wire, framed};
    use guira_transport::net::UnixStream;
    use std::io::{Read, Write};

    /// A conversation in which the server says these messages; and its end of the connection.
    pub fn says(messages: &[(u8, &[u8])]) -> (Messages, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for (kind, body) in messages {
            theirs.write_all(&framed(*kind, body).unwrap()).unwrap();
        }
        (Messages::new(Wire::over_unix(ours).unwrap(), &Stop::default()).unwrap(), theirs)
    }

    pub fn sent(messages: Messages, mut server: UnixStream) -> Vec<u8> {
        drop(messages);
        let mut sent = Vec::new();
        server.read_to_end(&mut sent).unwrap();
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{says, sent};
    use super::*;
    use guira_sync::thread;
    use std::io::Write;

    #[test]
    fn messages_come_in_turn() {
        let (mut messages, server) = says(&[(b'A', b"one"), (b'B', b""), (b'C', b"two")]);
        let message = messages.read().unwrap();
        assert_eq!((message.kind, message.body, message.is_whole), (b'A', &b"one"[..], true));
        assert!(!messages.is_drained());
        assert_eq!(messages.read().unwrap().body, b"");
        assert_eq!(messages.read().unwrap().body, b"two");
        assert!(messages.is_drained());
        messages.write(b'Q', b"SELECT 1\0").unwrap();
        assert_eq!(sent(messages, server), b"Q\0\0\0\x0dSELECT 1\0");
    }

    #[test]
    fn of_a_message_that_is_too_long_the_rest_is_skipped() {
        let (mut messages, mut server) = says(&[]);
        let length = KEPT_MAX + (1 << 20);
        let writer = thread::spawn(move || {
            let long = framed(b'A', &vec![b'a'; length]).unwrap();
            server.write_all(&long).unwrap();
            server.write_all(&framed(b'B', b"next").unwrap()).unwrap();
            server
        });
        let message = messages.read().unwrap();
        assert_eq!((message.body.len(), message.is_whole), (KEPT_MAX - HEAD, false));
        assert_eq!(messages.read().unwrap().body, b"next");
        assert!(messages.buffer.capacity() <= CAPACITY_MAX, "its memory is given back");
        writer.join().unwrap();
    }

    #[test]
    fn a_message_may_come_in_pieces() {
        let (mut messages, mut server) = says(&[]);
        let whole = framed(b'A', &vec![b'a'; 3 * BUFFER]).unwrap();
        let writer = thread::spawn(move || {
            for piece in whole.chunks(BUFFER / 3) {
                server.write_all(piece).unwrap();
            }
            server
        });
        assert_eq!(messages.read().unwrap().body.len(), 3 * BUFFER);
        writer.join().unwrap();
    }

    #[test]
    fn a_connection_that_ends_says_nothing_or_makes_no_sense_is_noticed() {
        let (mut messages, server) = says(&[]);
        messages.set_patience(Duration::ZERO);
        let silent = messages.read().unwrap_err();
        assert!(silent.is_passing() && silent.to_string().contains("sends no data"), "{silent}");
        messages.stop.set();
        assert!(matches!(messages.read(), Err(SourceError::Stopped(_))));
        drop(server);
        let closed = messages.read().unwrap_err();
        assert!(closed.is_passing() && closed.to_string().contains("closed the connection"), "{closed}");
        let (mut messages, mut server) = says(&[]);
        server.write_all(b"A\0\0\0\x03").unwrap();
        assert!(messages.read().is_err());
    }
}

//! Messages with descriptors over a UNIX socket.
//!
//! ```text
//! | length of the fields 4 | kind 2 | descriptors 2 | fields |      numbers little-endian
//! ```

use super::TakeoverError;
use super::message::Kind;
use guira_serving::{FieldWriter, Fields};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::Stopwatch;
use guira_transport::net::UnixStream;
use guira_transport::{FDS_AT_ONCE, PeerProcess, receive_fds, send_fds};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

const HEAD: usize = 8;
/// A connection brings a few MiB at most.
const FIELDS_MAX: usize = 64 << 20;
/// How often a wait looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// The longest that the other end may take to read.
const SEND_MAX: Duration = Duration::from_secs(10);
const PIECE: usize = 64 << 10;

/// One end of the link between two servers.
#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
    pub(super) peer: PeerProcess,
    /// Received, and not taken apart yet.
    bytes: Vec<u8>,
    /// Descriptors that came with these bytes, in their order.
    fds: VecDeque<OwnedFd>,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

impl Message {
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields::of(&self.bytes)
    }
}

/// How long a message is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait<'a> {
    pub(super) most: Duration,
    /// Not any more, once this is set.
    pub(super) unless: Option<&'a AtomicBool>,
    /// The longest message, in bytes.
    pub(super) bytes: usize,
}

impl Wait<'_> {
    pub(super) fn most(most: Duration) -> Self {
        Wait { most, unless: None, bytes: FIELDS_MAX }
    }
}

impl Channel {
    /// # Errors
    /// If the other end is another user's, or the system refuses.
    pub(super) fn new(stream: UnixStream) -> Result<Self, TakeoverError> {
        let peer = PeerProcess::of(&stream)?;
        if !peer.is_ours() {
            return Err(TakeoverError::Foreign);
        }
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(SEND_MAX))?;
        Ok(Channel { stream, peer, bytes: Vec::new(), fds: VecDeque::new() })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The system's error, or a timeout if the other end does not read.
    ///
    /// # Panics
    /// If there are more descriptors than go with one message.
    pub(super) fn send(
        &mut self,
        kind: Kind,
        fields: &mut FieldWriter,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), TakeoverError> {
        assert!(fds.len() <= FDS_AT_ONCE, "they go with one message");
        let fields = fields.finish();
        let mut bytes = Vec::with_capacity(HEAD + fields.len());
        bytes.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(kind as u16).to_le_bytes());
        bytes.extend_from_slice(&(fds.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&fields);
        let (mut sent, mut fds) = (0, fds);
        while sent < bytes.len() {
            sent += send_fds(&self.stream, &bytes[sent..], fds).map_err(takeover_error)?;
            fds = &[];
        }
        Ok(())
    }

    /// Receives a message.
    ///
    /// # Errors
    /// If none arrives in time, or it is malformed.
    pub(super) fn receive(&mut self, wait: Wait<'_>) -> Result<Message, TakeoverError> {
        let started = Stopwatch::start();
        loop {
            if let Some(message) = self.whole(wait.bytes)? {
                return match message.kind {
                    Kind::Refused => Err(super::message::refusal(&message)),
                    _ => Ok(message),
                };
            }
            let is_wanted = wait.unless.is_none_or(|unless| !unless.load(Ordering::SeqCst));
            if started.elapsed() >= wait.most || !is_wanted {
                return Err(TakeoverError::Late);
            }
            self.receive_more()?;
        }
    }

    fn receive_more(&mut self) -> Result<(), TakeoverError> {
        let (mut buffer, mut fds) = (vec![0; PIECE], Vec::new());
        let received = receive_fds(&self.stream, &mut buffer, &mut fds);
        self.fds.extend(fds);
        match received.map_err(takeover_error) {
            Ok(0) => Err(TakeoverError::Gone),
            Ok(bytes) => {
                self.bytes.extend_from_slice(&buffer[..bytes]);
                Ok(())
            }
            Err(TakeoverError::Late) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes the first message out of the received bytes, if it is whole.
    fn whole(&mut self, most: usize) -> Result<Option<Message>, TakeoverError> {
        let Some((head, rest)) = self.bytes.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [a, b, c, d, kind @ .., e, f] = *head;
        let (length, count) = (u32::from_le_bytes([a, b, c, d]) as usize, u16::from_le_bytes([e, f]).into());
        let kind = Kind::of(u16::from_le_bytes(kind)).ok_or(TakeoverError::Unknown("unknown message"))?;
        if length > most || count > FDS_AT_ONCE {
            return Err(TakeoverError::Unknown("a message is too long"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        if self.fds.len() < count {
            return Err(TakeoverError::Unknown("descriptors are missing"));
        }
        let message =
            Message { kind, bytes: rest[..length].to_vec(), fds: self.fds.drain(..count).collect() };
        self.bytes.drain(..HEAD + length);
        Ok(Some(message))
    }
}

fn takeover_error(error: io::Error) -> TakeoverError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TakeoverError::Late,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => TakeoverError::Gone,
        _ => TakeoverError::Link(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::io::Write;

    const SOON: Duration = Duration::from_secs(10);

    fn pair() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::new(ours).unwrap(), theirs)
    }

    #[test]
    fn messages_arrive_whole_and_with_their_descriptors() {
        let (mut near, far) = pair();
        let mut far = Channel::new(far).unwrap();
        let long = vec![7; 300_000];
        let sender = guira_sync::thread::spawn(move || {
            let fd = near.stream.try_clone().unwrap();
            near.send(Kind::Ready, &mut FieldWriter::default(), &[]).unwrap();
            near.send(Kind::Connections, FieldWriter::default().put(1, &long), &[fd.as_fd(); 3]).unwrap();
            near.send(Kind::Opened, &mut FieldWriter::default(), &[fd.as_fd()]).unwrap();
        });
        let mut next = || far.receive(Wait::most(SOON)).unwrap();
        let (ready, connections, opened) = (next(), next(), next());
        assert_eq!((ready.kind, ready.fds.len()), (Kind::Ready, 0));
        assert_eq!((connections.fds.len(), connections.bytes.len()), (3, 300_006));
        assert_eq!((opened.kind, opened.fds.len()), (Kind::Opened, 1));
        sender.join().unwrap();
        // They have copies of the near end.
        drop((connections, opened));
        assert!(matches!(far.receive(Wait::most(SOON)), Err(TakeoverError::Gone)));
    }

    #[test]
    fn garbage_is_no_message() {
        let error = |bytes: &[u8]| {
            let (mut near, mut far) = pair();
            far.write_all(bytes).unwrap();
            drop(far);
            near.receive(Wait { bytes: 1000, ..Wait::most(SOON) }).unwrap_err().to_string()
        };
        assert!(error(b"GET / HTTP/1.1\r\n\r\n").contains("unknown message"));
        assert!(error(&[0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0]).contains("too long"));
        assert!(error(&[0, 0, 0, 0, 1, 0, 2, 0]).contains("descriptors are missing"));
        assert!(error(&[9, 0, 0, 0, 1, 0, 0, 0, 1]).contains("exited"));
        assert!(error(b"").contains("exited"));
    }

    #[test]
    fn who_says_nothing_is_waited_for_no_longer_than_was_meant() {
        let (mut near, _far) = pair();
        assert!(matches!(near.receive(Wait::most(Duration::ZERO)), Err(TakeoverError::Late)));
        let unless = AtomicBool::new(true);
        let wait = Wait { unless: Some(&unless), ..Wait::most(Duration::from_secs(3600)) };
        assert!(matches!(near.receive(wait), Err(TakeoverError::Late)));
    }
}

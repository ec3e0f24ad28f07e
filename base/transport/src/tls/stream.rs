//! TLS connections.

use super::certificate;
use super::counters::{Handshake, TlsCounters, TlsFailure, TlsFault};
use super::options::suite_name;
use super::records::Records;
use crate::net::{TcpStream, UnixStream};
use crate::poll::Interest;
use crate::stream::{Progress, Stream, progress};
use rustix::fd::{AsFd, BorrowedFd};
use rustls::{Connection, HandshakeKind, ProtocolVersion};
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

/// The most plaintext that is encrypted ahead of the socket: four records, written by one system call.
const AHEAD_MAX: usize = 64 << 10;

/// More than the encrypted part of a record that the library may hold from earlier reads (RFC 8446 §5.2: 16,640
/// bytes, RFC 5246 §6.2.3: 18,437).
const PARTIAL_MAX: usize = 20 << 10;

/// The least remaining space that is worth a read.
const STAGE_MIN: usize = 4 << 10;

/// The library's input buffer while it is empty.
const LIBRARY_BUFFER: usize = 4 << 10;

/// The most reads from the socket in one read of plaintext, enough to fill any buffer from records of usual length.
/// Otherwise a client that puts each byte into a record of its own would occupy the thread for milliseconds; the
/// poller reports what is left.
const FILLS: usize = 8;

/// The most plaintext in a record (RFC 8446 §5.1), and the most that a cipher suite adds.
const RECORD_PLAINTEXT_MAX: usize = 16 << 10;
const RECORD_OVERHEAD_MAX: usize = 5 + 8 + 16;

/// The first byte of every handshake (RFC 8446 §5.1) …
const HANDSHAKE_RECORD: u8 = 22;
/// … and of a server's alert, by which it refuses one.
const ALERT_RECORD: u8 = 21;

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write_vectored(parts),
            Socket::Unix(socket) => socket.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a read when no plaintext is left.
#[derive(Debug)]
enum Input {
    Open,
    /// The other end has sent a close_notify, or is gone.
    Ended,
    Failed(TlsFault),
    Broken(io::ErrorKind),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by its name in the standards.
    pub cipher: &'static str,
    pub resumed: bool,
    /// The common name of the other end's certificate; `None` without a certificate or name.
    pub peer_name: Option<String>,
}

/// One end of a TLS connection over a non-blocking socket. It is used as a [`crate::Stream`].
pub struct TlsStream {
    socket: Socket,
    session: Connection,
    counters: Arc<TlsCounters>,
    handshake: Handshake,
    /// The other end has sent a byte.
    began: bool,
    input: Input,
    /// Plaintext in the library; a lower bound if `input` is not open.
    held: usize,
    /// Received bytes that have not become plaintext.
    records: Records,
    /// Encrypted bytes that the socket has not accepted, approximately.
    unsent: usize,
    /// The output was ended: nothing is read or written any more.
    finishing: bool,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = formatter.debug_struct("TlsStream");
        out.field("socket", &self.socket).field("handshake", &self.handshake).field("input", &self.input);
        out.finish_non_exhaustive()
    }
}

/// The state of the socket after a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// It is empty for now.
    Yes,
    Perhaps,
}

impl TlsStream {
    /// A session that has not begun, over a stream; one that has TLS already is returned as it is.
    pub(super) fn over(stream: Stream, mut session: Connection, counters: &Arc<TlsCounters>) -> Stream {
        let socket = match stream {
            Stream::Tcp(socket) => Socket::Tcp(socket),
            Stream::Unix(socket) => Socket::Unix(socket),
            Stream::Tls(_) => return stream,
        };
        session.set_buffer_limit(Some(AHEAD_MAX));
        Stream::Tls(Box::new(TlsStream {
            socket,
            session,
            counters: counters.clone(),
            handshake: Handshake::UnderWay,
            began: false,
            input: Input::Open,
            held: 0,
            records: Records::default(),
            unsent: 0,
            finishing: false,
        }))
    }

    /// The result of the handshake; `None` before its end.
    pub fn facts(&self) -> Option<TlsFacts> {
        if self.handshake == Handshake::UnderWay {
            return None;
        }
        let certificate = self.session.peer_certificates().and_then(<[_]>::first);
        Some(TlsFacts {
            version: match self.session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "unknown",
            },
            cipher: self.session.negotiated_cipher_suite().map_or("unknown", suite_name),
            resumed: self.session.handshake_kind() == Some(HandshakeKind::Resumed),
            peer_name: certificate.and_then(|der| certificate::facts(der)?.common_name),
        })
    }

    /// As [`crate::Stream::read`].
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Progress> {
        if self.finishing {
            return Ok(Progress::Ended);
        }
        let mut filled = self.take_plaintext(buffer);
        let mut taken = 0;
        for _ in 0..FILLS {
            if filled == buffer.len() || !matches!(self.input, Input::Open) {
                break;
            }
            let (put, drained) = self.fill(&mut buffer[filled..], &mut taken);
            filled += put;
            if drained == Drained::Yes {
                break;
            }
        }
        if taken > LIBRARY_BUFFER {
            self.shrink();
        }
        if let Err(error) = self.push() {
            self.break_off(error.kind());
        }
        if filled > 0 {
            return Ok(Progress::Moved(filled));
        }
        match &self.input {
            Input::Open => Ok(Progress::Blocked),
            Input::Ended => Ok(Progress::Ended),
            _ => Err(self.error()),
        }
    }

    /// As [`crate::Stream::write`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Progress> {
        match self.ready_to_write()? {
            Some(progress) => Ok(progress),
            None => {
                let taken = self.session.writer().write(bytes)?;
                self.sent(taken)
            }
        }
    }

    /// As [`crate::Stream::write_vectored`]: small parts are gathered into one record.
    pub(crate) fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Progress> {
        match self.ready_to_write()? {
            Some(progress) => Ok(progress),
            None => {
                let taken = self.session.writer().write_vectored(parts)?;
                self.sent(taken)
            }
        }
    }

    /// As [`crate::Stream::flush`].
    pub(crate) fn flush(&mut self) -> io::Result<Progress> {
        if let Input::Failed(_) | Input::Broken(_) = self.input {
            return Err(self.error());
        }
        Ok(if self.push()? { Progress::Moved(0) } else { Progress::Blocked })
    }

    /// As [`crate::Stream::finish`].
    pub(crate) fn finish(&mut self) -> io::Result<Progress> {
        if !self.finishing {
            self.finishing = true;
            // An end that has not finished its handshake would not understand it.
            if self.handshake == Handshake::Done && matches!(self.input, Input::Open | Input::Ended) {
                self.session.send_close_notify();
            }
        }
        if let Input::Broken(_) = self.input {
            return Err(self.error());
        }
        Ok(if self.push()? { Progress::Moved(0) } else { Progress::Blocked })
    }

    /// As [`crate::Stream::wants`].
    pub(crate) fn wants(&self, interest: Interest) -> Interest {
        let unsent = self.session.wants_write();
        if self.finishing {
            return if unsent { Interest::Write } else { Interest::End };
        }
        let with_unsent = |alone| if unsent { Interest::ReadWrite } else { alone };
        match interest {
            // The socket does not report buffered input; but it reports at once that it is writable.
            Interest::Read if self.has_input() => Interest::ReadWrite,
            Interest::Read => with_unsent(Interest::Read),
            Interest::Write | Interest::ReadWrite if self.handshake == Handshake::UnderWay => {
                with_unsent(Interest::Read)
            }
            Interest::End if unsent => Interest::Write,
            other => other,
        }
    }

    /// As [`crate::Stream::has_input`].
    pub(crate) fn has_input(&self) -> bool {
        self.held > 0 || !matches!(self.input, Input::Open)
    }

    /// As [`crate::Stream::has_output`].
    pub(crate) fn has_output(&self) -> bool {
        self.session.wants_write()
    }

    /// As [`crate::Stream::holds`].
    pub(crate) fn holds(&self) -> usize {
        self.records.unread() + self.held + self.unsent
    }

    /// Moves plaintext out of the library.
    fn take_plaintext(&mut self, buffer: &mut [u8]) -> usize {
        // An error repeats what `input` says: there is none.
        let taken = self.session.reader().read(buffer).unwrap_or(0);
        self.held = self.held.saturating_sub(taken);
        taken
    }

    /// Reads from the socket once, and decrypts to the front of `room`, which must not be empty. Returns the number
    /// of plaintext bytes. `taken` counts encrypted bytes.
    ///
    /// The library reads 4 KiB at a time. If there is enough space, the tail of `room` receives the socket's input by
    /// one system call, and the library reads it from there. The plaintext is never longer than the input plus the
    /// partial record that was in the library, so that it does not reach unread input.
    fn fill(&mut self, room: &mut [u8], taken: &mut usize) -> (usize, Drained) {
        if room.len() < PARTIAL_MAX + STAGE_MIN {
            let (drained, bytes) = self.pull();
            *taken += bytes;
            return (self.take_plaintext(room), drained);
        }
        let stage = &mut room[PARTIAL_MAX..];
        let wanted = stage.len();
        let bytes = match progress(self.socket.read(stage)) {
            Ok(Progress::Moved(bytes)) => bytes,
            Ok(Progress::Blocked) => return (0, Drained::Yes),
            Ok(Progress::Ended) => {
                self.end();
                return (0, Drained::Yes);
            }
            Err(error) => {
                self.break_off(error.kind());
                return (0, Drained::Yes);
            }
        };
        *taken += bytes;
        let put = self.feed(room, PARTIAL_MAX, bytes);
        (put, if bytes < wanted { Drained::Yes } else { Drained::Perhaps })
    }

    /// Decrypts `length` bytes of `room` from `at` on, to its front.
    fn feed(&mut self, room: &mut [u8], mut at: usize, length: usize) -> usize {
        let end = at + length;
        let mut put = 0;
        while at < end && matches!(self.input, Input::Open) {
            let (front, stage) = room.split_at_mut(at);
            let staged = &stage[..end - at];
            if !self.admits(staged) {
                break;
            }
            match self.session.read_tls(&mut &*staged) {
                Ok(0) => self.end(),
                Ok(bytes) => {
                    self.records.follow(&staged[..bytes]);
                    at += bytes;
                }
                Err(error) => {
                    self.stop(&error);
                    break;
                }
            }
            self.process();
            put += self.take_plaintext(&mut front[put..]);
        }
        put
    }

    /// Lets the library read from the socket once. Returns also the number of bytes.
    fn pull(&mut self) -> (Drained, usize) {
        let records = &mut self.records;
        let mut tap = RecordTap { socket: &mut self.socket, records, first: None, drained: Drained::Yes };
        let result = self.session.read_tls(&mut tap);
        let RecordTap { first, drained, .. } = tap;
        let bytes = *result.as_ref().unwrap_or(&0);
        match progress(result) {
            Ok(Progress::Blocked) => return (Drained::Yes, 0),
            Ok(Progress::Ended) => self.end(),
            Ok(Progress::Moved(_)) => {
                if self.admits(first.as_slice()) {
                    self.process();
                }
            }
            Err(error) => self.stop(&error),
        }
        (drained, bytes)
    }

    /// Whether the other end's first bytes may be TLS. `bytes` begins with them if none were received before.
    fn admits(&mut self, bytes: &[u8]) -> bool {
        let Some(first) = bytes.first().filter(|_| !self.began) else {
            return true;
        };
        self.began = true;
        let is_refusal = *first == ALERT_RECORD && matches!(self.session, Connection::Client(_));
        if *first != HANDSHAKE_RECORD && !is_refusal {
            // No alert is sent: the other end would take it for a reply, or for a request.
            self.fail(TlsFailure::PlainText, format!("its first byte is {first}"));
        }
        matches!(self.input, Input::Open)
    }

    /// Lets the library process its input.
    fn process(&mut self) {
        match self.session.process_new_packets() {
            Ok(state) => {
                let before = std::mem::replace(&mut self.held, state.plaintext_bytes_to_read());
                if self.held > before {
                    self.records.understood();
                }
                if self.handshake == Handshake::UnderWay && !self.session.is_handshaking() {
                    self.handshake = Handshake::Done;
                    self.records.understood();
                    self.counters.succeeded(self.session.handshake_kind());
                }
                if state.peer_has_closed() {
                    self.end();
                }
            }
            Err(error) => {
                let failure = TlsFailure::of(&error, self.handshake);
                self.fail(failure, error.to_string());
            }
        }
    }

    fn fail(&mut self, failure: TlsFailure, detail: String) {
        self.counters.failed(failure);
        self.input = Input::Failed(TlsFault { failure, detail });
    }

    /// The other end has ended its output.
    fn end(&mut self) {
        self.count_gone();
        self.input = Input::Ended;
    }

    fn break_off(&mut self, kind: io::ErrorKind) {
        if matches!(self.input, Input::Open) {
            self.count_gone();
        }
        if matches!(self.input, Input::Open | Input::Ended) {
            self.input = Input::Broken(kind);
        }
    }

    /// Reading through the library has failed: the socket has failed, or the other end's input is too long.
    fn stop(&mut self, error: &io::Error) {
        match (error.kind(), self.handshake) {
            (io::ErrorKind::InvalidData | io::ErrorKind::Other, Handshake::UnderWay) => {
                self.fail(TlsFailure::Handshake, error.to_string());
            }
            (io::ErrorKind::InvalidData | io::ErrorKind::Other, Handshake::Done) => {
                self.fail(TlsFailure::Protocol, error.to_string());
            }
            (kind, _) => self.break_off(kind),
        }
    }

    fn count_gone(&self) {
        if self.handshake == Handshake::UnderWay && self.began {
            self.counters.failed(TlsFailure::Gone);
        }
    }

    /// The failure, as an error.
    fn error(&self) -> io::Error {
        match &self.input {
            Input::Failed(fault) => io::Error::new(io::ErrorKind::InvalidData, fault.clone()),
            Input::Broken(kind) => io::Error::from(*kind),
            Input::Open | Input::Ended => io::Error::from(io::ErrorKind::BrokenPipe),
        }
    }

    /// Sends encrypted bytes. False if the socket does not accept all of them.
    fn push(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match progress(self.session.write_tls(&mut self.socket))? {
                Progress::Moved(bytes) => self.unsent = self.unsent.saturating_sub(bytes),
                Progress::Blocked => return Ok(false),
                Progress::Ended => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            }
        }
        self.unsent = 0;
        Ok(true)
    }

    /// Continues the handshake and sends the output of earlier writes. `None` if more can be written.
    fn ready_to_write(&mut self) -> io::Result<Option<Progress>> {
        if self.finishing {
            return Ok(Some(Progress::Ended));
        }
        while self.handshake == Handshake::UnderWay && matches!(self.input, Input::Open) {
            if self.pull().0 == Drained::Yes {
                break;
            }
        }
        let pushed = self.push();
        match &self.input {
            Input::Open => {}
            Input::Ended if self.handshake == Handshake::Done => {}
            Input::Ended => return Ok(Some(Progress::Ended)),
            _ => return Err(self.error()),
        }
        let blocked = !pushed? || self.handshake == Handshake::UnderWay;
        Ok(blocked.then_some(Progress::Blocked))
    }

    /// Plaintext was accepted: sends it, or keeps it for later.
    fn sent(&mut self, taken: usize) -> io::Result<Progress> {
        if taken > 0 && !self.session.wants_write() {
            // Keys of TLS 1.2 are valid for 2^24 records; then the library ends the connection, and drops further
            // plaintext.
            return Ok(Progress::Ended);
        }
        self.unsent += encrypted_len(taken);
        self.push()?;
        Ok(Progress::Moved(taken))
    }

    /// Shrinks the library's input buffer to its smallest size, which it does before each read.
    fn shrink(&mut self) {
        // The source is empty, and the library reports that.
        let _ = self.session.read_tls(&mut Nothing);
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // A caller that has to be sure has called it before.
        let _ = self.finish();
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

/// The most bytes of encrypted plaintext: each record has a header, a type and a tag.
fn encrypted_len(plaintext: usize) -> usize {
    plaintext + plaintext.div_ceil(RECORD_PLAINTEXT_MAX) * RECORD_OVERHEAD_MAX
}

/// Passes the bytes that are read from a socket to [`Records`].
struct RecordTap<'a> {
    socket: &'a mut Socket,
    records: &'a mut Records,
    first: Option<u8>,
    drained: Drained,
}

impl Read for RecordTap<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.socket.read(buffer)?;
        self.first = buffer[..bytes].first().copied();
        self.records.follow(&buffer[..bytes]);
        self.drained = if bytes < buffer.len() { Drained::Yes } else { Drained::Perhaps };
        Ok(bytes)
    }
}

/// A source that would always block.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }
}

//! A client that sends bytes and expects exact bytes.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use guira_harness::socket::{Address, Socket};

use crate::deadline::{Deadline, PATIENCE};
use crate::escape;
use crate::expected::Expected;

/// A value as `gets` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub flags: u32,
    pub data: Vec<u8>,
    pub cas: u64,
}

/// What a connection does when its client is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// It must answer one more command, and nothing else before that.
    Checked,
    /// The same in the binary protocol.
    CheckedInBinary,
    /// Nothing is asked: it is closed, or in the middle of a request.
    Silent,
}

/// One connection. On drop it checks with `mn` that nothing more was sent than the test expected.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
    heard: Vec<u8>,
    patience: Duration,
    farewell: Farewell,
}

impl Client {
    /// Connects to `address`.
    #[track_caller]
    pub fn connect(address: &Address) -> Self {
        let socket =
            Socket::connect(address).unwrap_or_else(|error| panic!("cannot connect to {address:?}: {error}"));
        socket.set_timeouts(PATIENCE).expect("a socket takes timeouts");
        Self { socket, heard: Vec::new(), patience: PATIENCE, farewell: Farewell::Checked }
    }

    /// Sends `request` as it is.
    #[track_caller]
    pub fn send(&mut self, request: impl AsRef<[u8]>) {
        let request = request.as_ref();
        self.socket
            .write_all(request)
            .unwrap_or_else(|error| panic!("sending \"{}\": {error}", escape::bytes(request)));
    }

    /// Sends many requests in few calls of the system.
    #[track_caller]
    pub fn send_many(&mut self, requests: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        const AT_ONCE: usize = 64 << 10;
        let mut buffer = Vec::new();
        for request in requests {
            buffer.extend_from_slice(request.as_ref());
            if buffer.len() >= AT_ONCE {
                self.send(&buffer);
                buffer.clear();
            }
        }
        self.send(&buffer);
    }

    /// Sends as much of `request` as the server takes before it closes the connection.
    pub fn send_until_closed(&mut self, request: impl AsRef<[u8]>) {
        self.farewell = Farewell::Silent;
        // An error is the expected outcome: the server may close before everything is written.
        let _ = self.socket.write_all(request.as_ref());
    }

    /// Sends as much of `request` as the server takes without a pause of a moment. The replies are not read.
    ///
    /// # Panics
    /// If the system refuses a shorter wait.
    pub fn send_what_is_taken(&mut self, request: &[u8]) {
        const MOMENT: Duration = Duration::from_millis(20);
        self.farewell = Farewell::Silent;
        self.socket.set_timeouts(MOMENT).expect("a wait is not zero");
        // It blocks, or the server closes the connection: either is what was to be seen.
        let _ = self.socket.write_all(request);
    }

    /// Expects exactly these bytes next; times left may be written as [`Expected`] says.
    #[track_caller]
    pub fn hear(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let reply = Expected::new(expected);
        let got = self.read_up_to(reply.length());
        assert!(
            reply.fits(&got),
            "expected \"{}\"\n     got \"{}\"",
            escape::bytes(expected),
            escape::bytes(&self.with_what_follows(got))
        );
    }

    /// Sends `request` and expects exactly `reply`; times left may be written as [`Expected`] says.
    #[track_caller]
    pub fn exchange(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        let request = request.as_ref();
        self.send(request);
        let reply = reply.as_ref();
        let expected = Expected::new(reply);
        let got = self.read_up_to(expected.length());
        assert!(
            expected.fits(&got),
            "    sent \"{}\"\nexpected \"{}\"\n     got \"{}\"",
            escape::bytes(request),
            escape::bytes(reply),
            escape::bytes(&self.with_what_follows(got))
        );
    }

    /// Runs several exchanges, one after the other.
    #[track_caller]
    pub fn talk(&mut self, exchanges: &[(&str, &str)]) {
        for (request, reply) in exchanges {
            self.exchange(request, reply);
        }
    }

    /// Sends `request` from a second thread while reading, and expects exactly `reply`: for exchanges that
    /// do not fit into the buffers of the kernel.
    #[track_caller]
    pub fn exchange_at_once(&mut self, request: &[u8], reply: &[u8]) {
        let got = self.while_sending(request, |client| client.read_up_to(reply.len()));
        let differs = got.iter().zip(reply).position(|(one, other)| one != other);
        let at = differs.unwrap_or_else(|| got.len().min(reply.len()));
        let near = at.saturating_sub(60);
        assert!(
            got == reply,
            "{} of {} bytes came; from byte {near}, the first difference being byte {at}:\nexpected \"{}\"\n     got \"{}\"",
            got.len(),
            reply.len(),
            escape::bytes(&reply[near..]),
            escape::bytes(&got[near..])
        );
    }

    /// Sends `request` from a second thread while `hear` reads.
    ///
    /// # Panics
    /// If the server does not take all of it.
    #[track_caller]
    pub fn while_sending<T>(&mut self, request: &[u8], hear: impl FnOnce(&mut Self) -> T) -> T {
        let mut sender = self.socket.duplicate().expect("a socket can be duplicated");
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || sender.write_all(request));
            let heard = hear(self);
            sending
                .join()
                .expect("the sending thread does not panic")
                .expect("the server takes all requests");
            heard
        })
    }

    /// Expects that everything sent so far is answered by nothing more: `mn` is answered next.
    #[track_caller]
    pub fn sync(&mut self) {
        self.exchange("mn\r\n", "MN\r\n");
    }

    /// Sends `request` and expects no reply to it.
    #[track_caller]
    pub fn expect_silence(&mut self, request: impl AsRef<[u8]>) {
        self.send(request);
        self.sync();
    }

    /// Expects that the server closes the connection without sending anything more.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        self.farewell = Farewell::Silent;
        let deadline = Deadline::after(self.patience);
        let filled = if self.heard.is_empty() { self.fill(deadline) } else { Filled::More };
        assert!(
            filled == Filled::Ended,
            "expected the end of the connection, but it is open and sent \"{}\"",
            escape::bytes(&self.heard)
        );
    }

    /// The next line, without its line end.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.line_to(b"\r\n")
    }

    /// The next line, which may end without a carriage return as those of a metadump do, without its line end.
    #[track_caller]
    pub fn loose_line(&mut self) -> String {
        let mut line = self.line_to(b"\n");
        line.truncate(line.trim_end_matches('\r').len());
        line
    }

    #[track_caller]
    fn line_to(&mut self, line_end: &[u8]) -> String {
        let deadline = Deadline::after(self.patience);
        let mut seen = 0;
        loop {
            let found = self.heard[seen..].windows(line_end.len()).position(|bytes| bytes == line_end);
            if let Some(end) = found.map(|at| seen + at) {
                let line = self.heard.drain(..end + line_end.len()).take(end).collect::<Vec<_>>();
                return String::from_utf8_lossy(&line).into_owned();
            }
            seen = self.heard.len().saturating_sub(line_end.len());
            let filled = self.fill(deadline);
            assert!(filled == Filled::More, "no line came, only \"{}\"", escape::bytes(&self.heard));
        }
    }

    /// The next `length` bytes.
    #[track_caller]
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let got = self.read_up_to(length);
        assert!(
            got.len() == length,
            "expected {length} bytes, got {}: \"{}\"",
            got.len(),
            escape::bytes(&got)
        );
        got
    }

    /// Sends `request` and gives the line that answers it.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send(request);
        self.line()
    }

    /// Stores a value without flags or expiration.
    #[track_caller]
    pub fn set(&mut self, key: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let mut request = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
        self.exchange(request, "STORED\r\n");
    }

    /// What `gets` gives for `key`.
    #[track_caller]
    pub fn value(&mut self, key: &str) -> Option<Value> {
        let line = self.ask(format!("gets {key}\r\n"));
        if line == "END" {
            return None;
        }
        let words = line.split(' ').collect::<Vec<_>>();
        let [_, name, flags, length, cas] = words[..] else { panic!("not a VALUE line: {line}") };
        assert_eq!(name, key, "the wrong key in {line}");
        let data = self.take(length.parse().expect("a length"));
        self.hear("\r\nEND\r\n");
        Some(Value { flags: flags.parse().expect("flags"), data, cas: cas.parse().expect("a cas unique") })
    }

    /// The cas unique of `key`, which is present.
    #[track_caller]
    pub fn cas(&mut self, key: &str) -> u64 {
        self.value(key).unwrap_or_else(|| panic!("{key} is missing")).cas
    }

    /// Expects that `gets` gives exactly `expected` for `key`.
    #[track_caller]
    pub fn expect_value(&mut self, key: &str, expected: impl AsRef<[u8]>) {
        let value = self.value(key).unwrap_or_else(|| panic!("{key} is missing"));
        assert!(
            value.data == expected.as_ref(),
            "value of {key}: expected \"{}\", got \"{}\"",
            escape::bytes(expected.as_ref()),
            escape::bytes(&value.data)
        );
    }

    /// The answer to `stats` with `argument` (empty: the general ones), by name.
    #[track_caller]
    pub fn stats(&mut self, argument: &str) -> BTreeMap<String, String> {
        let request = if argument.is_empty() { "stats\r\n".into() } else { format!("stats {argument}\r\n") };
        self.send(request);
        let mut stats = BTreeMap::new();
        loop {
            let line = self.line();
            if line == "END" {
                return stats;
            }
            let rest = line.strip_prefix("STAT ").unwrap_or_else(|| panic!("not a STAT line: {line}"));
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            stats.insert(name.to_owned(), value.to_owned());
        }
    }

    /// The version and the nodes of `config get cluster`, after a look at all other bytes.
    ///
    /// # Panics
    /// If the reply is another one.
    #[track_caller]
    pub fn cluster(&mut self) -> (u64, String) {
        self.send("config get cluster\r\n");
        let head = self.line();
        let length: usize =
            head.strip_prefix("CONFIG cluster 0 ").and_then(|length| length.parse().ok()).expect(&head);
        // The data block has line ends of its own.
        let block = self.take(length);
        self.hear("\r\nEND\r\n");
        let block = String::from_utf8(block).expect("a text");
        let (version, nodes) = block.split_once('\n').expect("two lines");
        (version.parse().expect("a number"), nodes.strip_suffix('\n').expect("an end").to_owned())
    }

    /// Tells the server that nothing more will be sent.
    pub fn end_of_sending(&mut self) {
        self.farewell = Farewell::Silent;
        self.socket.end_of_sending().expect("a connected socket can be shut down");
    }

    /// Drops the connection as it is, in the middle of whatever was sent.
    pub fn abandon(mut self) {
        self.farewell = Farewell::Silent;
    }

    /// From now on the binary protocol is spoken.
    pub(crate) fn speak_binary(&mut self) {
        if self.farewell == Farewell::Checked {
            self.farewell = Farewell::CheckedInBinary;
        }
    }

    /// Waits at most `patience` for a reply from now on.
    pub fn be_patient(&mut self, patience: Duration) {
        self.patience = patience;
        self.socket.set_timeouts(patience).expect("a socket takes timeouts");
    }

    /// Up to `length` bytes: fewer when the connection ends or the patience does.
    fn read_up_to(&mut self, length: usize) -> Vec<u8> {
        let deadline = Deadline::after(self.patience);
        while self.heard.len() < length && self.fill(deadline) == Filled::More {}
        let rest = self.heard.split_off(length.min(self.heard.len()));
        std::mem::replace(&mut self.heard, rest)
    }

    /// What a failed expectation got, with what else comes within a moment.
    fn with_what_follows(&mut self, mut got: Vec<u8>) -> Vec<u8> {
        let deadline = Deadline::after(Duration::from_millis(100));
        while self.fill(deadline) == Filled::More {}
        got.append(&mut self.heard);
        got
    }

    /// Reads once into the buffer.
    fn fill(&mut self, deadline: Deadline) -> Filled {
        let mut buffer = [0; 65536];
        let Some(left) = deadline.left() else { return Filled::Late };
        self.socket.set_timeouts(left.max(Duration::from_millis(1))).expect("a socket takes timeouts");
        let outcome = loop {
            match self.socket.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome,
            }
        };
        self.socket.set_timeouts(self.patience).expect("a socket takes timeouts");
        match outcome {
            Ok(0) => self.ended(),
            Ok(length) => {
                self.heard.extend_from_slice(&buffer[..length]);
                Filled::More
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Filled::Late,
            // A server that closes while it has unread input resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.ended(),
            Err(error) => panic!("reading a reply: {error}"),
        }
    }

    fn ended(&mut self) -> Filled {
        self.farewell = Farewell::Silent;
        Filled::Ended
    }
}

/// What became of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    /// There is more in the buffer.
    More,
    /// The server has closed the connection.
    Ended,
    /// Nothing came in time.
    Late,
}

impl Drop for Client {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.farewell {
            Farewell::Checked => self.sync(),
            Farewell::CheckedInBinary => {
                let unexpected = self.ask_quietly(&[]);
                assert!(unexpected.is_empty(), "nothing more was to come: {unexpected:?}");
            }
            Farewell::Silent => {}
        }
    }
}

//! The connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use guira_protocol::client::{self, Reply};
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;
use guira_transport::{TlsConnector, TlsError, TlsName};
use rustls::{ClientConnection, StreamOwned};

use super::input::Input;
use super::{Endpoint, Login, LoginError, Socket};
use crate::tls::Trust;

/// The longest line that is read, in bytes.
const LINE_MAX: usize = 64 << 10;

/// The longest value that a server may have, in bytes.
const VALUE_MAX: u32 = 1 << 30;

/// Each further chunk of this many bytes may take another timeout.
const CHUNK: usize = 64 << 10;

/// The most bytes that are read at once, except for the rest of a longer value.
const READ: usize = 8 << 10;

/// The most lines of one answer to `stats`: four for each of a million connections.
const STATS_MAX: usize = 4 << 20;

/// A stream of bytes in both directions.
trait Wire: Read + Write + Send {}

impl Wire for Socket {}
impl Wire for StreamOwned<ClientConnection, Socket> {}

/// A server, and how it is reached.
#[derive(Clone, Debug)]
pub struct Target {
    endpoint: Endpoint,
    tls: Option<Tls>,
    login: Option<Access>,
    timeout: Duration,
}

/// The source of each connection's login.
#[derive(Clone, Debug)]
enum Access {
    Login(Login),
    /// A file, which may change.
    File(PathBuf),
}

/// How sessions of TLS begin.
#[derive(Clone, Debug)]
struct Tls {
    connector: TlsConnector,
    /// The server's name in its certificate; `None` is the endpoint's host.
    name: Option<TlsName>,
}

impl Tls {
    fn shake_hands(&self, endpoint: &Endpoint, socket: &mut Socket) -> io::Result<ClientConnection> {
        match &self.name {
            Some(name) => self.connector.shake_hands(name, socket),
            None => {
                let name = endpoint.tls_name().parse().map_err(io::Error::other)?;
                self.connector.shake_hands(&name, socket)
            }
        }
    }
}

impl Target {
    /// The server at `endpoint`, without TLS and login. Connecting to each address of its name may take `timeout`, and so may
    /// each 64 KiB that are sent, and that are answered; what comes just before its end is waited for once more as long.
    /// Looking up a name may take what the system gives it.
    #[must_use]
    pub const fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self { endpoint, tls: None, login: None, timeout }
    }

    /// Speaks TLS 1.2 or 1.3 with servers that `trust` covers.
    ///
    /// # Errors
    /// When the file of authorities cannot be used.
    pub fn with_tls(self, trust: Trust<'_>) -> Result<Self, TlsError> {
        Ok(Self { tls: Some(Tls { connector: trust.connector()?, name: None }), ..self })
    }

    /// Speaks TLS as `connector` does with the server of this name.
    #[must_use]
    pub fn with_connector(self, connector: TlsConnector, name: TlsName) -> Self {
        Self { tls: Some(Tls { connector, name: Some(name) }), ..self }
    }

    /// Logs in on each connection.
    #[must_use]
    pub fn with_login(self, login: Login) -> Self {
        Self { login: Some(Access::Login(login)), ..self }
    }

    /// Logs in on each connection with the first line, `USER:PASSWORD`, that the file has then.
    ///
    /// # Errors
    /// When the file cannot be used now.
    pub fn with_login_file(self, path: PathBuf) -> Result<Self, LoginError> {
        Login::of_file(&path)?;
        Ok(Self { login: Some(Access::File(path)), ..self })
    }

    /// The same settings with another timeout.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The same settings for another server.
    #[must_use]
    pub fn at(&self, endpoint: Endpoint) -> Self {
        Self { endpoint, ..self.clone() }
    }

    /// The address of the server.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How long the server may take.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The TLS client, if TLS is used.
    pub fn connector(&self) -> Option<&TlsConnector> {
        self.tls.as_ref().map(|tls| &tls.connector)
    }
}

/// The reason that a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The file of the login cannot be used.
    #[error(transparent)]
    LoginFile(#[from] LoginError),
    /// The login was refused, with this line.
    #[error("the login was refused: {0}")]
    Login(String),
    /// The connection failed.
    #[error("{0}")]
    Io(io::Error),
    /// The server did not answer in time.
    #[error("timeout: no reply from the server")]
    Late,
    /// The server has closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server sent more than any answer has.
    #[error("the reply is too long")]
    TooLong,
    /// The server sent a reply that is not one of the protocol. It begins with this.
    #[error("the reply is malformed: {0}")]
    Malformed(String),
}

impl From<io::Error> for TextError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// How an answer to `stats` ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsReply {
    /// With `END`.
    Sent,
    /// With this line, such as `ERROR`: the server does not support these statistics.
    Refused(Vec<u8>),
}

/// The time of a transfer, and its bytes so far.
#[derive(Clone, Copy, Debug)]
struct Pace {
    since: Stopwatch,
    bytes: usize,
}

impl Pace {
    fn start() -> Self {
        Self { since: Stopwatch::start(), bytes: 0 }
    }

    /// Whether the transfer is too slow, after this many more bytes. A peer that sends single bytes
    /// delays it hardly longer than a silent one.
    fn is_late(&mut self, bytes: usize, timeout: Duration) -> bool {
        self.bytes += bytes;
        let timeouts = u32::try_from(self.bytes / CHUNK).unwrap_or(u32::MAX).saturating_add(1);
        self.since.elapsed() >= timeout.saturating_mul(timeouts)
    }
}

/// A connection to a server. Drop it after an error.
pub struct Connection {
    wire: Box<dyn Wire>,
    input: Input,
    timeout: Duration,
    /// The pace of a batch whose replies share one timeout.
    batch_pace: Option<Pace>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, shakes hands and logs in.
    ///
    /// # Errors
    /// When one of the three fails.
    pub fn open(target: &Target) -> Result<Self, TextError> {
        // A wrong file is reported before a connection is made.
        let login = match &target.login {
            Some(Access::Login(login)) => Some(login.clone()),
            Some(Access::File(path)) => Some(Login::of_file(path)?),
            None => None,
        };
        let mut socket = Socket::connect(&target.endpoint, target.timeout).map_err(TextError::Connect)?;
        let wire: Box<dyn Wire> = match &target.tls {
            None => Box::new(socket),
            Some(tls) => {
                let session = tls.shake_hands(&target.endpoint, &mut socket).map_err(TextError::Connect)?;
                Box::new(StreamOwned::new(session, socket))
            }
        };
        let mut opened = Self { wire, input: Input::default(), timeout: target.timeout, batch_pace: None };
        if let Some(login) = login {
            opened.send(&login.request())?;
            let reply = opened.reply()?;
            if reply != Reply::Line(reply::STORED) {
                return Err(TextError::Login(reply.line().escape_ascii().to_string()));
            }
        }
        Ok(opened)
    }

    /// Sends requests: lines with their ends. The replies are read with [`Connection::reply`].
    ///
    /// # Errors
    /// When the connection fails, or the server does not read.
    pub fn send(&mut self, requests: &[u8]) -> Result<(), TextError> {
        self.batch_pace = None;
        let (mut pace, mut left) = (Pace::start(), requests);
        while !left.is_empty() {
            match self.wire.write(left) {
                Ok(0) => return Err(TextError::Closed),
                Ok(written) => {
                    left = &left[written..];
                    if pace.is_late(written, self.timeout) && !left.is_empty() {
                        return Err(TextError::Late);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.wire.flush()?)
    }

    /// As [`Connection::send`], for requests whose answers are one: they have a timeout together, and not each of them.
    pub(crate) fn send_batch(&mut self, requests: &[u8]) -> Result<(), TextError> {
        self.send(requests)?;
        self.batch_pace = Some(Pace::start());
        Ok(())
    }

    /// Waits for more input, and reads at most `most` bytes.
    fn fill(&mut self, most: usize, pace: &mut Pace) -> Result<(), TextError> {
        let space = self.input.space(most);
        let read = loop {
            match self.wire.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.input.add(read);
        let is_late = self.batch_pace.as_mut().unwrap_or(pace).is_late(read, self.timeout);
        match read {
            0 => Err(TextError::Closed),
            _ if is_late => Err(TextError::Late),
            _ => Ok(()),
        }
    }

    /// The next reply to a command about an item: of a get that finds something, the first part.
    ///
    /// # Errors
    /// When the connection fails or is closed, nothing comes in time, what comes is no reply, or a value has more than
    /// 1 GiB.
    pub fn reply(&mut self) -> Result<Reply<'_>, TextError> {
        self.reply_up_to(VALUE_MAX)
    }

    /// Like [`Connection::reply`], with another limit of a value, in bytes.
    ///
    /// # Errors
    /// Those of [`Connection::reply`].
    pub fn reply_up_to(&mut self, value_max: u32) -> Result<Reply<'_>, TextError> {
        let mut pace = Pace::start();
        let taken = loop {
            let input = self.input.rest();
            match client::read(input, value_max) {
                client::Read::Reply(_, taken) => break taken,
                client::Read::Unfinished(wanted) => {
                    let most = if wanted > input.len() + READ { CHUNK } else { READ };
                    self.fill(most, &mut pace)?;
                }
                client::Read::TooLong { .. } => return Err(TextError::TooLong),
                client::Read::Broken => return Err(malformed(input)),
            }
        };
        let input = self.input.take(taken);
        match client::read(input, value_max) {
            client::Read::Reply(reply, _) => Ok(reply),
            _ => Err(malformed(input)),
        }
    }

    /// The next line of a reply to a command about the server, without its end.
    ///
    /// # Errors
    /// When the connection fails or is closed, nothing comes in time, or the line has more than 64 KiB.
    pub fn line(&mut self) -> Result<&[u8], TextError> {
        let mut pace = Pace::start();
        let (length, taken) = loop {
            match client::line(self.input.rest(), LINE_MAX) {
                Ok(Some((line, taken))) => break (line.len(), taken),
                Ok(None) => self.fill(READ, &mut pace)?,
                Err(client::LineTooLong) => return Err(TextError::TooLong),
            }
        };
        Ok(&self.input.take(taken)[..length])
    }

    /// Sends `stats`, or `stats GROUP` if `group` is not empty, and passes each name and value to
    /// `stat`.
    ///
    /// # Errors
    /// As [`Connection::line`]; also after four million lines.
    pub fn stats(
        &mut self,
        group: &str,
        mut stat: impl FnMut(&[u8], &[u8]),
    ) -> Result<StatsReply, TextError> {
        let mut request = Vec::new();
        client::stats(group.as_bytes(), &mut request);
        self.send(&request)?;
        for _ in 0..STATS_MAX {
            let line = self.line()?;
            if line == reply::END {
                return Ok(StatsReply::Sent);
            }
            let Some(line_rest) = line.strip_prefix(reply::spaced::STAT) else {
                return Ok(StatsReply::Refused(line.to_owned()));
            };
            let end = line_rest.iter().position(|byte| *byte == b' ').unwrap_or(line_rest.len());
            stat(&line_rest[..end], line_rest.get(end + 1..).unwrap_or_default());
        }
        Err(TextError::TooLong)
    }
}

/// An error with the first bytes of a malformed reply.
fn malformed(input: &[u8]) -> TextError {
    TextError::Malformed(input[..input.len().min(100)].escape_ascii().to_string())
}

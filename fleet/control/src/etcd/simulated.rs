//! HTTP over the sockets of a simulated machine. The limits that ureq sets hold: the clock that it reads is the
//! machine's.

use guira_transport::net::TcpStream;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration as Limit;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error, Timeout};

/// An agent whose connections are those of the machine.
pub(super) fn agent(config: Config) -> Agent {
    Agent::with_parts(config, Machine, Machine)
}

#[derive(Debug)]
struct Machine;

/// Endpoints are addresses.
impl Resolver for Machine {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let authority = uri.authority().ok_or(Error::HostNotFound)?;
        let address: SocketAddr = authority.as_str().parse().map_err(|_| Error::HostNotFound)?;
        let mut found = self.empty();
        found.push(address);
        Ok(found)
    }
}

impl Connector for Machine {
    type Out = Connection;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Connection>, Error> {
        let address = details.addrs.first().ok_or(Error::HostNotFound)?;
        let stream = match limit(details.timeout) {
            Some(limit) => TcpStream::connect_timeout(address, limit),
            None => TcpStream::connect(address),
        };
        let stream = stream.map_err(|error| failure(error, details.timeout.reason))?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Connection { stream, buffers }))
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(limit(timeout))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| failure(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(limit(timeout))?;
        let input = self.buffers.input_append_buf();
        let amount = self.stream.read(input).map_err(|error| failure(error, timeout.reason))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        let is_blocking = self.stream.set_nonblocking(true).is_ok();
        let is_open =
            matches!(self.stream.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        is_blocking && self.stream.set_nonblocking(false).is_ok() && is_open
    }
}

/// Sockets take no limit of zero.
fn limit(timeout: NextTimeout) -> Option<Duration> {
    match timeout.after {
        Limit::Exact(left) => Some(left.max(Duration::from_nanos(1))),
        Limit::NotHappening => None,
    }
}

fn failure(error: io::Error, reason: Timeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(reason),
        _ => Error::Io(error),
    }
}

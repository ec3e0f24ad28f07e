//! A client that keeps many requests in flight.

use super::error::ClientError;
use super::in_flight::{InFlight, Outcome};
use super::options::ClientOptions;
use super::request::{Busy, Request, Ticket};
use guira_protocol::mica::{Directory, Header};
use guira_sync::clock::Stopwatch;
use guira_transport::{BURST_MAX, ClientPath};
use std::io;
use std::time::Duration;

/// A client that keeps many requests in flight. The caller passes the time, counted from any origin.
#[derive(Debug)]
pub struct PipelinedClient<P> {
    path: P,
    in_flight: InFlight,
    /// The time of the last directory request.
    directory_requested: Option<Duration>,
}

/// How often the directory is requested before the server counts as silent.
const DIRECTORY_REQUESTS: u32 = 50;

/// The opaque value of directory requests before there is a client.
const LEARNER: u64 = u64::from_le_bytes(*b"learning");

/// Requests the directory of the server at the other end of `path`.
///
/// # Errors
/// If no answer arrives after 50 requests, `timeout` apart.
pub fn fetch_directory(path: &mut impl ClientPath, timeout: Duration) -> Result<Directory, ClientError> {
    let mut found = None;
    for sequence in 0..DIRECTORY_REQUESTS {
        if let Some(buffer) = path.buffer(0) {
            let length = Directory::request(sequence, LEARNER, buffer);
            path.post(length);
        }
        path.flush()?;
        let is_ours = |bytes: &[u8]| Header::read(bytes).is_ok_and(|header| header.opaque == LEARNER);
        // A wait may end early without a reply: the system reports a closed port at once.
        let watch = Stopwatch::start();
        while let Some(left) = timeout.checked_sub(watch.elapsed()) {
            path.wait(left)?;
            let mut take = |bytes: &[u8]| found = found.or(Directory::read(bytes).filter(|_| is_ours(bytes)));
            while path.receive(&mut take)? > 0 {}
            if let Some(directory) = found {
                return Ok(directory);
            }
        }
    }
    Err(ClientError::Silent)
}

impl<P: ClientPath> PipelinedClient<P> {
    /// A client that sends along `path` to the server with this directory. `id` has to be unique among the clients of
    /// the server: replies to other clients, or to an earlier client with the same address, are recognized by it.
    ///
    /// # Errors
    /// If the path cannot reach all threads of the server.
    pub fn new(mut path: P, directory: Directory, id: u64, options: ClientOptions) -> io::Result<Self> {
        path.reach(usize::from(directory.cores))?;
        Ok(PipelinedClient {
            path,
            in_flight: InFlight::new(directory, id, options),
            directory_requested: None,
        })
    }

    #[cfg(test)]
    pub(super) fn path(&mut self) -> &mut P {
        &mut self.path
    }

    /// The server's current directory.
    pub fn directory(&self) -> Directory {
        self.in_flight.directory
    }

    /// Submits a request, which is sent with the next [`PipelinedClient::flush`], or earlier. `Ok(Err(Busy))` if too many
    /// datagrams are in flight.
    ///
    /// The server may execute requests in flight in any order, except those in one datagram. A caller that needs an
    /// order waits for the reply.
    ///
    /// # Errors
    /// If the request is invalid.
    #[inline(always)]
    pub fn submit(&mut self, request: &Request<'_>, ticket: Ticket) -> Result<Result<(), Busy>, ClientError> {
        request.check()?;
        Ok(self.in_flight.submit(request, ticket, 0))
    }

    /// Sends all submitted requests.
    ///
    /// # Errors
    /// If the path has failed.
    pub fn flush(&mut self, now: Duration) -> io::Result<()> {
        let PipelinedClient { path, in_flight, .. } = self;
        in_flight.submit_retries();
        in_flight.seal_all();
        send(path, in_flight, now);
        path.flush()
    }

    /// Reports the outcomes of requests, and returns their number. Sends retries.
    ///
    /// # Errors
    /// If the path has failed.
    #[inline(always)]
    pub fn poll(&mut self, now: Duration, report: &mut dyn FnMut(Ticket, Outcome<'_>)) -> io::Result<usize> {
        let PipelinedClient { path, in_flight, .. } = self;
        let mut reported = 0;
        let received = path.receive(&mut |datagram| reported += in_flight.receive(datagram, report))?;
        // Behind a full burst there may be replies that only this thread delayed.
        if received < BURST_MAX {
            reported += in_flight.check_timeouts(now, report);
        }
        let cores = usize::from(in_flight.directory.cores);
        if cores != path.cores() {
            path.reach(cores)?;
        }
        if in_flight.moved {
            self.request_directory(now)?;
        } else if in_flight.is_waiting() {
            if in_flight.retry_count() > 0 {
                in_flight.submit_retries();
                in_flight.seal_all();
            }
            send(path, in_flight, now);
            path.flush()?;
        }
        Ok(reported)
    }

    /// Requests the directory, at most every 5 ms.
    #[cold]
    fn request_directory(&mut self, now: Duration) -> io::Result<()> {
        if self.directory_requested.is_some_and(|at| now < at + Duration::from_millis(5)) {
            return Ok(());
        }
        self.directory_requested = Some(now);
        if let Some(buffer) = self.path.buffer(0) {
            let length = Directory::request(0, self.in_flight.id, buffer);
            self.path.post(length);
        }
        self.path.flush()
    }

    /// Whether no requests are in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.slots.used() == 0 && self.in_flight.retry_count() == 0
    }

    /// Waits until a datagram may have arrived, or for the given time.
    ///
    /// # Errors
    /// If the path has failed.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        self.path.wait(most)
    }
}

/// Sends complete datagrams, as far as the path accepts them.
#[inline(always)]
fn send(path: &mut impl ClientPath, in_flight: &mut InFlight, now: Duration) {
    // A server that now has fewer threads replies `Moved`, whichever thread a datagram reaches.
    let cores = path.cores().max(1);
    while in_flight.send_next(now, |slot| match path.buffer(slot.core % cores) {
        Some(buffer) => {
            buffer[..slot.length].copy_from_slice(&slot.bytes[..slot.length]);
            path.post(slot.length);
            true
        }
        None => false,
    }) {}
}

//! A server as one worker uses it: the connection, the requests on it, the server's health and its
//! leases.

use super::Server;
use super::health_monitor::HealthMonitor;
use super::lessor::{Lessor, Peer};
use super::meter::{ServerCount, State};
use super::pipeline::{FailedRequest, Hits, Kind, Parsed, Pipeline, Step, TimedOut, Unsent};
use super::tally::Tally;
use crate::counters::Counters;
use crate::ticket::Ticket;
use guira_protocol::client::Value;
use guira_routing::{Dialect, LogName, Op, Origin, Outcome, Request};
use guira_transport::{Address, Interest, Poll, Progress, Token};
use guira_upstream::{HealthOptions, Intake, Link, LinkOptions, Stage, Tko};
use std::io;
use std::sync::Arc;

mod relocate;

#[derive(Debug)]
pub(crate) struct Destination {
    link: Link,
    pipeline: Pipeline,
    health: HealthMonitor,
    lessor: Lessor,
    tally: Tally,
    /// The limit of requests that wait for a reply.
    requests_max: usize,
    /// Idle time after which the connection is closed; 0 is never.
    inactive_ms: u64,
    /// When a request was last pushed.
    used_ms: u64,
}

/// A request that has timed out, and what becomes of the connection.
#[derive(Debug)]
pub(crate) enum Expired {
    Request(FailedRequest),
    /// The attempt to connect has failed, and its failure is recorded.
    Connect(FailedRequest),
    /// The connection accepts nothing, or delivers nothing.
    Stuck(FailedRequest),
}

impl Destination {
    pub(crate) fn new(
        server: &Server,
        options: HealthOptions,
        requests_max: usize,
        counters: Arc<Counters>,
    ) -> Self {
        let link = LinkOptions {
            secure: server.secure.clone(),
            service: server.service,
            keepalive: server.keepalive,
            connect_timeout_ms: server.connect_timeout_ms,
        };
        Destination {
            link: Link::new(&server.addresses, link),
            pipeline: Pipeline::new(server.timeout_ms, server.leases),
            health: HealthMonitor::new(server.health.clone(), options),
            lessor: Lessor::new(server.leases),
            tally: Tally::new(server.meter(counters.worker()), counters),
            requests_max,
            inactive_ms: options.inactive_after.as_millis() as u64,
            used_ms: 0,
        }
    }

    /// Why the server is out of service. `None` if it is not.
    #[inline]
    pub(crate) fn tko(&self) -> Option<Tko> {
        self.health.tko()
    }

    /// Counts a request that is not sent for this reason.
    pub(crate) fn refuse(&self, why: Outcome) -> Result<(), Outcome> {
        self.tally.ended(why, 1);
        Err(why)
    }

    pub(crate) fn address(&self) -> Option<&Address> {
        self.link.address()
    }

    /// Whether there is a connection that the server has accepted.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.is_accepted()
    }

    /// Whether further requests are refused for now.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pipeline.has_too_many_bytes() || self.pipeline.waiting() >= self.requests_max
    }

    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<Ticket>,
        now_ms: u64,
    ) {
        self.used_ms = now_ms;
        self.tally.add(ServerCount::Requests, 1);
        match (request.dialect, request.op) {
            (Dialect::Classic, Op::Get | Op::Gets) => {
                self.pipeline.push_get(request, log, origin, now_ms);
            }
            (Dialect::Classic, Op::LeaseGet | Op::LeaseSet) => {
                let (lessor, mut peer) = self.leases();
                lessor.push(&mut peer, request, (log, origin), now_ms);
            }
            _ => self.pipeline.push(request, log, origin, now_ms),
        }
    }

    fn leases(&mut self) -> (&mut Lessor, Peer<'_>) {
        let Destination { link, pipeline, lessor, tally, .. } = self;
        (lessor, Peer { pipeline, tally, address: link.address() })
    }

    /// Sends the requests pushed since the last flush, after connecting if there is no connection.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) fn flush(&mut self, poll: &Poll, token: Token, now_us: u64) -> io::Result<()> {
        self.tally.note_pending(&self.pipeline);
        self.pipeline.begin_flush(now_us);
        if self.link.is_closed() {
            self.link.start_attempt(now_us / 1000);
        }
        self.transmit(poll, token)
    }

    fn transmit(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        self.pipeline.complete_last();
        let result = self.write(poll, token);
        self.pipeline.end_flush();
        self.tally.show_outstanding(&self.pipeline);
        result
    }

    fn write(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        if self.pipeline.is_sent() {
            return Ok(());
        }
        if self.link.is_closed() {
            self.link.connect(poll, token)?;
        }
        if !self.link.is_up() {
            return Ok(());
        }
        loop {
            let is_secure = self.link.is_secure();
            let bytes = if is_secure { self.pipeline.unsent_record() } else { self.pipeline.unsent() };
            if bytes.is_empty() {
                return self.link.set_interest(poll, token, Interest::Read);
            }
            match self.link.write(bytes)? {
                Progress::Moved(bytes) => {
                    self.pipeline.note_sent(bytes);
                    self.tally.add(ServerCount::Writes, 1);
                    self.tally.add(ServerCount::BytesSent, bytes as u64);
                }
                Progress::Blocked => return self.link.set_interest(poll, token, Interest::ReadWrite),
                Progress::Ended => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
    }

    /// Processes an event of the socket: continues to connect or to write, and reads into `intake`.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) fn read(
        &mut self,
        poll: &Poll,
        token: Token,
        now_ms: u64,
        intake: &mut Intake,
    ) -> io::Result<()> {
        if self.link.is_connecting() {
            return self.continue_connecting(poll, token);
        }
        if self.link.polls_writes() {
            self.transmit(poll, token)?;
        }
        if !self.link.is_up() {
            return Ok(());
        }
        let progress = self.link.read(intake.space());
        if self.link.is_secure() {
            self.after_tls_read(&progress, poll, token)?;
        }
        match progress? {
            Progress::Moved(bytes) => {
                self.tally.add(ServerCount::BytesReceived, bytes as u64);
                intake.filled(bytes);
                self.pipeline.note_received(bytes, now_ms);
            }
            Progress::Blocked => {}
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    #[cold]
    fn continue_connecting(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        match self.link.advance() {
            Ok(Stage::Connecting) => self.link.set_interest(poll, token, Interest::Read),
            Ok(Stage::Up) => {
                self.tally.set_state(State::Up);
                self.tally.add(ServerCount::Opened, 1);
                self.transmit(poll, token)
            }
            Err(error) => {
                self.log_failed_handshake(&error);
                if self.link.try_next_address() { self.transmit(poll, token) } else { Err(error) }
            }
        }
    }

    /// A read over TLS may have sent something, or have left something to send.
    fn after_tls_read(
        &mut self,
        progress: &io::Result<Progress>,
        poll: &Poll,
        token: Token,
    ) -> io::Result<()> {
        if let Err(error) = progress {
            self.log_failed_handshake(error);
        }
        let interest = if self.pipeline.is_sent() { Interest::Read } else { Interest::ReadWrite };
        self.link.set_interest(poll, token, interest)
    }

    /// Logs why the TLS handshake has failed, unless the server is already out of service: the
    /// replies to clients do not have the cause.
    fn log_failed_handshake(&self, error: &io::Error) {
        if self.link.is_handshake_unproven() && self.health.is_up() {
            let server = self.link.address().map(tracing::field::display);
            // Operator: Check the server's certificate and the router's authorities.
            tracing::warn!(server, %error, "TLS handshake with a server failed");
        }
    }

    /// A buffer to read into: see [`Pipeline::take_intake`].
    #[inline]
    pub(crate) fn take_intake(&mut self, shared: &mut Option<Intake>) -> Intake {
        self.pipeline.take_intake(shared)
    }

    #[inline]
    pub(crate) fn keep_intake(&mut self, intake: Intake, shared: &mut Option<Intake>) {
        self.pipeline.keep_intake(intake, shared);
    }

    /// Passes the hits at the front of `input` that clients wait for to `each`. Returns their
    /// length.
    #[inline]
    pub(crate) fn take_hits<'i>(&mut self, input: &'i [u8], each: impl FnMut(Ticket, &Value<'i>)) -> usize {
        let Hits { bytes, count } = self.pipeline.take_hits(input, each);
        if count > 0 {
            self.health.record_success();
            self.tally.ended(Outcome::Found, count);
        }
        bytes
    }

    /// The next reply in `input`.
    #[inline]
    pub(crate) fn next<'i>(&mut self, input: &'i [u8]) -> Parsed<'i> {
        let parsed = match self.pipeline.next(input) {
            Step::Done(parsed) => parsed,
            Step::Lease(received) => {
                let (lessor, mut peer) = self.leases();
                lessor.receive(&mut peer, received)
            }
        };
        match &parsed {
            Parsed::Reply(_, answer, _) | Parsed::FailedDelete(_, answer, _) => {
                self.health.record_success();
                self.tally.ended(answer.outcome, 1);
            }
            Parsed::OwnReply(_) => self.health.record_success(),
            Parsed::Discarded(_) | Parsed::Incomplete(_) | Parsed::Invalid => {}
        }
        parsed
    }

    /// All replies that have arrived are processed. True if requests have to be flushed that no
    /// client has just sent.
    pub(crate) fn end_replies(&mut self, now_us: u64) -> bool {
        self.pipeline.trim();
        self.tally.add_latency(self.pipeline.take_latency(now_us));
        self.tally.show_outstanding(&self.pipeline);
        self.lessor.take_needs_flush()
    }

    /// When a request times out, a probe is due, or the connection is closed as idle.
    pub(crate) fn deadline(&self, now_ms: u64) -> Option<u64> {
        let request = self.pipeline.deadline(now_ms, self.link.attempt());
        request.into_iter().chain(self.health.next_probe_ms()).chain(self.idle_deadline()).min()
    }

    /// When the connection is closed as idle. Late replies may never arrive.
    fn idle_deadline(&self) -> Option<u64> {
        let may_be_idle = self.inactive_ms > 0 && self.link.is_up() && self.pipeline.waiting() == 0;
        may_be_idle.then(|| self.used_ms + self.inactive_ms)
    }

    /// Closes the connection if it has been idle for too long.
    pub(crate) fn close_idle(&mut self, poll: &Poll, now_ms: u64) {
        if self.idle_deadline().is_some_and(|deadline| now_ms >= deadline) {
            let failed = self.disconnect(poll, Outcome::RemoteError);
            debug_assert!(failed.is_empty(), "no request waits");
            self.tally.set_state(State::Closed);
        }
    }

    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.pipeline.is_sent()
    }

    /// Whether no client waits for a reply.
    pub(crate) fn is_idle(&self) -> bool {
        self.pipeline.is_idle()
    }

    /// Times the oldest request out, if it has waited too long.
    pub(crate) fn time_out(&mut self, now_ms: u64) -> Option<Expired> {
        let timed_out = self.pipeline.time_out(now_ms, self.link.attempt())?;
        let TimedOut { request, is_own, is_stuck, latency } = timed_out;
        self.tally.show_outstanding(&self.pipeline);
        self.tally.add_latency(latency);
        let is_connecting = self.link.is_connecting();
        if !is_connecting {
            self.record_soft_failure(now_ms);
        } else {
            if self.link.is_handshaking() {
                self.log_failed_handshake(&io::Error::new(
                    io::ErrorKind::TimedOut,
                    "timeout of the handshake",
                ));
            }
            if !self.link.try_next_address() {
                self.record_hard_failure(now_ms);
            }
        }
        if !is_own {
            self.tally.ended(if is_connecting { Outcome::ConnectTimeout } else { Outcome::Timeout }, 1);
        }
        Some(match (is_connecting, is_stuck) {
            (true, _) => Expired::Connect(request),
            (false, true) => Expired::Stuck(request),
            (false, false) => Expired::Request(request),
        })
    }

    /// Records that the connection has failed. One that was up is opened again by the next request,
    /// and so is one to a server with further addresses.
    pub(crate) fn record_failure(&mut self, now_ms: u64) {
        if self.link.is_accepted() || self.link.has_untried_addresses() {
            return;
        }
        // The attempt fails, and each request that waits for it, as in mcrouter.
        for _ in 0..=self.pipeline.waiting_of_clients() {
            self.record_hard_failure(now_ms);
        }
    }

    /// Records an invalid reply: a server that continues so is taken out of service, like one
    /// without replies.
    #[cold]
    pub(crate) fn record_invalid_reply(&mut self, now_ms: u64) {
        self.record_soft_failure(now_ms);
    }

    fn record_soft_failure(&mut self, now_ms: u64) {
        self.tally.add_tko(self.health.record_soft_failure(now_ms));
    }

    fn record_hard_failure(&mut self, now_ms: u64) {
        self.tally.add_tko(self.health.record_hard_failure(now_ms));
    }

    /// Pushes a probe if one is due and none is outstanding. True if it was pushed.
    pub(crate) fn probe(&mut self, now_ms: u64, random: u32) -> bool {
        let is_pushed = self.health.is_probe_due(now_ms, random) && !self.pipeline.has_probe();
        if is_pushed {
            self.used_ms = now_ms;
            self.pipeline.push_own(Kind::Probe, b"version\r\n", now_ms);
            self.tally.add(ServerCount::Probes, 1);
        }
        is_pushed
    }

    /// Closes the connection for this reason, and returns the requests that fail. After a
    /// connection that was up, requests that were not sent are sent over the next one.
    pub(crate) fn disconnect(&mut self, poll: &Poll, why: Outcome) -> Vec<FailedRequest> {
        let was_up = self.link.is_up();
        if was_up {
            self.tally.add(ServerCount::Closed, 1);
        }
        self.tally.set_state(State::Down);
        self.link.close(poll);
        self.lessor.disconnect();
        let disconnected = self.pipeline.disconnect(if was_up { Unsent::Keep } else { Unsent::Fail });
        self.tally.ended(why, disconnected.of_clients);
        self.tally.show_outstanding(&self.pipeline);
        disconnected.failed
    }

    #[cfg(any(test, feature = "laws"))]
    pub(super) fn pretend_to_send(&mut self) {
        self.pipeline.pretend_to_send();
    }
}

//! Commands without a key: about the server, or about the client's connection.

use super::runner::{Flow, Runner};
use super::state::{Phase, ProtocolState, Waits};
use crate::admin::Answer;
use guira_commands::reply_to_meta_prefix;
use guira_contract::{PREFIXES_MAX, Session, Switch, ValuePin};
use guira_protocol::Replies;
use guira_protocol::binary::{
    Packet, Quiet, ServerOperation, Status, reply_stat, reply_stat_lines, reply_status, reply_text,
};
use guira_protocol::{AdminVerb, Exptime, Noreply, ReplyBuffer, ServerCommand, noreply};
use guira_serving::{CloseReason, Outbox, Stopped};
use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// While too many prefixes are being deleted, a deletion of one more spends so much of each turn on
/// crawling: about a slice …
const FLUSH_TURN: Duration = Duration::from_micros(100);
/// … and is refused if it has waited so long. The crawler starts when every thread has seen the
/// deletions before it, and the kernel may have suspended one in the middle of a batch.
const FLUSH_PATIENCE: Duration = Duration::from_millis(100);

fn say<P: ValuePin>(outbox: &mut Outbox<P>, noreply: Noreply, text: &str) {
    if noreply == Noreply::No {
        outbox.buffer().line(text);
    }
}

/// How to continue after a command without a key.
fn flow<S: Session>(state: &ProtocolState<S>) -> Flow {
    if state.is_between_commands() { Flow::Continue } else { Flow::Stop }
}

impl<S: Session> Runner<S> {
    /// Executes what may take any time. The turn pays for it: others wait for no more than one such
    /// command.
    ///
    /// Not part of the loop over requests, where registers are short.
    #[cold]
    #[inline(never)]
    pub(crate) fn timed(&mut self, execute: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let since = Stopwatch::start();
        let flow = execute(self);
        self.slice.took(since.elapsed());
        if flow == Flow::Continue && self.slice.is_cut() { Flow::Stop } else { flow }
    }

    /// Executes a command of the text protocol.
    pub(crate) fn server_command(
        &mut self,
        state: &mut ProtocolState<S>,
        command: &ServerCommand<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow {
        match command {
            ServerCommand::MetaNoop => outbox.buffer().line("MN"),
            ServerCommand::FlushAll { delay, noreply } => say(outbox, *noreply, self.flush_all(*delay)),
            ServerCommand::FlushPrefixes { prefixes, noreply } => {
                let Some(flushed) = self.flush_prefixes(state, *prefixes) else {
                    return Flow::Later;
                };
                say(outbox, *noreply, flushed.as_ref().map_or_else(String::as_str, |()| "OK"));
            }
            ServerCommand::MetaFlushPrefix(md) => {
                let mut decoded = [0; 336];
                let prefix = std::iter::once(md.key.bytes(&mut decoded));
                let Some(flushed) = self.flush_prefixes(state, prefix) else {
                    return Flow::Later;
                };
                reply_to_meta_prefix(md, flushed, outbox.buffer());
            }
            ServerCommand::Version => outbox.buffer().line(&self.admin.version_line()),
            ServerCommand::Verbosity { level, noreply } => {
                self.admin.set_verbosity(*level);
                say(outbox, *noreply, "OK");
            }
            ServerCommand::Stats(arguments) => {
                if let Some(task) = self.admin.stats(self.executor.now(), arguments, outbox.buffer()) {
                    state.phase = Phase::Background(Box::new(task));
                }
            }
            ServerCommand::Admin(verb, rest) => self.administer(state, *verb, rest, outbox),
            ServerCommand::Quit => state.quit(),
        }
        flow(state)
    }

    /// Executes a flush_all. Returns its reply.
    fn flush_all(&mut self, delay: Option<Exptime>) -> &'static str {
        let at = self.executor.flush_time(delay.unwrap_or_default());
        if self.flush_commands == Switch::Off {
            return "CLIENT_ERROR flush_all not allowed";
        }
        if delay.is_none() {
            return "CLIENT_ERROR invalid exptime argument";
        }
        if let Some(at) = at {
            self.admin.flush(self.executor.now(), at);
        }
        "OK"
    }

    /// Deletes what begins with one of these prefixes. `None` if the command is to be executed again
    /// in the next turn: too many prefixes are being deleted, and this turn is spent on that.
    ///
    /// # Errors
    /// The reply that says why not.
    fn flush_prefixes<'k>(
        &mut self,
        state: &mut ProtocolState<S>,
        prefixes: impl Iterator<Item = &'k [u8]>,
    ) -> Option<Result<(), String>> {
        if self.flush_commands == Switch::Off {
            return Some(Err("CLIENT_ERROR flush_prefix not allowed".to_owned()));
        }
        let prefixes: Vec<&[u8]> = prefixes.take(PREFIXES_MAX + 1).collect();
        if prefixes.len() > PREFIXES_MAX {
            return Some(Err(format!("CLIENT_ERROR too many prefixes: at most {PREFIXES_MAX}")));
        }
        let (admin, now) = (&self.admin, self.executor.now());
        let flushed = self.executor.flush_prefixes(&prefixes, |prefixes| admin.flush_prefixes(now, prefixes));
        if flushed.is_err() && self.slice.can_wait() {
            let since = state.waits.map_or_else(Stopwatch::start, |waits| waits.since);
            if since.elapsed() < FLUSH_PATIENCE {
                let crawled = self.executor.crawl_for(FLUSH_TURN);
                let why = if crawled.is_some() { Stopped::SliceOver } else { Stopped::Waits };
                state.waits = Some(Waits { since, why });
                self.slice.end();
                return None;
            }
        }
        state.waits = None;
        Some(flushed.map_err(|busy| format!("SERVER_ERROR {busy}, try again later")))
    }

    fn administer(
        &mut self,
        state: &mut ProtocolState<S>,
        verb: AdminVerb,
        rest: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) {
        let noreply = if verb.takes_noreply() { noreply(rest) } else { Noreply::No };
        match self.admin.carry_out(verb, rest) {
            Answer::Line(line) => say(outbox, noreply, &line),
            Answer::Close => {
                state.phase = Phase::Over;
                state.ends = CloseReason::Shutdown;
            }
            Answer::Alone(name, _) if !outbox.is_settled() => {
                say(outbox, noreply, &format!("ERROR cannot pipeline other commands before {name}"));
            }
            Answer::Alone(_, Ok(task)) => state.phase = Phase::Background(Box::new(task)),
            Answer::Alone(_, Err(line)) => say(outbox, noreply, line),
        }
    }

    /// Executes a command of the binary protocol.
    pub(crate) fn server_packet(
        &mut self,
        state: &mut ProtocolState<S>,
        packet: Packet,
        operation: &ServerOperation<'_>,
        outbox: &mut Outbox<S::Pin>,
    ) -> Flow {
        match operation {
            ServerOperation::Noop => {}
            ServerOperation::Flush(delay) => {
                let at = self.executor.flush_time(*delay);
                if self.flush_commands == Switch::Off {
                    reply_status(packet, Status::AuthError, 0, outbox);
                    return Flow::Continue;
                }
                if let Some(at) = at {
                    self.admin.flush(self.executor.now(), at);
                }
            }
            ServerOperation::Version => {
                reply_text(packet, crate::VERSION, outbox);
                return Flow::Continue;
            }
            ServerOperation::Stat(about) => {
                self.stat_packets(packet, about, outbox);
                return Flow::Continue;
            }
            ServerOperation::Quit => state.quit(),
        }
        if packet.quiet() == Quiet::No {
            reply_status(packet, Status::Success, 0, outbox);
        }
        flow(state)
    }

    /// Answers stat with the lines of the text protocol, each in a packet of its own.
    fn stat_packets(&mut self, packet: Packet, about: &[u8], outbox: &mut Outbox<S::Pin>) {
        let mut text = ReplyBuffer::default();
        if self.admin.stats(self.executor.now(), about, &mut text).is_some() {
            // The text protocol has what takes long.
            return reply_status(packet, Status::KeyNotFound, 0, outbox);
        }
        let lines = text.as_slice();
        if about.starts_with(b"detail dump") && (lines.starts_with(b"PREFIX ") || lines == b"END\r\n") {
            // The one answer that comes whole.
            reply_stat(packet, b"detailed", lines, outbox);
            return reply_stat(packet, b"", b"", outbox);
        }
        reply_stat_lines(packet, lines, outbox);
    }
}

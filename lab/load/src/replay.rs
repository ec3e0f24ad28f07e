//! Replays a recorded trace on a running server that is used as a look-aside cache: each get that
//! misses is followed by a set.

pub mod compare;

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;

use guira_harness::affinity::pin_thread;
use guira_harness::process::Process;
use guira_harness::stats::{number, stats};
use guira_workload::trace::{Action, Broken, Format, Key, Request, Trace, TraceError};
use guira_workload::{KeyShape, Operation, ValuePool};

use crate::clock::{Clock, MonotonicClock};
use crate::engine::{Observer, Plan, Span};
use crate::error::LoadError;
use crate::pace::Pace;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::run::{Outcome, run_source};
use crate::source::{Source, Subject};
use crate::target::Target;
use guira_workload::OnMiss;

/// The longest relative expiration time of the protocol; a larger number is a date, long past.
const RELATIVE_EXPTIME_MAX: u32 = 30 * 24 * 3600;

#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    pub path: PathBuf,
    /// The format of the file; guessed if `None`.
    pub format: Option<Format>,
    /// The reaction to a broken request in the trace.
    pub broken: Broken,
    /// The length of values in a trace without sizes.
    pub value_len: u32,
    /// Longer values are cut to this length.
    pub value_len_max: u32,
    /// The number of requests to replay; `None` is all.
    pub limit: Option<u64>,
    pub on_miss: OnMiss,
    /// With more than one connection, requests may overtake each other by this number.
    pub connections: usize,
    /// When requests are sent.
    pub pace: Pace,
    /// One value in this many is compared byte by byte.
    pub sample: u32,
}

/// A trace as a stream of requests.
#[derive(Debug)]
struct TraceSource {
    trace: Trace,
    left: u64,
    value_len: u32,
    value_len_max: u32,
    on_miss: OnMiss,
    current: Option<Request>,
    error: Option<TraceError>,
}

impl Source for TraceSource {
    fn next_operation(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        match self.trace.next()? {
            Ok(request) => {
                let operation = match request.action {
                    Action::Get => Operation::Get,
                    Action::Set => Operation::Set,
                    Action::Delete => Operation::Delete,
                    Action::LoneGet => Operation::LoneGet,
                    Action::LoneDelete => Operation::LoneDelete,
                };
                self.current = Some(request);
                Some(operation)
            }
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
        let Some(request) = &self.current else {
            // The engine requests a key only after an operation.
            return Subject { id: 0, value_len: 0, exptime: 0, on_miss: OnMiss::Leave };
        };
        match &request.key {
            Key::Number(number) => KeyShape::sixteen().append(*number, out),
            Key::Text(text) => {
                out.extend_from_slice(text);
                // An anonymised key may be shorter than the real one: filler restores the length.
                let filler = request.key_len.unwrap_or(0).min(guira_workload::keys::KEY_LEN_MAX);
                out.resize(out.len() + filler.saturating_sub(text.len()), b'.');
            }
        }
        Subject {
            id: request.key.id(),
            value_len: request.value_len.unwrap_or(self.value_len).min(self.value_len_max),
            exptime: request.ttl.min(RELATIVE_EXPTIME_MAX),
            on_miss: self.on_miss,
        }
    }
}

/// The number of items on the server at `addr`; 0 if it does not report it.
pub fn items_at(addr: SocketAddr) -> u64 {
    stats(addr, "").ok().and_then(|stats| number(&stats, "curr_items")).unwrap_or(0)
}

impl Replay {
    /// Opens the trace. A file starts from its beginning each time; a pipe continues where the last
    /// reader stopped.
    ///
    /// # Errors
    /// When it cannot be read, or is no trace.
    pub fn open(&self) -> Result<Trace, LoadError> {
        let file =
            File::open(&self.path).map_err(|source| LoadError::File { path: self.path.clone(), source })?;
        let trace = Trace::new(file, self.format).map_err(|error| LoadError::Trace(Box::new(error)))?;
        Ok(trace.on_broken(self.broken))
    }

    /// Opens the trace, and replays it as [`Replay::run`] does.
    ///
    /// # Errors
    /// As in [`Replay::run`], or if the trace cannot be opened.
    pub fn run_on(
        &self,
        addr: SocketAddr,
        process: Option<Process>,
        cores: &[usize],
        listener: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        self.run(self.open()?, addr, process, cores, listener)
    }

    /// Replays the opened trace on the server at `addr`, whose process is `process`, from the
    /// processors `cores`.
    ///
    /// # Errors
    /// When the trace cannot be read, a connection fails or a reply breaks the protocol.
    pub fn run(
        &self,
        trace: Trace,
        addr: SocketAddr,
        process: Option<Process>,
        cores: &[usize],
        listener: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        if self.connections == 0 {
            return Err(LoadError::Options("there must be at least one connection".to_owned()));
        }
        if !cores.is_empty() {
            pin_thread(cores).map_err(LoadError::system("cannot keep the client on its processor"))?;
        }
        let is_sized = trace.format().has_sizes();
        let mut source = TraceSource {
            trace,
            left: self.limit.unwrap_or(u64::MAX),
            value_len: self.value_len,
            value_len_max: self.value_len_max,
            on_miss: self.on_miss,
            current: None,
            error: None,
        };
        let longest = if is_sized { self.value_len_max } else { self.value_len.min(self.value_len_max) };
        let clock = MonotonicClock::start();
        let sample = self.sample.max(1);
        let plan = Plan {
            target: Target::text(addr),
            connections: self.connections,
            pipeline: 1,
            pace: self.pace,
            style: ItemStyle { flags: 0, multiget_keys: 1 },
            check: if is_sized { Check::AnyLength { sample } } else { Check::Contents { sample } },
            span: Span { from_ns: clock.now_ns(), until_ns: None },
        };
        let values = ValuePool::new(longest as usize);
        let outcome = run_source(&plan, &mut source, values, clock, process, listener)?;
        if let (skipped, Some(first)) = source.trace.skipped() {
            listener.skipped(skipped, first);
        }
        match source.error {
            Some(error) => Err(LoadError::Trace(Box::new(error))),
            None => Ok(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use guira_workload::Operation;
    use guira_workload::trace::Trace;

    use super::TraceSource;
    use crate::source::Source;
    use guira_workload::OnMiss;

    fn source(text: &str) -> TraceSource {
        TraceSource {
            trace: Trace::new(Cursor::new(text.to_owned().into_bytes()), None).unwrap(),
            left: 10,
            value_len: 1000,
            value_len_max: 5000,
            on_miss: OnMiss::Fill,
            current: None,
            error: None,
        }
    }

    #[test]
    fn twitters_sizes_and_ttls_are_kept() {
        let mut source =
            source("0,ab,5,0,1,get,0\n1,ab,5,9000,1,set,60\n2,ab,2,7,1,set,9999999\n3,ab,2,7,1,delete,0\n");
        let mut key = Vec::new();
        assert_eq!(source.next_operation(), Some(Operation::Get));
        assert_eq!(source.append_key(&mut key).value_len, 1000, "no size in the trace: the default");
        assert_eq!(key, b"ab...", "the key takes the room of the real one");
        assert_eq!(source.next_operation(), Some(Operation::Set));
        let set = source.append_key(&mut Vec::new());
        assert_eq!((set.value_len, set.exptime), (5000, 60), "cut to the longest that is allowed");
        assert_eq!(source.next_operation(), Some(Operation::Set));
        assert_eq!(source.append_key(&mut Vec::new()).exptime, 2_592_000, "longer would be a date");
        assert_eq!(source.next_operation(), Some(Operation::Delete));
        assert_eq!(source.next_operation(), None);
        assert!(source.error.is_none());
    }

    #[test]
    fn an_error_in_the_trace_is_kept() {
        let mut source = source("0,ab,5,0,1,get,0\nbroken\n");
        assert!(source.next_operation().is_some());
        assert!(source.next_operation().is_none());
        assert!(source.error.unwrap().to_string().starts_with("line 2"));
    }
}

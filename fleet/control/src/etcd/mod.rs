//! etcd by its JSON gateway, which every member serves beside gRPC: blocking calls over HTTP, each with a time limit.

mod access;
#[cfg(guira_simulated)]
mod simulated;
#[cfg(test)]
mod tests;
mod wire;

use crate::counts::{ControlCount, ControlCounts};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use guira_sync::clock::Stopwatch;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

pub use access::{EtcdOptions, EtcdTls};
pub(crate) use wire::Entry;

/// A call takes no longer, whatever fails.
const CALL_MAX: Duration = Duration::from_millis(1500);
/// The time after which an idempotent request is sent to the next endpoint, so that members that hang do not add up.
/// While a cluster takes longer than that to answer, each call is made once.
const NEXT_AFTER: Duration = Duration::from_millis(500);
/// Calls that change nothing, or may be made twice.
const REPEATABLE: [&str; 3] = ["kv/range", "lease/keepalive", "auth/authenticate"];
/// Bytes of an answer. etcd keeps no value of more than 1.5 MiB by default.
const ANSWER_MAX: u64 = 64 << 20;
/// Bytes of a line of a stream, each of which is one answer.
const LINE_MAX: u64 = 8 << 20;

/// Why etcd has not done what it was requested to.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// None of the endpoints has answered.
    #[error("no endpoint of etcd answers; the last one, {endpoint}: {reason}")]
    Unreachable {
        /// The one that was tried last.
        endpoint: String,
        reason: String,
    },
    /// It has answered with an error.
    #[error("etcd refuses {call}: {reason}")]
    Refused { call: String, reason: String },
    #[error("{0} is no answer of etcd's")]
    Nonsense(String),
    /// A certificate, a key or a password cannot be read.
    #[error("{0}")]
    Unusable(String),
}

/// A connection to a cluster of etcd.
#[derive(Debug)]
pub struct Etcd {
    agent: ureq::Agent,
    options: EtcdOptions,
    counts: Arc<ControlCounts>,
    /// The endpoint that has answered last.
    current: usize,
    /// The timeout of an endpoint for an idempotent request.
    patience: Duration,
    token: Option<String>,
}

/// All that is below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// When: it rises with each change of anything.
    pub(crate) revision: i64,
    pub(crate) entries: Vec<Entry>,
}

/// What has to be so for a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition<'k> {
    /// The key is not there.
    IsAbsent(&'k str),
    /// The key was last changed at this revision.
    IsUnchanged(&'k str, i64),
}

/// A value to be put, which goes with its lease if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'k> {
    pub(crate) key: &'k str,
    pub(crate) value: &'k str,
    pub(crate) lease: Option<i64>,
}

/// Whether the conditions of a change were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Refused,
}

impl Etcd {
    /// A cluster that is connected to when it is first asked.
    ///
    /// # Errors
    /// A certificate or key cannot be read.
    pub fn new(options: EtcdOptions, counts: Arc<ControlCounts>) -> Result<Self, EtcdError> {
        Ok(Etcd { agent: options.agent()?, options, counts, current: 0, patience: NEXT_AFTER, token: None })
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.options.prefix
    }

    /// All keys that begin with `prefix`, as of now.
    pub(crate) fn range(&mut self, prefix: &str) -> Result<Snapshot, EtcdError> {
        let answer =
            self.call("kv/range", &json!({"key": encode(prefix), "range_end": encode_end(prefix)}))?;
        let entries = answer.get("kvs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let entries = entries.iter().map(|entry| Entry::of(entry).ok_or_else(|| nonsense(entry)));
        let revision = wire::revision(&answer).ok_or_else(|| nonsense(&answer))?;
        Ok(Snapshot { revision, entries: entries.collect::<Result<_, _>>()? })
    }

    /// Waits until something below `prefix` has changed after `revision`, for `patience` at the most.
    ///
    /// # Errors
    /// etcd does not answer, or does not have that revision any more.
    pub(crate) fn wait(&mut self, prefix: &str, revision: i64, patience: Duration) -> Result<(), EtcdError> {
        let request = json!({"create_request": {
            "key": encode(prefix), "range_end": encode_end(prefix), "start_revision": (revision + 1).to_string(),
        }});
        let endpoint = self.endpoint();
        let mut response = match self.send(&endpoint, "watch", &request, patience) {
            Ok(response) => response,
            Err(ureq::Error::Timeout(_)) => return Ok(()),
            Err(error) => return Err(self.unreachable(endpoint, error.to_string())),
        };
        if response.status() != 200 {
            let text = response.body_mut().read_to_string().unwrap_or_default();
            return Err(self.refused("watch", &text));
        }
        let mut lines = BufReader::new(response.into_body().into_reader());
        loop {
            let mut line = Vec::new();
            match lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
                // Its time is over, or the server ends: what has changed will be seen.
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
            let answer: Value = serde_json::from_slice(&line).unwrap_or_default();
            let result = answer.get("result").ok_or_else(|| nonsense(&answer))?;
            if result.get("events").is_some() || result.get("canceled").is_some() {
                return Ok(());
            }
        }
    }

    /// A lease that ends `ttl` after it was last kept alive.
    pub(crate) fn grant(&mut self, ttl: Duration) -> Result<i64, EtcdError> {
        let answer = self.call("lease/grant", &json!({"TTL": ttl.as_secs().max(1).to_string()}))?;
        wire::number(&answer, "ID").ok_or_else(|| nonsense(&answer))
    }

    /// Whether the lease was still there. It lives on from now.
    pub(crate) fn keep_alive(&mut self, lease: i64) -> Result<bool, EtcdError> {
        let answer = self.call("lease/keepalive", &json!({"ID": lease.to_string()}))?;
        let result = answer.get("result").ok_or_else(|| nonsense(&answer))?;
        Ok(wire::number(result, "TTL").is_some_and(|left| left > 0))
    }

    /// Ends a lease, and what has it goes.
    pub(crate) fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        self.call("lease/revoke", &json!({"ID": lease.to_string()})).map(drop)
    }

    /// Puts all values if all conditions are met.
    pub(crate) fn change(
        &mut self,
        conditions: &[Condition<'_>],
        puts: &[Put<'_>],
    ) -> Result<Outcome, EtcdError> {
        let compare = conditions.iter().map(|condition| {
            let (key, revision) = match condition {
                Condition::IsAbsent(key) => (key, 0),
                Condition::IsUnchanged(key, revision) => (key, *revision),
            };
            json!({"key": encode(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()})
        });
        let put = |put: &Put<'_>| {
            let lease = put.lease.unwrap_or_default().to_string();
            json!({"request_put": {"key": encode(put.key), "value": encode(put.value), "lease": lease}})
        };
        let puts: Vec<Value> = puts.iter().map(put).collect();
        let request = json!({"compare": compare.collect::<Vec<_>>(), "success": puts});
        let answer = self.call("kv/txn", &request)?;
        let is_done = answer.get("succeeded").and_then(Value::as_bool).unwrap_or_default();
        Ok(if is_done { Outcome::Done } else { Outcome::Refused })
    }

    /// Asks one endpoint after the other until one answers.
    fn call(&mut self, name: &str, request: &Value) -> Result<Value, EtcdError> {
        let answer = self.call_once(name, request);
        match answer {
            // The token has ended, or was never there.
            Err(EtcdError::Refused { ref reason, .. })
                if wire::is_about_login(reason) && self.log_in()? =>
            {
                self.call_once(name, request)
            }
            other => other,
        }
    }

    fn call_once(&mut self, name: &str, request: &Value) -> Result<Value, EtcdError> {
        let endpoints = self.options.endpoints.len();
        if endpoints < 2 || !REPEATABLE.contains(&name) {
            return self.request_each(name, request, CALL_MAX);
        }
        let (clock, patience) = (Stopwatch::start(), self.patience);
        let answer = self.request_each(name, request, patience);
        match answer {
            Err(EtcdError::Unreachable { .. }) if patience < CALL_MAX => {
                // All of them may be slow.
                let answer = self.request_each(name, request, CALL_MAX)?;
                self.patience = CALL_MAX;
                Ok(answer)
            }
            other => {
                if clock.elapsed() < NEXT_AFTER {
                    self.patience = NEXT_AFTER;
                }
                other
            }
        }
    }

    /// Asks all endpoints, beginning with the one that has answered last, and waits for each for so long.
    fn request_each(&mut self, name: &str, request: &Value, patience: Duration) -> Result<Value, EtcdError> {
        let mut last = None;
        for _ in 0..self.options.endpoints.len() {
            let endpoint = self.endpoint();
            match self.answer(&endpoint, name, request, patience) {
                Ok((200, text)) => {
                    return serde_json::from_str(&text).map_err(|_| EtcdError::Nonsense(wire::reason(&text)));
                }
                // A member without a leader cannot help, but another one may.
                Ok((503 | 504, text)) => last = Some(self.unreachable(endpoint, wire::reason(&text))),
                Ok((_, text)) => return Err(self.refused(name, &text)),
                Err(error) => last = Some(self.unreachable(endpoint, error.to_string())),
            }
            self.current += 1;
        }
        Err(last.unwrap_or_else(|| EtcdError::Unusable("no endpoint of etcd is given".to_owned())))
    }

    fn answer(
        &self,
        endpoint: &str,
        name: &str,
        request: &Value,
        patience: Duration,
    ) -> Result<(u16, String), ureq::Error> {
        let mut response = self.send(endpoint, name, request, patience)?;
        let text = if name == "lease/keepalive" {
            // A stream: the first line is the answer.
            let mut line = String::new();
            BufReader::new(response.body_mut().as_reader()).take(LINE_MAX).read_line(&mut line)?;
            line
        } else {
            response.body_mut().with_config().limit(ANSWER_MAX).read_to_string()?
        };
        Ok((response.status().as_u16(), text))
    }

    fn send(
        &self,
        endpoint: &str,
        name: &str,
        request: &Value,
        patience: Duration,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        self.counts.add(ControlCount::EtcdCalls);
        let mut post = self.agent.post(format!("{endpoint}/v3/{name}"));
        if let Some(token) = &self.token {
            post = post.header("Authorization", token);
        }
        post.config().timeout_global(Some(patience)).build().send(request.to_string())
    }

    /// Whether there is a user to log in.
    fn log_in(&mut self) -> Result<bool, EtcdError> {
        let Some(user) = self.options.user()? else { return Ok(false) };
        self.token = None;
        let answer =
            self.call_once("auth/authenticate", &json!({"name": user.name, "password": user.password}))?;
        let token = answer.get("token").and_then(Value::as_str).ok_or_else(|| nonsense(&answer))?;
        self.token = Some(token.to_owned());
        Ok(true)
    }

    fn endpoint(&self) -> String {
        let endpoints = &self.options.endpoints;
        endpoints.get(self.current % endpoints.len().max(1)).cloned().unwrap_or_default()
    }

    fn unreachable(&mut self, endpoint: String, reason: String) -> EtcdError {
        self.counts.add(ControlCount::EtcdFailures);
        EtcdError::Unreachable { endpoint, reason }
    }

    fn refused(&mut self, call: &str, text: &str) -> EtcdError {
        self.counts.add(ControlCount::EtcdFailures);
        EtcdError::Refused { call: call.to_owned(), reason: wire::reason(text) }
    }
}

fn nonsense(answer: &Value) -> EtcdError {
    EtcdError::Nonsense(wire::reason(&answer.to_string()))
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

/// The first key behind all that begin with `prefix`.
fn encode_end(prefix: &str) -> String {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return STANDARD.encode(end);
        }
    }
    // All keys.
    STANDARD.encode([0])
}

//! Delays requests, or replies: to try out what clients do when a cache is slow.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct LatencyInjection {
    child: NodeId,
    before_ms: u32,
    after_ms: u32,
    /// The minimum time between a request and its reply.
    total_ms: u32,
}

const CHILD: u32 = 0;
const BEFORE: u32 = 1;
const AFTER: u32 = 2;
const TOTAL: u32 = 3;

/// Bits of the state: the reply has arrived and `after_ms` have passed; `total_ms` have passed.
const REPLIED: u32 = 1;
const TOTAL_OVER: u32 = 2;

const DELAY_MAX: i64 = 3_600_000;

const NO_PAYLOAD: &str = "requests of memcached's protocols have no field for a delay";

impl LatencyInjection {
    fn end(&self, state: &mut State, reached: u32) -> Then {
        state.a |= reached;
        let needed = if self.total_ms > 0 { REPLIED | TOTAL_OVER } else { REPLIED };
        if state.a == needed { Then::Held } else { Then::Wait }
    }
}

impl Handle for LatencyInjection {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let child = members.child("child")?;
        let names = ["before_latency_ms", "after_latency_ms", "total_latency_ms"];
        let mut delays = [0; 3];
        let mut has_one = members.json("request_payload_latency").is_some();
        for (delay, name) in delays.iter_mut().zip(names) {
            if let Some(ms) = members.integer(name, 0..=DELAY_MAX)? {
                (*delay, has_one) = (ms as u32, true);
            }
        }
        if !has_one {
            return Err(json.error(format!(
                "at least one of {} is required",
                names.map(|name| format!("'{name}'")).join(", ")
            )));
        }
        for name in ["request_payload_latency", "max_request_latency_us"] {
            members.without_effect(name, NO_PAYLOAD);
        }
        members.end();
        let [before_ms, after_ms, total_ms] = delays;
        Ok(LatencyInjection { child, before_ms, after_ms, total_ms })
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        if self.before_ms == 0 && self.after_ms == 0 && self.total_ms == 0 {
            return Step::Tail(self.child);
        }
        if self.total_ms > 0 {
            cx.wait(self.total_ms, TOTAL);
        }
        if self.before_ms > 0 {
            cx.wait(self.before_ms, BEFORE);
        } else {
            cx.request(self.child, Rewrite::NONE, CHILD);
        }
        Step::Await(State::default())
    }

    fn explore(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Tail(self.child)
    }

    fn reason(&self, _request: &Request<'_>) -> Option<String> {
        let delays =
            [("before", self.before_ms), ("after", self.after_ms), ("in all at least", self.total_ms)];
        let listed = delays.iter().filter(|(_, ms)| *ms > 0).map(|(name, ms)| format!("{name} {ms} ms"));
        Some(listed.collect::<Vec<_>>().join(", ")).filter(|listed| !listed.is_empty())
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        match child {
            // Too many requests wait already.
            BEFORE if answer.outcome.is_error() => Then::Pass,
            BEFORE => {
                cx.request(self.child, Rewrite::NONE, CHILD);
                Then::Wait
            }
            CHILD if self.after_ms > 0 => {
                cx.hold();
                cx.wait(self.after_ms, AFTER);
                Then::Wait
            }
            CHILD if self.total_ms == 0 || state.a & TOTAL_OVER != 0 => Then::Pass,
            CHILD => {
                cx.hold();
                self.end(state, REPLIED)
            }
            AFTER => self.end(state, REPLIED),
            _ => self.end(state, TOTAL_OVER),
        }
    }
}

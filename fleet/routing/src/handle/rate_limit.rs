//! Answers as a cache without items does if there are too many requests.

use super::Handle;
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json};
use crate::outcome::without_items;
use crate::request::{Group, Request};
use crate::step::{Cx, NodeId, Step};
use std::cell::Cell;

#[derive(Debug)]
pub(crate) struct RateLimit {
    target: NodeId,
    gets: Option<Bucket>,
    sets: Option<Bucket>,
    deletes: Option<Bucket>,
}

/// A token bucket of one worker. It begins empty, like mcrouter's.
#[derive(Debug)]
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: Cell<f64>,
    /// When it was filled, if its configuration began at a known time or requests have come.
    filled_ms: Cell<Option<u64>>,
}

impl Bucket {
    fn takes(&self, now_ms: u64) -> bool {
        let since_ms = now_ms - self.filled_ms.replace(Some(now_ms)).unwrap_or(now_ms).min(now_ms);
        let tokens = (self.tokens.get() + self.rate * since_ms as f64 / 1000.0).min(self.burst);
        let is_taken = tokens >= 1.0;
        self.tokens.set(if is_taken { tokens - 1.0 } else { tokens });
        is_taken
    }
}

impl RateLimit {
    /// Tokens come from this time on.
    pub(crate) fn begin(&self, now_ms: u64) {
        for bucket in [&self.gets, &self.sets, &self.deletes].into_iter().flatten() {
            bucket.filled_ms.set(Some(now_ms));
        }
    }

    pub(crate) fn target(&self) -> NodeId {
        self.target
    }

    pub(crate) fn read(
        members: &mut Members<'_, '_, '_>,
        target: NodeId,
        rates: &Json,
    ) -> Result<Self, ConfigError> {
        let mut object = rates.object("rates")?;
        let mut bucket = |of: &str| {
            let above_0 = |json: &Json, name: &str| json.number(name, f64::MIN_POSITIVE..=f64::MAX);
            let burst = object.optional_as(&format!("{of}_burst"), above_0)?;
            let rate = object.optional_as(&format!("{of}_rate"), above_0)?;
            Ok(rate.map(|rate| {
                let burst = burst.unwrap_or(rate);
                Bucket { rate, burst, tokens: Cell::new(0.0), filled_ms: Cell::new(None) }
            }))
        };
        let (gets, sets, deletes) = (bucket("gets")?, bucket("sets")?, bucket("deletes")?);
        members.finish(object);
        Ok(RateLimit { target, gets, sets, deletes })
    }
}

impl Handle for RateLimit {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let rates = members.json("rates").ok_or_else(|| json.error("'rates' is missing"))?;
        let limit = Self::read(&mut members, target, rates)?;
        members.end();
        Ok(limit)
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let bucket = match request.op.group() {
            Group::Get => &self.gets,
            Group::Update => &self.sets,
            Group::Delete => &self.deletes,
            Group::Arithmetic | Group::Touch | Group::Flush => &None,
        };
        match bucket {
            Some(bucket) if !bucket.takes(cx.facts.now_ms) => Step::Answer(without_items(request.op)),
            _ => Step::Tail(self.target),
        }
    }

    fn explore(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Tail(self.target)
    }
}

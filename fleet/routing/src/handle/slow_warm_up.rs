//! Spares a server with few items: while its hit ratio is low, a part of the gets is sent elsewhere at once.

use super::Handle;
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::{Group, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use std::cell::Cell;

#[derive(Debug)]
pub(crate) struct SlowWarmUp {
    target: NodeId,
    failover: NodeId,
    settings: Settings,
    hits: Cell<u64>,
    misses: Cell<u64>,
    is_cold: Cell<bool>,
}

/// Shares of 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The server is cold below this hit ratio,
    enable_threshold: f64,
    /// and then until it has this one.
    disable_threshold: f64,
    /// The share of requests at a hit ratio of 0, and how much it grows up to a ratio of 1.
    start: f64,
    step: f64,
    min_requests: u64,
}

impl Settings {
    fn parse(members: &mut Members<'_, '_, '_>, json: &Json) -> Result<Self, ConfigError> {
        let mut object = json.object("settings")?;
        let threshold = |json: &Json, name: &str| json.number(name, 0.0..=1.0);
        let below = |limit: f64| move |json: &Json, name: &str| json.number(name, f64::MIN_POSITIVE..=limit);
        let mut settings = Settings {
            enable_threshold: object.required_as("enable_threshold", threshold)?,
            disable_threshold: object.required_as("disable_threshold", threshold)?,
            start: object.optional_as("start", below(1.0))?.unwrap_or(0.1),
            step: object.optional_as("step", below(100.0))?.unwrap_or(1.0),
            min_requests: 100,
        };
        let least = object.optional_as("min_requests", |json, name| json.integer(name, 1..=i64::MAX))?;
        settings.min_requests = least.map_or(settings.min_requests, i64::unsigned_abs);
        members.finish(object);
        if settings.enable_threshold >= settings.disable_threshold {
            return Err(json.error("'enable_threshold' is not below 'disable_threshold'"));
        }
        Ok(settings)
    }
}

impl SlowWarmUp {
    /// Reads `slow_warmup` of a pool, of which each server has a handle of its own.
    pub(crate) fn read(
        members: &mut Members<'_, '_, '_>,
        json: &Json,
    ) -> Result<(NodeId, Settings), ConfigError> {
        let mut object = json.object("slow_warmup")?;
        let failover = members.node(object.required("failoverTarget")?)?;
        let settings = Settings::parse(members, object.required("settings")?)?;
        members.finish(object);
        Ok((failover, settings))
    }

    pub(crate) fn new(target: NodeId, failover: NodeId, settings: Settings) -> Self {
        let (hits, misses, is_cold) = Default::default();
        SlowWarmUp { target, failover, settings, hits, misses, is_cold }
    }

    fn hit_ratio(&self) -> f64 {
        let total = self.hits.get() + self.misses.get();
        if total < self.settings.min_requests { 1.0 } else { self.hits.get() as f64 / total as f64 }
    }

    fn is_spared(&self, cx: &mut Cx<'_>) -> bool {
        let Settings { enable_threshold, disable_threshold, start, step, .. } = self.settings;
        let ratio = self.hit_ratio();
        self.is_cold.set(ratio < if self.is_cold.get() { disable_threshold } else { enable_threshold });
        self.is_cold.get() && cx.random(1 << 32) as f64 / 4_294_967_296.0 > start + step * ratio
    }
}

impl Handle for SlowWarmUp {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (target, failover) = (members.child("target")?, members.child("failoverTarget")?);
        let settings = members.json("settings").ok_or_else(|| json.error("'settings' is missing"))?;
        let settings = Settings::parse(&mut members, settings)?;
        members.end();
        Ok(Self::new(target, failover, settings))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if request.op.group() == Group::Get && self.is_spared(cx) {
            return Step::Tail(self.failover);
        }
        cx.request(self.target, Rewrite::NONE, 0);
        Step::Await(State::default())
    }

    fn explore(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        super::request_all(cx, &[self.target, self.failover]);
        Step::Await(State::default())
    }

    fn resume(
        &self,
        _cx: &mut Cx<'_>,
        _state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        if answer.outcome.is_hit() {
            self.hits.set(self.hits.get() + 1);
        } else if answer.outcome.is_miss() {
            self.misses.set(self.misses.get() + 1);
        }
        Then::Pass
    }
}

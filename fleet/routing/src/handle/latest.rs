//! Sends all keys to one child, chosen per host; if it fails, to others.

use super::{Children, Failover, Handle};
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json, Value};
use crate::hash::Selector;
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then, Wanted};
use std::cell::OnceCell;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Latest {
    children: Children,
    weighted: Selector,
    salt: Arc<str>,
    count: usize,
    /// The reaction to failures; only the number of its children matters.
    failover: Failover,
    order: OnceCell<Box<[NodeId]>>,
}

const FAILOVER_COUNT: usize = 5;
/// The name of this hash in a configuration.
const HASH: &str = "Latest";
/// The attempts to find a child that was not chosen before.
const ATTEMPTS: u64 = 100;

impl Latest {
    /// Whether `hash` is no hash, but names this route: by its name, or an object with its name.
    pub(crate) fn is_meant(hash: &Json) -> bool {
        let kind = if let Value::Object(_) = hash.value { hash.get("hash_func") } else { Some(hash) };
        kind.is_some_and(|kind| matches!(&kind.value, Value::Text(kind) if **kind == *HASH))
    }

    /// Reads it where a hash is named.
    pub(crate) fn of_hash(
        members: &mut Members<'_, '_, '_>,
        hash: &Json,
        children: Children,
    ) -> Result<Self, ConfigError> {
        let mut members = members.of(hash)?;
        members.json("hash_func");
        let latest = Self::read(&mut members, children)?;
        members.end();
        Ok(latest)
    }

    fn order(&self, host: u64) -> &[NodeId] {
        self.order.get_or_init(|| {
            let mut chosen: Vec<usize> = Vec::new();
            for number in 0..ATTEMPTS * self.count as u64 {
                if chosen.len() == self.count {
                    break;
                }
                let child = self.weighted.pick(format!("{host}{}:{number}", self.salt).as_bytes());
                if !chosen.contains(&child) {
                    chosen.push(child);
                }
            }
            let others: Vec<_> = (0..self.children.len()).filter(|child| !chosen.contains(child)).collect();
            chosen.extend(others);
            chosen.iter().take(self.count).map(|child| self.children[*child]).collect()
        })
    }

    /// Reorders the children in the order of this host.
    fn reorder(&self, cx: &mut Cx<'_>, first: usize) {
        let order = self.order(cx.facts.host);
        for child_request in &mut cx.child_requests[first..] {
            if let Wanted::By(child) = child_request.answer {
                child_request.node = order[child as usize];
            }
        }
    }

    /// Reads all members but the children.
    pub(crate) fn read(members: &mut Members<'_, '_, '_>, children: Children) -> Result<Self, ConfigError> {
        let count = members.integer("failover_count", 1..=i64::from(u16::MAX))?;
        let count = count.map_or(FAILOVER_COUNT, |count| count as usize).min(children.len());
        let weights = members.json("weights");
        let weighted = members.selector(
            if weights.is_some() { "WeightedCh3" } else { "Ch3" },
            children.len(),
            weights,
        )?;
        let salt = members.text("salt")?.unwrap_or_default();
        members.without_effect("thread_local_failover", "all workers of a host have the same order");
        let failover = Failover::read(members, children[..count].into(), None)?;
        Ok(Latest { children, weighted, salt, count, failover, order: OnceCell::new() })
    }
}

impl Handle for Latest {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let latest = Self::read(&mut members, children)?;
        members.end();
        Ok(latest)
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if self.count == 1 {
            return Step::Tail(self.order(cx.facts.host)[0]);
        }
        let first = cx.child_requests.len();
        let step = self.failover.enter(cx, request);
        self.reorder(cx, first);
        step
    }

    fn explore(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        let order = self.order(cx.facts.host);
        order.iter().zip(0..).for_each(|(child, number)| cx.request(*child, Rewrite::NONE, number));
        Step::Await(State::default())
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let first = cx.child_requests.len();
        let then = self.failover.resume(cx, state, child, request, answer);
        self.reorder(cx, first);
        then
    }
}

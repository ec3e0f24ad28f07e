//! Selects the next child after a failure.

use super::failures::{bit, named};
use super::salted::{Collisions, Salted, TRIES_MAX};
use super::tried::{Failed, MARKS, Tried};
use crate::build::Members;
use crate::config::{ConfigError, Json, Object, Value};
use crate::handle::Children;
use crate::hash::Selector;
use crate::outcome::Outcome;
use std::cell::Cell;

#[derive(Debug)]
pub(super) struct Policy {
    kind: Kind,
    /// The most children that are tried, including the first.
    most: usize,
    /// The maximum number of failures. Unreachable servers and excluded errors do not count.
    most_errors: usize,
    excluded: u32,
}

#[derive(Debug)]
enum Kind {
    InOrder,
    /// The children with the fewest failures since their last success first.
    LeastFailures(Box<[Cell<u32>]>),
    Salted(Salted),
    /// By rendezvous hashing among the children after the first.
    Rendezvous {
        order: Selector,
        normal: Option<Selector>,
    },
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Child(usize),
    /// `max_error_tries` children have failed.
    Enough,
    /// The route has no other child.
    Exhausted,
}

const HASHES: [&str; 2] = ["Ch3", "WeightedCh3"];

impl Policy {
    pub(super) fn in_order() -> Self {
        Policy { kind: Kind::InOrder, most: usize::MAX, most_errors: usize::MAX, excluded: 0 }
    }

    /// Reads `failover_policy`.
    pub(super) fn parse(
        members: &mut Members<'_, '_, '_>,
        json: &Json,
        children: &Children,
        normal: Option<Selector>,
    ) -> Result<Self, ConfigError> {
        let mut object = json.object("failover_policy")?;
        let count =
            |json: &Json, name: &str| json.integer(name, 1..=i64::from(u32::MAX)).map(|most| most as usize);
        let kind = object.optional_as("type", Json::text)?;
        let most = object.optional_as("max_tries", count)?;
        let excluded = match object.optional_as("exclude_errors", Json::list)? {
            Some(list) => named(list)?,
            None => 0,
        };
        let needed = || most.ok_or_else(|| json.error("'failover_policy' has no 'max_tries'"));
        let mut policy = Policy { excluded, ..Policy::in_order() };
        match kind {
            None => policy.most_errors = most.unwrap_or(usize::MAX),
            Some("LeastFailuresPolicy") => {
                policy.most = needed()?;
                policy.kind = Kind::LeastFailures(vec![Cell::new(0); children.len()].into());
            }
            Some("DeterministicOrderPolicy") => {
                policy.most = needed()?.min(children.len()).min(TRIES_MAX);
                policy.most_errors = object.required_as("max_error_tries", count)?;
                policy.kind = Kind::Salted(salted(members, &mut object, children, normal)?);
            }
            Some("RendezvousPolicy") => {
                let of_policy = object.optional("tags");
                let tags = members.json("tags").or(of_policy);
                let is_weighted = members.json("hash").is_some_and(
                    |hash| matches!(&hash.value, Value::Text(hash) if **hash == *"WeightedRendezvous"),
                );
                let weights = object.optional("weights").filter(|_| is_weighted);
                let order = members.rendezvous(children.len() - 1, tags, weights)?;
                policy.kind = Kind::Rendezvous { order, normal };
            }
            Some(other) => {
                members.warn(json.error(format!(
                    "unknown failover policy {other}: children are tried in order, as in mcrouter"
                )));
                policy.most_errors = most.unwrap_or(usize::MAX);
            }
        }
        // With `hash`, or without.
        let _ = (object.optional("hash_func"), object.optional("weights"));
        members.finish(object);
        Ok(policy)
    }

    pub(super) fn record(&self, child: usize, outcome: Outcome) {
        if let Kind::LeastFailures(failures) = &self.kind {
            let failures = &failures[child];
            failures.set(if outcome.is_error() { failures.get().saturating_add(1) } else { 0 });
        }
    }

    pub(super) fn failed(&self, outcome: Outcome) -> Failed {
        let is_down = matches!(
            outcome,
            Outcome::Tko | Outcome::ConnectError | Outcome::ConnectTimeout | Outcome::Shutdown
        );
        if is_down {
            Failed::IsDown
        } else if self.excluded & bit(outcome) != 0 {
            Failed::Excluded
        } else {
            Failed::Once
        }
    }

    /// Records the failure of a child.
    pub(super) fn add(&self, tried: &mut Tried, child: usize, failed: Failed) {
        match &self.kind {
            Kind::LeastFailures(_) => tried.mark(child),
            Kind::Salted(_) if failed == Failed::IsDown => tried.mark(tried.count()),
            Kind::Salted(_) | Kind::InOrder | Kind::Rendezvous { .. } => {}
        }
        tried.add(failed);
    }

    /// Whether no child is left after this number of tries.
    pub(super) fn ends(&self, children: &Children, attempts: usize, key: &[u8]) -> bool {
        match &self.kind {
            Kind::InOrder => attempts >= children.len(),
            Kind::LeastFailures(_) => attempts >= self.most.min(children.len()).min(MARKS),
            Kind::Salted(_) => attempts >= self.most,
            Kind::Rendezvous { order, normal } => stand_in(order, normal.as_ref(), attempts, key).is_none(),
        }
    }

    /// The next step after the failures in `tried`.
    pub(super) fn next(&self, children: &Children, tried: Tried, key: &[u8]) -> Next {
        let attempts = tried.count();
        if self.ends(children, attempts, key) {
            return Next::Exhausted;
        }
        if tried.errors() >= self.most_errors {
            return Next::Enough;
        }
        let next = match &self.kind {
            Kind::InOrder => Some(attempts),
            Kind::LeastFailures(failures) => (1..children.len().min(MARKS))
                .filter(|child| !tried.has(*child))
                .min_by_key(|child| failures[*child].get()),
            Kind::Salted(salted) => Some(salted.next(tried, key)),
            Kind::Rendezvous { order, normal } => stand_in(order, normal.as_ref(), attempts, key),
        };
        next.map_or(Next::Exhausted, Next::Child)
    }

    /// The collisions of a request with these failures, if the policy has any.
    pub(super) fn collisions(&self, tried: Tried, key: &[u8]) -> Option<Collisions> {
        match &self.kind {
            Kind::Salted(salted) => Some(salted.collisions(tried, key)),
            Kind::InOrder | Kind::LeastFailures(_) | Kind::Rendezvous { .. } => None,
        }
    }
}

/// The next child in the order of rendezvous hashing after this number of tries.
fn stand_in(order: &Selector, normal: Option<&Selector>, attempts: usize, key: &[u8]) -> Option<usize> {
    let normal = normal.map(|normal| normal.pick(key));
    let mut others = order.choices(key).filter(|other| Some(*other) != normal);
    others.nth(attempts - 1).map(|other| other + 1)
}

fn salted(
    members: &mut Members<'_, '_, '_>,
    object: &mut Object<'_>,
    children: &Children,
    normal: Option<Selector>,
) -> Result<Salted, ConfigError> {
    let ignores_normal = object.optional_as("ignore_normal_reply_index", Json::boolean)?;
    let uses_domains = object.optional_as("enable_failure_domains", Json::boolean)?;
    let domains = match uses_domains {
        Some(true) => children.iter().map(|child| members.domain(*child)).collect(),
        _ => Box::default(),
    };
    let of_policy = object.optional("hash").unwrap_or(object.json());
    let of_route = members.json("hash");
    let hash = match of_route.filter(|hash| kind(hash).is_ok_and(|kind| HASHES.contains(&kind))) {
        Some(hash) => hash,
        None => {
            members.warn_of(of_route, "hash", "the failover policy has the hashes Ch3 and WeightedCh3 only");
            of_policy
        }
    };
    let kind = kind(hash)?;
    if !HASHES.contains(&kind) {
        return Err(hash.error(format!("this policy has the hashes Ch3 and WeightedCh3, not {kind}")));
    }
    let selector = members.selector(kind, children.len(), hash.get("weights"))?;
    Ok(Salted { selector, normal: normal.filter(|_| ignores_normal != Some(true)), domains })
}

/// The name of a hash: `hash` is that, or an object that may have it.
fn kind(hash: &Json) -> Result<&str, ConfigError> {
    match &hash.value {
        Value::Text(kind) => Ok(kind),
        _ => hash.get("hash_func").map_or(Ok("Ch3"), |kind| kind.text("hash_func")),
    }
}

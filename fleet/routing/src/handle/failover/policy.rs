//! Which child is asked next.

use super::failures::{bit, named};
use crate::build::Members;
use crate::config::{ConfigError, Json};
use crate::handle::Children;
use crate::hash::Selector;
use crate::outcome::Outcome;
use crate::step::State;
use std::cell::Cell;

#[derive(Debug)]
pub(super) struct Policy {
    kind: Kind,
    /// How many children are asked, the first included.
    most: usize,
    /// How many may fail; those that are down do not count, nor do those with an excluded failure.
    most_errors: usize,
    excluded: u32,
}

#[derive(Debug)]
enum Kind {
    InOrder,
    /// Those that have failed least since they last answered.
    LeastFailures(Box<[Cell<u32>]>),
    /// By the hash of the key with a number at its end that grows.
    Salted(Salted),
    /// By rendezvous hashing among those after the first.
    Rendezvous {
        order: Selector,
        normal: Option<Selector>,
    },
}

#[derive(Debug)]
struct Salted {
    selector: Selector,
    normal: Option<Selector>,
    /// The failure domain of each child; empty if they do not matter.
    domains: Box<[Option<u32>]>,
}

/// Children that were asked for a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    children: [u16; TRIED_MAX],
    /// A bit for each of those that are down.
    down: u8,
    count: u8,
    errors: u8,
    salt: u8,
}

/// So many children are remembered.
const TRIED_MAX: usize = 8;
/// Numbers at the end of a key that are tried until a child is found that was not asked: mcrouter's.
const ATTEMPTS: u8 = 100;
/// After so many, failure domains do not matter any more.
const ATTEMPTS_BY_DOMAIN: u8 = 75;

/// How a child has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Once,
    /// Whoever asks it next fails as well.
    IsDown,
}

impl Tried {
    pub(super) fn of(state: &State) -> Self {
        let [down, count, errors, salt] = state.a.to_le_bytes();
        let mut tried = Tried { children: [0; TRIED_MAX], down, count, errors, salt };
        for (number, child) in tried.children.iter_mut().enumerate() {
            *child = (state.b >> (16 * number)) as u16;
        }
        tried
    }

    pub(super) fn keep(self, state: &mut State) {
        state.a = u32::from_le_bytes([self.down, self.count, self.errors, self.salt]);
        state.b = self.children.iter().rev().fold(0, |bits, child| bits << 16 | u128::from(*child));
    }

    pub(super) fn add(&mut self, child: usize, failed: Failed) {
        if let Some(place) = self.children.get_mut(usize::from(self.count)) {
            *place = child as u16;
            self.down |= u8::from(failed != Failed::Once) << self.count;
        }
        self.errors = self.errors.saturating_add(u8::from(failed == Failed::Once));
        self.count = self.count.saturating_add(1);
    }

    fn children(&self) -> &[u16] {
        &self.children[..usize::from(self.count).min(TRIED_MAX)]
    }

    fn has(&self, child: usize) -> bool {
        self.children().contains(&(child as u16))
    }
}

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
                policy.most = needed()?.min(TRIED_MAX);
                policy.kind = Kind::LeastFailures(vec![Cell::new(0); children.len()].into());
            }
            Some("DeterministicOrderPolicy") => {
                policy.most = needed()?.min(TRIED_MAX);
                policy.most_errors = object.required_as("max_error_tries", count)?;
                let ignores_normal = object.optional_as("ignore_normal_reply_index", Json::boolean)?;
                let uses_domains = object.optional_as("enable_failure_domains", Json::boolean)?;
                let domains = match uses_domains {
                    Some(true) => children.iter().map(|child| members.domain(*child)).collect(),
                    _ => Box::default(),
                };
                let hash = object.optional("hash").unwrap_or(json);
                let kind = hash.get("hash_func").map_or(Ok("Ch3"), |kind| kind.text("hash_func"))?;
                if kind != "Ch3" && kind != "WeightedCh3" {
                    return Err(
                        hash.error(format!("this policy has the hashes Ch3 and WeightedCh3, not {kind}"))
                    );
                }
                let selector = members.selector(kind, children.len(), hash.get("weights"))?;
                let normal = normal.filter(|_| ignores_normal != Some(true));
                policy.kind = Kind::Salted(Salted { selector, normal, domains });
            }
            Some("RendezvousPolicy") => {
                let order = members.rendezvous(children.len() - 1, object.optional("tags"))?;
                policy.kind = Kind::Rendezvous { order, normal };
            }
            Some(other) => {
                return Err(json.error(format!(
                    "unknown failover policy {other}; use one of LeastFailuresPolicy, DeterministicOrderPolicy \
                     and RendezvousPolicy"
                )));
            }
        }
        // With `hash`, or without.
        let _ = (object.optional("hash_func"), object.optional("weights"));
        members.finish(object);
        Ok(policy)
    }

    /// A child has answered.
    pub(super) fn heard(&self, child: usize, outcome: Outcome) {
        if let Kind::LeastFailures(failures) = &self.kind {
            let failures = &failures[child];
            failures.set(if outcome.is_error() { failures.get().saturating_add(1) } else { 0 });
        }
    }

    /// How a failure counts.
    pub(super) fn failed(&self, outcome: Outcome) -> Failed {
        let is_down = matches!(
            outcome,
            Outcome::Tko | Outcome::ConnectError | Outcome::ConnectTimeout | Outcome::Shutdown
        );
        if is_down || self.excluded & bit(outcome) != 0 { Failed::IsDown } else { Failed::Once }
    }

    /// The child that is asked after these, the last of which is `child`.
    pub(super) fn next(
        &self,
        children: &Children,
        tried: &mut Tried,
        child: usize,
        key: &[u8],
    ) -> Option<usize> {
        if usize::from(tried.count) >= self.most || usize::from(tried.errors) >= self.most_errors {
            return None;
        }
        match &self.kind {
            Kind::InOrder => Some(child + 1).filter(|next| *next < children.len()),
            Kind::LeastFailures(failures) => (1..children.len())
                .filter(|child| !tried.has(*child))
                .min_by_key(|child| failures[*child].get()),
            Kind::Salted(salted) => salted.next(tried, key),
            Kind::Rendezvous { order, normal } => {
                let normal = normal.as_ref().map(|normal| normal.pick(key));
                let mut others = order.choices(key).filter(|other| Some(*other) != normal);
                others.nth(usize::from(tried.count) - 1).map(|other| other + 1)
            }
        }
    }
}

impl Salted {
    fn next(&self, tried: &mut Tried, key: &[u8]) -> Option<usize> {
        let normal = self.normal.as_ref().map(|normal| normal.pick(key) + 1);
        let domain = |child: usize| self.domains.get(child).copied().flatten();
        let failed = |domain: u32, tried: &Tried| {
            let down = |(number, child): (usize, &u16)| {
                tried.down & 1 << number != 0 && self.domains[usize::from(*child)] == Some(domain)
            };
            tried.children().iter().enumerate().any(down)
        };
        let key = &key[..key.len().min(crate::KEY_MAX)];
        let mut salted = [0; crate::KEY_MAX + 3];
        salted[..key.len()].copy_from_slice(key);
        for attempt in 0..=ATTEMPTS {
            tried.salt = tried.salt.checked_add(1)?;
            // mcrouter's begins with 2.
            let salt = (u32::from(tried.salt) + 1).to_string();
            let length = key.len() + salt.len();
            salted[key.len()..length].copy_from_slice(salt.as_bytes());
            let child = self.selector.pick(&salted[..length]);
            let in_failed =
                attempt <= ATTEMPTS_BY_DOMAIN && domain(child).is_some_and(|it| failed(it, tried));
            if !tried.has(child) && Some(child) != normal && !in_failed {
                return Some(child);
            }
        }
        None
    }
}

//! Keeps each key several times, under names of which each host reads one: for keys that are too much for one server.

use super::Handle;
use crate::KEY_MAX;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::before_hash_stop;
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Op, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct KeySplit {
    target: NodeId,
    replicas: u32,
    sets: Sets,
    gets: Gets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sets {
    /// This host's replica only.
    One,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gets {
    One,
    FirstHit,
}

/// The longest suffix of a key.
const SUFFIX_MAX: usize = "::999".len();

impl KeySplit {
    /// The request for a replica; the first replica has the plain key. The number is in front of a
    /// hash stop: all replicas would have the same hash behind it, and be on one server.
    fn replica(cx: &mut Cx<'_>, number: u32, key: &[u8]) -> Rewrite {
        if number == 0 {
            return Rewrite::NONE;
        }
        let (hashed, rest) = key.split_at(before_hash_stop(key).len());
        Rewrite::key(cx.text(&[hashed, b"::", number.to_string().as_bytes(), rest]))
    }

    fn own(&self, cx: &Cx<'_>) -> u32 {
        (cx.facts.host % u64::from(self.replicas)) as u32
    }

    fn one(&self, cx: &mut Cx<'_>, key: &[u8]) -> Step {
        match self.own(cx) {
            0 => Step::Tail(self.target),
            own => Step::Rewritten(self.target, Self::replica(cx, own, key)),
        }
    }
}

impl Handle for KeySplit {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("destination")?;
        let replicas = members.integer("replicas", 2..=1000)?;
        let replicas = replicas.ok_or_else(|| json.error("'replicas' is missing"))? as u32;
        let sets = if members.flag("all_sync")? == Some(true) { Sets::All } else { Sets::One };
        let gets = if members.flag("first_hit")? == Some(true) { Gets::FirstHit } else { Gets::One };
        members.end();
        Ok(KeySplit { target, replicas, sets, gets })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if request.key.len() + SUFFIX_MAX > KEY_MAX {
            return Step::Tail(self.target);
        }
        match request.op {
            // A request that creates an item on a miss goes to one replica, where its client then
            // stores.
            Op::LeaseGet if request.dialect == Dialect::Meta => self.one(cx, request.key),
            Op::Get | Op::LeaseGet | Op::LeaseSet if self.gets == Gets::FirstHit => {
                for number in 0..self.replicas {
                    let rewrite = Self::replica(cx, number, request.key);
                    cx.request(self.target, rewrite, number);
                }
                Step::Await(State::default())
            }
            Op::Set if self.sets == Sets::One => self.one(cx, request.key),
            // A replica that has failed to delete the key has it still.
            Op::Delete => {
                for number in 0..self.replicas {
                    let rewrite = Self::replica(cx, number, request.key);
                    cx.request(self.target, rewrite, number);
                }
                Step::Await(State::default())
            }
            Op::Set => {
                let own = self.own(cx);
                for number in (0..self.replicas).filter(|number| *number != own) {
                    let rewrite = Self::replica(cx, number, request.key);
                    cx.notify(self.target, rewrite);
                }
                self.one(cx, request.key)
            }
            _ => self.one(cx, request.key),
        }
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        if request.op == Op::Delete {
            return super::worst(cx, state, self.replicas as usize, answer);
        }
        let is_hit = answer.outcome.is_hit() || matches!(answer.outcome, Outcome::Stored | Outcome::StaleStored);
        if is_hit || state.answers == self.replicas { Then::Pass } else { Then::Wait }
    }
}

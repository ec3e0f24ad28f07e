//! Splits shards that are too much for one server: of keys `name:shard:rest`, hosts read and write different splits of the shard.

use super::Handle;
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::{Group, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct ShardSplit {
    target: NodeId,
    shards: HashMap<Box<[u8]>, Split>,
}

#[derive(Clone, Copy, Debug)]
struct Split {
    old: u64,
    new: u64,
    /// UNIX time, in seconds.
    start: u64,
    /// Seconds within which hosts change over, one after the other.
    period: u64,
    deletes: Deletes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletes {
    One,
    All,
}

/// The first one, and those of two letters.
const SPLITS_MAX: i64 = 26 * 26 + 1;
/// Hosts switch in this many steps.
const HOSTS: u64 = 16_384;

impl Split {
    fn parse(members: &mut Members<'_, '_, '_>, json: &Json) -> Result<Self, ConfigError> {
        let mut size = |json: &Json, name: &str| {
            let size = json.integer(name, 1..=i64::MAX)?;
            if size > SPLITS_MAX {
                members.warn(json.error(format!("'{name}' is {size}: at most {SPLITS_MAX} parts are made")));
            }
            Ok(size.min(SPLITS_MAX).unsigned_abs())
        };
        let Ok(mut object) = json.object("shard_splits") else {
            let new = size(json, "shard_splits")?;
            return Ok(Split { old: new, new, start: 0, period: 0, deletes: Deletes::All });
        };
        let seconds = |json: &Json, name: &str| json.integer(name, 0..=i64::MAX).map(i64::unsigned_abs);
        let fans_out = object.optional_as("fanout_deletes", Json::boolean)? == Some(true);
        Ok(Split {
            old: object.optional_as("old_split_size", &mut size)?.unwrap_or(1),
            new: object.optional_as("new_split_size", &mut size)?.unwrap_or(1),
            start: object.optional_as("split_start", seconds)?.unwrap_or(0),
            period: object.optional_as("migration_period", seconds)?.unwrap_or(0),
            deletes: if fans_out { Deletes::All } else { Deletes::One },
        })
    }

    /// Into how many parts the shard is split, as this host sees it.
    fn size(self, host: u64, now_s: u64) -> u64 {
        let Some(since) = now_s.checked_sub(self.start) else {
            return self.old;
        };
        let is_new =
            since >= self.period || u128::from(host % HOSTS) * u128::from(self.period) < u128::from(since) * u128::from(HOSTS);
        if is_new { self.new } else { self.old }
    }
}

/// The position of the shard in a key: between its first two colons, if it ends with a digit.
fn shard(key: &[u8]) -> Option<std::ops::Range<usize>> {
    let first = key.iter().position(|byte| *byte == b':')? + 1;
    let length = key[first..].iter().position(|byte| *byte == b':')?;
    let shard = first..first + length;
    key[shard.clone()].last()?.is_ascii_digit().then_some(shard)
}

impl ShardSplit {
    /// The child that requests are passed to, with the key of a split or unchanged.
    pub(crate) fn target(&self) -> NodeId {
        self.target
    }

    pub(crate) fn read(
        members: &mut Members<'_, '_, '_>,
        target: NodeId,
        json: &Json,
    ) -> Result<Self, ConfigError> {
        let mut shards = HashMap::new();
        for (name, split) in json.object("shard_splits")?.members() {
            shards.insert(name.as_bytes().into(), Split::parse(members, split)?);
        }
        Ok(ShardSplit { target, shards })
    }

    /// The key of a split, which is not the first.
    fn split(cx: &mut Cx<'_>, number: u64, key: &[u8], end: usize) -> Rewrite {
        let letters = [number - 1, (number - 1) / 26].map(|letter| b'a' + (letter % 26) as u8);
        Rewrite::key(cx.text(&[&key[..end], &letters, &key[end..]]))
    }
}

impl Handle for ShardSplit {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let splits = members.json("shard_splits").ok_or_else(|| json.error("'shard_splits' is missing"))?;
        let route = Self::read(&mut members, target, splits)?;
        members.end();
        Ok(route)
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let found = shard(request.routing_key());
        let Some((place, split)) =
            found.and_then(|place| Some((place.clone(), self.shards.get(&request.key[place])?)))
        else {
            return Step::Tail(self.target);
        };
        let size = split.size(cx.facts.host, cx.facts.now_s);
        if request.op.group() == Group::Delete && split.deletes == Deletes::All {
            if size == 1 {
                return Step::Tail(self.target);
            }
            cx.request(self.target, Rewrite::NONE, 0);
            for number in 1..size {
                let rewrite = Self::split(cx, number, request.key, place.end);
                cx.request(self.target, rewrite, number as u32);
            }
            return Step::Await(State { b: u128::from(size), ..State::default() });
        }
        match cx.facts.host % size {
            0 => Step::Tail(self.target),
            number => Step::Rewritten(self.target, Self::split(cx, number, request.key, place.end)),
        }
    }

    /// A shard that has failed to delete the key has it still.
    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let shards = state.b as usize;
        super::worst(cx, state, shards, answer)
    }
}

//! The moves that `guira fleet` writes into a pool while keys move between servers.

use super::super::json::{ConfigError, Json};
use super::Target;

/// How far the keys of one server have moved to another one. Routers learn of each step at
/// different times; routers in two successive stages agree about every delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The former server has the keys, and deletes go to both.
    Announced,
    /// The new one has them, and is filled from the former one.
    Warming,
    /// The new server is no longer filled. Deletes go to both, for routers that still fill it.
    Ending,
}

#[derive(Clone, Debug)]
pub struct Handover {
    /// The server that takes or had the slot, beside the one in `servers` that has its keys now.
    pub other: Target,
    pub stage: Stage,
}

/// A pool that becomes larger or smaller. The servers of both are its own: the first ones of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    pub from: usize,
    pub to: usize,
    pub stage: Stage,
}

impl Resize {
    /// How many servers have keys, for who knows nothing of the others.
    pub fn present(self) -> usize {
        if self.stage == Stage::Announced { self.from } else { self.to }
    }
}

pub(super) fn stage(json: &Json, name: &str) -> Result<Stage, ConfigError> {
    match json.text(name)? {
        "announced" => Ok(Stage::Announced),
        "warming" => Ok(Stage::Warming),
        "ending" => Ok(Stage::Ending),
        other => {
            let expected = "\"announced\", \"warming\" or \"ending\" expected";
            Err(json.error(format!("'{name}' is {other:?}, {expected}")))
        }
    }
}

pub(super) fn resize(json: &Json, name: &str, servers: usize) -> Result<Resize, ConfigError> {
    let object = &mut json.object(name)?;
    let most = servers as i64;
    let mut number = |name| object.required_as(name, |json, name| json.integer(name, 1..=most));
    let (from, to) = (number("from")? as usize, number("to")? as usize);
    if from.max(to) != servers {
        return Err(json.error(format!("'{name}' is about {} servers, there are {servers}", from.max(to))));
    }
    Ok(Resize { from, to, stage: object.required_as("stage", stage)? })
}

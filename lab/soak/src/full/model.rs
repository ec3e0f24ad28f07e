//! A model of the stored items: exact, since every key belongs to one connection.
//!
//! Only the expiration is uncertain, by the server's clock of whole seconds: between two moments of
//! the run a mortal value may exist or not. The first reply settles which, and a missing value
//! never comes back.

use std::collections::HashMap;

use super::Keeping;
use crate::history::SLACK_MS;
use crate::speech::{Answer, Hit, Verb};
use crate::value::{self, Owner};

/// How much too early a value may expire: the server's clock has whole seconds, and a busy worker
/// lags behind it.
const EARLY_MS: u64 = 2_000;

/// When requests were sent and when all their answers had come, in milliseconds of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) sent: u64,
    pub(super) answered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A store with its appends and prepends: the sequence numbers of the last write and of the
    /// store, and the length.
    Segments {
        newest: u64,
        base: u64,
        length: usize,
    },
    Number(u64),
}

/// A stored value.
#[derive(Clone, Copy, Debug)]
struct Held {
    content: Content,
    flags: u32,
    /// The item exists until the first time, unless it may be evicted, and is gone after the
    /// second.
    life: (u64, u64),
}

/// The presence of a key before a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    Present,
    Doubtful,
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) key: u32,
    pub(super) verb: Verb,
    pub(super) ttl: u32,
    pub(super) flags: u32,
    /// The stored, appended or prepended value.
    pub(super) content: Content,
}

/// The values of one connection's keys.
#[derive(Debug)]
pub(super) struct Model {
    keeping: Keeping,
    held: HashMap<u32, Held>,
}

/// Between which moments a value with this time to live expires.
fn life(ttl: u32, window: Window) -> (u64, u64) {
    if ttl == 0 {
        return (u64::MAX, u64::MAX);
    }
    let lasts = u64::from(ttl) * 1000;
    ((window.sent + lasts).saturating_sub(EARLY_MS), window.answered + lasts + SLACK_MS)
}

impl Held {
    fn check(&self, key: u32, hit: &Hit) -> Result<(), String> {
        if hit.flags != self.flags {
            return Err(format!("flags {} instead of {}", hit.flags, self.flags));
        }
        match self.content {
            Content::Number(number) if hit.value == number.to_string().as_bytes() => Ok(()),
            Content::Number(number) => {
                Err(format!("{:?} instead of {number}", String::from_utf8_lossy(&hit.value)))
            }
            Content::Segments { newest, base, length } => {
                let whole = value::check(Owner { key, life: 0 }, &hit.value)?;
                let found = (whole.newest, whole.base, hit.value.len());
                if found == (newest, base, length) { Ok(()) } else { Err(format!("{found:?} was read")) }
            }
        }
    }
}

impl Model {
    pub(super) fn new(keeping: Keeping) -> Self {
        Model { keeping, held: HashMap::new() }
    }

    /// The content of a key, unless it is certainly gone.
    pub(super) fn content(&self, key: u32) -> Option<Content> {
        self.held.get(&key).map(|held| held.content)
    }

    /// Keys whose values may go by themselves.
    pub(super) fn mortals(&self) -> Vec<u32> {
        let mortals = self.held.iter().filter(|(_, held)| held.life.0 < u64::MAX);
        let mut keys: Vec<u32> = mortals.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// How many keys hold something, if the last answers were about all of them.
    pub(super) fn len(&self) -> u64 {
        self.held.len() as u64
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
    }

    fn presence(&self, key: u32, window: Window) -> Presence {
        match self.held.get(&key) {
            None => Presence::Absent,
            Some(held) if window.sent > held.life.1 => Presence::Absent,
            Some(held) if self.keeping == Keeping::All && window.answered < held.life.0 => Presence::Present,
            Some(_) => Presence::Doubtful,
        }
    }

    /// Applies an answer to the model.
    ///
    /// # Errors
    /// If the answer is impossible: why.
    pub(super) fn settle(
        &mut self,
        operation: &Operation,
        answer: &Answer,
        window: Window,
    ) -> Result<(), String> {
        let before = self.held.get(&operation.key).copied();
        self.judge(operation, answer, window).map_err(|what| {
            let Operation { key, verb, ttl, content, .. } = operation;
            let answer = match answer {
                Answer::Hit(hit) => format!("{} bytes", hit.value.len()),
                answer => format!("{answer:?}"),
            };
            format!("key {key}: {verb:?} of {content:?} for {ttl} s: {answer}: {what}; {window:?}, it held {before:?}")
        })
    }

    fn judge(&mut self, operation: &Operation, answer: &Answer, window: Window) -> Result<(), String> {
        let found = match (operation.verb, answer) {
            (Verb::Set, Answer::Done) => {
                self.store(operation, window);
                return Ok(());
            }
            (Verb::Delete | Verb::Gets, Answer::Refused(_)) => return Err("it needs no memory".to_owned()),
            (_, Answer::Refused(what)) if what.contains("large") => return Err("it is not large".to_owned()),
            (verb, Answer::Refused(_)) => {
                // A cache must not return a value older than a refused one; a store must keep it.
                if verb == Verb::Set && self.keeping == Keeping::Some {
                    self.held.remove(&operation.key);
                }
                return Ok(());
            }
            (Verb::Add, Answer::NotStored) => true,
            (Verb::Add, Answer::Done) => false,
            (Verb::Replace | Verb::Append | Verb::Prepend | Verb::Delete | Verb::Touch, Answer::Done)
            | (Verb::Gets | Verb::Gat, Answer::Hit(_))
            | (Verb::Increment(_), Answer::Number(_)) => true,
            (Verb::Replace | Verb::Append | Verb::Prepend, Answer::NotStored)
            | (Verb::Delete | Verb::Touch | Verb::Gets | Verb::Gat | Verb::Increment(_), Answer::NotFound) => {
                false
            }
            _ => return Err("that is no answer".to_owned()),
        };
        match (self.presence(operation.key, window), found) {
            (Presence::Absent, true) => return Err("there was nothing".to_owned()),
            (Presence::Present, false) => return Err("it is missing".to_owned()),
            _ => {}
        }
        self.follow(operation, answer, window, found)
    }

    /// Does to the model what the server has done.
    fn follow(
        &mut self,
        operation: &Operation,
        answer: &Answer,
        window: Window,
        found: bool,
    ) -> Result<(), String> {
        if !found {
            self.held.remove(&operation.key);
        }
        match operation.verb {
            Verb::Add if !found => self.store(operation, window),
            Verb::Replace if found => self.store(operation, window),
            Verb::Delete => drop(self.held.remove(&operation.key)),
            _ => {}
        }
        let Some(held) = self.held.get_mut(&operation.key) else { return Ok(()) };
        if let Answer::Hit(hit) = answer {
            held.check(operation.key, hit)?;
        }
        match (operation.verb, &mut held.content, operation.content) {
            (Verb::Touch | Verb::Gat, _, _) => held.life = life(operation.ttl, window),
            (
                Verb::Append | Verb::Prepend,
                Content::Segments { newest, length, .. },
                Content::Segments { newest: sequence, length: added, .. },
            ) => {
                *newest = sequence;
                *length += added;
            }
            (Verb::Increment(by), Content::Number(number), _) => {
                *number += by;
                if *answer != Answer::Number(*number) {
                    return Err(format!("{number} is right"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn store(&mut self, operation: &Operation, window: Window) {
        let Operation { content, flags, .. } = *operation;
        self.held.insert(operation.key, Held { content, flags, life: life(operation.ttl, window) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Window = Window { sent: 100, answered: 200 };

    fn operation(verb: Verb, ttl: u32) -> Operation {
        Operation { key: 5, verb, ttl, flags: 7, content: Content::Number(40) }
    }

    fn hit(text: &str) -> Answer {
        Answer::Hit(Hit { value: text.as_bytes().to_vec(), flags: 7, cas: 0 })
    }

    fn stored(keeping: Keeping, ttl: u32) -> Model {
        let mut model = Model::new(keeping);
        assert_eq!(model.settle(&operation(Verb::Set, ttl), &Answer::Done, SOON), Ok(()));
        model
    }

    #[test]
    fn a_store_must_not_lose_and_a_cache_may() {
        let get = operation(Verb::Gets, 0);
        assert!(stored(Keeping::All, 0).settle(&get, &Answer::NotFound, SOON).is_err());
        let mut cache = stored(Keeping::Some, 0);
        assert_eq!(cache.settle(&get, &Answer::NotFound, SOON), Ok(()));
        assert!(cache.settle(&get, &hit("40"), SOON).is_err(), "it came back");
    }

    #[test]
    fn what_is_read_is_what_was_stored() {
        let mut model = stored(Keeping::All, 0);
        assert_eq!(model.settle(&operation(Verb::Increment(2), 0), &Answer::Number(42), SOON), Ok(()));
        assert_eq!(model.settle(&operation(Verb::Gets, 0), &hit("42"), SOON), Ok(()));
        assert!(model.settle(&operation(Verb::Gets, 0), &hit("40"), SOON).is_err());
        let other = Answer::Hit(Hit { value: b"42".to_vec(), flags: 8, cas: 0 });
        assert!(model.settle(&operation(Verb::Gets, 0), &other, SOON).is_err());
    }

    #[test]
    fn a_refusal_changes_nothing_in_a_store() {
        let refused = Answer::Refused("SERVER_ERROR out of memory storing object".to_owned());
        let mut store = stored(Keeping::All, 0);
        assert_eq!(store.settle(&operation(Verb::Set, 0), &refused, SOON), Ok(()));
        assert!(store.settle(&operation(Verb::Gets, 0), &Answer::NotFound, SOON).is_err());
        let mut cache = stored(Keeping::Some, 0);
        assert_eq!(cache.settle(&operation(Verb::Set, 0), &refused, SOON), Ok(()));
        assert!(cache.settle(&operation(Verb::Gets, 0), &hit("40"), SOON).is_err());
    }

    #[test]
    fn a_mortal_value_goes_when_its_time_has_come() {
        let at = |sent| Window { sent, answered: sent + 1 };
        let get = operation(Verb::Gets, 0);
        let early = at(20_000 - EARLY_MS);
        assert!(stored(Keeping::All, 20).settle(&get, &Answer::NotFound, early).is_err());
        let doubtful = at(20_000);
        assert_eq!(stored(Keeping::All, 20).settle(&get, &Answer::NotFound, doubtful), Ok(()));
        assert_eq!(stored(Keeping::All, 20).settle(&get, &hit("40"), doubtful), Ok(()));
        let late = at(20_300 + SLACK_MS);
        assert!(stored(Keeping::All, 20).settle(&get, &hit("40"), late).is_err());
        assert!(stored(Keeping::All, 20).settle(&operation(Verb::Add, 0), &Answer::NotStored, late).is_err());
    }
}

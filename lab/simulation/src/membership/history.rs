//! What was written under shared keys, and what may be read.

use guira_world::time;
use std::time::Duration;

/// A key that one program writes, and all read.
#[derive(Clone, Debug, Default)]
struct Key {
    /// A key is given up when the fate of a write is not known: it may still be executed later.
    generation: u32,
    /// The newest version that a write has begun with.
    begun: u64,
    /// Versions that were acknowledged, and when. A delete has a version too, which no value has.
    acknowledged: Vec<(Duration, u64)>,
}

#[derive(Debug)]
pub(crate) struct History {
    keys: Vec<Key>,
    /// The longest time for which a value was read that was no longer the newest.
    pub(crate) outdated: Duration,
}

/// A write or a read that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    number: usize,
    generation: u32,
    pub(crate) key: String,
    pub(crate) version: u64,
    since: Duration,
}

impl Begun {
    pub(crate) fn value(&self) -> String {
        format!("{}={}.", self.key, self.version)
    }
}

impl History {
    pub(crate) fn new(keys: usize) -> Self {
        History { keys: vec![Key::default(); keys], outdated: Duration::ZERO }
    }

    pub(crate) fn read(&self, number: usize) -> Begun {
        let Key { generation, begun, .. } = self.keys[number];
        let (key, since) = (format!("row-{number}-{generation}"), time::now());
        Begun { number, generation, key, version: begun, since }
    }

    pub(crate) fn write(&mut self, number: usize) -> Begun {
        self.keys[number].begun += 1;
        self.read(number)
    }

    pub(crate) fn acknowledge(&mut self, write: &Begun) {
        self.keys[write.number].acknowledged.push((time::now(), write.version));
    }

    pub(crate) fn give_up(&mut self, write: &Begun) {
        self.keys[write.number] = Key { generation: write.generation + 1, ..Key::default() };
    }

    /// Checks a value that was read, which may be `bound` older than the newest one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&mut self, read: &Begun, value: &str, bound: Duration) -> Result<(), String> {
        let Begun { number, generation, key, since, .. } = read;
        let version = value.strip_prefix(&format!("{key}=")).and_then(|rest| rest.strip_suffix('.'));
        let version: u64 = version
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| format!("{key} has the value {value:?}"))?;
        let known = &self.keys[*number];
        if known.generation != *generation {
            return Ok(());
        }
        if version > known.begun {
            return Err(format!("{key} has version {version}; the newest is {}", known.begun));
        }
        let newer = known.acknowledged.iter().find(|(when, newer)| *newer > version && when < since);
        let Some((when, newer)) = newer else { return Ok(()) };
        let age = *since - *when;
        self.outdated = self.outdated.max(age);
        if age <= bound {
            return Ok(());
        }
        Err(format!("{key} had version {version} {age:?} after version {newer} was acknowledged"))
    }
}

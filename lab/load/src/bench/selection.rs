//! Which parts of the bench are run.

use super::loads::{self, LoadSpec};
use super::memory::{self, Case};
use crate::error::LoadError;

const GIB: u64 = 1 << 30;
const KEYS: u64 = 25_000_000;
/// A short bench allows this part of the memory and sets this part of the keys.
const QUICK_PART: u64 = 16;

/// The parts beside the loads.
const OPEN: &str = "open";
const MEMORY: &str = "memory";
const MEMORY_STAMPED: &str = "memory-stamped";
const MEMORY_SIZES: &str = "memory-sizes";
const ITEMS: &str = "items";

/// The name of the load that the open loop sends.
const OPEN_LOAD: &str = "get1";

/// How much of a record is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A record.
    Full,
    /// A direction.
    Quick,
}

/// What is run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Closed loops, measured in operations per second of processor time.
    pub loads: Vec<LoadSpec>,
    /// The open loop.
    pub open: Option<LoadSpec>,
    /// Memory for each item.
    pub memory: Vec<Case>,
    /// Items held at equal resident size.
    pub equal: Vec<Case>,
}

impl Selection {
    /// The parts named in `only`; all but the long `memory-sizes` when it is empty.
    ///
    /// # Errors
    /// When a name is unknown.
    pub fn named(only: &[String], scale: Scale) -> Result<Self, LoadError> {
        let all = loads::all()?;
        let known: Vec<&str> = names(&all);
        if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(LoadError::Options(format!(
                "there is no load {unknown:?}; there are {}",
                known.join(", ")
            )));
        }
        let is_named = |name: &str| only.iter().any(|other| other == name);
        let wanted = |name: &str| is_named(name) || (only.is_empty() && name != MEMORY_SIZES);
        let part = match scale {
            Scale::Full => 1,
            Scale::Quick => QUICK_PART,
        };
        let (memory, keys) = (GIB / part, KEYS / part);
        let mut cases = Vec::new();
        if wanted(MEMORY) {
            cases.push(memory::small(MEMORY, memory, keys));
        }
        if wanted(MEMORY_STAMPED) {
            cases.push(memory::stamped(MEMORY_STAMPED, memory, keys));
        }
        if wanted(MEMORY_SIZES) {
            cases.extend(memory::sweep(memory, keys));
        }
        Ok(Self {
            open: all.iter().find(|spec| spec.name == OPEN_LOAD && wanted(OPEN)).cloned(),
            loads: all
                .into_iter()
                .filter(|spec| wanted(spec.name))
                .map(|spec| LoadSpec { settle: spec.settle / part, ..spec })
                .collect(),
            memory: cases,
            equal: if wanted(ITEMS) { vec![memory::production(memory)?] } else { Vec::new() },
        })
    }
}

/// Every name that can be selected.
fn names(loads: &[LoadSpec]) -> Vec<&str> {
    let parts = [OPEN, MEMORY, MEMORY_STAMPED, MEMORY_SIZES, ITEMS];
    loads.iter().map(|spec| spec.name).chain(parts).collect()
}

/// A line for each part: its name and what it is.
///
/// # Errors
/// Never in practice: the loads are constants.
pub fn described() -> Result<Vec<(String, String)>, LoadError> {
    let mut lines: Vec<(String, String)> =
        loads::all()?.iter().map(|spec| (spec.name.to_owned(), spec.about.to_owned())).collect();
    lines.extend(
        [
            (OPEN, "open loop of gets over 50 connections at half of memcached's saturated rate: p99.9"),
            (MEMORY, "resident size / curr_items after 25 M distinct sets (16 + 32 bytes) into 1 GiB"),
            (MEMORY_STAMPED, "the same with 4-byte flags and exptime"),
            (MEMORY_SIZES, "the same for 20 sizes of guira's memory between 0.5 and 2 GiB (only when named)"),
            (ITEMS, "items of CacheLib's kvcache_reg held at equal resident size"),
        ]
        .map(|(name, about)| (name.to_owned(), about.to_owned())),
    );
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{Scale, Selection, described};

    fn named(only: &[&str]) -> Selection {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        Selection::named(&only, Scale::Full).unwrap()
    }

    #[test]
    fn parts_are_found_by_name_and_unknown_ones_refused() {
        let some = named(&["set32", "get1"]);
        assert_eq!(some.loads.iter().map(|spec| spec.name).collect::<Vec<_>>(), ["get1", "set32"]);
        assert!(some.open.is_none() && some.memory.is_empty() && some.equal.is_empty());
        let error = Selection::named(&["get33".to_owned()], Scale::Full).unwrap_err().to_string();
        assert!(error.contains("get32") && error.contains("memory-sizes"), "{error}");
    }

    #[test]
    fn everything_but_the_long_part_is_the_default() {
        let all = named(&[]);
        assert_eq!((all.memory.len(), all.equal.len(), all.open.is_some()), (2, 1, true));
        assert_eq!(named(&["memory-sizes"]).memory.len(), 20);
        assert_eq!(described().unwrap().len(), all.loads.len() + 5);
    }
}

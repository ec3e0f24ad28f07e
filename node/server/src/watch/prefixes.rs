//! `stats detail`: how often keys of each prefix are requested, found, stored and deleted.

use crate::background::push_encoded;
use guira_commands::observe::{Event, Got, StoredBy};
use guira_contract::Switch;
use guira_protocol::fits_in_text;
use guira_sync::atomic::{AtomicBool, AtomicU8, Ordering};
use guira_sync::lock::Mutex;
use std::collections::HashMap;
use std::io::Write as _;

/// The most prefixes that are counted; keys of others are not. Clients choose keys, so there must be an end.
const PREFIXES_MAX: usize = 10_000;
/// The delimiter if none is given.
pub(crate) const DEFAULT_DELIMITER: u8 = b':';
/// A longer prefix is none.
const PREFIX_MAX: usize = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

#[derive(Debug)]
pub(crate) struct Prefixes {
    on: AtomicBool,
    delimiter: AtomicU8,
    /// LOCK: prefixes. Leaf.
    uses: Mutex<HashMap<Box<[u8]>, Uses>>,
}

impl Prefixes {
    /// Counts prefixes that end before `delimiter`; from the start, if one is given.
    pub(crate) fn new(delimiter: Option<u8>) -> Self {
        Prefixes {
            on: AtomicBool::new(delimiter.is_some()),
            delimiter: AtomicU8::new(delimiter.unwrap_or(DEFAULT_DELIMITER)),
            uses: Mutex::default(),
        }
    }

    fn uses(&self) -> guira_sync::lock::MutexGuard<'_, HashMap<Box<[u8]>, Uses>> {
        self.uses.lock()
    }

    /// Whether they are counted. Relaxed: a count more or less.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Begins or ends to count; the counts stay.
    pub(crate) fn switch(&self, switch: Switch) {
        self.on.store(switch == Switch::On, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.uses().clear();
    }

    pub(crate) fn delimiter(&self) -> char {
        char::from(self.delimiter.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, event: &Event<'_>) {
        let (Event::Get { key, .. }
        | Event::Store { key, by: StoredBy::Store, .. }
        | Event::Delete { key, .. }) = event
        else {
            return;
        };
        let delimiter = self.delimiter.load(Ordering::Relaxed);
        let Some(prefix) = memchr::memchr(delimiter, key).map(|at| &key[..at]) else {
            return;
        };
        if prefix.len() > PREFIX_MAX {
            return;
        }
        let mut all = self.uses();
        if !all.contains_key(prefix) {
            if all.len() >= PREFIXES_MAX {
                return;
            }
            all.insert(prefix.into(), Uses::default());
        }
        let Some(uses) = all.get_mut(prefix) else {
            return;
        };
        match event {
            Event::Get { got, .. } => {
                uses.gets += 1;
                uses.hits += u64::from(matches!(got, Got::Found | Got::Created));
            }
            Event::Store { .. } => uses.sets += 1,
            Event::Lookup { .. } | Event::Use { .. } => {}
            Event::Delete { .. } => uses.deletes += 1,
        }
    }

    /// Writes the counts, as the reply to `stats detail dump`.
    pub(crate) fn dump(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (prefix, Uses { gets, hits, sets, deletes }) in self.uses().iter() {
            out.extend(b"PREFIX ");
            // The binary protocol takes any bytes, and a line end among them would begin a forged line.
            if fits_in_text(prefix) {
                out.extend_from_slice(prefix);
            } else {
                push_encoded(prefix, &mut out);
            }
            let _ = write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
        }
        out.extend(b"END\r\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_contract::MissKind;

    fn get(key: &str, got: Got) -> Event<'_> {
        Event::Get { key: key.as_bytes(), got, item: None }
    }

    #[test]
    fn uses_are_counted_by_what_comes_before_the_delimiter() {
        let prefixes = Prefixes::new(None);
        prefixes.count(&get("foo:1", Got::Found));
        prefixes.count(&get("foo:2", Got::Missed(MissKind::Absent)));
        prefixes.count(&get("bar", Got::Found));
        assert_eq!(prefixes.dump(), b"PREFIX foo get 2 hit 1 set 0 del 0\r\nEND\r\n");
        prefixes.reset();
        assert_eq!(prefixes.dump(), b"END\r\n");
    }

    #[test]
    fn there_is_an_end_to_prefixes() {
        let prefixes = Prefixes::new(Some(b'/'));
        assert!(prefixes.is_on());
        for number in 0..PREFIXES_MAX + 10 {
            prefixes.count(&get(&format!("p{number}/x"), Got::Found));
        }
        prefixes.count(&get("p0/y", Got::Found));
        prefixes.count(&get(&format!("{}/x", "l".repeat(PREFIX_MAX + 1)), Got::Found));
        assert_eq!(prefixes.uses().len(), PREFIXES_MAX);
        assert_eq!(prefixes.uses()[&b"p0"[..]].gets, 2);
    }
}

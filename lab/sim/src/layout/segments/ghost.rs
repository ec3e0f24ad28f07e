//! Which keys were evicted lately.

use crate::policy::Id;

/// Bytes of a key that is remembered, with what a table of them keeps free; the engine's ghost takes 6 to 11.
const ENTRY: u64 = 8;

/// Keys that were evicted from the small queue, and when, counted in such evictions.
#[derive(Debug)]
pub(super) struct Ghost {
    /// The eviction of each key, from 1; 0 if it is not remembered.
    evicted: Vec<u32>,
    evictions: u32,
    /// The most keys that it has been allowed to remember lately.
    entries: u64,
}

impl Ghost {
    pub(super) fn new(keys: usize) -> Self {
        Self { evicted: vec![0; keys], evictions: 0, entries: 0 }
    }

    /// Remembers a key, and of those before it the last `entries - 1`.
    pub(super) fn remember(&mut self, id: Id, entries: u64) {
        self.evictions += 1;
        self.entries = entries;
        self.evicted[id as usize] = self.evictions;
    }

    /// Whether a key is among the last `entries`. It is forgotten now.
    pub(super) fn recall(&mut self, id: Id, entries: u64) -> bool {
        let evicted = std::mem::take(&mut self.evicted[id as usize]);
        evicted != 0 && u64::from(self.evictions - evicted) < entries
    }

    pub(super) fn bytes(&self) -> u64 {
        self.entries.min(self.evictions.into()) * ENTRY
    }
}

#[cfg(test)]
mod tests {
    use super::Ghost;

    #[test]
    fn as_many_keys_are_remembered_as_it_is_told_and_each_is_recalled_once() {
        let mut ghost = Ghost::new(4);
        (0..4).for_each(|id| ghost.remember(id, 3));
        assert_eq!([0, 1, 2, 3].map(|id| ghost.recall(id, 3)), [false, true, true, true]);
        assert!(!ghost.recall(3, 3));
        assert_eq!(ghost.bytes(), 24);
    }
}

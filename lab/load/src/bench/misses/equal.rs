//! Searches for the memory with which one server becomes as large as another, but not larger.

const TRIES: u32 = 4;
/// The step of Guira's memory: a page.
const STEP: u64 = 256 << 10;
/// A server that is smaller by at most one part in this many counts as equal.
const NEAR: u64 = 100;

/// The least memory with which Guira starts.
const LEAST: u64 = 3 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    target: u64,
    memory: u64,
    /// The least memory that is known to be too much, and the most that is known to be enough.
    too_much: u64,
    enough: u64,
    left: u32,
}

impl Fit {
    /// A search for a server of `target` bytes.
    pub(super) fn new(target: u64) -> Self {
        Self { target, memory: target.max(LEAST), too_much: u64::MAX, enough: 0, left: TRIES }
    }

    /// A short search that starts at the result of this one.
    pub(super) fn again(self) -> Self {
        Self { memory: self.memory, left: 3, ..Self::new(self.target) }
    }

    /// The memory to try next; `None` at the end of the search.
    pub(super) fn next(&self) -> Option<u64> {
        (self.left > 0).then_some(self.memory)
    }

    /// Records that the server became `resident` bytes large with `memory`.
    pub(super) fn tried(&mut self, memory: u64, resident: u64) {
        self.left -= 1;
        self.narrow(memory, resident);
        if self.left == 0 && self.enough > 0 {
            self.memory = self.enough;
        }
    }

    fn narrow(&mut self, memory: u64, resident: u64) {
        if resident > self.target {
            self.too_much = self.too_much.min(memory);
            let less = (resident - self.target).next_multiple_of(STEP);
            self.memory = memory.saturating_sub(less).max(LEAST).max(self.between(memory));
            if self.memory == memory || self.memory == self.enough {
                self.left = 0;
            }
            return;
        }
        self.enough = self.enough.max(memory);
        let gap = self.target - resident;
        let next = memory + gap / STEP * STEP;
        let next = if next >= self.too_much { self.between(self.too_much) } else { next };
        if gap <= (self.target / NEAR).max(STEP) || next <= memory {
            self.left = 0;
        } else {
            self.memory = next;
        }
    }

    /// The middle between `enough` and `too_much`, once the search has found both.
    fn between(&self, too_much: u64) -> u64 {
        if self.enough == 0 { 0 } else { self.enough + (too_much - self.enough) / 2 / STEP * STEP }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fit, LEAST};

    const MIB: u64 = 1 << 20;

    /// The result of the search, and the number of tries.
    fn searched(target: u64, resident: impl Fn(u64) -> u64) -> (u64, u32) {
        let (mut fit, mut tries) = (Fit::new(target), 0);
        while let Some(memory) = fit.next() {
            fit.tried(memory, resident(memory));
            tries += 1;
        }
        (fit.memory, tries)
    }

    #[test]
    fn a_server_that_is_a_little_smaller_than_its_memory_gets_more() {
        let (memory, tries) = searched(64 * MIB, |memory| memory - MIB);
        assert_eq!((memory, tries), (65 * MIB, 2));
        assert_eq!(searched(64 * MIB, |memory| memory - MIB / 8), (64 * MIB, 1), "near enough");
    }

    #[test]
    fn a_server_that_is_too_large_gets_less() {
        let (memory, tries) = searched(64 * MIB, |memory| memory + memory / 20);
        assert!(memory + memory / 20 <= 64 * MIB && memory > 60 * MIB, "{memory}");
        assert!(tries <= 3, "{tries}");
    }

    #[test]
    fn what_was_too_much_is_not_tried_again() {
        // The server grows in steps of 8 MiB.
        let (memory, tries) = searched(60 * MIB, |memory| memory.next_multiple_of(8 * MIB));
        assert!(memory <= 56 * MIB && tries <= 4, "{memory}, {tries}");
    }

    #[test]
    fn a_server_that_is_always_too_large_ends_the_search() {
        assert_eq!(searched(MIB, |memory| memory + 9 * MIB), (LEAST, 1));
        assert_eq!(searched(4 * MIB, |memory| memory + 9 * MIB), (LEAST, 2));
    }
}

//! What is remembered of the children that were asked about a request.

use crate::step::State;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    count: u16,
    errors: u16,
    /// A policy's own.
    marks: u128,
}

/// Marks that a policy may set.
pub(super) const MARKS: usize = u128::BITS as usize;

/// How a child has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Once,
    /// The next request to it fails as well.
    IsDown,
}

impl Tried {
    pub(super) fn of(state: &State) -> Self {
        Tried { count: state.a as u16, errors: (state.a >> 16) as u16, marks: state.b }
    }

    pub(super) fn keep(self, state: &mut State) {
        state.a = u32::from(self.errors) << 16 | u32::from(self.count);
        state.b = self.marks;
    }

    pub(super) fn add(&mut self, failed: Failed) {
        self.errors = self.errors.saturating_add(u16::from(failed == Failed::Once));
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn mark(&mut self, mark: usize) {
        if mark < MARKS {
            self.marks |= 1 << mark;
        }
    }

    pub(super) fn has(self, mark: usize) -> bool {
        mark < MARKS && self.marks & 1 << mark != 0
    }

    /// How many were asked.
    pub(super) fn count(self) -> usize {
        usize::from(self.count)
    }

    /// How many of them have failed, and are not down.
    pub(super) fn errors(self) -> usize {
        usize::from(self.errors)
    }
}

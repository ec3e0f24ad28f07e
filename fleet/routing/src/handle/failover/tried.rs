//! The record of the children that a request has tried.

use crate::failure_domains::FailureDomains;
use crate::step::{DestinationId, State};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    count: u16,
    errors: u16,
    marks: u128,
    /// The failure domain of the first child's reply.
    first: Place,
}

/// Marks that a policy may set.
pub(super) const MARKS: usize = u128::BITS as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Once,
    /// The configuration excludes this error from the tries.
    Excluded,
    /// The next request to it fails as well.
    IsDown,
}

/// The failure domain of the server that sent a reply, in a number that fits into the state of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(u32);

/// The reply is not from a server.
const NOWHERE: u32 = 0;
/// The server has no failure domain. Larger numbers are those of domains.
const NO_DOMAIN: u32 = 1;

impl Place {
    pub(super) fn of(server: Option<DestinationId>, domains: &FailureDomains) -> Self {
        let Some(server) = server else { return Place(NOWHERE) };
        Place(domains.of(server).map_or(NO_DOMAIN, |domain| domain + NO_DOMAIN + 1))
    }

    pub(super) fn domain(self) -> Option<u32> {
        self.0.checked_sub(NO_DOMAIN + 1)
    }

    /// Whether both replies are from servers of the same failure domain. As in mcrouter, all servers without a domain are in the same one.
    pub(super) fn is_that_of(self, other: Place) -> bool {
        self.0 != NOWHERE && self == other
    }
}

impl Tried {
    pub(super) fn of(state: &State) -> Self {
        let (count, errors) = (state.a as u16, (state.a >> 16) as u16);
        Tried { count, errors, marks: state.b, first: Place(state.c) }
    }

    pub(super) fn keep(self, state: &mut State) {
        state.a = u32::from(self.errors) << 16 | u32::from(self.count);
        state.b = self.marks;
        state.c = self.first.0;
    }

    /// Remembers the failure domain of the first child's reply.
    pub(super) fn begin(&mut self, first: Place) {
        self.first = first;
    }

    /// The failure domain of the first child's reply.
    pub(super) fn first(self) -> Place {
        self.first
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

    pub(super) fn count(self) -> usize {
        usize::from(self.count)
    }

    /// The number of failures without unreachable servers and excluded errors.
    pub(super) fn errors(self) -> usize {
        usize::from(self.errors)
    }
}

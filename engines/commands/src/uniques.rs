//! Whether items have cas uniques at all.

use crate::Executor;
use guira_contract::Session;

/// Whether items have cas uniques (memcached's `-C` takes them away).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uniques {
    /// An item has one as soon as a client asks for it.
    #[default]
    Kept,
    /// None has. Where one is told it is 0, and nothing is equal to it that a client has been told.
    None,
}

impl Uniques {
    /// What is told of an item's unique; `None` if the item has to be given one first.
    #[inline(always)]
    pub(crate) fn shown(self, cas: Option<u64>) -> Option<u64> {
        match self {
            Uniques::Kept => cas,
            Uniques::None => Some(0),
        }
    }

    /// The unique that a command gives; 0 means none.
    pub(crate) fn given(self, cas: Option<u64>) -> Option<u64> {
        cas.filter(|cas| *cas != 0 && self == Uniques::Kept)
    }
}

impl<S: Session> Executor<S> {
    /// Has items with or without uniques.
    #[must_use]
    pub fn with_uniques(self, uniques: Uniques) -> Self {
        Executor { uniques, ..self }
    }

    /// A new unique, if items have any.
    pub(crate) fn fresh_unique(&mut self) -> Option<u64> {
        (self.uniques == Uniques::Kept).then(|| self.session.next_cas())
    }
}

//! Whether items have cas uniques.

/// Whether items have cas uniques (memcached's `-C` disables them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uniques {
    /// An item gets one when a client first asks for it.
    #[default]
    Kept,
    /// No item has one. Replies contain 0, and no comparison succeeds.
    None,
}

impl Uniques {
    /// The cas unique to show; `None` if the item has to be given one first.
    #[inline(always)]
    pub(crate) fn shown(self, cas: Option<u64>) -> Option<u64> {
        match self {
            Uniques::Kept => cas,
            Uniques::None => Some(0),
        }
    }

    /// The cas unique that a command gives; 0 means none.
    pub(crate) fn given(self, cas: Option<u64>) -> Option<u64> {
        cas.filter(|cas| *cas != 0 && self == Uniques::Kept)
    }
}

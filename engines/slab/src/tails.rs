//! Classes that hold ends of long values.
//!
//! A long value lies in chunks of the largest class, and its end in one that fits. The chunks of the end's class come free as the values go, so
//! that nothing is evicted from that class, its hand stands still, and it looks ever older; but to take a page from it is to evict as many
//! long values as the page has chunks: of values of 32 KiB and an end of 72 bytes a third of a cache of 300 MB.

use crate::core::Core;
use crate::index::Scheme;
use guira_memory::slab::ClassId;

/// A page that holds ends of so many values is spared.
const MANY: u64 = 64;
/// Chunks that sessions may keep to themselves, which are in use and hold nothing.
const KEPT: u64 = 128;

impl<X: Scheme> Core<X> {
    /// The class that should give a page to `needy`, if any should.
    pub(crate) fn donor(&self, needy: ClassId) -> Option<ClassId> {
        self.sparing_tails(|| self.balance.donor(needy))
    }

    /// The class that gives a page if one has to, to `needy` or to nobody.
    pub(crate) fn oldest_donor(&self, needy: Option<ClassId>) -> Option<ClassId> {
        self.sparing_tails(|| {
            needy.map_or_else(|| self.balance.oldest(), |needy| self.balance.oldest_but(needy))
        })
    }

    /// The class that `next` chooses, if possible one that does not hold ends of long values. Such count as young from now on.
    fn sparing_tails(&self, next: impl Fn() -> Option<ClassId>) -> Option<ClassId> {
        for _ in self.memory.classes().ids() {
            let chosen = next()?;
            if !self.holds_tails(chosen) {
                return Some(chosen);
            }
            if !self.balance.count_as_young(chosen) {
                break;
            }
        }
        next()
    }

    /// Whether the pages of `class` hold ends of many long values each.
    fn holds_tails(&self, class: ClassId) -> bool {
        if class == self.memory.classes().largest() {
            return false;
        }
        let usage = self.memory.lock(class).usage();
        let tails =
            (usage.chunks - usage.free).saturating_sub(self.registry.items_of(class)).saturating_sub(KEPT);
        tails >= MANY * usage.pages.max(1)
    }
}

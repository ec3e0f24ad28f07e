//! Reading: a look for a key in the index.

use crate::entry::Entry;
use crate::flush::Flushes;
use crate::index::Tag;
use crate::partition::Partition;
use crate::pin::MicaPin;
use crate::store::ItemStore;
use guira_contract::{ItemView, Key, MissKind, Sink, Want};
use guira_items::INLINE_MAX;
use guira_items::hooks::{self, Window};
use guira_memory::Region;
use guira_sync::clock::Seconds;

/// How many buckets of a chain are looked through without holding the partition: links may be torn, and lead in a circle.
pub(crate) const CHAIN_MAX: usize = 64;

/// What a look at an entry found.
pub(crate) enum Seen {
    /// The sink has a copy. `noted`: a recent read is noted in the header already. `used`: a use is noted in the anchor.
    Copied {
        noted: bool,
        used: bool,
    },
    Dead(MissKind),
    /// The value is too long to be copied.
    Long,
    Other,
}

/// What a look for a key found.
pub(crate) enum Look {
    /// An entry, and its offset.
    Found(Seen, u64),
    Absent,
    /// The chain may be a circle.
    Deep,
    /// Something changed meanwhile. If `copied`, the sink has to undo.
    Torn {
        copied: bool,
    },
}

pub(crate) struct Reader<'r, S, K> {
    pub(crate) part: &'r Partition<S>,
    pub(crate) region: &'r Region,
    pub(crate) flushes: &'r Flushes,
    pub(crate) key: Key<'r>,
    pub(crate) now: Seconds,
    pub(crate) sink: &'r mut K,
}

impl<S: ItemStore, K: Sink<Pin = MicaPin<S>>> Reader<'_, S, K> {
    #[inline(always)]
    fn see(&mut self, offset: u64) -> Seen {
        let Some(entry) = Entry::at(self.region, self.part.store().at(offset), self.now) else {
            return Seen::Other;
        };
        if !entry.key_is(self.key.bytes) {
            return Seen::Other;
        }
        if entry.expiry().passed(self.now) {
            return Seen::Dead(MissKind::Expired);
        }
        if self.part.clean_since() != self.flushes.of_prefixes() && self.flushes.kills(entry.stamped()) {
            return Seen::Dead(MissKind::Flushed);
        }
        hooks::pause(Window::Reading);
        if entry.value_len() > INLINE_MAX && self.sink.wants() == Want::Value {
            return Seen::Long;
        }
        self.sink.found(&entry);
        Seen::Copied { noted: entry.header().is_noted(self.now), used: entry.is_used() }
    }

    /// Looks through the bucket of the key, which has this place.
    pub(crate) fn search(&mut self, place: u32) -> Look {
        let (index, store) = (self.part.index(), self.part.store());
        let extent = index.extent();
        let main = index.bucket(index.bucket_of(place, extent));
        let version = main.begin();
        let Some(version) = version.filter(|_| index.extent() == extent) else {
            return Look::Torn { copied: false };
        };
        let mut bucket = main;
        for _ in 0..CHAIN_MAX {
            for slot in bucket.tagged(Tag::of(self.key.hash.0)) {
                let offset = bucket.offset(slot);
                if !store.is_live(offset) {
                    continue;
                }
                let seen = self.see(offset);
                if matches!(seen, Seen::Other) {
                    continue;
                }
                if main.is_still(version) && store.is_still_live(offset) {
                    return Look::Found(seen, offset);
                }
                return Look::Torn { copied: matches!(seen, Seen::Copied { .. }) };
            }
            match index.behind(bucket) {
                Some(next) => bucket = next,
                None if main.is_still(version) => return Look::Absent,
                None => break,
            }
        }
        if main.is_still(version) { Look::Deep } else { Look::Torn { copied: false } }
    }
}

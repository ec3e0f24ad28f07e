//! Seeing every item while other sessions work.
//!
//! A walk follows the index of one partition after another from place to place. The place of a key never changes, whatever happens to its item and however
//! the index grows: so the walk visits each key that is stored all the time exactly once.

use crate::core::Core;
use crate::local::Local;
use crate::store::{ItemStore, Log};
use crate::writer::Writer;
use guira_contract::{ItemView, Meta, Walked, WalkedItem};
use guira_sync::clock::Seconds;
use std::sync::Arc;

const STEP: usize = 64;

#[derive(Debug)]
pub struct MicaWalk<S = Log> {
    core: Arc<Core<S>>,
    partition: usize,
    place: u32,
}

struct Shown {
    key: Vec<u8>,
    meta: Meta,
}

impl<S: ItemStore> MicaWalk<S> {
    /// Begins a walk, unless one is under way.
    pub(crate) fn begin(core: &Arc<Core<S>>) -> Option<Self> {
        core.walks.begin().then(|| MicaWalk { core: core.clone(), partition: 0, place: 0 })
    }

    /// Shows the items of the next buckets.
    pub(crate) fn step(
        &mut self,
        local: &mut Local<S>,
        now: Seconds,
        see: &mut dyn FnMut(WalkedItem<'_>),
    ) -> Walked {
        if self.partition == self.core.partitions.len() {
            return Walked::Done;
        }
        let mut shown = Vec::new();
        let beyond = local.holding(self.partition, now, |writer| show(writer, self.place, &mut shown));
        // No session waits meanwhile.
        shown.iter().for_each(|item| see(WalkedItem { key: &item.key, meta: item.meta }));
        (self.partition, self.place) =
            beyond.map_or((self.partition + 1, 0), |place| (self.partition, place));
        Walked::More
    }
}

impl<S> Drop for MicaWalk<S> {
    fn drop(&mut self) {
        self.core.walks.end();
    }
}

/// Collects the items of some buckets, from that of `place` on. Returns the place to continue from, if there is one.
fn show<S: ItemStore>(writer: &Writer<'_, S>, mut place: u32, shown: &mut Vec<Shown>) -> Option<u32> {
    let index = writer.part().index();
    for _ in 0..STEP {
        let number = index.bucket_of(place, index.extent());
        let beyond = index.beyond(place);
        for (bucket, slot) in index.slots_of(number) {
            let Some(entry) = writer.entry_at(bucket.offset(slot)) else {
                continue;
            };
            // Items before the place were seen when their bucket was a part of another.
            if entry.place() >= place && !writer.is_dead_entry(&entry) {
                shown.push(Shown { key: entry.key(&mut [0; 256]).to_vec(), meta: entry.meta() });
            }
        }
        place = beyond?;
    }
    Some(place)
}

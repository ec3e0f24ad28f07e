//! Seeing every item, while others go on working.
//!
//! A walk follows the index of one partition after another from place to place. A key's place does not change, whatever becomes of its item and
//! however the index grows: so the walk comes by each key that is stored all the time exactly once.

use crate::core::Core;
use crate::log::Log;
use crate::session::MicaSession;
use crate::space::Space;
use crate::update::Writer;
use guira_contract::{ItemView, Meta, Walked, WalkedItem};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// Buckets that are seen in one step.
const STEP: usize = 64;

/// A walk under way.
#[derive(Debug)]
pub struct MicaWalk<S = Log> {
    core: Arc<Core<S>>,
    /// The partition and the place that it has come to.
    partition: usize,
    place: u32,
}

impl<S: Space> MicaWalk<S> {
    /// Begins a walk, unless one is under way.
    pub(crate) fn begin(core: &Arc<Core<S>>) -> Option<Self> {
        // Relaxed: says nothing of what the walk sees.
        let is_free = !core.walking.swap(true, Ordering::Relaxed);
        is_free.then(|| MicaWalk { core: core.clone(), partition: 0, place: 0 })
    }
}

impl<S> Drop for MicaWalk<S> {
    fn drop(&mut self) {
        self.core.walking.store(false, Ordering::Relaxed);
    }
}

/// What is shown of an item.
struct Shown {
    key: Vec<u8>,
    meta: Meta,
}

impl<S: Space> MicaSession<S> {
    pub(crate) fn step(
        &mut self,
        walk: &mut MicaWalk<S>,
        now: Seconds,
        see: &mut dyn FnMut(WalkedItem<'_>),
    ) -> Walked {
        if walk.partition == self.core.partitions.len() {
            return Walked::Done;
        }
        let mut shown = Vec::new();
        let beyond = self.holding(walk.partition, now, |writer| writer.show(walk.place, &mut shown));
        // Nobody waits while they are looked at.
        shown.iter().for_each(|item| see(WalkedItem { key: &item.key, meta: item.meta }));
        (walk.partition, walk.place) =
            beyond.map_or((walk.partition + 1, 0), |place| (walk.partition, place));
        Walked::More
    }
}

impl<S: Space> Writer<'_, S> {
    /// Collects the items of some buckets, from that of `place` on. Returns the place to go on from, if there is one.
    fn show(&self, mut place: u32, shown: &mut Vec<Shown>) -> Option<u32> {
        let index = &self.part.index;
        for _ in 0..STEP {
            let number = index.bucket_of(place, index.extent());
            let beyond = index.beyond(place);
            for (bucket, slot) in self.slots_of(number) {
                let Some(entry) = self.entry_at(bucket.offset(slot)) else {
                    continue;
                };
                // What lies before it was seen when its bucket was a part of another.
                if entry.place() >= place && !entry.expiry().passed(self.now) {
                    shown.push(Shown { key: entry.key(&mut [0; 256]).to_vec(), meta: entry.meta() });
                }
            }
            place = beyond?;
        }
        Some(place)
    }
}

//! Seeing every item, while others go on working.
//!
//! A walk follows the list from bucket to bucket. Items and buckets have one place in its order for good, an item that is stored anew has that of the one
//! before it, and buckets never go: so the walk comes by each key that is stored all the time exactly once.

use crate::core::Core;
use crate::list::{Scanned, scan};
use crate::nodes::ReadNodes;
use crate::session::FleecSession;
use guira_contract::{ItemView, Meta, Walked, WalkedItem};
use guira_memory::Offset;
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// Buckets that are seen in one step.
const STEP: usize = 64;

/// A walk under way.
#[derive(Debug)]
pub struct FleecWalk {
    core: Arc<Core>,
    /// The bucket that it has come to.
    bucket: u64,
}

impl FleecWalk {
    /// Begins a walk, unless one is under way.
    pub(crate) fn begin(core: &Arc<Core>) -> Option<Self> {
        // Relaxed: says nothing of what the walk sees.
        let is_free = !core.walking.swap(true, Ordering::Relaxed);
        is_free.then(|| FleecWalk { core: core.clone(), bucket: 0 })
    }
}

impl Drop for FleecWalk {
    fn drop(&mut self) {
        self.core.walking.store(false, Ordering::Relaxed);
    }
}

/// What is shown of an item.
struct Shown {
    key: Vec<u8>,
    meta: Meta,
}

impl Core {
    /// Takes something of all items between a bucket and the next one on the list. Returns that one.
    pub(crate) fn scan_bucket<R>(
        &self,
        bucket: u64,
        out: &mut Vec<R>,
        mut look: impl FnMut(Offset) -> Option<R>,
    ) -> Option<u64> {
        loop {
            match scan(&ReadNodes(self), self.table.head(bucket), out, &mut look) {
                Scanned::Next(bucket) => return Some(bucket),
                Scanned::End => return None,
                Scanned::Torn => out.clear(),
            }
        }
    }
}

impl FleecSession {
    pub(crate) fn step(
        &mut self,
        walk: &mut FleecWalk,
        now: Seconds,
        see: &mut dyn FnMut(WalkedItem<'_>),
    ) -> Walked {
        self.core.settle_flush(now);
        let core = &*self.core;
        let mut shown = Vec::new();
        for _ in 0..STEP {
            let next = core.scan_bucket(walk.bucket, &mut shown, |at| {
                let item = core.item(at, now).filter(|item| core.dead(item, now).is_none())?;
                let meta = item.of_class(core.class_number(at)).meta();
                Some(Shown { key: item.key(&mut [0; 256]).to_vec(), meta })
            });
            shown.drain(..).for_each(|item| see(WalkedItem { key: &item.key, meta: item.meta }));
            match next {
                Some(bucket) => walk.bucket = bucket,
                None => return Walked::Done,
            }
        }
        Walked::More
    }
}

//! Seeing every item while other sessions work.
//!
//! A walk follows the list from bucket to bucket. An item or bucket has one place in the list's order for good, a replaced item leaves its place to the new one,
//! and buckets never go: so the walk visits each key that is stored all the time exactly once.

use crate::core::Core;
use crate::flush;
use guira_contract::{Meta, Walked, WalkedItem};
use guira_sync::clock::Seconds;
use std::sync::Arc;

const STEP: usize = 64;

#[derive(Debug)]
pub struct FleecWalk {
    core: Arc<Core>,
    bucket: u64,
}

struct Shown {
    key: Vec<u8>,
    meta: Meta,
}

impl FleecWalk {
    /// Begins a walk, unless one is under way.
    pub(crate) fn begin(core: &Arc<Core>) -> Option<Self> {
        core.walks.begin().then(|| FleecWalk { core: core.clone(), bucket: 0 })
    }

    /// Shows the items of the next buckets.
    pub(crate) fn step(&mut self, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked {
        flush::settle(&self.core, now);
        let core = &*self.core;
        let mut shown = Vec::new();
        for _ in 0..STEP {
            let next = core.table.scan_bucket(self.bucket, &mut shown, |at| {
                let item = core.item(at, now).filter(|item| core.dead(item, now).is_none())?;
                Some(Shown { key: item.key(&mut [0; 256]).to_vec(), meta: core.meta_of(&item) })
            });
            shown.drain(..).for_each(|item| see(WalkedItem { key: &item.key, meta: item.meta }));
            match next {
                Some(bucket) => self.bucket = bucket,
                None => return Walked::Done,
            }
        }
        Walked::More
    }
}

impl Drop for FleecWalk {
    fn drop(&mut self) {
        self.core.walks.end();
    }
}

//! Which batches of a worker are in the sample of top keys.

use super::TopKeys;
use crate::sampler::Sampler;
use std::sync::Arc;

/// One in this many batches of few requests is looked at, and of the others one in this many times as many: a request in a large batch costs
/// less, and there are more of them.
pub(super) const FEWEST: u32 = 128;
const MORE: u32 = 4;
/// Batches with no more requests are those of few.
const FEW: usize = 4;

/// Draws the sample of one worker.
#[derive(Debug)]
pub(crate) struct UseSampler {
    keys: Option<Arc<TopKeys>>,
    worker: usize,
    batches: Sampler,
    large: Sampler,
    /// The present batch is in the sample.
    is_on: bool,
}

impl UseSampler {
    /// Without `keys` nothing is looked at.
    pub(crate) fn new(keys: Option<Arc<TopKeys>>, worker: usize) -> Self {
        let (batches, large) = (Sampler::new(worker, FEWEST), Sampler::new(worker, MORE));
        UseSampler { keys, worker, batches, large, is_on: false }
    }

    /// A batch of this many requests begins. True if its requests are to be reported.
    #[inline(always)]
    pub(crate) fn begin(&mut self, requests: usize) -> bool {
        self.batches.is_due() && self.start(requests)
    }

    #[cold]
    #[inline(never)]
    fn start(&mut self, requests: usize) -> bool {
        self.batches.again();
        let Some(keys) = &self.keys else {
            return false;
        };
        let mut scale = FEWEST;
        if requests > FEW {
            if !self.large.is_due() {
                return false;
            }
            self.large.again();
            scale *= MORE;
        }
        keys.scale(self.worker, scale);
        self.is_on = true;
        true
    }

    /// The batch was executed. True if its requests were reported.
    #[inline(always)]
    pub(crate) fn end(&mut self) -> bool {
        std::mem::take(&mut self.is_on)
    }
}

//! Spare buckets behind full ones (MICA, section 4.3.3). A cache uses them until its log goes around.

use super::bucket::Bucket;
use super::buckets::Index;

/// The most spare buckets behind one. Keys whose hashes a client makes up (MICA's datagrams carry them) could take all spare buckets otherwise, and make
/// every lookup go through all of them; with honest hashes no chain comes near.
const CHAIN_MAX: usize = 16;

impl Index {
    /// The spare bucket behind a bucket.
    #[inline(always)]
    pub(crate) fn behind(&self, bucket: Bucket<'_>) -> Option<Bucket<'_>> {
        self.linked(bucket.link())
    }

    /// The spare buckets behind a bucket.
    pub(crate) fn chain_of<'i>(&'i self, main: Bucket<'i>) -> impl Iterator<Item = Bucket<'i>> {
        std::iter::successors(self.behind(main), |bucket| self.behind(*bucket))
    }

    /// The slots in use of a bucket and its chain.
    pub(crate) fn slots_of(&self, number: u32) -> impl Iterator<Item = (Bucket<'_>, usize)> {
        let buckets = std::iter::successors(Some(self.bucket(number)), move |bucket| self.behind(*bucket));
        buckets.flat_map(|bucket| bucket.used().map(move |slot| (bucket, slot)))
    }

    /// Empties a bucket and frees its chain.
    pub(crate) fn clear_bucket(&self, number: u32) {
        let bucket = self.bucket(number);
        bucket.change(|| self.empty(bucket));
    }

    /// The same for a bucket that is open.
    pub(crate) fn empty(&self, bucket: Bucket<'_>) {
        bucket.used().for_each(|slot| bucket.clear(slot));
        let mut link = bucket.link();
        if link != 0 {
            bucket.set_link(0);
        }
        while let Some(spare) = self.linked(link) {
            let next = spare.link();
            self.give_spare(link);
            link = next;
        }
    }

    /// Frees the empty buckets in the chain of an open one.
    pub(crate) fn tighten(&self, main: Bucket<'_>) {
        let mut before = main;
        while let Some(bucket) = self.linked(before.link()) {
            if bucket.used().next().is_some() {
                before = bucket;
                continue;
            }
            let link = before.link();
            before.set_link(bucket.link());
            self.give_spare(link);
        }
    }

    /// An empty slot in the chain of a bucket.
    pub(crate) fn slot_behind<'i>(&'i self, main: Bucket<'i>) -> Option<(Bucket<'i>, usize)> {
        self.chain_of(main).find_map(|bucket| bucket.empty().next().map(|slot| (bucket, slot)))
    }

    /// Whether the chain of a bucket may become longer.
    pub(crate) fn may_grow_chain(&self, main: Bucket<'_>) -> bool {
        self.chain_of(main).take(CHAIN_MAX).count() < CHAIN_MAX
    }

    /// Inserts a spare bucket at the front of the chain of an open one, and fills its first slot.
    pub(crate) fn chain(&self, main: Bucket<'_>, link: u32, fill: impl FnOnce(Bucket<'_>)) {
        if let Some(spare) = self.linked(link) {
            spare.set_link(main.link());
            fill(spare);
            main.set_link(link);
        }
    }
}

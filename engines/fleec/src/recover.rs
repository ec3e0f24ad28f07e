//! Looking at the whole list of a Region that was left by another engine: whether it is one, and what is on it.
//!
//! The part of the list that is a bucket's begins at its link and has to end at the next bucket, so that each part can be looked at by itself, many at the same
//! time. Every item lies in a chunk that was handed out, no two in the same, is as long as its chunk allows, and lies where its hash belongs: so the list has an
//! end, and every search on it. What was taken out of the table but not off the list yet is taken off, and chunks that nothing refers to are freed.

use crate::core::Core;
use crate::link::Link;
use crate::options::LINK_BYTES;
use crate::order::{Order, bucket_of};
use guira_items::{ClassUsage, claim_chain};
use guira_memory::Offset;
use guira_memory::slab::{ClassId, HandedOut};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;

/// So many buckets are looked at together, so that the processor waits for many items at the same time.
const TOGETHER: u64 = 256;

/// A bucket's part of the list, and how far we have come.
struct Part<'n> {
    bucket: u64,
    /// The link of the last node that is in the table.
    before: &'n AtomicU64,
    /// The next node.
    at: Offset,
    /// The node after the last item.
    end: Offset,
    /// Where the last item lies in the order, or the bucket.
    order: Order,
}

/// What has been found so far.
struct Survey<'n> {
    core: &'n Core,
    buckets: u64,
    chunks: HandedOut<'n>,
    /// By class.
    held: Vec<ClassUsage>,
    /// What was taken off the list.
    gone: Vec<Offset>,
}

impl Core {
    /// Looks at all items. The engine is new, and nobody uses it yet. Returns what the items of each class come to; `None` if list and pages do not fit
    /// together.
    pub(crate) fn recover(&self) -> Option<Vec<ClassUsage>> {
        let buckets = self.table.buckets();
        let held = vec![ClassUsage::default(); self.memory.classes().len()];
        let chunks = self.memory.handed_out();
        let mut survey = Survey { core: self, buckets, chunks, held, gone: Vec::new() };
        let mut parts = Vec::with_capacity(TOGETHER as usize);
        for first in (0..buckets).step_by(TOGETHER as usize) {
            for bucket in first..buckets.min(first + TOGETHER) {
                parts.push(survey.begin(bucket)?);
            }
            while !parts.is_empty() {
                parts.retain(|part: &Part<'_>| part.at != part.end);
                parts.iter_mut().try_for_each(|part| survey.step(part))?;
            }
        }
        let Survey { mut chunks, held, gone, .. } = survey;
        gone.into_iter().for_each(|at| chunks.disclaim(at));
        chunks.unclaimed().for_each(|at| self.memory.give(at));
        Some(held)
    }

    /// Bytes of an item, or of a part of one, that fit into a chunk of a class.
    fn room_in(&self, class: ClassId) -> usize {
        self.memory.classes().geometry(class).chunk as usize - LINK_BYTES
    }
}

impl<'n> Survey<'n> {
    /// The part of a bucket.
    fn begin(&self, bucket: u64) -> Option<Part<'n>> {
        let table = &self.core.table;
        let before = table.head(bucket);
        let link = Link(before.load(Ordering::Relaxed));
        let part = Part {
            bucket,
            before,
            at: link.next(),
            end: table.place_after(bucket),
            order: Order::of_bucket(bucket),
        };
        self.prefetch(&part);
        (!link.is_marked() && !link.is_linking()).then_some(part)
    }

    fn prefetch(&self, part: &Part<'_>) {
        if part.at != part.end {
            self.core.shell.region().prefetch(part.at.bytes());
        }
    }

    /// Goes on by an item. `None` if there can be none.
    fn step(&mut self, part: &mut Part<'n>) -> Option<()> {
        let at = part.at;
        let class = self.chunks.claim(at)?;
        let word = self.core.link_of_item(at)?;
        let link = Link(word.load(Ordering::Relaxed));
        if link.is_linking() {
            return None;
        }
        part.at = link.next();
        self.prefetch(part);
        if link.is_marked() {
            let before = Link(part.before.load(Ordering::Relaxed));
            part.before.store(before.leading_to(link.next()).0, Ordering::Relaxed);
            self.gone.push(at);
            return Some(());
        }
        part.before = word;
        let item = self.core.item(at, Seconds(0))?;
        let hash = self.core.shell.hash(item.key(&mut [0; 256])).0;
        let order = Order::of_item(hash);
        let is_in_place = bucket_of(hash, self.buckets) == part.bucket && order.compare(part.order).is_ge();
        if !is_in_place || item.shape().size() > self.core.room_in(class) {
            return None;
        }
        part.order = order;
        let room_in = |class| self.core.room_in(class);
        // Whoever finds no chain believes none of it: nobody asks what was claimed.
        if !claim_chain(self.core.shell.region(), &mut self.chunks, &item, room_in, &mut Vec::new()) {
            return None;
        }
        let held = &mut self.held[usize::from(class.0)];
        *held = ClassUsage { items: held.items + 1, bytes: held.bytes.wrapping_add(Core::bytes_of(&item)) };
        Some(())
    }
}

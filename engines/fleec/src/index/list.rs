//! The list: Harris's, with hazards where a store could go astray.
//!
//! All items and buckets are on one list, in split order ([`super::order`]). A node leaves the table when its own link is marked; the next thread that
//! comes by and finds the mark takes it off the list. A node is *replaced* in one step: its link is marked so that it leads to the new node.
//!
//! A reader follows links and believes what it saw of a node if the link that led to it, of a node that is in the list, has not changed
//! meanwhile ([`find`]). That takes no store, so readers disturb no other session. A writer announces each node before it believes it ([`Search::spot`];
//! Michael, "High performance dynamic lock-free hash tables and list-based sets", SPAA 2002). An announced chunk is not reused, so the node
//! stays what it is while the writer works on it.

use super::link::Link;
use super::order::Order;
use guira_contract::Counter;
use guira_items::SessionCounters;
use guira_items::hooks::{self, Window};
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::hazard::Hazard;
use std::cmp::Ordering as Compared;

/// Finds nodes by their places, and takes those that leave the list.
pub(crate) trait Nodes<'n> {
    /// The link of the node at `at`, which may come from a racy read.
    fn link(&self, at: Offset) -> Option<&'n AtomicU64>;

    /// The number of the bucket at `at`; `None` if that is no bucket.
    fn bucket_at(&self, at: Offset) -> Option<u64>;

    /// The hash of the item at `at`, which is announced.
    fn hash_at(&self, at: Offset) -> Option<u64>;

    /// This thread took the item at `at` off the list: no search finds it from now on.
    fn unlinked(&mut self, at: Offset);

    /// This thread marked a node but could not take it off: it stays on the list until the next search comes by.
    fn left_behind(&mut self);
}

#[derive(Debug)]
pub(crate) enum Found<'n, R> {
    /// What the visitor took of an item that was in the table when it was read.
    There(R, Sight<'n>),
    Absent,
    /// The list changed during the search: what the visitor took is not valid.
    Torn(Option<R>),
}

/// An item that a reader saw in the table a moment ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'n> {
    pub(crate) at: Offset,
    word: &'n AtomicU64,
    link: Link,
    before: &'n AtomicU64,
    seen: Link,
    is_first: bool,
}

impl Sight<'_> {
    /// Announces the item and looks again. True if it is still there: then it stays what it is while it is announced. Only for the first item of a bucket:
    /// a bucket's link needs no announcement.
    pub(crate) fn hold(&self, hazard: &Hazard) -> bool {
        if !self.is_first {
            return false;
        }
        hazard.announce(0, self.at.bytes() as u64);
        self.before.load(Ordering::Acquire) == self.seen.0 && self.word.load(Ordering::Acquire) == self.link.0
    }
}

/// Looks at the items that [`find`] comes by. A trait and no closure, because it has to be inlined.
pub(crate) trait Visit {
    type Taken;

    /// Looks at the item at `at`, whose chunk may have been reused by now. If what it takes is not valid, [`find`] says so.
    fn visit(&mut self, at: Offset) -> Option<Self::Taken>;
}

/// Shows `visitor` the items of the bucket at `head` until it takes one. `buckets` is how many there were a moment ago.
#[inline(always)]
pub(crate) fn find<'n, N: Nodes<'n>, V: Visit>(
    nodes: &N,
    head: &'n AtomicU64,
    buckets: u64,
    visitor: &mut V,
) -> Found<'n, V::Taken> {
    // The last node before `at` that was in the list. Acquire, as all loads of links: pairs with the Release of the insert of what it leads to.
    let mut before = head;
    let mut seen = Link(head.load(Ordering::Acquire));
    let mut at = seen.next();
    while at.bytes() != 0 {
        let bucket = nodes.bucket_at(at);
        if bucket.is_some_and(|bucket| bucket < buckets) {
            break;
        }
        let Some(word) = nodes.link(at) else {
            return Found::Torn(None);
        };
        let link = Link(word.load(Ordering::Acquire));
        let result = if bucket.is_some() || link.is_marked() { None } else { visitor.visit(at) };
        // Acquire fence: pairs with the Release fence before a chunk is filled. If we have read what was written there, the loads below find the marks that
        // came before.
        fence(Ordering::Acquire);
        if before.load(Ordering::Relaxed) != seen.0 {
            return Found::Torn(result);
        }
        if let Some(result) = result {
            let sight = Sight { at, word, link, before, seen, is_first: std::ptr::eq(before, head) };
            let stands = word.load(Ordering::Relaxed) == link.0;
            return if stands { Found::There(result, sight) } else { Found::Torn(Some(result)) };
        }
        // A marked node's link stays as it is, and so leads into the list as long as the last unmarked one leads to it.
        if !link.is_marked() {
            (before, seen) = (word, link);
        }
        at = link.next();
    }
    Found::Absent
}

/// Where a scan of a bucket's part of the list ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    Next(u64),
    /// At the end of the list.
    End,
    /// The list changed during the scan: what was taken is not valid.
    Torn,
}

/// Shows `look` all items from the bucket at `head` to the next bucket on the list, published or not, and appends what it takes of them to `out`.
pub(crate) fn scan<'n, N: Nodes<'n>, R>(
    nodes: &N,
    head: &'n AtomicU64,
    out: &mut Vec<R>,
    mut look: impl FnMut(Offset) -> Option<R>,
) -> Scanned {
    // As in `find`.
    let mut before = head;
    let mut seen = Link(head.load(Ordering::Acquire));
    let mut at = seen.next();
    while at.bytes() != 0 {
        if let Some(bucket) = nodes.bucket_at(at) {
            return Scanned::Next(bucket);
        }
        let Some(word) = nodes.link(at) else {
            return Scanned::Torn;
        };
        let link = Link(word.load(Ordering::Acquire));
        if !link.is_marked() {
            out.extend(look(at));
        }
        fence(Ordering::Acquire);
        if before.load(Ordering::Relaxed) != seen.0 || word.load(Ordering::Relaxed) != link.0 {
            return Scanned::Torn;
        }
        if !link.is_marked() {
            (before, seen) = (word, link);
        }
        at = link.next();
    }
    Scanned::End
}

/// An item on the list, announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'n> {
    pub(crate) at: Offset,
    word: &'n AtomicU64,
    /// Its link when it was found, not marked.
    link: Link,
}

impl Node<'_> {
    /// Whether it is still as it was found: in the table, and followed by the same node.
    pub(crate) fn stands(&self) -> bool {
        // Acquire fence: what was read of the item before was read before this.
        fence(Ordering::Acquire);
        self.word.load(Ordering::Relaxed) == self.link.0
    }
}

/// A place on the list, behind an announced node: where an item is, or where it would be inserted.
#[derive(Debug)]
pub(crate) struct Spot<'n> {
    before: &'n AtomicU64,
    seen: Link,
    /// The item, if it is there.
    pub(crate) node: Option<Node<'n>>,
    /// The wanted bucket is on the list.
    has_bucket: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// An item whose key has this hash.
    Item(u64),
    Bucket(u64),
    /// The first matching item of the bucket that the search begins with.
    First,
}

impl Target {
    /// Whether it comes before a node at `order`.
    fn is_before(self, order: Order) -> bool {
        match self {
            // Behind all equal hashes, so that there is one place for a new item.
            Target::Item(hash) => order.compare(Order::of_item(hash)) == Compared::Greater,
            Target::Bucket(bucket) => order.compare(Order::of_bucket(bucket)) != Compared::Less,
            Target::First => true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Search<'h> {
    hazard: &'h Hazard,
    retries: u64,
    /// Compare-and-swaps on the way that failed.
    lost: u64,
}

struct Walk<'n> {
    before: &'n AtomicU64,
    seen: Link,
    /// Which of the two announcements protects the item that `before` belongs to, if that is no bucket.
    announced: usize,
}

enum Step<'n> {
    On(Walk<'n>),
    Here(Spot<'n>),
    /// The list changed under the search.
    Again,
}

impl<'h> Search<'h> {
    pub(crate) fn new(hazard: &'h Hazard) -> Self {
        Search { hazard, retries: 0, lost: 0 }
    }

    pub(crate) fn count(&self, counters: &SessionCounters) {
        if self.retries | self.lost != 0 {
            counters.add(Counter::WriteRetries, self.retries);
            counters.add(Counter::SwapsLost, self.lost);
        }
    }

    /// Finds the place of `target` in the part of the list that begins with the bucket at `head`, and takes marked nodes off the list on the
    /// way. `matches` decides whether the item at a place is the wanted one.
    pub(crate) fn spot<'n, N: Nodes<'n>>(
        &mut self,
        nodes: &mut N,
        head: &'n AtomicU64,
        target: Target,
        matches: impl Fn(Offset) -> bool,
    ) -> Spot<'n> {
        loop {
            let begin = Link(head.load(Ordering::Acquire));
            let mut walk = Walk { before: head, seen: begin, announced: 0 };
            loop {
                match self.step(nodes, walk, target, &matches) {
                    Step::On(next) => walk = next,
                    Step::Here(spot) => return spot,
                    Step::Again => break,
                }
            }
            self.retries += 1;
        }
    }

    fn step<'n, N: Nodes<'n>>(
        &mut self,
        nodes: &mut N,
        walk: Walk<'n>,
        target: Target,
        matches: &impl Fn(Offset) -> bool,
    ) -> Step<'n> {
        let Walk { before, seen, announced } = walk;
        let here = |node, has_bucket| Step::Here(Spot { before, seen, node, has_bucket });
        let at = seen.next();
        if at.bytes() == 0 {
            return here(None, false);
        }
        if let Some(bucket) = nodes.bucket_at(at) {
            if matches!(target, Target::Bucket(wanted) if wanted == bucket) {
                return here(None, true);
            }
            let Some(word) = nodes.link(at).filter(|_| !target.is_before(Order::of_bucket(bucket))) else {
                return here(None, false);
            };
            let seen = Link(word.load(Ordering::Acquire));
            return Step::On(Walk { before: word, seen, announced });
        }
        // The other announcement keeps its slot: a thread that reads both, one after the other, must not miss a place that moves between them.
        let other = 1 - announced;
        self.hazard.announce(other, at.bytes() as u64);
        // If this holds, the chunk at `at` is not reused while it is announced.
        if before.load(Ordering::Acquire) != seen.0 {
            return Step::Again;
        }
        let Some(word) = nodes.link(at) else {
            return Step::Again;
        };
        let link = Link(word.load(Ordering::Acquire));
        hooks::pause(Window::Announced);
        if link.is_marked() {
            let Some(seen) = take_off(nodes, before, seen, at, link) else {
                self.lost += 1;
                return Step::Again;
            };
            return Step::On(Walk { before, seen, announced });
        }
        let node = Node { at, word, link };
        if !matches!(target, Target::Bucket(_)) && matches(at) {
            return here(Some(node), false);
        }
        let is_behind = || nodes.hash_at(at).is_none_or(|hash| target.is_before(Order::of_item(hash)));
        if !matches!(target, Target::First) && is_behind() {
            return here(None, false);
        }
        Step::On(Walk { before: word, seen: link, announced: other })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NewBucket<'n> {
    pub(crate) bucket: u64,
    pub(crate) at: Offset,
    pub(crate) word: &'n AtomicU64,
}

impl Search<'_> {
    /// Tries to insert a bucket into the part of the list that begins with the one at `head`; other threads may insert the same one. True if it is on
    /// the list.
    ///
    /// The bucket's link is prepared first, then the bucket is inserted. What the link leads to was found after the link was read, and is stored only if the
    /// link has not changed: so a thread that inserts the bucket, at a place that has not changed since it looked, finds that the link leads on from there,
    /// whichever thread prepared it.
    pub(crate) fn add_bucket<'n, N: Nodes<'n>>(
        &mut self,
        nodes: &mut N,
        head: &'n AtomicU64,
        new: &NewBucket<'n>,
    ) -> bool {
        let link = Link(new.word.load(Ordering::Acquire));
        if !link.is_blank() && !link.is_linking() {
            return true;
        }
        let spot = self.spot(nodes, head, Target::Bucket(new.bucket), |_| false);
        if !spot.has_bucket {
            let ready = link.linking_to(spot.seen.next());
            let made = new.word.compare_exchange(link.0, ready.0, Ordering::AcqRel, Ordering::Relaxed);
            if made.is_err() {
                self.lost += 1;
                return false;
            }
            hooks::pause(Window::Dividing);
            if !spot.lead_to(new.at) {
                self.lost += 1;
                return false;
            }
        }
        hooks::pause(Window::Divided);
        let mut link = Link(new.word.load(Ordering::Acquire));
        while link.is_linking() {
            let linked = link.leading_to(link.next());
            match new.word.compare_exchange(link.0, linked.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                // Another thread has done it, or has inserted an item there, which does it too; or a late one has prepared the link once more without seeing
                // that the bucket is on the list: each thread can do that once.
                Err(other) => link = Link(other),
            }
        }
        true
    }
}

/// Takes the marked node at `at` off the list. Returns the link that now leads past it.
fn take_off<'n, N: Nodes<'n>>(
    nodes: &mut N,
    before: &'n AtomicU64,
    seen: Link,
    at: Offset,
    link: Link,
) -> Option<Link> {
    let past = seen.leading_to(link.next());
    // Release: what `link` leads to is found with what was written before its insert. Acquire: the mark, and what came before it, lies before
    // whatever is done with the chunk from now on.
    before.compare_exchange(seen.0, past.0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
    nodes.unlinked(at);
    Some(past)
}

impl<'n> Spot<'n> {
    /// Inserts the caller's node at `at` with the link `word`. False if the place has changed.
    pub(crate) fn insert(&self, at: Offset, word: &AtomicU64) -> bool {
        let next = Link(word.load(Ordering::Relaxed)).leading_to(self.seen.next());
        // Relaxed: published below.
        word.store(next.0, Ordering::Relaxed);
        self.lead_to(at)
    }

    /// Makes the node before lead to `at`. Release: pairs with the Acquire of traversals.
    fn lead_to(&self, at: Offset) -> bool {
        let link = self.seen.leading_to(at);
        // SeqCst: pairs with the fence in `Flushes::begin_crawl`, as the one in `mark`: see `Flushes::is_still`.
        self.before.compare_exchange(self.seen.0, link.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the item out of the table. False if its link has changed.
    pub(crate) fn remove<N: Nodes<'n>>(&self, nodes: &mut N, node: Node<'n>) -> bool {
        self.mark(nodes, node, node.link.next())
    }

    /// Replaces the item by the caller's node at `at` with the link `word`. False if the item's link has changed.
    pub(crate) fn replace<N: Nodes<'n>>(
        &self,
        nodes: &mut N,
        node: Node<'n>,
        at: Offset,
        word: &AtomicU64,
    ) -> bool {
        let next = Link(word.load(Ordering::Relaxed)).leading_to(node.link.next());
        // Relaxed: published below.
        word.store(next.0, Ordering::Relaxed);
        self.mark(nodes, node, at)
    }

    /// Counts a change of the item, so that all who have read it look again. False if it is out of the table.
    pub(crate) fn renew(&self, node: Node<'n>) -> bool {
        let mut link = node.link;
        loop {
            let renewed = link.leading_to(link.next());
            // Release: pairs with the Acquire of traversals: they find what was changed. SeqCst as in `lead_to`.
            let done = node.word.compare_exchange(link.0, renewed.0, Ordering::SeqCst, Ordering::Relaxed);
            match done.map_err(Link) {
                Ok(_) => return true,
                Err(other) if other.is_marked() => return false,
                Err(other) => link = other,
            }
        }
    }

    /// Marks the item's link so that it leads to `next`: from now on the item is out of the table. Then takes it off the list, or leaves that to the
    /// next search.
    fn mark<N: Nodes<'n>>(&self, nodes: &mut N, node: Node<'n>, next: Offset) -> bool {
        let marked = node.link.marked_leading_to(next);
        // Release: pairs with the Acquire of traversals that follow the link to `next`.
        let done = node.word.compare_exchange(node.link.0, marked.0, Ordering::SeqCst, Ordering::Relaxed);
        if done.is_ok() {
            hooks::pause(Window::Marked);
            if take_off(nodes, self.before, self.seen, node.at, marked).is_none() {
                nodes.left_behind();
            }
        }
        done.is_ok()
    }
}

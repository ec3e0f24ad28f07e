//! The list: Harris's, with hazards where a store could go astray.
//!
//! All items and buckets are on one list, in [`crate::order`]. A node is taken out by marking its own link, and off the list by whoever comes by
//! next and finds the mark. A node is *replaced* in one step by marking its link so that it leads to the one in its place.
//!
//! Whoever looks for a key follows links and believes what he saw of a node if the link that led to it, of a node that is in the list, has
//! not changed meanwhile ([`find`]): it takes no store, so that readers disturb nobody. Whoever wants to change something announces each node
//! before he believes it ([`Search::spot`]; Michael, "High performance dynamic lock-free hash tables and list-based sets", SPAA 2002). A
//! chunk that somebody has announced is not used again, so that the node stays what it is while he works on it.

use crate::link::Link;
use crate::order::Order;
use guira_contract::Counter;
use guira_items::SessionCounters;
use guira_items::hooks::{self, Window};
use guira_memory::Offset;
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::hazard::Hazard;
use std::cmp::Ordering as Compared;

/// Where nodes are.
pub(crate) trait Nodes<'n> {
    /// The link of the node at `at`, which may come from a racy read.
    fn link(&self, at: Offset) -> Option<&'n AtomicU64>;

    /// Which bucket is the node at `at`, if it is one.
    fn bucket_at(&self, at: Offset) -> Option<u64>;

    /// The hash of the item at `at`, which is announced.
    fn hash_at(&self, at: Offset) -> Option<u64>;

    /// The item at `at` was taken off the list, by us: nobody finds it any more.
    fn unlinked(&mut self, at: Offset);

    /// We have marked a node and could not take it off: it is still on the list, for the next who comes by.
    fn left_behind(&mut self);
}

/// What was found.
#[derive(Debug)]
pub(crate) enum Found<'n, R> {
    /// This, in an item that was in the table when it was read.
    There(R, Sight<'n>),
    /// Nothing.
    Absent,
    /// The list changed under us: this is worth nothing.
    Torn(Option<R>),
}

/// An item as a reader has seen it: in the table a moment ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'n> {
    /// Where it is.
    pub(crate) at: Offset,
    word: &'n AtomicU64,
    link: Link,
    before: &'n AtomicU64,
    seen: Link,
    is_first: bool,
}

impl Sight<'_> {
    /// Announces the item, and looks again. True if it is still there: then it stays what it is until it is no longer announced. Tried only for the first item
    /// of a bucket, whose links need nobody's protection.
    pub(crate) fn hold(&self, hazard: &Hazard) -> bool {
        if !self.is_first {
            return false;
        }
        hazard.announce(0, self.at.bytes() as u64);
        self.before.load(Ordering::Acquire) == self.seen.0 && self.word.load(Ordering::Acquire) == self.link.0
    }
}

/// Who is shown items. A trait and no closure, because it has to be inlined.
pub(crate) trait Visit {
    /// What it takes.
    type Taken;

    /// Looks at the item at `at`, which may be used for something else by now. What it takes may be worth nothing, and then [`find`] says so.
    fn visit(&mut self, at: Offset) -> Option<Self::Taken>;
}

/// Shows `visitor` the items of the bucket at `head` until it takes one. There were `buckets` a moment ago.
#[inline(always)]
pub(crate) fn find<'n, N: Nodes<'n>, V: Visit>(
    nodes: &N,
    head: &'n AtomicU64,
    buckets: u64,
    visitor: &mut V,
) -> Found<'n, V::Taken> {
    // The last node before `at` that was in the list. Acquire, as all loads of links: pairs with the Release of whoever put in what it leads to.
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
        // Acquire fence: pairs with the Release fence of whoever fills a chunk. If we have read what he wrote, the loads below find the marks that came
        // before.
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

/// How a scan of a bucket's part of the list has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// At this bucket.
    Next(u64),
    /// At the end of the list.
    End,
    /// The list changed under us: what was taken is worth nothing.
    Torn,
}

/// Shows `look` all items from the bucket at `head` to the next one on the list, whether anybody was told of that already or not, and keeps what it takes
/// of them in `out`.
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
    /// Its link when it was found: not marked.
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

/// A place on the list: behind an announced node, where an item is or would be.
#[derive(Debug)]
pub(crate) struct Spot<'n> {
    before: &'n AtomicU64,
    seen: Link,
    /// The item that was looked for.
    pub(crate) node: Option<Node<'n>>,
    /// The bucket that was looked for is on the list.
    pub(crate) has_bucket: bool,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// An item whose key has this hash.
    Item(u64),
    /// A bucket.
    Bucket(u64),
    /// The first item that matches of the bucket that the search begins with.
    First,
}

impl Target {
    /// Whether it comes before a node at `order`.
    fn is_before(self, order: Order) -> bool {
        match self {
            // Of equal hashes, behind all there are: so there is one place for a new one.
            Target::Item(hash) => order.compare(Order::of_item(hash)) == Compared::Greater,
            Target::Bucket(bucket) => order.compare(Order::of_bucket(bucket)) != Compared::Less,
            Target::First => true,
        }
    }
}

/// A search by somebody who may change the list.
#[derive(Debug)]
pub(crate) struct Search<'h> {
    hazard: &'h Hazard,
    /// Walks that had to begin anew.
    retries: u64,
    /// Compare-and-swaps on the way that somebody else was quicker with.
    lost: u64,
}

/// Where a walk stands.
struct Walk<'n> {
    before: &'n AtomicU64,
    seen: Link,
    /// Which of the two announcements is that of the item that `before` belongs to, if that is no bucket.
    announced: usize,
}

/// What came of a step.
enum Step<'n> {
    /// On to the next.
    On(Walk<'n>),
    /// This is the place.
    Here(Spot<'n>),
    /// The list changed under us.
    Again,
}

impl<'h> Search<'h> {
    /// A search that announces what it comes by with `hazard`.
    pub(crate) fn new(hazard: &'h Hazard) -> Self {
        Search { hazard, retries: 0, lost: 0 }
    }

    /// Tells what it took.
    pub(crate) fn told(&self, counters: &SessionCounters) {
        if self.retries | self.lost != 0 {
            counters.add(Counter::WriteRetries, self.retries);
            counters.add(Counter::SwapsLost, self.lost);
        }
    }

    /// Finds the place of `target` in the part of the list that begins with the bucket at `head`, and takes off the list what is marked on the
    /// way. `matches` says whether the item at a place with the hash is the one.
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
        // The other one stays where it is: whoever looks at both, one after the other, shall not miss it on its way.
        let other = 1 - announced;
        self.hazard.announce(other, at.bytes() as u64);
        // If this holds, the chunk at `at` is not used again until it is no longer announced.
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

/// A bucket that is to be put on the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewBucket<'n> {
    pub(crate) bucket: u64,
    pub(crate) at: Offset,
    /// Its link.
    pub(crate) word: &'n AtomicU64,
}

impl Search<'_> {
    /// Puts a bucket on the list, in the part that begins with the one at `head`; or as much of that as others let us, who may be at the same. True if
    /// it is there.
    ///
    /// Its link is made ready first, then it is put on the list. What its link leads to was found after the link was read, and is stored only if the link has
    /// not changed: so whoever puts it on the list, at a place that has not changed since he looked, finds that it leads on from there, whoever has made it ready.
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
                // Somebody else has done it, or has put an item there, which does it too; or has made the link ready once more, who came too late to see
                // that the bucket is on the list: each of those who are at it can do so once.
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
    // Release: what `link` leads to is found with what was written before it was put in. Acquire: the mark, and what came before it, lies
    // before whatever is done with the chunk from now on.
    before.compare_exchange(seen.0, past.0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
    nodes.unlinked(at);
    Some(past)
}

impl<'n> Spot<'n> {
    /// Puts a node that is nobody's yet there: `word` is its link. False if somebody was quicker.
    pub(crate) fn insert(&self, at: Offset, word: &AtomicU64) -> bool {
        let next = Link(word.load(Ordering::Relaxed)).leading_to(self.seen.next());
        // Relaxed: published below.
        word.store(next.0, Ordering::Relaxed);
        self.lead_to(at)
    }

    /// Lets the node before lead to `at`. Release: pairs with the Acquire of whoever follows it.
    fn lead_to(&self, at: Offset) -> bool {
        let link = self.seen.leading_to(at);
        // SeqCst: pairs with the fence in `Flushes::begin_tidying`, as the one in `mark`: see `Flushes::is_still`.
        self.before.compare_exchange(self.seen.0, link.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the item that was found out of the table. False if somebody was quicker.
    pub(crate) fn remove<N: Nodes<'n>>(&self, nodes: &mut N, node: Node<'n>) -> bool {
        self.mark(nodes, node, node.link.next())
    }

    /// Puts the node at `at`, whose link is `word` and which is nobody's yet, in place of the item that was found. False if somebody was
    /// quicker.
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

    /// Tells all who have seen the item that was found that something about it has changed: they look again. False if it is out of the table.
    pub(crate) fn renew(&self, node: Node<'n>) -> bool {
        let mut link = node.link;
        loop {
            let renewed = link.leading_to(link.next());
            // Release: pairs with the Acquire of whoever follows the link: he finds what was changed. SeqCst as in `lead_to`.
            let done = node.word.compare_exchange(link.0, renewed.0, Ordering::SeqCst, Ordering::Relaxed);
            match done.map_err(Link) {
                Ok(_) => return true,
                Err(other) if other.is_marked() => return false,
                Err(other) => link = other,
            }
        }
    }

    /// Marks the link of the item that was found and lets it lead to `next`: from now on it is out of the table. Then it is taken off the
    /// list, or left there for whoever comes by.
    fn mark<N: Nodes<'n>>(&self, nodes: &mut N, node: Node<'n>, next: Offset) -> bool {
        let marked = node.link.marked_leading_to(next);
        // Release: pairs with the Acquire of whoever follows the link to `next`.
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

//! Where chunks come from, and where they go: free ones, fresh pages, victims of the hand, pages of other classes.

use crate::core::Core;
use crate::donors::PAGE_CHOICE;
use crate::index::{LockedBuckets, Neighbour, Scheme};
use crate::keep::dead_victim;
use crate::notes::{ClassChunks, Notes};
use crate::order::{ClassOrder, Kept, Placed};
use crate::policy::clock::{ReadBits, Ring, RingPlace};
use crate::queue::{BACK, Event};
use crate::session::SlabSession;
use crate::turn::Wants;
use guira_contract::{ClassCounter, Counter, ItemView, Key, KeyHash, StoreError};
use guira_items::{Eviction, INLINE_MAX, Pieces, Removal};
use guira_memory::slab::{ClassGuard, ClassId, Given, PAGE_BYTES, PageId, PageState, Source};
use guira_memory::{MIB, Offset};
use guira_sync::atomic::{Backoff, Ordering};
use guira_sync::clock::{Seconds, Stopwatch};
use std::sync::MutexGuard;
use std::time::Duration;

/// What an order may come to take for itself when a page is added to its class, at the most.
const ORDER_AHEAD: usize = 16 << 10;

/// A session takes chunks by the batch, of up to this many …
const BATCH_CHUNKS: usize = 32;
/// … and up to this many bytes.
const BATCH_BYTES: usize = 16 << 10;

/// How long a session waits for a page of another class at the most: other sessions have to end their batches, which takes
/// microseconds unless they were descheduled …
const PATIENCE: Duration = Duration::from_millis(500);
/// But it looks so often at least: a machine that stands still for a second, as virtual ones do, has given nobody a chance.
const ROUNDS_LEAST: u32 = 2_000;
/// … and how many pages it tries: those of a class may all hold long values that are being sent.
const DRAINS_MAX: u32 = 32;

/// How long a session waits for an earlier growth of the table to end, in rounds of yielding, before it evicts instead.
const GROWTH_PATIENCE: u32 = 5_000;

/// Caches below this many bytes have few pages for each class: 128 MiB.
pub(crate) const SCARCE_BELOW: usize = 128 * MIB;
/// A class may use chunks that are larger than its own by one part in so many.
const LENT_PART: u32 = 2;

pub(crate) fn batch_of(chunk: u32) -> usize {
    (BATCH_BYTES / chunk as usize).clamp(1, BATCH_CHUNKS)
}

/// The pages of a locked class as something that a hand goes around.
struct PageRing<'a, 'g, X: Scheme> {
    core: &'a Core<X>,
    guard: &'a mut ClassGuard<'g>,
    counted: ReadBits,
    tick: u32,
    /// When the hand came to the page that it points at.
    entered: u32,
}

impl<X: Scheme> PageRing<'_, '_, X> {
    fn locate(&self, word: usize) -> (PageId, u32) {
        let per_page = self.guard.geometry().bitmap_words as usize;
        (self.guard.pages()[word / per_page], (word % per_page) as u32)
    }
}

impl<X: Scheme> Ring for PageRing<'_, '_, X> {
    fn words(&self) -> usize {
        self.guard.pages().len() * self.guard.geometry().bitmap_words as usize
    }

    fn occupied(&self, word: usize) -> u64 {
        let (page, word) = self.locate(word);
        guira_sync::words::load(self.core.memory.occupied(page, word))
    }

    fn recent(&self, word: usize) -> u64 {
        let occupied = self.occupied(word);
        let (page, word) = self.locate(word);
        self.guard.recent(page, word, occupied)
    }

    fn fade(&self, word: usize, bits: u64) {
        let (page, word) = self.locate(word);
        match self.counted {
            ReadBits::One => self.guard.clear_recent(page, word, bits),
            ReadBits::Two => self.guard.decay_recent(page, word, bits),
        }
    }

    fn passed(&mut self, word: usize) {
        let (page, in_page) = self.locate(word);
        if in_page + 1 == self.guard.geometry().bitmap_words {
            self.guard.set_stamp(page, self.entered);
            self.entered = self.tick;
        }
    }
}

impl<X: Scheme> Core<X> {
    pub(crate) fn lock_order(&self, class: ClassId) -> MutexGuard<'_, ClassOrder> {
        self.order_waits.lock(&self.orders[usize::from(class.0)])
    }

    /// The class that an item of `size` bytes goes to: the smallest that holds it. In a small cache there may be more classes
    /// than pages; there a class without a page uses chunks of one that is a little larger.
    #[inline]
    pub(crate) fn class_for(&self, size: usize) -> Option<ClassId> {
        let class = self.memory.classes().class_for(size)?;
        if !self.scarce.load(Ordering::Relaxed) || self.balance.has_pages(class) {
            return Some(class);
        }
        Some(self.lender(class))
    }

    #[cold]
    fn lender(&self, class: ClassId) -> ClassId {
        if self.budget.left() >= PAGE_BYTES {
            return class;
        }
        let classes = self.memory.classes();
        let chunk = classes.geometry(class).chunk;
        let larger = classes.ids().skip(usize::from(class.0) + 1);
        let lender = larger
            .take_while(|other| classes.geometry(*other).chunk <= chunk + chunk / LENT_PART)
            .find(|other| self.balance.has_pages(*other));
        match lender {
            Some(lender) if !self.balance.wasted(class, classes.geometry(lender).chunk - chunk) => lender,
            _ => class,
        }
    }

    /// Where `class` may take a new page from. A page that another class has given is meant for the class that asked for it: it
    /// comes free some time later, and the busy classes would be the first to take it. What nobody waits for is for all.
    pub(crate) fn source_for(&self, class: ClassId) -> Source {
        if self.balance.is_waiting(class) || self.memory.pool_size() > self.balance.waiting() {
            Source::Any
        } else {
            Source::Fresh
        }
    }

    /// Gives a chunk back to its page.
    pub(crate) fn give_chunk(&self, at: Offset) {
        let Some(class) = self.memory.class_at(at) else {
            return;
        };
        let given = self.memory.lock(class).give(at);
        if let Given::LastOf(page) = given {
            self.retire(page);
        }
    }

    /// Bytes of the chunk at `at`; 0 if its page is in no class.
    pub(crate) fn chunk_bytes(&self, at: Offset) -> usize {
        self.memory.class_at(at).map_or(0, |class| self.memory.classes().geometry(class).chunk as usize)
    }

    /// Takes a pin back, and frees the item if it was unlinked meanwhile.
    pub(crate) fn unpin(&self, at: Offset) {
        if self.pins.unpin(at) {
            for chunk in self.chunks_of(at) {
                self.give_chunk(chunk);
            }
        }
    }

    /// All chunks of the unlinked item at `at`.
    pub(crate) fn chunks_of(&self, at: Offset) -> Vec<Offset> {
        let mut chunks = self
            .item(at, Seconds(0))
            .map_or_else(Vec::new, |item| Pieces::chunks(self.shell.region(), &item));
        chunks.push(at);
        chunks
    }

    /// Says how `class` stands after its hand has moved or its pages have changed.
    pub(crate) fn note_age(&self, class: ClassId, hand: &ClassOrder, guard: &ClassGuard<'_>) {
        let per_page = guard.geometry().bitmap_words as usize;
        let pages = guard.pages();
        let stamp = match hand.placed.kept {
            Kept::Clock(_) => {
                pages.get(hand.hand.word() / per_page).or(pages.first()).map_or(0, |page| guard.stamp(*page))
            }
            _ => {
                let now = self.moment();
                let next = self.next_to_go(class, hand, pages).map_or(now.tick, |(_, tick)| tick);
                // What the hand has gone past was read, whatever the order says of when it was stored.
                let page = pages.get(hand.hand.word() / per_page).or(pages.first());
                let passed = page.map_or(next, |page| guard.stamp(*page));
                if now.ticks_since(passed) < now.ticks_since(next) { passed } else { next }
            }
        };
        self.balance.note(class, pages.len(), stamp);
    }

    /// The chunk of a class that would go next, and the tick since when it was left alone, if the order is kept in notes.
    pub(crate) fn next_to_go(
        &self,
        class: ClassId,
        order: &ClassOrder,
        pages: &[PageId],
    ) -> Option<(Offset, u32)> {
        let of = |placed: &Placed| {
            let chunks = ClassChunks::new(self, placed.area, class, pages);
            placed.kept.next(&chunks).map(|(chunk, tick)| (chunks.place(chunk), tick))
        };
        of(&order.placed).or_else(|| of(&order.heir.as_ref()?.placed))
    }

    /// The next victims of a class whose order is kept in notes.
    fn take_victims(&self, class: ClassId, batch: usize, order: &mut ClassOrder) -> Vec<Offset> {
        let guard = self.memory.lock(class);
        let mut victims = Vec::with_capacity(batch);
        let now = self.moment();
        let take = |placed: &mut Placed, victims: &mut Vec<Offset>| {
            let chunks = ClassChunks::new(self, placed.area, class, guard.pages());
            let want = batch.saturating_sub(victims.len());
            placed.kept.victims(&chunks, want, now, |chunk| victims.push(chunks.place(chunk)));
        };
        let before = |placed: &mut Placed, victims: &mut Vec<Offset>| {
            let chunks = ClassChunks::new(self, placed.area, class, guard.pages());
            placed.kept.reclaim(&chunks, now, |chunk| victims.push(chunks.place(chunk)));
        };
        before(&mut order.placed, &mut victims);
        take(&mut order.placed, &mut victims);
        if let Some(heir) = &mut order.heir {
            take(&mut heir.placed, &mut victims);
        }
        self.note_age(class, order, &guard);
        self.charge_order(order);
        victims
    }

    /// Charges what the order takes of memory beside its notes.
    pub(crate) fn charge_order(&self, order: &mut ClassOrder) {
        let (before, bytes) = (order.charged, order.bytes());
        order.charged = bytes;
        self.budget.charge(bytes.saturating_sub(before));
        self.budget.give(before.saturating_sub(bytes));
    }

    /// Takes the chunks of a page that is empty out of the order of its class, and gives back what is noted of them. Every session has
    /// passed a quiescent point since the page was drained, so that nobody will tell of them any more.
    pub(crate) fn forget_page(&self, page: PageId) {
        let PageState::Draining(class) = self.memory.state_of(page) else {
            return;
        };
        if !self.notes.iter().any(Notes::was_used) {
            return;
        }
        let geometry = self.memory.classes().geometry(class);
        let mut order = self.lock_order(class);
        let forget = |placed: &mut Placed| {
            let chunks = ClassChunks::new(self, placed.area, class, &[]);
            if self.notes[placed.area].words() > 0 {
                (0..geometry.chunks)
                    .for_each(|chunk| placed.kept.removed(&chunks, chunks.number(page, chunk)));
            }
        };
        forget(&mut order.placed);
        if let Some(heir) = &mut order.heir {
            forget(&mut heir.placed);
            heir.pages.retain(|other| *other != page);
        }
        drop(order);
        // They were given back to the budget when the page was drained: which areas are in use may have changed since.
        self.notes.iter().for_each(|notes| notes.discard_all(page));
    }
}

impl<X: Scheme> SlabSession<X> {
    /// A chunk for `size` bytes.
    pub(crate) fn take_chunk(&mut self, size: usize, now: Seconds) -> Option<Offset> {
        let class = self.core.class_for(size)?;
        if self.caches[usize::from(class.0)].is_empty() {
            self.refill(class, now).ok()?;
        }
        self.caches[usize::from(class.0)].pop()
    }

    /// Fills the session's cache of `class`, which is empty.
    pub(crate) fn refill(&mut self, class: ClassId, now: Seconds) -> Result<(), StoreError> {
        self.core.shell.see_time(now);
        let chunk = self.core.memory.classes().geometry(class).chunk;
        let batch = batch_of(chunk);
        self.core.balance.stored(batch * chunk as usize);
        if self.refill_free(class, batch, self.core.source_for(class)) {
            return Ok(());
        }
        if self.core.options.engine.eviction == Eviction::Off {
            return self.refill_keeping(class, batch, now);
        }
        if self.core.memory.empty_pages() > 0 && self.take_over_empty_page(class, batch) {
            return Ok(());
        }
        if !self.core.balance.is_waiting(class)
            && let Some(donor) = self.core.donor(class)
        {
            self.core.balance.claim(class);
            self.begin_drain(donor, PAGE_CHOICE);
            self.core.release_drained();
            if self.refill_free(class, batch, self.core.source_for(class)) {
                return Ok(());
            }
        }
        if self.evict(class, batch, now) || self.refill_free(class, batch, Source::Any) {
            return Ok(());
        }
        let stolen = self.steal(class, batch, now);
        if stolen.is_err() {
            self.counters.add_to_class(Some(class), ClassCounter::OutOfMemory, 1);
        }
        stolen
    }

    /// Takes free chunks, from the class's pages or from a new one.
    pub(crate) fn refill_free(&mut self, class: ClassId, batch: usize, source: Source) -> bool {
        let core = &self.core;
        let cache = &mut self.caches[usize::from(class.0)];
        if core.memory.lock(class).take(batch, cache) > 0 {
            return true;
        }
        let mut hand = core.lock_order(class);
        let mut guard = core.memory.lock(class);
        let per_page = guard.geometry().bitmap_words as usize;
        // Just behind the hand, which then comes by it last.
        let index = (hand.hand.word() / per_page).min(guard.pages().len());
        // The order itself grows with the page, if it keeps anything; by how much is known only afterwards.
        let ahead = if hand.bytes() > 0 { ORDER_AHEAD } else { 0 };
        let notes = core.note_bytes(&hand, guard.geometry());
        if guard.grow(index, core.balance.tick(), source, notes + ahead) {
            core.budget.give(ahead);
            let has_others = guard.pages().len() > 1;
            hand.hand.words_inserted(if has_others { per_page } else { 0 });
            core.note_age(class, &hand, &guard);
            core.balance.settle(class);
        }
        let taken = guard.take(batch, cache) > 0;
        drop(guard);
        drop(hand);
        core.grow_ahead();
        taken
    }

    /// Evicts up to `batch` items of `class` into the session's cache. False if it is as empty as before.
    pub(crate) fn evict(&mut self, class: ClassId, batch: usize, now: Seconds) -> bool {
        // A victim may turn out to be no item: a chunk in some session's cache, one that is being filled, or one whose
        // item is pinned. Then the hand goes on, once around the class.
        let chunks = self.core.memory.lock(class).usage().chunks as usize;
        for _ in 0..=chunks / batch {
            let mut victims = self.sweep(class, batch);
            if victims.is_empty() {
                break;
            }
            self.spare_continuations(class, &mut victims);
            self.unlink_all(&victims, Removal::Evicted, now);
            if !self.caches[usize::from(class.0)].is_empty() {
                return true;
            }
        }
        false
    }

    /// A long item goes when the hand comes to its head. Its other chunks lie anywhere: if the hand took it at whichever it
    /// meets first, an item of ten chunks would live for a tenth of a round. Only a last chunk that is smaller than the others,
    /// and lies in another class, counts there like any other.
    fn spare_continuations(&self, class: ClassId, victims: &mut Vec<Offset>) {
        let core = &self.core;
        if core.memory.classes().largest() == class {
            victims.retain(|at| Pieces::head_of(core.shell.region(), *at).is_none());
        }
    }

    /// The next victims of a class.
    pub(crate) fn sweep(&mut self, class: ClassId, batch: usize) -> Vec<Offset> {
        // What this session has stored may be all there is.
        if !self.queue.is_empty() {
            self.tell();
        }
        let core = &self.core;
        let mut order = core.lock_order(class);
        let victims = match order.placed.kept {
            Kept::Clock(counted) => self.turn_hand(class, batch, counted, &mut order),
            _ => core.take_victims(class, batch, &mut order),
        };
        drop(order);
        for at in &victims {
            core.shell.region().prefetch(at.bytes());
        }
        victims
    }

    fn turn_hand(
        &self,
        class: ClassId,
        batch: usize,
        counted: ReadBits,
        hand: &mut ClassOrder,
    ) -> Vec<Offset> {
        let core = &self.core;
        let mut guard = core.memory.lock(class);
        let mut places = Vec::with_capacity(batch);
        // It has been at its first page since before that one was filled: it comes to it now.
        let tick = core.balance.tick();
        let entered = if hand.entered == 0 { tick } else { hand.entered };
        let mut ring = PageRing { core, guard: &mut guard, counted, tick, entered };
        let sweep = hand.hand.sweep(&mut ring, batch, |place| places.push(place));
        hand.entered = ring.entered;
        let victims = places.iter().map(|place: &RingPlace| {
            let (page, word) = ring.locate(place.word);
            core.memory.start_of(page).plus(ring.guard.geometry().start_of(word * 64 + place.bit))
        });
        let victims: Vec<Offset> = victims.collect();
        core.note_age(class, hand, &guard);
        self.counters.add(Counter::HandSteps, sweep.steps);
        victims
    }

    /// Removes the items at `victims`, for this reason if it holds. Their buckets are asked for together, so that the misses overlap.
    pub(crate) fn unlink_all(&mut self, victims: &[Offset], why: Removal, now: Seconds) -> usize {
        let core = self.core.clone();
        let mut hashed: Vec<(Offset, KeyHash)> = Vec::with_capacity(victims.len());
        for at in victims {
            let head = Pieces::head_of(core.shell.region(), *at).unwrap_or(*at);
            // What a free chunk has left of a chain leads to whatever lies there now.
            let is_left_over = |item| head != *at && !Pieces::has(core.shell.region(), &item, *at);
            if core.item(head, now).is_none_or(is_left_over) {
                continue;
            }
            if let Some(hash) = core.hash_at(head) {
                core.index.prefetch_buckets(hash);
                hashed.push((head, hash));
            }
        }
        let mut unlinked = 0;
        for (at, hash) in hashed {
            if self.unlink(at, hash, why, now) {
                unlinked += 1;
            } else if core.turn.wants().has(Wants::STORES) {
                // It is no victim any more, and in no order.
                self.queue.push(Event { at, what: BACK });
            }
        }
        unlinked
    }

    /// Removes the item at `at` from the table, if it is there under this hash, and frees it. For an eviction, unless
    /// it is pinned: that would cost an item and give no memory.
    pub(crate) fn unlink(&mut self, at: Offset, hash: KeyHash, why: Removal, now: Seconds) -> bool {
        let core = &self.core;
        if why == Removal::Evicted && core.pins.is_pinned(at) {
            return false;
        }
        let held = core.index.lock(hash);
        let slot = held.find(|other| (other == at).then_some(())).map(|(slot, ())| slot);
        let dead = core.item(at, now).is_some_and(|item| core.dead(&item, now).is_some());
        match slot {
            Some(slot) if why != Removal::Dead || dead => held.remove(slot),
            _ => {
                held.release_unchanged();
                return false;
            }
        }
        drop(held);
        self.account_removed(at, if dead { Removal::Dead } else { why }, now);
        self.free_item(at, now);
        true
    }

    /// Counts an item that was unlinked and is not freed yet, and reports an eviction.
    pub(crate) fn account_removed(&self, at: Offset, why: Removal, now: Seconds) {
        let core = &self.core;
        let Some(item) = core.item(at, now) else {
            return;
        };
        let class = core.memory.class_at(at);
        self.counters.item_removed(why, &item.removed(class, Core::<X>::bytes_of(&item), now));
        if why.is_eviction()
            && let Some((watcher, now)) = core.shell.watcher()
        {
            let item = core.item(at, now).unwrap_or(item).of_class(core.class_number(at));
            watcher.evicted(item.key(&mut [0; 256]), &item.meta(), now);
        }
    }

    /// Frees the chunks of an unlinked item, or leaves that to the last unpin.
    pub(crate) fn free_item(&mut self, at: Offset, now: Seconds) {
        let SlabSession { core, caches, .. } = self;
        let Some(item) = core.item(at, now) else {
            return;
        };
        if item.value_len() > INLINE_MAX {
            if !core.pins.unlinked(at) {
                return;
            }
            for chunk in Pieces::chunks(core.shell.region(), &item) {
                free_chunk(core, caches, chunk);
            }
        }
        free_chunk(core, caches, at);
    }

    /// Gives chunks of draining pages back. Called at the end of each batch; does something only after a drain began.
    pub(crate) fn return_draining_chunks(&mut self) {
        let begun = self.core.upkeep.drains_begun();
        if begun == self.drains_seen {
            return;
        }
        self.drains_seen = begun;
        for class in 0..self.caches.len() {
            let (kept, draining) = std::mem::take(&mut self.caches[class]).into_iter().partition(|at| {
                self.core.memory.locate(*at).is_some_and(|(page, ..)| {
                    matches!(self.core.memory.state_of(page), PageState::Serving(_))
                })
            });
            self.caches[class] = kept;
            let draining: Vec<Offset> = draining;
            for at in draining {
                self.core.give_chunk(at);
            }
        }
    }

    /// Takes one of the next `choice` pages before the hand of `donor` out of service and empties it.
    pub(crate) fn begin_drain(&mut self, donor: ClassId, choice: usize) {
        let core = self.core.clone();
        let (page, given) = {
            let mut hand = core.lock_order(donor);
            let mut guard = core.memory.lock(donor);
            let per_page = guard.geometry().bitmap_words as usize;
            let Some(index) = core.page_to_give(&hand, &guard, choice) else {
                return;
            };
            let drained = guard.drain(index);
            hand.hand.words_removed(index * per_page, per_page);
            core.budget.give(core.note_bytes(&hand, guard.geometry()));
            core.note_age(donor, &hand, &guard);
            // Under the lock of the class: whoever gives the page's last chunk back finds it in the list.
            core.upkeep.drain_began(drained.0);
            drained
        };
        self.counters.add(Counter::PagesMoved, 1);
        // What this session keeps of the page is not to be used for what leaves it.
        self.return_draining_chunks();
        match given {
            Given::LastOf(page) => core.retire(page),
            _ => _ = self.empty_page(page),
        }
    }

    /// Evicts what has come into draining pages since they began to drain. Returns how many items.
    pub(crate) fn evict_draining(&mut self) -> usize {
        let draining = self.core.upkeep.draining();
        draining.into_iter().map(|page| self.empty_page(page)).sum()
    }

    /// Waits for a page of another class: the last resort of a class that has no item to evict. This session holds
    /// nothing that it found without a lock, since memory is found before anything else, and so it may pass
    /// quiescent points of its own while it waits for those of others. It does not wait long: others wait for it.
    fn steal(&mut self, class: ClassId, batch: usize, now: Seconds) -> Result<(), StoreError> {
        let watch = Stopwatch::start();
        let mut backoff = Backoff::default();
        let mut drains = 0;
        let mut ticket = self.core.quiescence.ticket();
        let mut rounds = 0;
        while watch.elapsed() < PATIENCE || rounds < ROUNDS_LEAST {
            rounds += 1;
            guira_contract::Session::quiesce(self);
            self.core.release_drained();
            if self.refill_free(class, batch, Source::Any) || self.evict(class, batch, now) {
                return Ok(());
            }
            // A page that drains may hold something that cannot be evicted: then another is tried. When all have
            // given back what they kept, and none has become empty, there is nothing to wait for.
            let waits = self.core.upkeep.is_retiring() || !self.core.quiescence.passed(ticket);
            if !waits && self.evict_draining() > 0 {
                // Chunks that others had kept have become items meanwhile.
                ticket = self.core.quiescence.ticket();
                continue;
            }
            // Nothing else would do: whoever is oldest gives, even if it is no older than this class; if there is no
            // other, this class itself, so that other sessions give back what they keep of the page.
            match self.core.oldest_donor(Some(class)).or_else(|| self.core.oldest_donor(None)) {
                Some(donor) if !waits && drains < DRAINS_MAX => {
                    // While memory shrinks, only a page that somebody has asked for stays.
                    self.core.balance.claim(class);
                    self.begin_drain(donor, PAGE_CHOICE);
                    drains += 1;
                    ticket = self.core.quiescence.ticket();
                }
                _ if !waits => break,
                _ => {
                    backoff.wait();
                }
            }
        }
        if self.refill_free(class, batch, Source::Any) { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    /// Begins to grow the table if it is crowded and there is memory. If an earlier growth is not quite finished, helps
    /// it along for a moment: it may be waiting for this very session, which holds nothing that it found without a lock.
    fn begin_growth(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        let mut backoff = Backoff::default();
        while core.is_crowded() && backoff.wait() < GROWTH_PATIENCE {
            if core.grow_crowded() || core.index.is_growing() {
                return true;
            }
            if core.index.can_grow() && !self.free_empty_pages() {
                // Nothing stands in the way but memory.
                return false;
            }
            guira_contract::Session::quiesce(self);
            self.grow_step(now);
        }
        false
    }

    /// Does what is left of growth, and waits for others a moment where that is needed, once for each growth. True if the table grows no
    /// more.
    fn end_growth(&mut self, now: Seconds) -> bool {
        let core = self.core.clone();
        let mut backoff = Backoff::default();
        let growth = core.index.growths();
        while core.index.is_growing() {
            if self.given_up == Some(growth) {
                return false;
            }
            if !self.grow_step(now) {
                guira_contract::Session::quiesce(self);
                if backoff.wait() >= GROWTH_PATIENCE {
                    self.given_up = Some(growth);
                }
            }
        }
        true
    }

    /// Makes room for a key whose buckets are full: by moving entries, by growing the table, or by evicting one. The caller looks
    /// again: there may still be none.
    ///
    /// # Errors
    /// If something would have to be evicted, and eviction is off.
    pub(crate) fn make_slot(&mut self, key: Key<'_>, now: Seconds) -> Result<(), StoreError> {
        let core = self.core.clone();
        let was_growing = core.index.is_growing();
        if let Some(moved) = core.index.make_room(key.hash) {
            self.counters.add(Counter::Displacements, moved);
            return Ok(());
        }
        if was_growing && core.turn_back_if_crowded() {
            return Ok(());
        }
        // The new table is full as well: the next growth has to begin, and this one to end before.
        if was_growing && core.is_crowded() && self.end_growth(now) {
            return Ok(());
        }
        // Another session may have begun meanwhile: then there is room in the new table.
        if !was_growing && (core.index.is_growing() || self.begin_growth(now)) {
            return Ok(());
        }
        let held = core.index.lock(key.hash);
        if held.has_room() {
            held.release_unchanged();
            return Ok(());
        }
        let dead = dead_victim(&core, &held, now).map(|victim| (victim, Removal::Dead));
        let crowded = || crowd_victim(&core, &held).map(|victim| (victim, Removal::Displaced));
        let victim = match core.options.engine.eviction {
            Eviction::On => dead.or_else(crowded),
            Eviction::Off => dead,
        };
        let Some((victim, why)) = victim else {
            held.release_unchanged();
            return Err(StoreError::NoMemory);
        };
        held.remove_neighbour(&victim);
        drop(held);
        self.account_removed(victim.item, why, now);
        self.free_item(victim.item, now);
        Ok(())
    }
}

/// Puts a free chunk into a session's caches, or back if there are enough or its page is draining.
fn free_chunk<X: Scheme>(core: &Core<X>, caches: &mut [Vec<Offset>], at: Offset) {
    let Some((page, geometry, _)) = core.memory.locate(at) else {
        return;
    };
    let PageState::Serving(class) = core.memory.state_of(page) else {
        return core.give_chunk(at);
    };
    let cache = &mut caches[usize::from(class.0)];
    cache.push(at);
    if cache.len() > 2 * BATCH_CHUNKS {
        let batch = batch_of(geometry.chunk);
        let surplus = cache.len().saturating_sub(batch);
        for at in cache.drain(..surplus) {
            core.give_chunk(at);
        }
    } else if cache.len() > 2 && cache.len() * geometry.chunk as usize > 2 * BATCH_BYTES {
        let oldest = cache.remove(0);
        core.give_chunk(oldest);
    }
}

/// Which entry of two full buckets goes: one with the key's own tag if there are several, since they came in a crowd; else
/// one that was not read lately.
fn crowd_victim<X: Scheme>(core: &Core<X>, held: &LockedBuckets<'_, X>) -> Option<Neighbour<X::At>> {
    let all = held.neighbours();
    let crowd = all.iter().filter(|neighbour| neighbour.same_tag);
    if crowd.clone().count() > 4 {
        return crowd.max_by_key(|neighbour| neighbour.item).copied();
    }
    let unread = all.iter().find(|neighbour| !core.memory.is_recent(neighbour.item));
    unread.or(all.first()).copied()
}

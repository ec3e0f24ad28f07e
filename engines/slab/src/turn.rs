//! From one policy to another, while the cache is used.
//!
//! ```text
//! Idle --asked--> Announced --everybody knows--> Turning --all classes--> Forgetting --everybody knows, all given back--> Idle
//! ```
//!
//! - *Announced*: sessions tell what both policies want to know; a thread in the middle of a batch may still tell the old one's part only.
//! - *Turning*: class by class, the items go from the old order to the new one: a few dozen at a time in the old order if it is a
//!   sequence, else a page at a time. What is stored meanwhile goes into the new one at once; victims come from the old one as long as it
//!   has any. The notes of the new policy are charged class by class, and if memory is full pages are drained for them, so that their items
//!   are evicted, and counted.
//! - *Forgetting*: nobody uses the old notes any more, once every session has passed a quiescent point, and they are given back.

use crate::core::Core;
use crate::index::Scheme;
use crate::notes::{ClassChunks, Notes};
use crate::order::{ClassOrder, Heir, Placed};
use crate::policy::table::{Policy, PolicyState, ReadHook};
use crate::policy::{Arrival, Chunks, Moment};
use guira_items::Eviction;
use guira_memory::slab::{ClassId, Geometry, PageId, PageState};
use guira_sync::atomic::{AtomicU8, AtomicU32, Ordering};
use guira_sync::quiescence::Ticket;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What sessions have to tell, or to do, for the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants(u8);

impl Wants {
    /// Stores are told.
    pub(crate) const STORES: Wants = Wants(1);
    /// Reads have something to do beyond the recency bit.
    pub(crate) const READS: Wants = Wants(2);

    fn of(policy: &PolicyState) -> Self {
        let stores = if policy.goes_by_hand() { 0 } else { Self::STORES.0 };
        let reads = if policy.read_hook() == ReadHook::NOTHING { 0 } else { Self::READS.0 };
        Wants(stores | reads)
    }

    #[inline(always)]
    pub(crate) fn has(self, what: Wants) -> bool {
        self.0 & what.0 != 0
    }

    /// Whether a read has anything to do.
    #[inline(always)]
    pub(crate) fn of_reads(self) -> bool {
        self.has(Self::READS)
    }
}

/// Which policy there is, and which takes over.
#[derive(Debug)]
pub(crate) struct Turn {
    /// See [`Wants`]. Relaxed, as all here: who has to know waits for a quiescent point of everybody.
    wants: AtomicU8,
    /// What a read does for the policy of each area: see [`ReadHook`].
    read_hooks: [AtomicU32; 2],
    /// LOCK: turn. Held while a step is done, during which orders are locked; never waited for but by whoever asks.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    policy: Policy,
    /// Its area.
    area: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    Announced(Policy, Ticket),
    Turning(Policy, usize),
    Forgetting(Ticket, usize),
}

/// Why no other policy can take over now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// One is just taking over.
    Busy,
    /// There is no memory for what it notes, and nothing may be evicted for it.
    NoRoom,
}

/// How far a class has come.
enum Turned {
    /// It waits for memory.
    Waits,
    InPart,
    Wholly,
}

/// So many items go over in one step.
const STEP: usize = 64;

impl Turn {
    pub(crate) fn new(policy: Policy) -> Self {
        let order = policy.order(0);
        let read_hooks = [order.read_hook(), ReadHook::NOTHING].map(|hook| AtomicU32::new(hook.to_bits()));
        let state = Mutex::new(State { policy, area: 0, phase: Phase::Idle });
        Turn { wants: AtomicU8::new(Wants::of(&order).0), read_hooks, state }
    }

    #[inline(always)]
    pub(crate) fn wants(&self) -> Wants {
        Wants(self.wants.load(Ordering::Relaxed))
    }

    /// What a read does for the policy of each area.
    pub(crate) fn read_hooks(&self) -> impl Iterator<Item = (usize, ReadHook)> {
        let of = |hook: &AtomicU32| ReadHook::from_bits(hook.load(Ordering::Relaxed));
        self.read_hooks.iter().map(of).enumerate()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no policy takes over, and nothing is left of one before.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state().phase, Phase::Idle)
    }

    /// The policy there is, and the one that takes over.
    pub(crate) fn policies(&self) -> (Policy, Option<Policy>) {
        let state = self.state();
        let next = match state.phase {
            Phase::Announced(next, _) | Phase::Turning(next, _) => Some(next),
            Phase::Idle | Phase::Forgetting(..) => None,
        };
        (state.policy, next)
    }
}

impl<X: Scheme> Core<X> {
    /// Bytes of all notes on a page of a class.
    pub(crate) fn note_bytes(&self, order: &ClassOrder, geometry: &Geometry) -> usize {
        order.areas().map(|area| self.notes[area].bytes(geometry)).sum()
    }

    /// Has `policy` take over.
    pub(crate) fn turn_to(&self, policy: Policy) -> Result<(), Refused> {
        let mut state = self.turn.state();
        if !matches!(state.phase, Phase::Idle) {
            return Err(Refused::Busy);
        }
        if policy == state.policy {
            return Ok(());
        }
        if self.tune_orders(policy) {
            state.policy = policy;
            return Ok(());
        }
        if self.options.engine.eviction == Eviction::Off && self.notes_of(policy) > self.budget.left() {
            return Err(Refused::NoRoom);
        }
        let area = 1 - state.area;
        let order = policy.order(0);
        self.notes[area].set_words(order.words());
        self.turn.read_hooks[area].store(order.read_hook().to_bits(), Ordering::Relaxed);
        let both = Wants::of(&state.policy.order(0)).0 | Wants::of(&order).0;
        self.turn.wants.store(both, Ordering::Relaxed);
        state.phase = Phase::Announced(policy, self.quiescence.ticket());
        Ok(())
    }

    /// About how many bytes `policy` would note of all the chunks that there are.
    fn notes_of(&self, policy: Policy) -> usize {
        let words = policy.order(0).words();
        let of = |class| {
            let guard = self.memory.lock(class);
            guard.pages().len() * Notes::bytes_of(guard.geometry(), words)
        };
        self.memory.classes().ids().map(of).sum()
    }

    /// Gives other options to the orders of the same policy. False if that is not enough.
    fn tune_orders(&self, policy: Policy) -> bool {
        self.memory.classes().ids().all(|class| self.lock_order(class).placed.state.tune(policy))
    }

    /// Goes on with what is under way. False if there is nothing to do for now.
    pub(crate) fn turn_step(&self) -> bool {
        let Ok(mut state) = self.turn.state.try_lock() else {
            return false;
        };
        let class = |number: usize| self.memory.classes().ids().nth(number);
        match state.phase {
            Phase::Idle => return false,
            Phase::Announced(_, ticket) | Phase::Forgetting(ticket, _) if !self.quiescence.passed(ticket) => {
                return false;
            }
            Phase::Announced(policy, _) => state.phase = Phase::Turning(policy, 0),
            Phase::Turning(policy, number) => match class(number) {
                Some(class) => match self.turn_class(class, policy, 1 - state.area) {
                    Turned::Waits => return false,
                    Turned::InPart => {}
                    Turned::Wholly => state.phase = Phase::Turning(policy, number + 1),
                },
                None => {
                    self.turn.read_hooks[state.area].store(ReadHook::NOTHING.to_bits(), Ordering::Relaxed);
                    self.turn.wants.store(Wants::of(&policy.order(0)).0, Ordering::Relaxed);
                    let phase = Phase::Forgetting(self.quiescence.ticket(), 0);
                    *state = State { policy, area: 1 - state.area, phase };
                }
            },
            Phase::Forgetting(ticket, number) => match class(number) {
                Some(class) => {
                    self.forget_notes(class);
                    state.phase = Phase::Forgetting(ticket, number + 1);
                }
                None => {
                    self.forget_draining(1 - state.area);
                    self.notes[1 - state.area].set_words(0);
                    state.phase = Phase::Idle;
                }
            },
        }
        true
    }

    /// Goes on with one class.
    fn turn_class(&self, class: ClassId, policy: Policy, area: usize) -> Turned {
        let mut order = self.lock_order(class);
        let guard = self.memory.lock(class);
        let order = &mut *order;
        let heir = order.heir.get_or_insert_with(|| {
            self.budget.charge(guard.pages().len() * self.notes[area].bytes(guard.geometry()));
            let per_page = guard.geometry().bitmap_words as usize;
            let mut pages = Vec::new();
            if self.notes[area].words() > 0 && !order.placed.state.is_sequence() {
                // The page under the hand is the one that has been as it is for longest; pages are taken from the end.
                pages = guard.pages().to_vec();
                let pages_before = (order.hand.word() / per_page).min(pages.len());
                pages.rotate_left(pages_before);
                pages.reverse();
            }
            Heir { placed: Placed { state: policy.order(u64::from(class.0)), area }, pages }
        });
        let has_notes = self.notes[area].words() > 0;
        if has_notes && self.budget.excess() > 0 {
            // What is noted takes memory as it is written. First pages of items make room for it.
            return Turned::Waits;
        }
        let old = ClassChunks::new(self, order.placed.area, class, guard.pages());
        let new = ClassChunks::new(self, area, class, guard.pages());
        let now = self.moment();
        if order.placed.state.is_sequence() {
            if let Some((_, tick)) = order.placed.state.next(&old) {
                let incoming = &mut heir.placed.state;
                order.placed.state.victims(&old, STEP, now, |chunk| {
                    incoming.stored(&new, chunk, Arrival::UNKNOWN, Moment { tick, ..now });
                });
                return Turned::InPart;
            }
        } else if let Some(page) = heir.pages.pop() {
            let now = Moment { tick: guard.stamp(page), ..now };
            let chunks = guard.occupied_chunks(page).into_iter().filter_map(|at| self.memory.locate(at));
            // What was read comes after what was not.
            let (read, others): (Vec<u32>, Vec<u32>) = chunks
                .map(|(page, _, chunk)| new.number(page, chunk))
                .partition(|chunk| new.is_recent(*chunk));
            for chunk in others.into_iter().chain(read) {
                // What was stored meanwhile is there already.
                if !heir.placed.state.has(&new, chunk) {
                    heir.placed.state.stored(&new, chunk, Arrival::UNKNOWN, now);
                }
            }
            return Turned::InPart;
        }
        if let Some(heir) = order.heir.take() {
            order.left_behind = Some(order.placed.area);
            order.placed = heir.placed;
        }
        self.charge_order(order);
        self.note_age(class, order, &guard);
        Turned::Wholly
    }

    /// Forgets what the policy before has noted of pages that drain, which may take as long as somebody's value is being sent. The policy that
    /// uses this area next would take it for its own.
    fn forget_draining(&self, area: usize) {
        for page in (0..self.memory.pages_touched()).map(PageId) {
            if let PageState::Draining(_) = self.memory.state_of(page) {
                self.notes[area].discard_all(page);
            }
        }
    }

    /// Gives back what the policy before has noted of a class.
    fn forget_notes(&self, class: ClassId) {
        let mut order = self.lock_order(class);
        let guard = self.memory.lock(class);
        let Some(area) = order.left_behind.take() else {
            return;
        };
        let bytes = self.notes[area].bytes(guard.geometry());
        if bytes > 0 {
            guard.pages().iter().for_each(|page| self.notes[area].discard(*page, bytes));
            self.budget.give(guard.pages().len() * bytes);
        }
    }
}

//! From one policy to another, while the cache is used.
//!
//! ```text
//! Idle --asked--> Announced --every session knows--> Moving --all classes--> Forgetting --every session knows, all given back--> Idle
//! ```
//!
//! - *Announced*: sessions tell what both policies want to know; a thread in the middle of a batch may still tell the old one's part only.
//! - *Turning*: class by class, the items go from the old order to the new one: a few dozen at a time in the old order if it is a
//!   sequence, else a page at a time. What is stored meanwhile goes into the new one at once; victims come from the old one as long as it
//!   has any. The notes of the new policy are charged class by class, and if memory is full pages are drained for them, so that their items
//!   are evicted, and counted.
//! - *Forgetting*: the old notes are not in use any more, once every session has passed a quiescent point, and they are given back.

use super::class_order::{Incoming, Placed};
use super::view::View;
use crate::policy::Notes;
use crate::policy::table::{Policy, PolicyState, ReadHook};
use crate::policy::{Chunks, Moment};
use guira_contract::PolicyError;
use guira_items::Eviction;
use guira_memory::slab::{ClassId, PageId, PageState};
use guira_sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::quiescence::Ticket;

/// What sessions have to tell, or to do, for the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants(u8);

impl Wants {
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
}

/// Which policy there is, and which takes over.
#[derive(Debug)]
pub(crate) struct PolicySwitch {
    /// Without eviction nothing goes to make room for what another policy notes.
    eviction: Eviction,
    /// See [`Wants`]. Relaxed, as all here but the hooks of an announced policy: who has to know waits for a quiescent point of
    /// everybody.
    wants: AtomicU8,
    /// What a read does for the policy of each area: see [`ReadHook`].
    read_hooks: [AtomicU32; 2],
    /// No policy takes over: set under the lock by a thread that has found this, cleared under it when one begins to. Workers
    /// look at it in each round.
    rests: AtomicBool,
    /// LOCK: turn. Held while a step is done, during which orders are locked; only the caller that asks waits for it.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    policy: Policy,
    area: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    Announced(Policy, Ticket),
    Moving(Policy, usize),
    Forgetting(Ticket, usize),
}

/// How far a class has come.
enum Moved {
    Waits,
    InPart,
    Wholly,
}

/// So many items go over in one step.
const STEP: usize = 64;

impl PolicySwitch {
    pub(crate) fn new(policy: Policy, eviction: Eviction) -> Self {
        let order = policy.order(0);
        let read_hooks = [order.read_hook(), ReadHook::NOTHING].map(|hook| AtomicU32::new(hook.to_bits()));
        let state = Mutex::new(State { policy, area: 0, phase: Phase::Idle });
        let (wants, rests) = (AtomicU8::new(Wants::of(&order).0), AtomicBool::new(false));
        PolicySwitch { eviction, wants, read_hooks, rests, state }
    }

    #[inline(always)]
    pub(crate) fn wants(&self) -> Wants {
        Wants(self.wants.load(Ordering::Relaxed))
    }

    /// What a read does for the policy of each area.
    pub(crate) fn read_hooks(&self) -> impl Iterator<Item = (usize, ReadHook)> {
        // Acquire: pairs with the Release in `change`: who sees the hook of a policy sees how many words it notes of a chunk.
        let of = |hook: &AtomicU32| ReadHook::from_bits(hook.load(Ordering::Acquire));
        self.read_hooks.iter().map(of).enumerate()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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
            Phase::Announced(next, _) | Phase::Moving(next, _) => Some(next),
            Phase::Idle | Phase::Forgetting(..) => None,
        };
        (state.policy, next)
    }

    /// Has `policy` take over.
    pub(super) fn change(&self, view: View<'_>, policy: Policy) -> Result<(), PolicyError> {
        let mut state = self.state();
        let has_room =
            || self.eviction == Eviction::On || metadata_of(view, policy) <= view.pool.budget().left();
        if matches!(state.phase, Phase::Announced(..)) && view.pool.has_no_session() {
            if !has_room() {
                return Err(PolicyError::NoRoom);
            }
            self.take_back(view, &mut state);
        }
        if !matches!(state.phase, Phase::Idle) {
            return Err(PolicyError::Busy);
        }
        if policy == state.policy {
            return Ok(());
        }
        if tune_orders(view, policy) {
            state.policy = policy;
            return Ok(());
        }
        if !has_room() {
            return Err(PolicyError::NoRoom);
        }
        let area = 1 - state.area;
        let order = policy.order(0);
        view.orders.metadata()[area].set_notes(order.notes());
        // Release: pairs with the Acquire in `read_hooks`.
        self.read_hooks[area].store(order.read_hook().to_bits(), Ordering::Release);
        let both = Wants::of(&state.policy.order(0)).0 | Wants::of(&order).0;
        self.wants.store(both, Ordering::Relaxed);
        state.phase = Phase::Announced(policy, view.pool.quiescence().ticket());
        self.rests.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Takes an announcement back that nobody has heard of.
    fn take_back(&self, view: View<'_>, state: &mut State) {
        view.orders.metadata()[1 - state.area].set_notes(Notes::NONE);
        self.read_hooks[1 - state.area].store(ReadHook::NOTHING.to_bits(), Ordering::Relaxed);
        self.wants.store(Wants::of(&state.policy.order(0)).0, Ordering::Relaxed);
        state.phase = Phase::Idle;
    }

    /// Goes on with what is under way. False if there is nothing to do for now.
    pub(super) fn step(&self, view: View<'_>) -> bool {
        if self.rests.load(Ordering::Relaxed) {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else {
            return false;
        };
        let class = |number: usize| view.pool.memory().classes().ids().nth(number);
        match state.phase {
            Phase::Idle => {
                self.rests.store(true, Ordering::Relaxed);
                return false;
            }
            Phase::Announced(_, ticket) | Phase::Forgetting(ticket, _)
                if !view.pool.quiescence().passed(ticket) =>
            {
                return false;
            }
            Phase::Announced(policy, _) => state.phase = Phase::Moving(policy, 0),
            Phase::Moving(policy, number) => match class(number) {
                Some(class) => match move_class(view, class, policy, 1 - state.area) {
                    Moved::Waits => return false,
                    Moved::InPart => {}
                    Moved::Wholly => state.phase = Phase::Moving(policy, number + 1),
                },
                None => {
                    self.read_hooks[state.area].store(ReadHook::NOTHING.to_bits(), Ordering::Relaxed);
                    self.wants.store(Wants::of(&policy.order(0)).0, Ordering::Relaxed);
                    let phase = Phase::Forgetting(view.pool.quiescence().ticket(), 0);
                    *state = State { policy, area: 1 - state.area, phase };
                }
            },
            Phase::Forgetting(ticket, number) => match class(number) {
                Some(class) => {
                    forget_metadata(view, class);
                    state.phase = Phase::Forgetting(ticket, number + 1);
                }
                None => {
                    forget_draining(view, 1 - state.area);
                    view.orders.metadata()[1 - state.area].set_notes(Notes::NONE);
                    state.phase = Phase::Idle;
                }
            },
        }
        true
    }
}

/// About how many bytes `policy` would note of all the chunks that there are.
fn metadata_of(view: View<'_>, policy: Policy) -> usize {
    let notes = policy.order(0).notes();
    let of = |class| {
        let guard = view.pool.memory().lock(class);
        guard.pages().len() * view.orders.metadata()[0].bytes_of(guard.geometry(), notes)
    };
    view.pool.memory().classes().ids().map(of).sum()
}

/// Gives other options to the orders of the same policy. False if that is not enough.
fn tune_orders(view: View<'_>, policy: Policy) -> bool {
    view.pool.memory().classes().ids().all(|class| view.orders.lock(class).placed.state.tune(policy))
}

fn move_class(view: View<'_>, class: ClassId, policy: Policy, area: usize) -> Moved {
    let mut order = view.orders.lock(class);
    let guard = view.pool.memory().lock(class);
    let order = &mut *order;
    let under_hand = order.place_for_page(&guard);
    let taking_over = order.incoming.get_or_insert_with(|| {
        view.pool.budget().charge(guard.pages().len() * view.orders.metadata()[area].bytes(guard.geometry()));
        let mut pages = Vec::new();
        if !view.orders.metadata()[area].notes().is_none() && !order.placed.state.is_sequence() {
            // The page under the hand is the one that has been as it is for longest; pages are taken from the end.
            pages = guard.pages().to_vec();
            pages.rotate_left(under_hand);
            pages.reverse();
        }
        Incoming { placed: Placed { state: policy.order(u64::from(class.0)), area }, pages }
    });
    let has_notes = !view.orders.metadata()[area].notes().is_none();
    if has_notes && view.pool.budget().excess() > 0 {
        // What is noted takes memory as it is written. First pages of items make room for it.
        return Moved::Waits;
    }
    let old = view.chunks(order.placed.area, class, guard.pages());
    let new = view.chunks(area, class, guard.pages());
    let now = view.moment();
    if order.placed.state.is_sequence() {
        if let Some(next) = order.placed.state.next(&old) {
            let tick = order.placed.state.since(&old, next);
            let state = &mut taking_over.placed.state;
            order.placed.state.victims(&old, STEP, now, |chunk| {
                state.adopted(&new, chunk, Moment { tick, ..now });
            });
            return Moved::InPart;
        }
    } else if let Some(page) = taking_over.pages.pop() {
        let now = Moment { tick: guard.stamp(page), ..now };
        let chunks = guard.occupied_chunks(page).into_iter().filter_map(|at| view.pool.memory().locate(at));
        // What was read comes after what was not.
        let (read, others): (Vec<u32>, Vec<u32>) =
            chunks.map(|(page, _, chunk)| new.number(page, chunk)).partition(|chunk| new.is_recent(*chunk));
        for chunk in others.into_iter().chain(read) {
            // What was stored meanwhile is there already.
            if !taking_over.placed.state.has(&new, chunk) {
                taking_over.placed.state.adopted(&new, chunk, now);
            }
        }
        return Moved::InPart;
    }
    if let Some(incoming) = order.incoming.take() {
        order.left_behind = Some(order.placed.area);
        order.placed = incoming.placed;
    }
    view.charge_order(order);
    view.note_age(class, order, &guard);
    Moved::Wholly
}

/// Forgets what the policy before has noted of pages that drain, which may take as long as a value is being sent. The policy that
/// uses this area next would take it for its own.
fn forget_draining(view: View<'_>, area: usize) {
    for page in (0..view.pool.memory().pages_touched()).map(PageId) {
        if let PageState::Draining(_) = view.pool.memory().state_of(page) {
            view.orders.metadata()[area].discard_all(page);
        }
    }
}

/// Gives back what the policy before has noted of a class.
fn forget_metadata(view: View<'_>, class: ClassId) {
    let mut order = view.orders.lock(class);
    let guard = view.pool.memory().lock(class);
    let Some(area) = order.left_behind.take() else {
        return;
    };
    let bytes = view.orders.metadata()[area].bytes(guard.geometry());
    if bytes > 0 {
        guard.pages().iter().for_each(|page| view.orders.metadata()[area].discard(*page, bytes));
        view.pool.budget().give(guard.pages().len() * bytes);
    }
}

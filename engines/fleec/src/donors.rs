//! Moving pages between classes, and back to the system.

use crate::core::Core;
use crate::local::Local;
use crate::rescue;
use guira_contract::{Counter, Reassign};
use guira_items::Eviction;
use guira_items::hooks::{self, Window};
use guira_memory::slab::ClassId;
use guira_memory::slab::lockfree::{Emptied, HeldPage, LockFreeSlab};
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// The emptiest of this many pages is emptied.
const PAGE_CHOICE: usize = 8;
/// If it cannot be, another is tried, up to this many. A page stays occupied while a part of a value lies in it that is arriving or being sent, or another session
/// keeps one of its chunks.
const PAGES_TRIED: usize = 3;

/// What became of the question for a page to spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    Taken,
    /// No class has one.
    None,
    /// A class has one, but none of its pages could be emptied. To try costs more than to ask.
    Stuck,
}

/// Takes a page for `class` from the class with the most free memory, if that should be used before more is evicted.
pub(crate) fn take_idle(local: &mut Local, class: ClassId, now: Seconds) -> Idle {
    let Some(donor) = local.core().memory.idle_donor(class) else {
        return Idle::None;
    };
    let emptied = empty_page_of(local, donor, now);
    if hand_over(local, emptied, class) { Idle::Taken } else { Idle::Stuck }
}

/// Takes a page for `class` from any other class that has one that can be emptied.
pub(crate) fn take_any(local: &mut Local, class: ClassId, now: Seconds) -> bool {
    let emptied = empty_page(local, Some(class), now);
    hand_over(local, emptied, class)
}

/// Takes a page for `class` that holds nothing at all.
pub(crate) fn take_empty(local: &mut Local, class: ClassId) -> bool {
    let core = local.core().clone();
    let mut donors = core.memory.classes().ids().filter(|donor| *donor != class);
    let emptied = donors.find_map(|donor| {
        local.cache().give(&core.memory, donor);
        let slab = core.memory.slab();
        slab.hold_emptiest(donor, PAGE_CHOICE, &[]).and_then(|held| empty_or_put_back(slab, held))
    });
    hand_over(local, emptied, class)
}

fn hand_over(local: &Local, emptied: Option<Emptied>, class: ClassId) -> bool {
    let is_there = emptied.is_some();
    if let Some(emptied) = emptied {
        local.core().memory.slab().hand_over(emptied, class);
        local.counters().add(Counter::PagesMoved, 1);
    }
    is_there
}

/// Empties a page of another class than `except`.
pub(crate) fn empty_page(local: &mut Local, except: Option<ClassId>, now: Seconds) -> Option<Emptied> {
    let donors = local.core().memory.donors(except);
    donors.into_iter().find_map(|donor| empty_page_of(local, donor, now))
}

fn empty_page_of(local: &mut Local, donor: ClassId, now: Seconds) -> Option<Emptied> {
    let core = local.core().clone();
    let slab = core.memory.slab();
    let mut tried = Vec::new();
    (0..PAGES_TRIED).find_map(|_| {
        local.cache().give(&core.memory, donor);
        let held = slab.hold_emptiest(donor, PAGE_CHOICE, &tried)?;
        tried.push(held.page());
        hooks::pause(Window::Emptying);
        rescue::clear_page(local, &held, now);
        local.reclaim();
        local.cache().give(&core.memory, donor);
        empty_or_put_back(slab, held)
    })
}

fn empty_or_put_back(slab: &LockFreeSlab, held: HeldPage) -> Option<Emptied> {
    slab.empty(held).map_err(|held| slab.put_back(held)).ok()
}

/// Moves a page between classes, numbered from 1, on an operator's request. Class 0 is the pool for all classes.
pub(crate) fn reassign(core: &Arc<Core>, from: Option<u32>, to: u32) -> Reassign {
    let class = |number: u32| -> Option<ClassId> {
        core.memory.classes().ids().find(|class| u32::from(class.0) + 1 == number)
    };
    let (donor, taker) = (from.map(class), class(to));
    if donor == Some(None) || (to != 0 && taker.is_none()) {
        return Reassign::NoClass;
    }
    // Without eviction nothing may be lost for this.
    if core.options.engine.eviction == Eviction::Off {
        return Reassign::NothingToSpare;
    }
    let mut local = Local::new(core.clone());
    let (slab, now) = (core.memory.slab(), core.shell.time_seen());
    let emptied = match donor.flatten() {
        Some(donor) if slab.pages_of(donor) < 2 => None,
        Some(donor) => empty_page_of(&mut local, donor, now),
        None => empty_page(&mut local, taker, now),
    };
    match (emptied, taker) {
        (None, _) => return Reassign::NothingToSpare,
        (Some(emptied), Some(taker)) => slab.hand_over(emptied, taker),
        (Some(emptied), None) => slab.release(emptied),
    }
    local.counters().add(Counter::PagesMoved, 1);
    Reassign::Begun
}

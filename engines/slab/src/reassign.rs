//! Pages that an operator moves from one class to another.

use crate::core::Core;
use crate::evictor::PAGE_CHOICE;
use crate::index::Scheme;
use crate::session::SlabSession;
use crate::session::drain;
use guira_contract::Reassign;
use guira_items::Eviction;
use std::sync::Arc;

/// Moves a page from one class to another, both numbered from 1. Class 0 as the target is no class: the page is free.
pub(crate) fn reassign<X: Scheme>(core: &Arc<Core<X>>, from: Option<u32>, to: u32) -> Reassign {
    let taker = core.pool.class_of_number(to);
    let donor = match from {
        None => core.evictor().oldest_donor(taker),
        Some(number) => core.pool.class_of_number(number),
    };
    if to != 0 && taker.is_none() {
        return Reassign::NoClass;
    }
    let Some(donor) = donor else {
        return if from.is_none() { Reassign::NothingToSpare } else { Reassign::NoClass };
    };
    if core.pool.drains().is_draining() {
        return Reassign::Busy;
    }
    // Without eviction nothing is lost for this.
    if core.options.engine.eviction == Eviction::Off || core.pool.memory().lock(donor).usage().pages < 2 {
        return Reassign::NothingToSpare;
    }
    if let Some(taker) = taker {
        core.pool.balance().claim(taker);
    }
    drain::begin(&mut SlabSession::new(core.clone()).state(), donor, PAGE_CHOICE);
    Reassign::Begun
}

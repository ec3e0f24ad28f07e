//! Flushes in the middle of an operation.

use crate::{FleecEngine, FleecOptions};
use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Engine, Expiry};
use guira_items::hooks::{self, Window};
use guira_items::{EngineOptions, Hashing};
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::rc::Rc;

const NOW: Seconds = Seconds(1000);

/// A writer stands still on the way to a key, while everything is flushed and the key stored by another. Neither store is lost: the flush was
/// before both.
#[test]
fn what_was_stored_after_a_flush_is_not_lost_to_a_writer_who_set_out_before_it() {
    let hashing = Hashing::Fixed(|_| 7);
    let engine = FleecEngine::open(FleecOptions {
        engine: EngineOptions { hashing, ..EngineOptions::default() },
        ..FleecOptions::default()
    })
    .unwrap();
    let mut session = engine.session();
    for key in [b"before", b"wanted"] {
        store(&mut session, key, b"old", 0, Expiry::Never, NOW).unwrap();
    }
    let (others, met) = (engine.clone(), Rc::new(Cell::new(false)));
    let is_met = met.clone();
    let guard = hooks::set(move |here| {
        if here == Window::Announced && !is_met.replace(true) {
            others.flush(NOW, NOW);
            store(&mut others.session(), b"wanted", b"theirs", 0, Expiry::Never, NOW).unwrap();
        }
    });
    store(&mut session, b"wanted", b"ours", 0, Expiry::Never, NOW).unwrap();
    drop(guard);
    assert!(met.get());
    assert_eq!(value_of(&mut session, b"wanted", NOW).map(|item| item.value), Some(b"ours".to_vec()));
    assert!(value_of(&mut session, b"before", NOW).is_none());
}

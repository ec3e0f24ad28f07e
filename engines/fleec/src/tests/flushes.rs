//! Flushes in the middle of an operation.

use crate::{FleecEngine, FleecOptions};
use guira_contract::suite::{settle, store, value_of};
use guira_contract::{Control, Decision, Engine, Expiry, ItemState, ItemView, Key, NewItem};
use guira_contract::{Provision, Session, Value};
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

/// Puts something behind the value of `key`.
fn append(engine: &FleecEngine, key: &[u8]) {
    let mut session = engine.session();
    let value = Value::Joined { before: b"", after: b" and more" };
    let new = NewItem { flags: 0, expiry: Expiry::Never, cas: None, state: ItemState::NONE, value };
    let decide = |item: Option<&dyn ItemView>| item.map_or(Decision::Keep, |_| Decision::Put(new));
    let key = Key { bytes: key, hash: session.hash(key) };
    session.update(key, Default::default(), NOW, Provision::None, decide).unwrap();
}

/// Begins so many generations, or as many as there can be.
fn flush_others(engine: &FleecEngine, most: usize) {
    for _ in 0..most {
        let _ = engine.flush_prefixes(NOW, &[b"other"]);
    }
}

fn is_there(engine: &FleecEngine) -> bool {
    value_of(&mut engine.session(), b"wanted", NOW).is_some()
}

/// A writer stands still with what it has made of an item, while the crawler comes by, the item is deleted, and as many generations begin as there can be.
#[test]
fn what_a_writer_has_made_of_an_item_is_deleted_with_it_however_many_generations_begin() {
    for crawled in [0, 2, 6] {
        let engine = FleecEngine::open(FleecOptions::default()).unwrap();
        store(&mut engine.session(), b"wanted", b"old", 0, Expiry::Never, NOW).unwrap();
        let (others, met) = (engine.clone(), Rc::new(Cell::new(false)));
        let is_met = met.clone();
        let guard = hooks::set(move |here| {
            if here == Window::Publishing && !is_met.replace(true) {
                flush_others(&others, crawled);
                settle(&mut others.session(), NOW);
                if others.flush_prefixes(NOW, &[b"wanted"]).is_ok() {
                    flush_others(&others, 8);
                } else {
                    // All are in use: it is deleted with everything.
                    others.flush(NOW, NOW);
                }
            }
        });
        append(&engine, b"wanted");
        drop(guard);
        assert!(met.get());
        assert!(!is_there(&engine), "{crawled} were crawled for");
        settle(&mut engine.session(), NOW);
        assert!(!is_there(&engine), "{crawled} were crawled for");
    }
}

/// A writer stands still after it has published an item with the stamp of an earlier generation, and before it can follow that up. Others see the item, and delete it.
#[test]
fn what_was_published_late_is_deleted_however_many_generations_begin() {
    let engine = FleecEngine::open(FleecOptions::default()).unwrap();
    store(&mut engine.session(), b"wanted", b"old", 0, Expiry::Never, NOW).unwrap();
    let (others, met) = (engine.clone(), Rc::new(Cell::new(0)));
    let count = met.clone();
    let guard = hooks::set(move |here| match (here, count.get()) {
        (Window::Publishing, 0) => {
            count.set(1);
            flush_others(&others, 2);
            settle(&mut others.session(), NOW);
        }
        (Window::Marked, 1) => {
            count.set(2);
            assert!(is_there(&others), "it was published");
            others.flush_prefixes(NOW, &[b"wanted"]).unwrap();
            // The item is not read in between: a reader would remove it.
            flush_others(&others, 8);
            assert!(!is_there(&others), "it was deleted");
        }
        _ => {}
    });
    append(&engine, b"wanted");
    drop(guard);
    assert_eq!(met.get(), 2);
    assert!(!is_there(&engine));
}

//! The hazards of reading without locks, each provoked by holding its window open. The first of the three is that of
//! displacements, which not every index has.

use super::{open, open_hashed};
use guira_contract::suite::{CopySink, remove, store};
use guira_contract::{Engine, Expiry, Key, Read, Session};
use guira_items::hooks::{self, Window};
use guira_sync::channel;
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::rc::Rc;

const NOW: Seconds = Seconds(1000);

/// Hazard 2: the item that a reader has found is removed, and its chunk is filled for another key, before the reader has
/// copied the value.
#[test]
fn an_item_that_is_replaced_while_it_is_read_is_not_mixed_with_its_successor() {
    let engine = open(8 << 20);
    let (mut reader, mut writer) = (engine.session(), engine.session());
    store(&mut writer, b"wanted", b"right", 0, Expiry::Never, NOW).unwrap();
    let done = Cell::new(false);
    let guard = hooks::set(move |window| {
        if window == Window::Reading && !done.replace(true) {
            remove(&mut writer, b"wanted", NOW);
            store(&mut writer, b"other!", b"wrong", 0, Expiry::Never, NOW).unwrap();
        }
    });
    let key = Key { bytes: b"wanted", hash: reader.hash(b"wanted") };
    let mut sink = CopySink::default();
    let guess = reader.prefetch_item(key.hash);
    let read = reader.read(key, guess, NOW, &mut sink);
    drop(guard);
    assert!(matches!(read, Read::Miss(_)), "it was removed before the read ended");
    assert_eq!((sink.item, sink.undone), (None, 1), "what was copied was taken back");
}

/// Hazard 3: a reader of x holds y's slot through an equal tag. y is removed, and its chunk is being filled for x: the
/// key is there already, the value is still y's. The paper's Algorithm 1, which counts versions per key, lets this through:
/// the counter of x does not move when y is removed.
#[test]
fn a_chunk_that_is_being_filled_for_the_key_is_not_read_through_an_old_slot() {
    let engine = open_hashed(8 << 20, |_| 0x1234_5678_9abc_def0);
    let mut reader = engine.session();
    let mut writer = engine.session();
    store(&mut writer, b"y", b"old", 0, Expiry::Never, NOW).unwrap();
    let (half, half_filled) = channel::channel();
    let (resume, resumed) = channel::channel();
    let mut writer = Some(writer);
    let (visited, read) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (visits, reads) = (visited.clone(), read.clone());
    let mut resumed = Some(resumed);
    let guard = hooks::set(move |window| match window {
        Window::Visiting => {
            visits.set(visits.get() + 1);
            // First visit: the reader of x has loaded the slot of y. Now the writer removes y and begins to store x in its chunk.
            if let (Some(mut writer), Some(resumed)) = (writer.take(), resumed.take()) {
                let half = half.clone();
                guira_sync::thread::spawn(move || {
                    remove(&mut writer, b"y", NOW);
                    let _guard = hooks::set(move |window| {
                        if window == Window::Refilling {
                            half.send(()).unwrap();
                            resumed.recv().unwrap();
                        }
                    });
                    store(&mut writer, b"x", b"new", 0, Expiry::Never, NOW).unwrap();
                });
                half_filled.recv().unwrap();
            }
        }
        Window::Reading => {
            reads.set(reads.get() + 1);
            // The reader has found the key x in the half-filled chunk. The writer may go on.
            let _ = resume.send(());
        }
        _ => {}
    });
    let key = Key { bytes: b"x", hash: reader.hash(b"x") };
    let mut sink = CopySink::default();
    let guess = reader.prefetch_item(key.hash);
    let result = reader.read(key, guess, NOW, &mut sink);
    drop(guard);
    assert!(read.get() >= 2 && visited.get() >= 2, "the window was open: {read:?} {visited:?}");
    assert!(sink.undone >= 1, "what was read in it was taken back");
    assert_eq!(result, Read::Hit);
    assert_eq!(sink.item.unwrap().value, b"new");
}

/// An item is overwritten where it lies, with a value of the same length, before the reader has copied the value.
#[test]
fn an_item_that_is_overwritten_while_it_is_read_is_not_mixed_with_the_new_value() {
    let engine = open(8 << 20);
    let (mut reader, mut writer) = (engine.session(), engine.session());
    store(&mut writer, b"wanted", b"first", 0, Expiry::Never, NOW).unwrap();
    let done = Cell::new(false);
    let guard = hooks::set(move |window| {
        if window == Window::Reading && !done.replace(true) {
            store(&mut writer, b"wanted", b"after", 0, Expiry::Never, NOW).unwrap();
        }
    });
    let key = Key { bytes: b"wanted", hash: reader.hash(b"wanted") };
    let mut sink = CopySink::default();
    let guess = reader.prefetch_item(key.hash);
    let read = reader.read(key, guess, NOW, &mut sink);
    drop(guard);
    assert_eq!((read, sink.undone), (Read::Hit, 1), "what was copied meanwhile was taken back");
    assert_eq!(sink.item.unwrap().value, b"after");
}

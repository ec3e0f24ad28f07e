//! What long values leave behind in chunks when they are gone, and what becomes of items that lie beside that.

use super::differential::Random;
use super::sink::{hits, remove, settle, store};
use crate::{Engine, Expiry, ItemSpec, OldItem, Session, StoreError};
use guira_sync::clock::Seconds;

const SEEDS: u64 = 8;
const NOW: Seconds = Seconds(1000);
const MEMORY: usize = 32 << 20;
/// Bytes of a value that takes a chunk of the largest …
const SINGLE: usize = 29_500;
/// … and of one that takes three of them, and a small one.
const LONG: usize = 100_000;
/// Items that come to lie all over the pages first.
const FIRST: usize = 512;
/// Long values that are stored and removed then.
const GONE: usize = 80;
/// Bytes of values that arrive and never end, in a chunk each of what is gone, and a smaller one.
const ARRIVING: usize = 40_000;
/// Free chunks that are enough for what lies in one page.
const ROOM: u64 = 24;

/// A page that is emptied costs no item that lies elsewhere, whatever the chunks in it held before.
///
/// # Panics
/// If it does.
pub(super) fn an_emptied_page_costs_no_item_elsewhere<E: Engine>(open: &impl Fn(usize) -> E) {
    (1..=SEEDS).for_each(|seed| empty_pages(&open(MEMORY), seed));
}

fn empty_pages<E: Engine>(engine: &E, seed: u64) {
    let mut session = engine.session();
    let mut random = Random::new(seed);
    let name = |kind: &str, i: usize| format!("{kind}{i}");
    // In each page some chunks are free, so that a long value begins in one page and goes on in others.
    let mut kept: Vec<String> = (0..FIRST).map(|i| name("first", i)).collect();
    kept.iter().for_each(|key| put(&mut session, key, SINGLE));
    put(&mut session, "small", 10);
    let classes: Vec<u32> = engine.stats().classes.iter().map(|class| class.id).collect();
    // Where all memory is one class no page changes its class.
    let Some(largest) = classes.iter().max().copied().filter(|_| classes.len() > 1) else {
        return;
    };
    let is_removed = |_: &mut String| random.below(3) > 0;
    kept.extract_if(.., is_removed).for_each(|key| remove(&mut session, key.as_bytes(), NOW));
    (0..GONE).for_each(|i| put(&mut session, &name("gone", i), LONG));
    (0..GONE).for_each(|i| remove(&mut session, name("gone", i).as_bytes(), NOW));
    session.quiesce();
    let mut arriving = Vec::new();
    for i in 0..GONE {
        for key in [name("kept", 2 * i), name("kept", 2 * i + 1)] {
            put(&mut session, &key, SINGLE);
            kept.push(key);
        }
        arriving.extend(arrive(&mut session, &name("slow", i)));
    }
    assert!(arriving.len() > GONE / 2, "{} values arrive", arriving.len());
    let free = || {
        engine.stats().classes.iter().filter(|class| class.id == largest).map(|class| class.free_chunks).sum()
    };
    for round in 0..40 {
        // Another page comes to have the fewest chunks in use.
        arriving.swap_remove(round % arriving.len());
        session.quiesce();
        let room: u64 = free();
        if room < ROOM {
            break;
        }
        let _ = engine.reassign(Some(largest), 1);
        settle(&mut session, NOW);
        let lost = kept.iter().filter(|key| !hits(&mut session, key.as_bytes(), NOW));
        assert_eq!(
            (lost.count(), engine.stats().evictions),
            (0, 0),
            "seed {seed}, round {round}: there is room"
        );
    }
}

fn put<S: Session>(session: &mut S, key: &str, length: usize) {
    let stored = store(session, key.as_bytes(), &vec![7; length], 0, Expiry::Never, NOW);
    assert_eq!(stored, Ok(()), "{key}");
    session.quiesce();
}

/// Begins a value of which all but the last byte arrives.
fn arrive<S: Session>(session: &mut S, key: &str) -> Option<S::Pending> {
    let spec =
        ItemSpec { value_len: ARRIVING, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    let mut pending = session.begin_value(key.as_bytes(), spec).ok()?;
    match session.extend(&mut pending, &[7; ARRIVING - 1]) {
        Ok(()) => Some(pending),
        Err(error) => {
            assert_eq!(error, StoreError::NoMemory, "{key}");
            None
        }
    }
}

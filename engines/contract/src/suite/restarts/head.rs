//! The head of a Region's file holds something else than the engine has left there.

use crate::suite::image::Image;
use crate::suite::lasting::{Lasting, RegionSize, Site, close, put, reason};
use crate::suite::sink::{remove, store, value_of};
use crate::suite::walks::walk_all;
use crate::{Control, Emptied, Engine, Expiry, Opening, Pace, Session, StoreError};
use guira_memory::lasting::{FileContents, RegionFile, SavedRegion};
use guira_memory::{HugePages, MIB};
use guira_sync::clock::Seconds;

const MEMORY: usize = 2 * MIB;

/// What the engine has left in the head of a file that was closed in order.
fn kept_in<L: Lasting>(site: &Site<L>) -> (RegionFile, SavedRegion) {
    match RegionFile::open(&site.place()).expect("nothing uses it") {
        (file, FileContents::Intact(kept)) => (file, kept),
        (_, found) => panic!("{found:?}"),
    }
}

/// Puts something else there, with checksums that are right.
fn close_with((file, kept): (RegionFile, SavedRegion)) {
    let (region, _) = file.map(&kept, HugePages::No).expect("there is address space");
    file.close(&region, &kept.state, &[]).expect("there is room");
}

/// The state begins with the name of its format.
pub fn another_engine_begins_with_nothing<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(4 * MIB));
    site.close_with_one_item();
    let (file, mut kept) = kept_in(&site);
    kept.state[..8].copy_from_slice(b"another0");
    close_with((file, kept));
    assert_eq!(reason(&site.open()), &Emptied::Engine);
}

/// Nor is one of a file without sums, of which every third byte is changed.
pub fn no_head_with_a_byte_changed_is_believed<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(MEMORY));
    site.close_with_one_item();
    let image = Image::of(site.place().path());
    for (image, step) in [(image.clone(), 1), (image.without_sums(), 3)] {
        let used = image.bytes()[..64 << 10].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        assert!(used > 400, "{used}");
        image.write::<[u8; 0]>([]);
        close(site.restored(1));
        for at in (0..used).step_by(step) {
            image.write([(at, [image.bytes()[at] ^ 1 << (at % 8)])]);
            let opened = site.open();
            assert!(matches!(opened.opening, Opening::Emptied(_)), "byte {at}: {}", opened.opening);
            assert_eq!(opened.engine.stats().items, 0);
        }
    }
}

const KEYS: u32 = 3000;

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 60 + number as usize % 140]
}

/// Whatever the numbers of the state are: the engine may empty the Region, or go on without an item. It has as much memory as before.
pub fn no_state_makes_an_engine_panic_or_serve_another_value<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize { memory: MEMORY, reserve: MEMORY });
    let engine = site.open().engine;
    let mut session = engine.session();
    for number in 0..KEYS {
        put(&mut session, &format!("key{number}"), &value(number), Expiry::Never);
        if number % 7 == 0 {
            remove(&mut session, format!("key{number}").as_bytes(), Seconds(1000));
        }
    }
    drop(session);
    close(engine);
    let image = Image::of(site.place().path());
    image.write::<[u8; 0]>([]);
    let worth = worth_changing(&kept_in(&site).1.state);
    let (mut restored, mut whole) = (0, 0);
    for number in worth {
        for change in 0..8 {
            image.write::<[u8; 0]>([]);
            let (file, mut kept) = kept_in(&site);
            let place = number * 8..number * 8 + 8;
            let was = u64::from_le_bytes(std::array::from_fn(|i| kept.state[number * 8 + i]));
            let is =
                [0, 1, was ^ 1, was.wrapping_add(1000), u64::MAX, 1 << 47, 1 << 63, was ^ 1 << 32][change];
            kept.state[place].copy_from_slice(&is.to_le_bytes());
            close_with((file, kept));
            let opened = site.open();
            if let Opening::Restored { .. } = opened.opening {
                restored += 1;
                let what = format!("number {number} is {is:x}");
                whole += u32::from(use_it(&site, opened.engine, opened.base.reached, &what) == KEYS);
            }
        }
    }
    assert!(restored > 0 && whole > restored / 2, "{whole} of {restored} take all that is stored");
}

/// The numbers of a state that are worth changing: not the names of counters, which are many and alike, and of what many
/// classes or partitions have one each, the first.
fn worth_changing(state: &[u8]) -> Vec<usize> {
    const MOST: usize = 100;
    let words: Vec<u64> =
        state.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let (mut all, mut at) = (Vec::new(), 0);
    while at < words.len() && all.len() < MOST {
        all.push(at);
        at += 1;
        // Tables of counters begin with this: the number of names, and each name with its length.
        if words[at - 1] == u64::MAX && words.get(at).is_some_and(|names| (1..=64).contains(names)) {
            let names = words[at];
            all.push(at);
            at += 1;
            for _ in 0..names {
                at += 1 + (words.get(at).copied().unwrap_or(0) as usize).div_ceil(8).min(8);
            }
        }
    }
    all
}

/// Does all there is to do with it. Returns how many items it takes: its memory may have become less.
fn use_it<L: Lasting>(site: &Site<L>, engine: L::Engine, now: Seconds, what: &str) -> u32 {
    let mut session = engine.session();
    for number in 0..KEYS {
        let found = value_of(&mut session, format!("key{number}").as_bytes(), now);
        assert!(found.is_none_or(|found| found.value == value(number)), "{what}: {number}");
    }
    walk_all(&mut session, now);
    // Half of them go, and do not come back.
    for number in (0..KEYS).step_by(2) {
        let key = format!("key{number}");
        remove(&mut session, key.as_bytes(), now);
        assert_eq!(value_of(&mut session, key.as_bytes(), now), None, "{what}: {number}");
    }
    let mut stored = 0;
    for number in 0..KEYS {
        let key = format!("new{number}");
        match store(&mut session, key.as_bytes(), &value(number), 0, Expiry::Never, now) {
            Ok(()) => {
                stored += 1;
                let found = value_of(&mut session, key.as_bytes(), now);
                assert!(found.is_some_and(|found| found.value == value(number)), "{what}: {key}");
            }
            Err(error) => assert_eq!(error, StoreError::NoMemory, "{what}: {key}"),
        }
        session.quiesce();
        session.maintain(now, Pace::Busy, 32);
    }
    engine.flush(now, now);
    for round in 0..20 {
        session.maintain(Seconds(now.0.saturating_add(40 * round)), Pace::Idle, 16);
    }
    drop(session);
    site.check_any_state(&engine);
    close(engine);
    stored
}

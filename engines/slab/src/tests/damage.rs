//! A Region that was damaged while nothing used it.

use super::SlabEngine;
use super::restarts::{IS_INDEPENDENT, NOW, Setup, put, site};
use guira_contract::suite::{self, Image, Site, close, settle, value_of};
use guira_contract::{Control, Emptied, Engine, Expiry, Opened, Opening};
use guira_memory::MIB;
use guira_memory::lasting::BLOCK_BYTES;

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged() {
    suite::damage(&Setup::default(), 8 * MIB, 1, 42);
}

#[test]
fn a_region_without_sums_is_kept_and_has_some_when_it_is_closed() {
    suite::a_region_without_sums_is_kept_and_has_some_when_it_is_closed(&Setup::default());
}

const KEYS: u32 = 100_000;

/// A Region with items enough for an index of several blocks, closed, and where the index begins and ends.
fn closed(site: &Site<Setup>) -> (Image, [usize; 2]) {
    let engine = site.open().engine;
    let mut session = engine.session();
    (0..KEYS).for_each(|i| put(&mut session, &format!("key{i}"), &i.to_le_bytes(), Expiry::Never));
    settle(&mut session, NOW);
    let begin = engine.core.index.saved().layout >> 32 & 1;
    let at = engine.core.sizing.plan().arenas_at[begin as usize];
    let table = [at, at + engine.core.index.bytes()];
    drop(session);
    close(engine);
    (Image::of(site.place().path()), table)
}

/// How many keys are there. Each has its value.
fn there(engine: &SlabEngine) -> u64 {
    let mut session = engine.session();
    let is_there = |i: &u32| {
        let found = value_of(&mut session, format!("key{i}").as_bytes(), NOW);
        assert!(found.as_ref().is_none_or(|found| found.value == i.to_le_bytes()), "key{i}");
        found.is_some()
    };
    (0..KEYS).filter(is_there).count() as u64
}

#[test]
fn a_block_of_the_index_costs_the_items_it_led_to_and_their_memory_is_free_again() {
    let site = site(64 * MIB);
    let (image, [at, end]) = closed(&site);
    let blocks = (end - at) / BLOCK_BYTES;
    assert!(blocks >= 3, "{blocks}");
    image.write([(at + BLOCK_BYTES + 777, [!image.bytes()[at + BLOCK_BYTES + 777]])]);
    let Opened { engine, opening, .. } = site.open();
    let items = there(&engine);
    let dropped = opening.dropped();
    assert_eq!((dropped.blocks, dropped.items), (1, u64::from(KEYS) - items), "{opening}");
    if !IS_INDEPENDENT {
        assert_eq!(opening, Opening::Emptied(Emptied::Contents(dropped)));
        return;
    }
    let expected = u64::from(KEYS) / blocks as u64;
    assert!((expected / 2..expected * 2).contains(&dropped.items), "{dropped:?} of {blocks} blocks");
    let used =
        |engine: &SlabEngine| engine.stats().classes.iter().map(|class| class.used_chunks).sum::<u64>();
    assert_eq!(used(&engine), items, "nothing is left in use that no entry leads to");
    site.check(&engine);
}

//! A Region that was damaged while nobody used it.

use super::resizes::{check_pages, settle};
use super::restarts::{NOW, close, open, options, put};
use super::scratch::Scratch;
use super::{Opened, SlabEngine, Tested};
use crate::index::Scheme;
use guira_contract::suite::{self, Costs, Image, Lasting, Part, value_of};
use guira_contract::{Control, Emptied, Engine, Expiry, Opening};
use guira_memory::MIB;
use guira_memory::lasting::BLOCK_BYTES;
use guira_memory::slab::PAGE_BYTES;

/// Whether a block of pages costs no more than what lies in it.
const IS_INDEPENDENT: bool = Tested::LINK_BYTES == 0;

fn parts(engine: &SlabEngine) -> Vec<Part> {
    let (plan, touched) = (engine.core.sizing.plan(), engine.core.pool.memory().pages_touched() as usize);
    let [arena, other] = plan.arenas_at;
    let table = engine.core.index.bytes();
    let pages_end = plan.pages_at + touched * PAGE_BYTES;
    let in_pages = if IS_INDEPENDENT { Costs::ItsItems } else { Costs::Anything };
    let elsewhere = if IS_INDEPENDENT { Costs::Nothing } else { Costs::Anything };
    let part = |name, at: usize, end: usize, costs| Part { name, at: at..end, costs };
    vec![
        part("descriptors", plan.metadata_at, plan.metadata_at + touched * 8, Costs::Anything),
        part("pages", plan.pages_at, pages_end, in_pages),
        part("an arena", arena, arena + table, Costs::Anything),
        part("pages", plan.pages_at, pages_end, in_pages),
        part("the other arena", other, other + table, Costs::Anything),
        part("the ends of pages", pages_end - PAGE_BYTES - 512, pages_end - PAGE_BYTES, in_pages),
        part("pages that were never used", pages_end, pages_end + 8 * PAGE_BYTES, elsewhere),
    ]
}

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged() {
    let scratch = Scratch::new("damage");
    let check = |engine: &SlabEngine| {
        settle(&mut engine.session());
        check_pages(engine);
    };
    let open = || open(&scratch, options(8 * MIB));
    let lasting = Lasting { place: scratch.place(), open: &open, parts: &parts, beside: 0, check: &check };
    suite::damage(&lasting, 1, 42);
}

const KEYS: u32 = 100_000;

/// A Region with items enough for an index of several blocks, closed, and where the index begins and ends.
fn closed(scratch: &Scratch) -> (Image, [usize; 2]) {
    let engine = open(scratch, options(64 * MIB)).engine;
    let mut session = engine.session();
    (0..KEYS).for_each(|i| put(&mut session, &format!("key{i}"), &i.to_le_bytes(), Expiry::Never));
    settle(&mut session);
    let begin = engine.core.index.saved().layout >> 32 & 1;
    let at = engine.core.sizing.plan().arenas_at[begin as usize];
    let table = [at, at + engine.core.index.bytes()];
    drop(session);
    close(engine);
    (Image::of(scratch.place().path()), table)
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
    let scratch = Scratch::new("index-block");
    let (image, [at, end]) = closed(&scratch);
    let blocks = (end - at) / BLOCK_BYTES;
    assert!(blocks >= 3, "{blocks}");
    image.write([(at + BLOCK_BYTES + 777, [!image.bytes()[at + BLOCK_BYTES + 777]])]);
    let Opened { engine, opening, .. } = open(&scratch, options(64 * MIB));
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
    settle(&mut engine.session());
    check_pages(&engine);
}

/// As earlier versions have left it.
#[test]
fn a_region_without_sums_is_kept_and_has_some_when_it_is_closed() {
    let scratch = Scratch::new("without-sums");
    let image = closed(&scratch).0;
    let with_sums = image.bytes().len();
    let image = image.without_sums();
    assert!(image.bytes().len() < with_sums);
    image.write::<[u8; 0]>([]);
    for _ in 0..2 {
        let Opened { engine, opening, .. } = open(&scratch, options(64 * MIB));
        assert_eq!(opening, Opening::Restored { items: u64::from(KEYS) });
        assert_eq!(there(&engine), u64::from(KEYS));
        close(engine);
    }
    let image = Image::of(scratch.place().path());
    assert_eq!(image.bytes().len(), with_sums);
    let at = image.bytes().len() - with_sums + 3 * BLOCK_BYTES;
    image.write([(at, [!image.bytes()[at]])]);
    assert_eq!(open(&scratch, options(64 * MIB)).opening.dropped().blocks, 1);
}

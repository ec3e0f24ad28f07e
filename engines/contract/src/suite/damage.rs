//! A Region that was damaged while it was not in use: whatever bits have changed, no value is another than the one that was stored, and what is in blocks that
//! have not is still there.

use super::differential::Random;
use super::image::Image;
use super::lasting::{Lasting, NOW, RegionSize, Site, close};
use super::sink::{Copied, guess_of, remove, store, value_of, value_with};
use super::walks::walk_all;
use crate::lasting::{Dropped, Emptied, Opened, Opening};
use crate::{Control, Engine, Expiry, Pace, Recency, Session};
use guira_memory::MIB;
use guira_memory::lasting::BLOCK_BYTES;
use guira_sync::clock::Seconds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A part of a Region.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Where it lies, in bytes from the start of the file.
    pub at: Range<usize>,
    /// What is lost if a block of it is damaged.
    pub costs: Costs,
}

/// What damage costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costs {
    /// No item.
    Nothing,
    /// The items that lie in the block.
    ItsItems,
    /// Any number of items.
    Anything,
}

/// Items of up to this many bytes are short: they lie in one block, or in two next to each other.
const SHORT: usize = 700;
const LONG: usize = 40_000;
/// Short values come in few lengths: a small cache has few pages, and each length takes one at least.
const LENGTHS: [usize; 6] = [30, 600, 130, 400, 620, 300];
/// One value in this many is long.
const LONG_EVERY: u32 = 397;
/// What keys begin with.
const PREFIX: &[u8] = b"damage-";

fn name(number: u32) -> Vec<u8> {
    [PREFIX, format!("{number:06}").as_bytes()].concat()
}

fn value(number: u32, version: u32) -> Vec<u8> {
    let length = match number % LONG_EVERY {
        0 => LONG + number as usize,
        _ => LENGTHS[(number + version) as usize % LENGTHS.len()] - number as usize % 5,
    };
    let seed = number.wrapping_mul(31).wrapping_add(version * 101);
    (0..length as u32).map(|i| seed.wrapping_add(i * 7).wrapping_add(i >> 8) as u8).collect()
}

/// What was stored under each number, and is there.
type Stored = BTreeMap<u32, Vec<u8>>;

/// More than 8 MiB of memory hold.
const KEYS: u32 = 20_000;

/// A store that refuses so much is full.
const REFUSED_MAX: u32 = 100;

fn fill<S: Session>(session: &mut S) -> Stored {
    let mut versions = BTreeMap::new();
    // The last of them once more, so that there are traces of what was replaced, and what is there lies in no order.
    for (number, version) in
        (0..KEYS).map(|number| (number, 1)).chain((KEYS / 2..KEYS).map(|number| (number, 2)))
    {
        if version == 2 && number % 3 != 0 {
            continue;
        }
        // A store refuses what there is no room for.
        if store(session, &name(number), &value(number, version), number, Expiry::Never, NOW).is_ok() {
            versions.insert(number, version);
        }
        if number % 7 == 0 && version == 1 {
            remove(session, &name(number), NOW);
            versions.remove(&number);
        }
        if number % 32 == 0 {
            session.maintain(NOW, Pace::Busy, 32);
            session.quiesce();
        }
    }
    // What is free lies between what is not.
    for number in (0..KEYS).filter(|number| number % 11 == 3) {
        remove(session, &name(number), NOW);
        versions.remove(&number);
    }
    let mut stored = Stored::new();
    for (number, version) in versions {
        if let Some(found) = peek(session, &name(number), NOW) {
            assert!(found.value == value(number, version), "{number} is another before anything happens");
            stored.insert(number, found.value);
        }
    }
    stored
}

/// Damages the Region of an engine with `memory` bytes, 8 MiB at least, `rounds` times.
///
/// # Panics
/// If a value is another than what was stored, one is missing that lies in no damaged block, or anything is counted wrong.
pub fn damage<L: Lasting>(setup: &L, memory: usize, seed: u64, rounds: u32) {
    let site = &Site::new(setup, RegionSize::of(memory));
    let engine = site.open().engine;
    let mut session = engine.session();
    let stored = fill(&mut session);
    drop(session);
    assert!(stored.len() > KEYS as usize / 3, "{} are stored", stored.len());
    let parts = setup.parts(&engine);
    close(engine);
    let image = Image::of(site.place().path());
    let world = World { site, stored, parts, places: places_of(image.bytes()), image };
    world.round("whole", &[], Costs::Nothing);
    let mut random = Random::new(seed);
    let mut longest = 0;
    for round in 0..rounds {
        let part = &world.parts[round as usize % world.parts.len()];
        let changes: Vec<_> = (0..1 + random.below(3)).map(|_| world.change(part, &mut random)).collect();
        let places: Vec<_> = changes.iter().map(|(at, bytes)| (*at, bytes.len())).collect();
        let what = format!("seed {seed}, round {round}: {} is damaged at {places:x?}", part.name);
        longest = longest.max(world.round(&what, &changes, part.costs));
    }
    assert!(longest > 0, "seed {seed}: no long value has ever outlived any damage");
}

/// As earlier versions have left it, which knew no sums. They are there when it is closed again.
///
/// # Panics
/// If anything is lost, or a change goes unnoticed afterwards.
pub fn a_region_without_sums_is_kept_and_has_some_when_it_is_closed<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(16 * MIB));
    let engine = site.open().engine;
    let mut session = engine.session();
    let keys = 30_000_u32;
    for number in 0..keys {
        store(&mut session, &name(number), &number.to_le_bytes(), 0, Expiry::Never, NOW).expect("it fits");
    }
    drop(session);
    let items = engine.stats().items;
    let part = setup.parts(&engine).into_iter().find(|part| part.costs != Costs::Nothing);
    close(engine);
    let image = Image::of(site.place().path());
    let with_sums = image.bytes().len();
    let image = image.without_sums();
    assert!(image.bytes().len() < with_sums);
    image.write::<[u8; 0]>([]);
    for _ in 0..2 {
        let engine = site.restored(items);
        let mut session = engine.session();
        let found =
            (0..keys).filter_map(|number| Some((number, value_of(&mut session, &name(number), NOW)?)));
        let right = found.filter(|(number, found)| found.value == number.to_le_bytes()).count();
        assert_eq!(right as u64, items);
        drop(session);
        close(engine);
    }
    let image = Image::of(site.place().path());
    assert_eq!(image.bytes().len(), with_sums);
    let at = part.expect("something is worth something").at.start;
    image.write([(at, [!image.bytes()[at]])]);
    assert_eq!(site.open().opening.dropped().blocks, 1);
}

/// Where keys lie in a file, by place. Some are of items that are there no more.
fn places_of(bytes: &[u8]) -> BTreeMap<usize, u32> {
    let starts = bytes.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    let number = |at: usize| std::str::from_utf8(bytes.get(at..at + 6)?).ok()?.parse().ok();
    starts.filter_map(|(at, _)| Some((at, number(at + PREFIX.len())?))).collect()
}

/// What is damaged, and what was in it.
struct World<'a, L> {
    site: &'a Site<L>,
    stored: Stored,
    parts: Vec<Part>,
    places: BTreeMap<usize, u32>,
    image: Image,
}

impl<L: Lasting> World<'_, L> {
    /// Something that may become of a part: where, and what is there then.
    fn change(&self, part: &Part, random: &mut Random) -> (usize, Vec<u8>) {
        let bytes = self.image.bytes();
        let length = part.at.len() as u64;
        let [at, other] = [0; 2].map(|_| part.at.start + random.below(length) as usize);
        let flipped = |bit: u64| vec![bytes[at] ^ 1 << bit];
        let end = |start: usize, length: usize| (start + length).min(part.at.end);
        let changed = match random.below(6) {
            // A sector is lost, or another was written over it.
            0 => vec![0; end(at & !511, 512) - (at & !511)],
            1 => bytes[other & !511..end(other & !511, 512)].to_vec(),
            2 => vec![0xff; end(at, 24) - at],
            _ => flipped(random.below(8)),
        };
        let at = if changed.len() > 24 { at & !511 } else { at };
        (at, changed[..changed.len().min(part.at.end - at)].to_vec())
    }

    /// Opens the engine after these changes, looks at everything, and works with it. Returns how many long values were there.
    fn round(&self, what: &str, changes: &[(usize, Vec<u8>)], costs: Costs) -> usize {
        self.image.write(changes.iter().map(|(at, bytes)| (*at, bytes)));
        let blocks = self.changed(changes);
        let Opened { engine, opening, base, .. } = self.site.open();
        let mut session = engine.session();
        let found = self.look(what, &engine, &mut session, base.reached);
        let missing: BTreeSet<u32> =
            self.stored.keys().filter(|number| !found.contains(*number)).copied().collect();
        let items = found.len() as u64;
        let dropped = Dropped { blocks: blocks.len() as u64, items: missing.len() as u64 };
        let expected = match (blocks.len(), &opening) {
            (0, _) => Opening::Restored { items },
            (_, Opening::Emptied(_)) => Opening::Emptied(Emptied::Contents(dropped)),
            _ => Opening::Salvaged { items, dropped },
        };
        assert_eq!(opening, expected, "{what}");
        let is_allowed = |number: &u32| match costs {
            Costs::Anything => true,
            Costs::ItsItems => self.lie_in(&blocks).contains(number) || number.is_multiple_of(LONG_EVERY),
            Costs::Nothing => false,
        };
        let wrong = missing.iter().find(|number| !is_allowed(number));
        assert_eq!(wrong, None, "{what}: it lies elsewhere; {opening}");
        drop(session);
        self.site.check(&engine);
        let mut session = engine.session();
        let now = base.reached;
        work(what, self.stored.len(), &engine, &mut session, now);
        drop(session);
        let items = engine.stats().items;
        engine.close(now, b"").expect("it can be closed");
        let Opened { engine, opening, .. } = self.site.open();
        assert_eq!(opening, Opening::Restored { items }, "{what}, and after that");
        self.site.check(&engine);
        found.iter().filter(|number| number.is_multiple_of(LONG_EVERY)).count()
    }

    /// The blocks that these changes make others.
    fn changed(&self, changes: &[(usize, Vec<u8>)]) -> BTreeSet<usize> {
        let bytes = changes.iter().flat_map(|(at, bytes)| (*at..).zip(bytes));
        // What is changed twice is what it is changed to last.
        let changed: BTreeMap<usize, u8> = bytes.map(|(at, byte)| (at, *byte)).collect();
        let is_other = |(at, byte): &(&usize, &u8)| self.image.bytes()[**at] != **byte;
        changed.iter().filter(is_other).map(|(at, _)| at / BLOCK_BYTES).collect()
    }

    /// The numbers of what is there. All of it is as it was stored, counted and shown by walks.
    fn look(
        &self,
        what: &str,
        engine: &L::Engine,
        session: &mut <L::Engine as Engine>::Session,
        now: Seconds,
    ) -> BTreeSet<u32> {
        let (mut there, mut bytes) = (BTreeSet::new(), 0);
        for number in 0..KEYS {
            let Some(found) = peek(session, &name(number), now) else { continue };
            let is_right = self.stored.get(&number).is_some_and(|stored| *stored == found.value);
            assert!(is_right && found.meta.flags == number, "{what}: {number} has another value");
            bytes += found.meta.size as u64 + L::EXTRA_BYTES;
            there.insert(number);
        }
        let stats = engine.stats();
        assert_eq!((stats.items, stats.bytes), (there.len() as u64, bytes), "{what}");
        let walked = walk_all(session, now);
        assert!(walked.len() == there.len(), "{what}");
        assert!(there.iter().all(|number| walked.contains_key(&name(*number))), "{what}");
        there
    }

    /// What lies, or has once lain, in one of these blocks or across its ends.
    fn lie_in(&self, blocks: &BTreeSet<usize>) -> BTreeSet<u32> {
        let around =
            |block: &usize| (block * BLOCK_BYTES).saturating_sub(SHORT)..(block + 1) * BLOCK_BYTES + SHORT;
        blocks.iter().flat_map(|block| self.places.range(around(block))).map(|(_, number)| *number).collect()
    }
}

/// Does all there is to do with an engine, which has room for about as many items as `before`: it goes on as if nothing had happened.
fn work<E: Engine>(what: &str, before: usize, engine: &E, session: &mut E::Session, now: Seconds) {
    for number in (0..KEYS).step_by(2) {
        remove(session, &name(number), now);
    }
    let mut refused = 0;
    for number in 0..KEYS {
        if number % 2 == 0 {
            assert_eq!(value_of(session, &name(number), now), None, "{what}: {number} was removed");
        }
        let key = format!("after-{number}");
        let value = value(number, 3);
        if refused == REFUSED_MAX {
            continue;
        }
        if store(session, key.as_bytes(), &value, 0, Expiry::Never, now).is_ok() {
            let found = value_of(session, key.as_bytes(), now);
            assert!(found.is_some_and(|found| found.value == value), "{what}: {key}");
        } else {
            refused += 1;
        }
        if number % 32 == 0 {
            session.maintain(now, Pace::Busy, 32);
            session.quiesce();
        }
    }
    let stats = engine.stats();
    assert!(2 * stats.items > before as u64, "{what}: there is spec for {} of {before} items", stats.items);
    assert!(stats.memory_used <= stats.memory_limit, "{what}: {stats:?}");
    assert_eq!(walk_all(session, now).len() as u64, stats.items, "{what}");
    engine.flush(now, now);
    store(session, b"last", b"v", 0, Expiry::Never, now).expect("everything else is gone");
    for _ in 0..20 {
        session.maintain(now, Pace::Idle, 64);
        session.quiesce();
    }
    assert_eq!(walk_all(session, now).len(), 1, "{what}");
}

/// What is stored under a key, without noting that it was read.
fn peek<S: Session>(session: &mut S, key: &[u8], now: Seconds) -> Option<Copied> {
    let guess = guess_of(session, key);
    value_with(session, key, guess, Recency::Leave, now)
}

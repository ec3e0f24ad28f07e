//! Runs that go on from one restart to the next: random operations beside a map, and threads.

use crate::suite::differential::{Random, differential};
use crate::suite::history::{History, history, history_of_store};
use crate::suite::lasting::{Lasting, NOW, RegionSize, Site, UNIX, close, is_store, put, put_at, resize};
use crate::suite::sink::{remove, value_of};
use crate::{Amendment, Decision, Expiry, ItemView, Key, Opened, Opening, Pace, Provision};
use crate::{Control, Engine, Session, StoreError};
use guira_memory::MIB;
use guira_sync::clock::Seconds;
use std::collections::HashMap;

struct Modelled {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    cas: Option<u64>,
}

/// A run of random operations against a map, from one restart to the next.
struct Run {
    random: Random,
    model: HashMap<u64, Modelled>,
    keys: u64,
    now: Seconds,
    /// Items that were not removed and are not there.
    missing: u64,
}

fn name(key: u64) -> String {
    format!("key{key}")
}

impl Run {
    fn step<S: Session>(&mut self, session: &mut S) {
        let key = self.random.below(self.keys);
        match self.random.below(20) {
            0..12 => self.store(session, key),
            12..14 => {
                remove(session, name(key).as_bytes(), self.now);
                self.model.remove(&key);
            }
            14..16 => self.give_cas(session, key),
            _ => self.check(session, key),
        }
    }

    fn store<S: Session>(&mut self, session: &mut S, key: u64) {
        let most = [100, 100, 100, 2000, 40_000][self.random.below(5) as usize];
        let (length, fill) = (self.random.below(most), self.random.below(256) as u8);
        let value: Vec<u8> = (0..length).map(|i| fill.wrapping_add(i as u8)).collect();
        let flags = self.random.below(3) as u32;
        let expiry = match self.random.below(4) {
            0 => Expiry::At(Seconds(self.now.0 + self.random.below(300) as u32)),
            _ => Expiry::Never,
        };
        if put_at(session, name(key).as_bytes(), &value, (flags, expiry), self.now) {
            self.model.insert(key, Modelled { value, flags, expiry, cas: None });
        }
    }

    fn give_cas<S: Session>(&mut self, session: &mut S, key: u64) {
        let (name, cas) = (name(key), session.next_cas());
        let mut is_there = false;
        let change = |item: Option<&dyn ItemView>| {
            is_there = item.is_some();
            Decision::Amend(Amendment { cas: Some(cas), ..Amendment::default() })
        };
        let at = Key { bytes: name.as_bytes(), hash: session.hash(name.as_bytes()) };
        match session.update(at, Default::default(), self.now, Provision::None, change) {
            Ok(()) => {
                if let Some(item) = self.model.get_mut(&key).filter(|_| is_there) {
                    item.cas = Some(cas);
                }
            }
            Err(error) => assert_eq!(error, StoreError::NoMemory),
        }
    }

    /// What is there must be what the model says; what is not there was evicted.
    fn check<S: Session>(&mut self, session: &mut S, key: u64) {
        let found = value_of(session, name(key).as_bytes(), self.now);
        let expected = self.model.get(&key).filter(|item| !item.expiry.passed(self.now));
        match (found, expected) {
            (None, None) => {}
            (None, Some(_)) => {
                self.missing += 1;
                self.model.remove(&key);
            }
            (Some(found), Some(expected)) => {
                assert!(found.value == expected.value, "key{key}");
                let meta = found.meta;
                let expected = (expected.flags, expected.expiry, expected.cas);
                assert_eq!((meta.flags, meta.expiry, meta.cas), expected);
            }
            (Some(_), None) => panic!("key{key} is back"),
        }
    }

    /// What happens between two restarts.
    fn round<E: Engine>(&mut self, engine: &E) {
        let mut session = engine.session();
        for step in 0..8000 {
            self.step(&mut session);
            if step % 16 == 0 {
                session.quiesce();
                session.maintain(self.now, Pace::Busy, 8);
            }
            if self.random.below(500) == 0 {
                self.now.0 += 1;
            }
        }
        (0..self.keys).for_each(|key| self.check(&mut session, key));
        let stats = engine.stats();
        assert!(
            self.missing <= stats.evictions,
            "{} are missing, {} were evicted",
            self.missing,
            stats.evictions
        );
        let alive = self.model.values().filter(|item| !item.expiry.passed(self.now)).count() as u64;
        assert!(alive > 0 && alive <= stats.items, "{alive} of {}", stats.items);
    }
}

/// With other amounts of memory, and as time goes on. The memory of a store stays.
pub fn whatever_was_not_counted_as_lost_is_there_after_any_number_of_restarts<L: Lasting>(setup: &L) {
    for seed in 0..4 {
        let site = Site::new(setup, RegionSize { memory: 16 * MIB, reserve: 32 * MIB });
        let keys = [500, 40_000][seed as usize % 2];
        let (random, now) = (Random::new(seed), Seconds(2));
        let mut run = Run { random, model: HashMap::new(), keys, now, missing: 0 };
        let sizes = if is_store(&site.open().engine) { [16; 4] } else { [8, 8, 16, 5] };
        std::fs::remove_file(site.place().path()).expect("it was opened");
        for round in 0..12 {
            let memory = sizes[run.random.below(4) as usize] * MIB;
            let unix = UNIX + u64::from(run.now.0) - 2 + run.random.below(3) * 50;
            let size = RegionSize { memory, ..site.size };
            let opened = setup.open(size, &site.place(), unix).expect("it was closed");
            assert_eq!(opened.opening == Opening::New, round == 0, "{}", opened.opening);
            run.now = opened.base.reached;
            run.round(&opened.engine);
            opened.engine.close(run.now, b"").expect("nothing uses it");
        }
    }
}

/// Those of random operations and of histories, also when memory was made less at last.
pub fn other_suites_hold_in_a_region_that_lasts<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(64 * MIB));
    let engine = site.open().engine;
    differential(&engine, 6, 20_000);
    let is_store = is_store(&engine);
    let plan = History { seed: 6, threads: 4, keys: 64, operations: 30_000 };
    let mut engine = again(&site, engine);
    if is_store {
        history_of_store(&engine, plan)
    } else {
        history(&engine, plan)
    };
    engine = again(&site, engine);
    history_of(&engine, History { keys: 60_000, ..plan });
    assert!(resize(&engine, 8 * MIB) || is_store);
    site.check(&engine);
    let items = engine.stats().items;
    close(engine);
    site.restored(items);
}

/// A history in which a store loses nothing, and has memory for all.
fn history_of<E: Engine>(engine: &E, plan: History) {
    if is_store(engine) {
        history_of_store(engine, plan)
    } else {
        history(engine, plan)
    };
}

/// Closes an engine and opens it again, with all items flushed: the sequence numbers of the next history begin anew.
fn again<L: Lasting>(site: &Site<L>, engine: L::Engine) -> L::Engine {
    close(engine);
    let Opened { engine, opening, .. } = site.open();
    assert!(matches!(opening, Opening::Restored { .. }), "{opening}");
    engine.flush(NOW, NOW);
    engine
}

/// While memory becomes less and more, and items expire, by an orderly stop or to another process at once. An index is compared with the count of items when a Region is opened.
pub fn what_threads_have_left_is_restored_whatever_they_did<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(8 * MIB));
    let mut engine = site.open().engine;
    // A store keeps all that the threads have stored.
    let least = L::LEAST_MIB;
    let (keys, sizes) = if is_store(&engine) {
        (2_000, [8, 32, 16, 12])
    } else {
        (60_000, [least, 32, least + 3, least + 8])
    };
    for seed in 0..6 {
        guira_sync::thread::scope(|scope| {
            let plan = History { seed, threads: 3, keys, operations: 30_000 };
            let shared = &engine;
            let running = scope.spawn(move || history_of(shared, plan));
            let mut session = engine.session();
            for round in 1.. {
                if running.is_finished() {
                    break;
                }
                resize(&engine, sizes[round % 4] * MIB);
                for i in 0..500 {
                    put(&mut session, &format!("expires{i}"), &[1; 300], Expiry::At(Seconds(1001)));
                    session.maintain(Seconds(1000 + i % 3), Pace::Idle, 4);
                    session.quiesce();
                }
                session.offline();
                session.online();
            }
        });
        let items = engine.stats().items;
        engine = match seed % 3 {
            0 => {
                close(engine);
                site.restored(items)
            }
            1 => site.handed_over(engine, items),
            _ => site.taken_back(engine, items),
        };
        site.check(&engine);
        engine = again(&site, engine);
    }
}

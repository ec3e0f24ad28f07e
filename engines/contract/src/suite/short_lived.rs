//! Items that expire soon, in an engine that removes them in the second in which they do.

use super::differential::Random;
use super::sink::{remove, store};
use crate::{Amendment, Decision, Engine, Expiry, Key, Lossiness, Pace, Provision, Session, Switch, Tuning};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

/// Items are stored, stored over, touched and removed at random. After a few steps of maintenance in each second the engine, which notes items that live up to
/// `seconds`, holds those that have not expired and no others. Its crawler is off, and it has memory for all.
pub fn short_lived<E: Engine>(engine: &E, seconds: u32, seed: u64) {
    engine.tune(Tuning::Crawler(Switch::Off));
    let mut sessions = [engine.session(), engine.session()];
    let mut random = Random::new(seed);
    let mut model: HashMap<u64, Expiry> = HashMap::new();
    for now in (1000..1000 + 4 * seconds).map(Seconds) {
        model.retain(|_, expiry| !expiry.passed(now));
        for _ in 0..200 {
            let number = random.below(2000);
            let key = format!("short-{number}").into_bytes();
            let session = &mut sessions[random.below(2) as usize];
            let expiry = match random.below(8) {
                0 => Expiry::Never,
                _ => Expiry::At(Seconds(now.0 + 1 + random.below(u64::from(seconds)) as u32)),
            };
            match random.below(10) {
                0 => {
                    remove(session, &key, now);
                    model.remove(&number);
                }
                1 | 2 => {
                    let key = Key { bytes: &key, hash: session.hash(&key) };
                    let change = Amendment { expiry: Some(expiry), ..Amendment::default() };
                    let touched = session
                        .update(key, Default::default(), now, Provision::None, |_| Decision::Amend(change));
                    touched.expect("there is memory");
                    model.entry(number).and_modify(|item| *item = expiry);
                }
                _ => {
                    let value = vec![b'v'; random.below(600) as usize];
                    store(session, &key, &value, 0, expiry, now).expect("there is memory");
                    model.insert(number, expiry);
                }
            }
        }
        // Under load, and without waiting for all sessions.
        for _ in 0..8 {
            sessions[0].maintain(now, Pace::Busy, 8);
            sessions.iter_mut().for_each(Session::quiesce);
        }
        let stats = engine.stats();
        assert_eq!(stats.items, model.len() as u64, "seed {seed}: in second {}", now.0);
        assert_eq!((stats.evictions, stats.short_lived_untracked), (0, 0), "seed {seed}");
    }
    let stats = engine.stats();
    assert!(stats.short_lived_reclaimed > 1000, "seed {seed}: {stats:?}");
    assert_eq!(stats.crawls, 0, "seed {seed}: the crawler has not helped");
}

/// Of more than there is memory for notes of, the rest is found as it would be without.
pub fn more_short_lived_items_than_notes<E: Engine>(engine: &E) {
    let mut session = engine.session();
    let now = Seconds(1000);
    for number in 0..100_000u32 {
        let stored = store(&mut session, &number.to_le_bytes(), b"v", 0, Expiry::At(Seconds(1005)), now);
        assert!(stored.is_ok() || session.lossiness() == Lossiness::Store);
    }
    assert!(engine.stats().short_lived_untracked > 0);
    super::sink::settle(&mut session, Seconds(1040));
    assert_eq!(engine.stats().items, 0);
}

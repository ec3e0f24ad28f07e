//! Threads that count together: no update of one may be lost to another's.

use super::differential::Random;
use super::sink::value_of;
use crate::{Amendment, Decision, Digits, Expiry, ItemState, ItemView, NewItem, Provision, Value};
use crate::{Engine, ItemSpec, Key, OldItem, Pace, Session};
use guira_sync::clock::Seconds;

/// How much is counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Of all random choices.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Keys that all of them count under: few, so that they meet.
    pub keys: usize,
    /// What each thread adds to the counts, one at a time.
    pub increments: usize,
}

const NOW: Seconds = Seconds(1000);

fn name(key: usize) -> String {
    format!("count-{key}")
}

fn number_in(item: &dyn ItemView) -> u64 {
    let mut digits = [0; 20];
    let digits = &mut digits[..item.value_len().min(20)];
    item.copy_value(0, digits);
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.trim_end().parse().ok())
        .expect("a number is stored")
}

/// Runs the threads on an engine that has memory for all; panics if the counts do not come to what was added.
pub fn counting<E: Engine>(engine: &E, plan: Counting) {
    guira_sync::thread::scope(|scope| {
        for thread in 0..plan.threads {
            let mut session = engine.session();
            scope.spawn(move || {
                let mut random = Random::new(plan.seed * 1000 + thread as u64);
                for increment in 0..plan.increments {
                    add_one(&mut session, &name(random.below(plan.keys as u64) as usize), random.below(2));
                    if increment % 32 == 0 {
                        session.quiesce();
                        session.maintain(NOW, Pace::Busy, 4);
                    }
                }
            });
        }
    });
    let mut session = engine.session();
    let count = |session: &mut E::Session, key| {
        let item = value_of(session, name(key).as_bytes(), NOW);
        item.map_or(0, |item| {
            String::from_utf8(item.value)
                .ok()
                .and_then(|text| text.trim_end().parse::<u64>().ok())
                .expect("a number")
        })
    };
    let sum: u64 = (0..plan.keys).map(|key| count(&mut session, key)).sum();
    assert_eq!(sum, (plan.threads * plan.increments) as u64, "seed {}", plan.seed);
}

/// Adds one: if `way` is 0 by a new item, otherwise by a change of the one that is there, as `incr` does.
fn add_one<S: Session>(session: &mut S, name: &str, way: u64) {
    let key = Key { bytes: name.as_bytes(), hash: session.hash(name.as_bytes()) };
    let spec = ItemSpec { value_len: 20, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    let decide = |item: Option<&dyn ItemView>| {
        let number = item.map_or(0, number_in) + 1;
        let digits = Digits::of(number);
        match item {
            Some(item) if way != 0 && item.value_len() >= digits.as_bytes().len() => {
                Decision::Amend(Amendment { overwrite: Some(digits), ..Amendment::default() })
            }
            _ => Decision::Put(NewItem {
                flags: 0,
                expiry: Expiry::Never,
                cas: None,
                state: ItemState::NONE,
                value: Value::Digits(digits),
            }),
        }
    };
    session.update(key, Default::default(), NOW, Provision::Item(spec), decide).expect("there is memory");
}

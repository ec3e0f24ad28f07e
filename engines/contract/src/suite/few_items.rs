//! A cache whose memory is many times what its items take, and whose items have more sizes than it has pages.

use super::differential::Random;
use super::sink::{store, value_of};
use crate::Expiry;
use crate::{Engine, Pace, Session};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const SEED: u64 = 1;

const KEYS: u64 = 64;
const LONGEST: u64 = 30_000;
const OPERATIONS: usize = 40_000;

/// Keys are stored again and again, with values of other lengths, and read; of what was stored one read in a hundred may miss.
///
/// # Panics
/// If more do.
pub fn few_items<E: Engine>(engine: &E) {
    let mut session = engine.session();
    let mut random = Random::new(SEED);
    let mut is_stored = [false; KEYS as usize];
    let (mut reads, mut misses) = (0, 0);
    for operation in 0..OPERATIONS {
        let key = random.below(KEYS) as usize;
        let name = format!("few-{key}");
        if random.below(3) == 0 {
            let longest = if random.below(2) == 0 { LONGEST } else { 120 };
            let value = vec![7; random.below(longest) as usize];
            store(&mut session, name.as_bytes(), &value, 0, Expiry::Never, NOW).expect("there is memory");
            is_stored[key] = true;
        } else if is_stored[key] {
            reads += 1;
            is_stored[key] = value_of(&mut session, name.as_bytes(), NOW).is_some();
            misses += usize::from(!is_stored[key]);
        }
        if operation.is_multiple_of(32) {
            session.maintain(NOW, Pace::Busy, 4);
            session.quiesce();
        }
    }
    assert!(misses * 100 < reads, "seed {SEED}: {misses} of {reads} reads of what was stored missed");
}

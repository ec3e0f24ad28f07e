//! A full cache whose memory is divided anew all the time, and what was stored in it a moment ago.

use super::differential::Random;
use super::sink::{hits, sevens, store};
use crate::{Engine, Expiry, Pace, Session};
use guira_memory::MIB;
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const SEED: u64 = 1;
const MEMORY: usize = 16 * MIB;

/// Stores values of these lengths under keys of their own, and reads each a moment later, and some others. Returns how many were not there.
///
/// # Panics
/// If there is no memory.
pub fn lost_at_once<E: Engine>(engine: &E, lengths: impl Iterator<Item = usize>) -> usize {
    let mut session = engine.session();
    let mut random = Random::new(SEED);
    let key = |i: u64| format!("newest{i}");
    let mut lost = 0;
    for (i, length) in (0..).zip(lengths) {
        let stored = store(&mut session, key(i).as_bytes(), sevens(length), 0, Expiry::Never, NOW);
        assert_eq!(stored, Ok(()), "{i}: {length} bytes");
        session.quiesce();
        session.maintain(NOW, Pace::Busy, 32);
        lost += usize::from(!hits(&mut session, key(i).as_bytes(), NOW));
        // Where items that were read are kept, not all of what is older goes first.
        for other in [random.below(i + 1), i.saturating_sub(random.below(50))] {
            hits(&mut session, key(other).as_bytes(), NOW);
        }
    }
    lost
}

/// Clients that take turns, and of which each reads what it has stored before it stores anew.
const CLIENTS: usize = 4;
const STORES: u64 = 4_000;

/// Stores 4,000 long values by several clients, each of which reads its own back before it stores again, under so many keys, or under a new one each time.
/// Returns how many were not there.
///
/// # Panics
/// If there is no memory.
pub fn lost_by_several<E: Engine>(engine: &E, keys: Option<u64>) -> u64 {
    let mut sessions: Vec<E::Session> = (0..CLIENTS).map(|_| engine.session()).collect();
    sessions.iter_mut().for_each(Session::offline);
    let mut last: [Option<String>; CLIENTS] = [const { None }; CLIENTS];
    let (mut random, mut lost) = (Random::new(SEED), 0);
    for number in 0..STORES {
        let client = number as usize % CLIENTS;
        let session = &mut sessions[client];
        session.online();
        if let Some(key) = last[client].take().filter(|key| !last.contains(&Some(key.clone()))) {
            lost += u64::from(!hits(session, key.as_bytes(), NOW));
        }
        let key = format!("several{}", keys.map_or(number, |keys| random.below(keys)));
        let length = 100_000 + random.below(900_000) as usize;
        let stored = store(session, key.as_bytes(), sevens(length), 0, Expiry::Never, NOW);
        assert_eq!(stored, Ok(()), "{number}: {length} bytes");
        session.quiesce();
        session.maintain(NOW, Pace::Busy, 32);
        // Nobody waits for a client that waits for its turn.
        session.offline();
        last[client] = Some(key);
    }
    lost
}

/// Long values, and values of all lengths, stay until others were stored.
///
/// # Panics
/// If one does not.
pub fn newest<E: Engine>(open: &impl Fn(usize) -> E) {
    let long = |random: &mut Random| 250_000 + random.below(600_000);
    let mixed = |random: &mut Random| {
        let most = [900_000, 30_000, 1_000][random.below(3) as usize];
        20 + random.below(most)
    };
    let loads: [fn(&mut Random) -> u64; 2] = [long, mixed];
    for load in loads {
        let mut random = Random::new(SEED);
        let lost = lost_at_once(&open(MEMORY), (0..2_000).map(|_| load(&mut random) as usize));
        assert_eq!(lost, 0, "seed {SEED}");
    }
}

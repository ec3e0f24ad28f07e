//! Clients that misbehave.

pub(crate) mod crowd;
pub(crate) mod cut;
pub(crate) mod garbage;
pub(crate) mod greedy;
pub(crate) mod slow;

use guira_workload::Rng;

use crate::speech::{Request, Speech, Verb};

/// A request of each kind for a key that no checked client uses.
pub(crate) fn any_request(random: &mut Rng, name: &str) -> Vec<u8> {
    let verbs = [
        Verb::Set,
        Verb::Add,
        Verb::Replace,
        Verb::Append,
        Verb::Prepend,
        Verb::Cas(1),
        Verb::Delete,
        Verb::Touch,
        Verb::Gets,
        Verb::Gat,
        Verb::Increment(1),
        Verb::Decrement(1),
    ];
    let verb = verbs[random.below(verbs.len() as u64) as usize];
    let length = [0, 10, 300, 20_000][random.below(4) as usize];
    let value = vec![b'v'; random.below(length + 1) as usize];
    let request = Request { verb, name: name.as_bytes().to_vec(), value, flags: 1, ttl: 60 };
    let mut bytes = Vec::new();
    match random.below(5) {
        0 => Speech::random(random).write_many(&vec![name.as_bytes().to_vec(); 20], &mut bytes),
        _ => Speech::random(random).write(&request, &mut bytes),
    }
    bytes
}

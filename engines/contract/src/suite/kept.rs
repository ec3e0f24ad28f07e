//! A full cache, and commands that need the item that would be evicted next.

use super::sink::store;
use crate::{
    Decision, Engine, Expiry, ItemSpec, ItemState, Key, NewItem, OldItem, Provision, Session, Value,
};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const MEMORY: usize = 8 << 20;
/// How often an item is replaced that would be the next to go.
const ROUNDS: usize = 200;
/// After so many bytes of values the test looks whether the cache is full.
const LOOK_EACH: usize = 20_000;

/// Memory for a new value is not found at the cost of the item that its command needs.
///
/// # Panics
/// If it is.
pub(super) fn what_a_command_needs_is_not_evicted_for_it<E: Engine>(open: &impl Fn(usize) -> E) {
    [60, 1_000, 20_000, 200_000].into_iter().for_each(|length| replace_next(&open(MEMORY), length));
}

fn name(number: usize) -> String {
    format!("kept{number}")
}

fn replace_next<E: Engine>(engine: &E, length: usize) {
    let mut session = engine.session();
    let value = vec![7; length];
    let mut stored = 0;
    let mut put = |session: &mut E::Session| {
        let outcome = store(session, name(stored).as_bytes(), &value, 0, Expiry::Never, NOW);
        assert_eq!(outcome, Ok(()), "{stored} of {length} bytes");
        session.quiesce();
        stored += 1;
        stored
    };
    let evictions = || engine.stats().evictions;
    // To count evictions takes longer than to store a short item.
    let at_once = (LOOK_EACH / length).max(1);
    while evictions() == 0 {
        (0..at_once).for_each(|_| _ = put(&mut session));
    }
    let (mut oldest, mut replaced) = (0, 0);
    for _ in 0..ROUNDS {
        // A session takes chunks of several items at once. Only when it has used them all, the next one costs an item.
        let before = evictions();
        let newest = std::iter::repeat_with(|| put(&mut session)).find(|_| evictions() > before);
        for _ in 1..evictions() - before {
            put(&mut session);
        }
        oldest =
            (oldest..newest.unwrap_or(0)).find(|number| is_there(&mut session, *number)).unwrap_or(oldest);
        if is_there(&mut session, oldest) {
            assert!(
                replace(&mut session, oldest, &value),
                "item {oldest} of {length} bytes was evicted for itself"
            );
            replaced += 1;
        }
    }
    assert!(replaced > ROUNDS / 2, "{replaced} of {length} bytes");
}

/// Whether there is such an item. A look that is no read.
fn is_there<S: Session>(session: &mut S, number: usize) -> bool {
    let mut is_there = false;
    let name = name(number);
    let key = Key { bytes: name.as_bytes(), hash: session.hash(name.as_bytes()) };
    let looked = session.update(key, Default::default(), NOW, Provision::None, |item| {
        is_there = item.is_some();
        Decision::Keep
    });
    assert_eq!(looked, Ok(()), "{name}");
    is_there
}

/// Replaces an item, if it is there when memory for the new one has been found.
fn replace<S: Session>(session: &mut S, number: usize, value: &[u8]) -> bool {
    let name = name(number);
    let key = Key { bytes: name.as_bytes(), hash: session.hash(name.as_bytes()) };
    let mut new = NewItem {
        flags: 0,
        expiry: Expiry::Never,
        cas: None,
        state: ItemState::NONE,
        value: Value::Bytes(value),
    };
    let spec = ItemSpec { old: OldItem::Stays, ..ItemSpec::of(&new, value.len()) };
    let provision = if value.len() <= session.inline_max() {
        Provision::Item(spec)
    } else {
        let mut pending = session.begin_value(key.bytes, spec).expect("there is memory");
        for piece in value.chunks(10_007) {
            assert_eq!(session.extend(&mut pending, piece), Ok(()), "{name}");
        }
        new.value = Value::Pending;
        Provision::Pending(pending)
    };
    let mut was_there = false;
    let replaced = session.update(key, Default::default(), NOW, provision, |item| {
        was_there = item.is_some();
        if was_there { Decision::Put(new) } else { Decision::Keep }
    });
    assert_eq!(replaced, Ok(()), "{name}");
    session.quiesce();
    was_there
}

//! Values that arrive slowly, or never, beside those that are kept.

use super::sink::{store, value_of};
use crate::{Engine, Expiry, ItemSpec, OldItem, Session, StoreError};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
/// What the engine has.
const MEMORY: usize = 16 << 20;
const LENGTH: usize = 100_000;

/// Begins a value. `None` if it is refused before all but its last byte has arrived.
fn arrive<S: Session>(session: &mut S, key: &str) -> Option<S::Pending> {
    let room =
        ItemSpec { value_len: LENGTH, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    let mut pending = session.begin_value(key.as_bytes(), room).ok()?;
    match session.extend(&mut pending, &[7; LENGTH - 1]) {
        Ok(()) => Some(pending),
        Err(error) => {
            assert_eq!(error, StoreError::NoMemory, "{key}");
            None
        }
    }
}

fn put_all<S: Session>(session: &mut S, name: &str, (count, length): (u64, usize)) {
    let value = vec![1; length];
    for number in 0..count {
        let stored = store(session, format!("{name}{number}").as_bytes(), &value, 0, Expiry::Never, NOW);
        assert_eq!(stored, Ok(()), "{name}{number}");
        if number.is_multiple_of(16) {
            session.quiesce();
        }
    }
}

/// Clients that send values by half get a part of memory, and what is stored keeps the rest.
///
/// # Panics
/// If they get more, or one that is refused costs items.
pub(super) fn values_that_never_arrive_leave_room_for_those_that_are_kept<E: Engine>(
    open: &impl Fn(usize) -> E,
) {
    [500, 8_000].into_iter().for_each(|kept| beside(&open(MEMORY), kept));
}

/// The same beside values of `kept` bytes.
fn beside<E: Engine>(engine: &E, kept: usize) {
    let mut session = engine.session();
    let count = (MEMORY / kept) as u64;
    put_all(&mut session, "kept", (count, kept));
    let items = || engine.stats().items;
    let before = items();
    assert!(before < count, "memory is full");
    let arriving: Vec<_> = (0..1000).map_while(|i| arrive(&mut session, &format!("long{i}"))).collect();
    let held = arriving.len() * LENGTH;
    assert!(held > 0 && held <= MEMORY * 11 / 20, "{held} bytes arrive in {MEMORY}");
    let left = items();
    assert!(
        left > before * 2 / 5,
        "{left} of {before} items of {kept} bytes are left beside {held} that arrive"
    );
    for number in 0..500 {
        assert!(arrive(&mut session, &format!("refused{number}")).is_none(), "{number}");
    }
    assert!(20 * items() >= 19 * left, "{} items of {left} are left after values were refused", items());
    let newest = count / 20;
    put_all(&mut session, "new", (newest, kept));
    let is_lost = |number: &u64| value_of(&mut session, format!("new{number}").as_bytes(), NOW).is_none();
    let lost = (0..newest).filter(is_lost).count() as u64;
    // A page that goes to the long ones may have some, and there are policies that do not trust what is new.
    assert!(lost * 2 <= newest, "{lost} of the newest {newest} items of {kept} bytes are lost");
    drop(arriving);
    assert!(arrive(&mut session, "again").is_some());
}

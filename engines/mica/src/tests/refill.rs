//! Storing over items that were found ahead of time.

use super::open_with;
use super::tools::{NOW, check, get, key_of, put};
use crate::{MicaEngine, MicaOptions};
use guira_contract::{
    Access, Decision, Engine, Expiry, ItemSpec, ItemState, NewItem, Pace, Provision, Session, StoreError,
    Value,
};
use guira_items::EngineOptions;

fn item(value: &[u8]) -> NewItem<'_> {
    NewItem { flags: 0, expiry: Expiry::Never, cas: None, state: ItemState::NONE, value: Value::Bytes(value) }
}

#[test]
fn a_value_over_the_limit_is_refused_although_there_is_room_where_the_old_one_lies() {
    let (memory, access) = (4 << 20, Access::Erew);
    let options = MicaOptions {
        engine: EngineOptions { memory, max_item_size: 1024, ..EngineOptions::default() },
        access,
        ..MicaOptions::default()
    };
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    for length in 1..1024 {
        let value = vec![b'v'; length];
        let anew = put(&mut session, &format!("key-{length:04}"), &value);
        assert_eq!(put(&mut session, "key-0000", &value), anew, "{length} bytes over one byte less");
        assert_eq!(anew == Err(StoreError::TooLarge), length + 8 + 59 > 1024, "{length} bytes");
    }
    check(&engine);
}

#[test]
fn where_anybody_may_write_nothing_is_held_after_a_store_or_a_refusal() {
    let options = MicaOptions {
        engine: EngineOptions { memory: 4 << 20, max_item_size: 1024, ..EngineOptions::default() },
        access: Access::Crcw,
        ..MicaOptions::default()
    };
    let engine = MicaEngine::open(options).unwrap();
    let mut session = engine.session();
    for (length, is_stored) in [(100, true), (100, true), (90, true), (110, true), (2000, false), (100, true)]
    {
        assert_eq!(put(&mut session, "key", &vec![b'v'; length]).is_ok(), is_stored, "{length} bytes");
        let held = (0..engine.core.partitions.len()).filter(|number| session.holds(*number)).count();
        assert_eq!(held, 0, "after {length} bytes");
    }
}

#[test]
fn what_was_guessed_before_others_stored_there_is_read_as_it_is_now() {
    let engine = open_with(Access::Erew)(4 << 20);
    let (mut first, mut second) = (engine.session(), engine.session());
    put(&mut first, "key", b"at first").unwrap();
    let key = key_of(&first, "key");
    let guess = second.prefetch_item(key.hash);
    for value in [b"and then", b"and now.", b"by then."] {
        put(&mut first, "key", value).unwrap();
        first.offline();
        first.online();
        assert_eq!(get(&mut second, "key").as_deref(), Some(value.as_slice()));
        let new = item(b"as well.");
        let provision = Provision::Item(ItemSpec::of(&new, 8));
        let mut seen = Vec::new();
        let decide = |old: Option<&dyn guira_contract::ItemView>| {
            seen = vec![0; old.map_or(0, |old| old.value_len())];
            old.inspect(|old| old.copy_value(0, &mut seen));
            Decision::Put(new)
        };
        second.update(key, guess, NOW, provision, decide).unwrap();
        assert_eq!(seen, value);
        second.offline();
        second.online();
        assert_eq!(get(&mut first, "key").as_deref(), Some(b"as well.".as_slice()));
        first.maintain(NOW, Pace::Idle, 16);
    }
    first.offline();
    check(&engine);
}

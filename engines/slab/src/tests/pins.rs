//! Long values that are being sent.

use super::open;
use guira_contract::suite::{pin_of, store, value_of};
use guira_contract::{
    Amendment, Control, Decision, Digits, Engine, Expiry, Key, Provision, Recency, Session, ValuePin,
};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// A number may be followed by as much as one likes, and memcached overwrites all of it.
#[test]
fn a_number_with_much_behind_it_is_overwritten_and_who_sends_it_sends_the_old_one() {
    for length in [16_384, 16_385, 20_000, 100_000, 700_000] {
        let engine = open(16 << 20);
        let mut session = engine.session();
        let mut before = vec![b'a'; length];
        before[..3].copy_from_slice(b"99 ");
        store(&mut session, b"k", &before, 0, Expiry::Never, NOW).unwrap();
        let key = Key { bytes: b"k", hash: session.hash(b"k") };
        let pin = pin_of(&mut session, b"k", Recency::Bump, NOW);
        let overwrite = || Amendment { overwrite: Some(Digits::of(100)), ..Amendment::default() };
        session
            .update(key, Default::default(), NOW, Provision::None, |_| Decision::Amend(overwrite()))
            .unwrap();
        if let Some(pin) = pin {
            let mut sent = Vec::new();
            while sent.len() < length {
                sent.extend_from_slice(pin.piece(sent.len()));
            }
            assert!(sent == before, "{length}: what is being sent was changed");
        }
        let mut after = vec![b' '; length];
        after[..3].copy_from_slice(b"100");
        assert!(value_of(&mut session, b"k", NOW).unwrap().value == after, "{length}");
        assert_eq!(engine.stats().items, 1);
    }
}

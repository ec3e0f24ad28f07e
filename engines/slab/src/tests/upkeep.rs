//! What upkeep does, counts, and leaves alone.

use super::{SlabSession, open};
use guira_contract::suite::{hits, store};
use guira_contract::{ClassCounts, Control, Engine, Expiry, ItemSpec, OldItem, Pace, Reassign, Session};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
const LATER: Seconds = Seconds(5000);

fn put_many(
    session: &mut SlabSession,
    tag: &str,
    count: u64,
    length: usize,
    (expiry, now): (Expiry, Seconds),
) {
    for i in 0..count {
        store(session, format!("{tag}{i:06}").as_bytes(), &vec![7; length], 0, expiry, now).unwrap();
        if i % 32 == 0 {
            session.quiesce();
            session.maintain(now, Pace::Busy, 32);
        }
    }
}

fn sum(engine: &super::SlabEngine, of: impl Fn(&ClassCounts) -> u64) -> u64 {
    engine.stats().classes.iter().map(|class| of(&class.counts)).sum()
}

#[test]
fn what_has_expired_before_it_is_evicted_is_reclaimed() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    put_many(&mut session, "key", 30_000, 100, (Expiry::At(Seconds(1001)), NOW));
    // A page that changes its class is emptied by another way than a hand goes.
    put_many(&mut session, "new", 30_000, 200, (Expiry::Never, LATER));
    let left = (0..30_000).filter(|i| hits(&mut session, format!("new{i:06}").as_bytes(), LATER));
    let gone = 30_000 - left.count() as u64;
    let stats = engine.stats();
    assert!(stats.pages_moved > 0 && stats.reclaimed > 10_000, "{stats:?}");
    assert_eq!((stats.evictions, sum(&engine, |counts| counts.evicted)), (gone, gone));
    assert_eq!(sum(&engine, |counts| counts.reclaimed), stats.reclaimed);
}

#[test]
fn how_long_the_last_victim_was_not_read_is_told() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    put_many(&mut session, "key", 80_000, 100, (Expiry::Never, NOW));
    put_many(&mut session, "new", 20_000, 100, (Expiry::Never, LATER));
    let classes = engine.stats().classes;
    assert!(classes.iter().any(|class| (3990..=4000).contains(&class.counts.evicted_time)), "{classes:?}");
}

#[test]
fn no_class_gives_a_page_to_itself() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    put_many(&mut session, "key", 5000, 400, (Expiry::Never, NOW));
    let class = engine.stats().classes[0].id;
    assert_eq!(engine.reassign(None, class), Reassign::NothingToSpare);
    assert_eq!(engine.reassign(None, 0), Reassign::Begun);
}

#[test]
fn a_table_that_waits_for_pages_that_cannot_come_keeps_nobody_awake() {
    let engine = open(16 << 20);
    let (mut session, mut sleeper) = (engine.session(), engine.session());
    // Values that arrive, and whose clients stand still, in many pages.
    let room =
        ItemSpec { value_len: 20_000, flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo };
    let pending_values = (0..200).filter_map(|i| sleeper.begin_value(format!("d{i}").as_bytes(), room).ok());
    let pending_values: Vec<_> = pending_values.collect();
    sleeper.offline();
    put_many(&mut session, "key", 400_000, 1, (Expiry::Never, NOW));
    let idle = (0..20_000).filter(|_| {
        session.quiesce();
        session.maintain(NOW, Pace::Idle, 32) == 0
    });
    assert!(idle.count() > 10_000);
    drop(pending_values);
}

use super::*;
use crate::pool::{Rules, Slot};

const HOLD: Duration = Duration::from_secs(60);

/// A pool of `slots` slots, served by `s0`, `s1` …
fn pool(slots: usize, at_once: u32) -> Pool {
    let slot = |number| Slot { server: Some(format!("s{number}:1")), ..Slot::default() };
    Pool {
        slots: (0..slots).map(slot).collect(),
        rules: Rules { hold_down_s: 60, at_once, minimum: 0 },
        resize: None,
    }
}

fn there(server: &str) -> Registration {
    Registration {
        pool: "p".to_owned(),
        server: format!("{server}:1"),
        zone: None,
        is_empty: false,
        can_upgrade: false,
        revision: 1,
        lease: 1,
    }
}

fn spare(server: &str, zone: Option<&str>) -> Registration {
    Registration { is_empty: true, zone: zone.map(str::to_owned), ..there(server) }
}

/// All servers of a pool but these, and the spares `x` and `y`.
fn without(pool: &Pool, gone: &[usize]) -> Vec<Registration> {
    let servers = (0..pool.slots.len()).filter(|slot| !gone.contains(slot));
    let mut all: Vec<_> = servers.map(|slot| there(&format!("s{slot}"))).collect();
    all.extend([spare("x", None), spare("y", None)]);
    all
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The slots that get a spare.
fn given(verdict: &Verdict) -> Vec<(usize, &str)> {
    verdict.proposals.iter().map(|one| (one.slot, spare_of(one).server.as_str())).collect()
}

fn spare_of(proposal: &Proposal) -> &Registration {
    match &proposal.remedy {
        Remedy::Give(spare) => spare,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_is_replaced_when_it_has_been_gone_for_the_hold_down_and_not_before() {
    let (mut keeper, pool) = (Keeper::default(), pool(4, 1));
    assert_eq!(keeper.decide(&pool, &without(&pool, &[]), seconds(0)), Verdict::default());
    let gone = without(&pool, &[2]);
    for second in [100, 120, 159] {
        let verdict = keeper.decide(&pool, &gone, seconds(second));
        assert_eq!((given(&verdict), verdict.missing), (vec![], 1), "at {second} s");
    }
    let verdict = keeper.decide(&pool, &gone, seconds(160));
    assert_eq!(given(&verdict), [(2, "x:1")]);
    assert_eq!(verdict.proposals[0].lost.as_deref(), Some("s2:1"));
}

#[test]
fn who_comes_back_or_answers_or_was_out_of_sight_is_waited_for_anew() {
    let pool = pool(4, 1);
    let (all, gone) = (without(&pool, &[]), without(&pool, &[2]));
    let breaks: [fn(&mut Keeper, &Pool, &[Registration]); 3] = [
        |keeper, pool, all| drop(keeper.decide(pool, all, seconds(50))),
        |keeper, _, _| keeper.answered("s2:1"),
        |keeper, _, _| keeper.lost_contact(),
    ];
    for (number, come_back) in breaks.iter().enumerate() {
        let mut keeper = Keeper::default();
        keeper.decide(&pool, &gone, seconds(0));
        come_back(&mut keeper, &pool, &all);
        keeper.decide(&pool, &gone, seconds(55));
        assert_eq!(given(&keeper.decide(&pool, &gone, seconds(114))), [], "{number}");
        assert_eq!(given(&keeper.decide(&pool, &gone, seconds(115))), [(2, "x:1")], "{number}");
    }
}

#[test]
fn nobody_is_replaced_while_more_are_gone_than_servers_fail_at_once() {
    for (slots, at_once, gone, is_too_many) in [
        (4, 1, vec![0, 1], true),
        (4, 2, vec![0, 1], false),
        (4, 1, vec![0, 1, 2, 3], true),
        (30, 1, vec![0, 1, 2], false),
        (30, 1, vec![0, 1, 2, 3], true),
    ] {
        let (mut keeper, pool) = (Keeper::default(), pool(slots, at_once));
        let gone = without(&pool, &gone);
        keeper.decide(&pool, &gone, seconds(0));
        let verdict = keeper.decide(&pool, &gone, seconds(1_000_000));
        assert_eq!(verdict.too_many, is_too_many, "{slots} slots, {} there", gone.len());
        assert_eq!(verdict.proposals.is_empty(), is_too_many);
    }
}

#[test]
fn as_many_are_replaced_within_a_hold_down_as_the_rules_say() {
    let (mut keeper, mut pool) = (Keeper::default(), pool(30, 2));
    let gone = without(&pool, &[3, 4, 5]);
    keeper.decide(&pool, &gone, seconds(0));
    let verdict = keeper.decide(&pool, &gone, seconds(60));
    assert_eq!(given(&verdict), [(3, "x:1"), (4, "y:1")]);
    for proposal in &verdict.proposals {
        pool.slots[proposal.slot].server = Some(spare_of(proposal).server.clone());
    }
    let mut rest = without(&pool, &[3, 4, 5]);
    rest.push(spare("z", None));
    assert_eq!(given(&keeper.decide(&pool, &rest, seconds(60))), []);
    assert_eq!(given(&keeper.decide(&pool, &rest, seconds(119))), []);
    assert_eq!(given(&keeper.decide(&pool, &rest, HOLD * 2)), [(5, "z:1")]);
}

#[test]
fn a_slot_that_nobody_had_is_given_away_at_once_and_to_a_spare_of_its_zone() {
    let mut pool = Pool::of_empty_slots(3, Rules::default());
    pool.slots[0].zone = Some("east".to_owned());
    let mut keeper = Keeper::default();
    let spares = [spare("a", Some("west")), spare("b", Some("east"))];
    let verdict = keeper.decide(&pool, &spares, seconds(0));
    assert_eq!(given(&verdict), [(0, "b:1"), (1, "a:1")]);
    assert_eq!((verdict.missing, verdict.too_many), (0, false));
}

#[test]
fn who_is_not_empty_or_serves_a_slot_is_no_spare() {
    let mut pool = Pool::of_empty_slots(2, Rules::default());
    pool.slots[0].server = Some("a:1".to_owned());
    let mut keeper = Keeper::default();
    assert_eq!(given(&keeper.decide(&pool, &[spare("a", None), there("b")], seconds(0))), []);
}

/// Slot 1 of four is handed over from `s1` to `n`, after this many steps.
fn moving(steps: usize) -> Pool {
    let mut pool = pool(4, 1);
    pool.announce_handover(1, &spare("n", None), 7);
    (0..steps).for_each(|_| pool.step_handover(1, None, 7));
    pool
}

/// The proposals after the hold-down, when only `there_is` are registered.
fn proposed(pool: &Pool, there_is: &[&str]) -> Vec<Proposal> {
    let mut registered: Vec<_> = there_is.iter().map(|server| there(server)).collect();
    registered.push(spare("x", None));
    let mut keeper = Keeper::default();
    keeper.decide(pool, &registered, seconds(0));
    assert_eq!(keeper.decide(pool, &registered, seconds(59)).proposals, []);
    keeper.decide(pool, &registered, HOLD).proposals
}

#[test]
fn a_slot_that_moves_goes_to_the_one_of_its_two_servers_that_is_left() {
    let lost = |server: &str| Some(format!("{server}:1"));
    for (steps, there_is, expected) in [
        // Announced: the new server has no items yet.
        (0, ["s0", "n", "s2", "s3"].as_slice(), Some((lost("s1"), Remedy::Give(there("n"))))),
        (0, &["s0", "s1", "s2", "s3"], Some((lost("n"), Remedy::GiveUp))),
        // The new server is being filled, or was.
        (1, &["s0", "s1", "s2", "s3"], Some((lost("n"), Remedy::TakeBack(there("s1"))))),
        (2, &["s0", "s1", "s2", "s3"], Some((lost("n"), Remedy::TakeBack(there("s1"))))),
        (1, &["s0", "n", "s2", "s3"], Some((lost("s1"), Remedy::GiveUp))),
        (2, &["s0", "n", "s2", "s3"], Some((lost("s1"), Remedy::GiveUp))),
        // Both servers are gone.
        (1, &["s0", "s2", "s3"], Some((lost("n"), Remedy::Give(spare("x", None))))),
        (1, &["s0", "s1", "n", "s2", "s3"], None),
    ] {
        let proposals = proposed(&moving(steps), there_is);
        let expected = expected.map(|(lost, remedy)| Proposal { slot: 1, lost, remedy });
        assert_eq!(proposals, Vec::from_iter(expected), "{steps} steps, {there_is:?}");
    }
}

#[test]
fn servers_that_a_slot_moves_between_are_no_spares() {
    let mut pool = moving(1);
    pool.slots[3].server = None;
    let all = ["s0", "s1", "n", "s2"].map(|server| spare(server, None));
    assert_eq!(Keeper::default().decide(&pool, &all, seconds(0)).proposals, []);
}

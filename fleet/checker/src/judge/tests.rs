//! Hints, looks and answers, with time that is moved.

use super::{Against, Judge, Request, Settings, Tag};
use crate::pattern::Pattern;
use crate::report::{Origin, Tally};
use crate::sight::{Cached, Content, Sight};
use std::num::NonZeroU64;
use std::time::Duration;

const KEY: &[u8] = b"user:7";
const SECOND: Duration = Duration::from_secs(1);

fn content(text: &str) -> Content {
    Content(Some(Sight::of(text.as_bytes(), None)))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Two clusters in regions of their own, and a database, which answer at once with what they have.
struct World {
    judge: Judge,
    database: Option<Content>,
    caches: [Cached; 2],
    now: Duration,
    queries: u64,
}

fn settings(against: Against) -> Settings {
    Settings {
        one_in: NonZeroU64::MIN,
        delays: vec![SECOND, seconds(10), seconds(60)],
        checks: vec![(Pattern::new("user:{id}").unwrap(), against)],
        clusters: 2,
        regions: vec![vec![0], vec![1]],
        under_way_max: 3,
    }
}

impl World {
    fn new(settings: Settings) -> Self {
        let judge = Judge::new(settings);
        World {
            judge,
            database: Some(content("new")),
            caches: [Cached::Miss, Cached::Miss],
            now: Duration::ZERO,
            queries: 0,
        }
    }

    fn of(against: Against) -> Self {
        Self::new(settings(against))
    }

    fn hint(&mut self) {
        self.judge.hint(KEY, self.now);
        self.work();
    }

    /// Answers until there are no more questions.
    fn work(&mut self) {
        loop {
            let requests = self.judge.due_requests(self.now);
            if requests.is_empty() {
                return;
            }
            for request in requests {
                match request {
                    Request::Cache { tag, cluster, .. } => {
                        self.judge.cache(tag, cluster, self.caches[cluster].clone(), self.now);
                    }
                    Request::Database { tag, .. } => {
                        self.queries += 1;
                        self.judge.database(tag, self.database.clone(), self.now);
                    }
                }
            }
        }
    }

    /// Works at each moment at which something is due until then.
    fn pass_until(&mut self, end: Duration) {
        while let Some(due) = self.judge.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.work();
        }
        self.now = end;
    }

    fn all(&self, delay: usize) -> Tally {
        self.judge.report().delays[delay].all
    }

    fn clusters(&self, delay: usize) -> [Tally; 2] {
        self.judge.report().delays[delay].clusters.clone().try_into().unwrap()
    }
}

const CONSISTENT: Tally = Tally { consistent: 1, ..NOTHING };
const MISSING: Tally = Tally { missing: 1, ..NOTHING };
const INCONSISTENT: Tally = Tally { inconsistent: 1, ..NOTHING };
const UNKNOWN: Tally = Tally { unknown: 1, ..NOTHING };
const SUPERSEDED: Tally = Tally { superseded: 1, ..NOTHING };
const NOTHING: Tally = Tally { consistent: 0, missing: 0, inconsistent: 0, unknown: 0, superseded: 0 };

#[test]
fn caches_that_have_nothing_or_the_new_value_are_consistent_and_cost_two_queries() {
    let mut world = World::of(Against::Database);
    world.hint();
    world.caches[0] = Cached::Item(content("new"));
    world.pass_until(seconds(60));
    for delay in 0..3 {
        assert_eq!(world.clusters(delay), [CONSISTENT, MISSING]);
        assert_eq!(world.all(delay), CONSISTENT);
        let regions = &world.judge.report().delays[delay].regions;
        assert_eq!(*regions, [CONSISTENT, MISSING]);
    }
    assert_eq!((world.queries, world.judge.under_way(), world.judge.next_due()), (2, 0, None));
    world.caches[0] = Cached::Miss;
    world.hint();
    world.pass_until(world.now + seconds(60));
    assert_eq!(world.queries, 3, "there was nothing to compare");
}

#[test]
fn an_old_value_is_inconsistent_as_long_as_it_is_there() {
    let mut world = World::of(Against::Database);
    world.hint();
    world.caches[1] = Cached::Item(content("old"));
    world.pass_until(seconds(10));
    world.caches[1] = Cached::Item(content("new"));
    world.pass_until(seconds(60));
    assert_eq!([0, 1, 2].map(|delay| world.clusters(delay)[1]), [INCONSISTENT, INCONSISTENT, CONSISTENT]);
    assert_eq!([0, 1, 2].map(|delay| world.all(delay)), [INCONSISTENT, INCONSISTENT, CONSISTENT]);
    assert_eq!(world.queries, 3, "the base, and one for each look at which something was wrong");
    let report = world.judge.report();
    let [example] = &report.examples[..] else { panic!("{report:?}") };
    assert_eq!((&*example.key, example.cluster, example.origin), (KEY, 1, Origin::Hint));
    assert_eq!((&example.cache, &example.truth), (&content("old"), &content("new")));
    assert_eq!(example.seen, [SECOND, seconds(10)]);
}

#[test]
fn a_row_that_is_gone_is_what_is_missing_or_stored_as_absent() {
    let mut world = World::of(Against::Database);
    world.database = Some(Content(None));
    world.hint();
    world.caches = [Cached::Item(Content(None)), Cached::Item(content("old"))];
    world.pass_until(SECOND);
    assert_eq!(world.clusters(0), [CONSISTENT, INCONSISTENT]);
}

#[test]
fn a_change_that_nobody_has_told_of_yet_makes_no_cache_look_wrong() {
    let mut world = World::of(Against::Database);
    world.hint();
    // It is changed again just before the look, and the delete is on its way.
    world.caches = [Cached::Item(content("new")), Cached::Item(content("newer"))];
    world.database = Some(content("newer"));
    world.pass_until(SECOND);
    assert_eq!(world.clusters(0), [SUPERSEDED, CONSISTENT]);
    world.caches[0] = Cached::Item(content("other"));
    world.pass_until(seconds(2));
    assert_eq!(world.judge.report().counts.untold, 1);
    // Delays start again from there.
    assert_eq!(
        world.clusters(0),
        [Tally { superseded: 1, inconsistent: 1, ..NOTHING }, Tally { consistent: 2, ..NOTHING }]
    );
    assert_eq!(world.judge.report().examples[0].origin, Origin::Database);
    assert_eq!([1, 2].map(|delay| world.all(delay)), [SUPERSEDED; 2]);
}

#[test]
fn a_hint_that_comes_before_its_change_hides_nothing() {
    let mut world = World::of(Against::Database);
    world.database = Some(content("old"));
    world.hint();
    // A reader has filled the old row, and then it was committed.
    world.caches[0] = Cached::Item(content("old"));
    world.database = Some(content("new"));
    world.pass_until(seconds(2));
    assert_eq!(world.clusters(0)[0], Tally { superseded: 1, inconsistent: 1, ..NOTHING });
}

#[test]
fn a_change_after_the_first_look_is_another_ones_matter() {
    let mut world = World::of(Against::Database);
    world.hint();
    world.caches[0] = Cached::Item(content("new"));
    world.pass_until(seconds(5));
    world.database = Some(content("newer"));
    world.pass_until(seconds(10));
    assert_eq!((world.clusters(1)[0], world.queries), (CONSISTENT, 2), "it has what the hint was about");
}

#[test]
fn a_key_that_changes_all_the_time_is_given_up_at_last() {
    let mut world = World::of(Against::Database);
    world.caches[0] = Cached::Item(content("old"));
    world.hint();
    for round in 0..30 {
        world.database = Some(content(&round.to_string()));
        world.pass_until(world.now + SECOND);
    }
    assert_eq!((world.judge.under_way(), world.judge.report().counts.untold), (0, 10));
    assert_eq!(world.all(0), Tally { superseded: 11, ..NOTHING });
}

#[test]
fn a_newer_hint_supersedes_what_is_open() {
    let mut world = World::of(Against::Database);
    world.hint();
    world.caches[0] = Cached::Item(content("old"));
    world.pass_until(seconds(5));
    world.hint();
    assert_eq!(world.judge.agenda.len(), 1, "nothing is left to do about the one before");
    assert_eq!([0, 1, 2].map(|delay| world.all(delay)), [INCONSISTENT, SUPERSEDED, SUPERSEDED]);
    world.caches[0] = Cached::Miss;
    world.pass_until(seconds(100));
    assert_eq!(
        [1, 2].map(|delay| world.clusters(delay)[0]),
        [Tally { superseded: 1, missing: 1, ..NOTHING }; 2]
    );
    assert_eq!(world.judge.next_due(), None);
}

#[test]
fn whoever_does_not_answer_or_too_late_is_not_known() {
    let mut world = World::of(Against::Database);
    world.hint();
    world.caches[0] = Cached::Failed;
    world.pass_until(SECOND);
    assert_eq!((world.clusters(0), world.all(0)), ([UNKNOWN, MISSING], UNKNOWN));
    world.now = seconds(10);
    let requests = world.judge.due_requests(world.now);
    let tag = |request: &Request| match request {
        Request::Cache { tag, cluster, .. } => (*tag, *cluster),
        Request::Database { .. } => panic!("{request:?}"),
    };
    let tags: Vec<(Tag, usize)> = requests.iter().map(tag).collect();
    for (tag, cluster) in &tags {
        world.judge.cache(*tag, *cluster, Cached::Miss, seconds(13));
    }
    assert_eq!(world.clusters(1), [UNKNOWN, UNKNOWN]);
    // An answer to a question of before is none to that of now.
    world.now = seconds(60);
    assert_eq!(world.judge.due_requests(world.now).len(), 2);
    world.judge.cache(tags[0].0, tags[0].1, Cached::Miss, world.now);
    world.judge.cache(tags[1].0, tags[1].1, Cached::Miss, world.now);
    assert_eq!(world.judge.under_way(), 1);
}

#[test]
fn a_database_that_does_not_answer_leaves_things_unknown() {
    let mut world = World::of(Against::Database);
    world.database = None;
    world.hint();
    assert_eq!((world.all(0), world.all(2), world.judge.under_way()), (UNKNOWN, UNKNOWN, 0));
    world.database = Some(content("new"));
    world.hint();
    world.database = None;
    world.caches[0] = Cached::Item(content("old"));
    world.pass_until(world.now + SECOND);
    assert_eq!(
        world.clusters(0),
        [Tally { unknown: 2, ..NOTHING }, Tally { unknown: 1, missing: 1, ..NOTHING }]
    );
}

#[test]
fn looks_that_would_be_late_are_left_out() {
    let mut world = World::of(Against::Database);
    world.hint();
    world.now = seconds(11);
    world.work();
    assert_eq!((world.all(0), world.all(1)), (UNKNOWN, MISSING));
    world.now = seconds(60);
    world.work();
    assert_eq!(world.all(2), MISSING);
}

#[test]
fn clusters_that_keep_what_another_has_not_are_wrong() {
    let mut world = World::of(Against::EachOther);
    world.hint();
    world.caches = [Cached::Item(content("old")), Cached::Item(content("new"))];
    world.pass_until(SECOND);
    assert_eq!(world.clusters(0), [NOTHING; 2], "they are asked again first");
    world.pass_until(seconds(2));
    assert_eq!(world.clusters(0), [INCONSISTENT; 2]);
    world.pass_until(seconds(10));
    world.caches[0] = Cached::Miss;
    world.pass_until(seconds(11));
    assert_eq!(world.clusters(1), [CONSISTENT; 2], "the delete was on its way");
    world.pass_until(seconds(60));
    assert_eq!(world.clusters(2), [MISSING; 2], "there is nothing to compare it with");
    assert_eq!((world.queries, world.judge.under_way()), (0, 0));
    let report = world.judge.report();
    assert_eq!(report.examples.len(), 2);
    assert_eq!((&report.examples[0].cache, &report.examples[0].truth), (&content("old"), &content("new")));
}

#[test]
fn one_hint_in_so_many_is_sampled_as_long_as_there_is_room() {
    let one_in = NonZeroU64::new(2).unwrap();
    let mut world = World::new(Settings { one_in, ..settings(Against::Database) });
    for number in 0..12 {
        world.judge.hint(format!("user:{number}").as_bytes(), world.now);
    }
    let first = world.judge.hint(b"other:1", world.now);
    let second = world.judge.hint(b"other:2", world.now);
    assert!(first && !second, "the first is told");
    let report = world.judge.report();
    let counts = report.counts;
    assert_eq!((counts.hints, counts.sampled, counts.dropped, counts.unmatched), (14, 3, 3, 2));
    assert_eq!((report.under_way, report.unmatched), (3, Some(b"other:1".to_vec())));
}

#[test]
fn examples_are_bounded() {
    let mut world = World::new(Settings { under_way_max: 1000, ..settings(Against::Database) });
    world.caches[0] = Cached::Item(content("old"));
    for number in 0..120 {
        world.judge.hint(format!("user:{number}").as_bytes(), world.now);
    }
    world.work();
    world.pass_until(seconds(60));
    let report = world.judge.report();
    assert_eq!((report.examples.len(), report.more_examples), (100, 20));
    assert_eq!(report.examples[99].seen, [SECOND, seconds(60)]);
}

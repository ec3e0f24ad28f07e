//! Nodes that are simulated, with a clock that is moved.

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DELAYS: [Duration; 3] = [SECOND, Duration::from_secs(10), Duration::from_secs(60)];

/// A node: the unique of each item, and what happens to it later.
#[derive(Default)]
struct Node {
    items: BTreeMap<Vec<u8>, u64>,
    is_dead: bool,
    later: Vec<(Duration, Vec<u8>, Change)>,
    last_unique: u64,
}

#[derive(Clone, Copy)]
enum Change {
    Delete,
    Refill,
}

impl Node {
    fn store(&mut self, key: &[u8]) {
        self.last_unique += 1;
        self.items.insert(key.to_vec(), self.last_unique);
    }

    fn pass(&mut self, now: Duration) {
        let due = std::mem::take(&mut self.later);
        let (due, later) = due.into_iter().partition(|(at, ..)| *at <= now);
        self.later = later;
        for (_, key, change) in due {
            match change {
                Change::Delete => drop(self.items.remove(&key)),
                Change::Refill => self.store(&key),
            }
        }
    }

    fn seen(&self, key: &[u8]) -> Seen {
        match self.items.get(key) {
            _ if self.is_dead => Seen::Failed,
            Some(unique) => Seen::Item(*unique),
            None => Seen::Miss,
        }
    }
}

struct World {
    probe: Probe,
    nodes: Vec<Node>,
    now: Duration,
}

fn settings(one_in: u64, nodes: usize) -> Settings {
    Settings {
        one_in: NonZeroU64::new(one_in).unwrap(),
        delays: DELAYS.to_vec(),
        nodes,
        first_look: FirstLook::BeforeDelete,
        under_way_max: 1000,
    }
}

impl World {
    fn new(settings: Settings) -> Self {
        let nodes = (0..settings.nodes).map(|_| Node::default()).collect();
        Self { probe: Probe::new(settings), nodes, now: Duration::ZERO }
    }

    /// Stores a key on all nodes.
    fn store(&mut self, key: &[u8]) {
        self.nodes.iter_mut().for_each(|node| node.store(key));
    }

    /// Something happens to `key` on a node.
    fn later(&mut self, node: usize, after: Duration, key: &[u8], change: Change) {
        self.nodes[node].later.push((self.now + after, key.to_vec(), change));
    }

    /// Replies to all requests that are due.
    fn answer(&mut self) -> usize {
        let requests: Vec<ProbeRequest> = self.probe.requests(self.now).collect();
        for probe_request in &requests {
            let seen = self.nodes[probe_request.node()].seen(probe_request.key());
            self.probe.answer(probe_request, seen);
        }
        requests.len()
    }

    /// A delete of which the nodes hear as `later` says.
    fn delete(&mut self, key: &[u8]) -> Option<SampleId> {
        let id = self.probe.sampled(key, self.now)?;
        assert!(!self.probe.is_known(id));
        self.answer();
        assert!(self.probe.is_known(id));
        self.probe.sent(id, self.now);
        Some(id)
    }

    /// Time passes, in steps of 100 ms.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += 100 * MS;
            for node in &mut self.nodes {
                node.pass(self.now);
            }
            self.answer();
        }
    }

    /// Outcomes at each delay as consistent, stale, absent, unknown: of all nodes together, then of each.
    fn tallies(&self) -> Vec<Vec<[u64; 4]>> {
        let row = |tally: &Tally| [tally.consistent, tally.stale, tally.absent, tally.unknown];
        let report = self.probe.report();
        report.delays.iter().map(|at| [&at.overall].into_iter().chain(&at.nodes).map(row).collect()).collect()
    }
}

const CONSISTENT: [u64; 4] = [1, 0, 0, 0];
const STALE: [u64; 4] = [0, 1, 0, 0];
const ABSENT: [u64; 4] = [0, 0, 1, 0];
const UNKNOWN: [u64; 4] = [0, 0, 0, 1];

#[test]
fn one_delete_in_n_is_sampled_exactly() {
    let mut probe = Probe::new(settings(1000, 1));
    let sampled = (0..10_500).filter(|_| probe.sampled(b"k", SECOND).is_some()).count();
    let report = probe.report();
    assert_eq!((sampled, report.sampled, report.deletes, report.under_way), (10, 10, 10_500, 10));
}

#[test]
fn a_late_delete_is_stale_until_it_arrives() {
    let mut world = World::new(settings(1, 2));
    world.store(b"k");
    world.later(0, 200 * MS, b"k", Change::Delete);
    world.later(1, 5 * SECOND, b"k", Change::Delete);
    world.delete(b"k");
    world.pass(61 * SECOND);
    assert_eq!(
        world.tallies(),
        [
            [STALE, CONSISTENT, STALE],
            [CONSISTENT, CONSISTENT, CONSISTENT],
            [CONSISTENT, CONSISTENT, CONSISTENT]
        ]
    );
    let report = world.probe.report();
    let example =
        Example { key: b"k".to_vec(), node: 1, sent: Duration::ZERO, unique: 1, seen: [SECOND, SECOND] };
    assert_eq!((report.examples, report.under_way, world.probe.next_due()), (vec![example], 0, None));
}

#[test]
fn a_lost_delete_stays_stale_and_a_refill_does_not_count_as_stale() {
    let mut world = World::new(settings(1, 2));
    world.store(b"k");
    // Lost on node 0; on node 1 it arrives, and the key is filled at once.
    world.later(1, 100 * MS, b"k", Change::Refill);
    world.delete(b"k");
    world.pass(61 * SECOND);
    assert_eq!(world.tallies(), vec![vec![STALE, STALE, CONSISTENT]; 3]);
    let examples = world.probe.report().examples;
    assert_eq!((examples.len(), examples[0].seen), (1, [SECOND, 60 * SECOND]));
}

#[test]
fn what_no_node_had_is_absent_and_what_one_had_is_judged() {
    let mut world = World::new(settings(1, 2));
    world.delete(b"nowhere");
    world.nodes[1].store(b"k");
    world.later(1, MS, b"k", Change::Delete);
    world.delete(b"k");
    world.pass(61 * SECOND);
    assert_eq!(world.tallies(), vec![vec![[1, 0, 1, 0], [0, 0, 2, 0], [1, 0, 1, 0]]; 3]);
    // A key that is absent at first and filled afterwards is no old item.
    let mut world = World::new(settings(1, 1));
    world.later(0, MS, b"k", Change::Refill);
    world.delete(b"k");
    world.pass(61 * SECOND);
    assert_eq!(world.tallies(), vec![vec![ABSENT, ABSENT]; 3]);
}

#[test]
fn a_dead_node_is_never_consistent() {
    let mut world = World::new(settings(1, 2));
    world.store(b"k");
    for node in 0..2 {
        world.later(node, MS, b"k", Change::Delete);
    }
    world.nodes[1].is_dead = true;
    world.delete(b"k");
    world.nodes[1].is_dead = false;
    world.pass(61 * SECOND);
    // It was dead at the first look: whatever it tells later says nothing.
    assert_eq!(world.tallies(), vec![vec![UNKNOWN, CONSISTENT, UNKNOWN]; 3]);
    let mut world = World::new(settings(1, 2));
    world.store(b"k");
    world.later(0, MS, b"k", Change::Delete);
    world.delete(b"k");
    world.nodes[1].is_dead = true;
    world.pass(5 * SECOND);
    world.nodes[1].is_dead = false;
    world.pass(56 * SECOND);
    assert_eq!(
        world.tallies(),
        [[UNKNOWN, CONSISTENT, UNKNOWN], [STALE, CONSISTENT, STALE], [STALE, CONSISTENT, STALE]]
    );
}

#[test]
fn a_first_look_may_be_answered_with_the_second_and_may_be_given_up() {
    for (is_given_up, outcome) in [(false, STALE), (true, UNKNOWN)] {
        let mut world = World::new(settings(1, 1));
        world.store(b"k");
        let id = world.probe.sampled(b"k", world.now).unwrap();
        let first: Vec<ProbeRequest> = world.probe.requests(world.now).collect();
        if is_given_up {
            world.probe.give_up(id);
            assert!(world.probe.is_known(id));
        }
        world.probe.sent(id, world.now);
        let second: Vec<ProbeRequest> = world.probe.requests(SECOND).collect();
        for probe_request in first.iter().chain(&second) {
            world.probe.answer(probe_request, Seen::Item(1));
        }
        assert_eq!(world.tallies()[0], [outcome, outcome], "{is_given_up}");
    }
    // The other way round nothing is known: the node may have had any item before.
    let mut world = World::new(settings(1, 1));
    let id = world.probe.sampled(b"k", world.now).unwrap();
    let first: Vec<ProbeRequest> = world.probe.requests(world.now).collect();
    world.probe.sent(id, world.now);
    let second: Vec<ProbeRequest> = world.probe.requests(SECOND).collect();
    world.probe.answer(&second[0], Seen::Miss);
    world.probe.answer(&first[0], Seen::Item(1));
    assert_eq!(world.tallies()[0], [UNKNOWN, UNKNOWN]);
}

#[test]
fn a_look_after_the_delete_takes_a_miss_for_consistent() {
    let mut world = World::new(Settings { first_look: FirstLook::AfterDelete, ..settings(1, 3) });
    // Node 0 has it no more; node 1 has it still, until 5 s; node 2 is dead.
    world.nodes[1].store(b"k");
    world.later(1, 5 * SECOND, b"k", Change::Delete);
    world.nodes[2].is_dead = true;
    world.delete(b"k");
    world.pass(61 * SECOND);
    let late = vec![UNKNOWN, CONSISTENT, CONSISTENT, UNKNOWN];
    assert_eq!(world.tallies(), [vec![STALE, CONSISTENT, STALE, UNKNOWN], late.clone(), late]);
}

#[test]
fn samples_beyond_the_limit_are_dropped_and_counted() {
    let mut world = World::new(Settings { under_way_max: 3, ..settings(2, 1) });
    for key in 0..20_u8 {
        world.delete(&[key]);
    }
    let report = world.probe.report();
    assert_eq!((report.deletes, report.sampled, report.dropped, report.under_way), (20, 3, 7, 3));
    world.pass(61 * SECOND);
    assert_eq!(world.probe.report().under_way, 0);
    world.delete(b"odd");
    assert!(world.delete(b"even").is_some());
}

#[test]
fn a_caller_that_is_late_or_silent_makes_nothing_consistent() {
    // The caller sleeps from 0.5 to 11 s: the look at 1 s is left out, that at 10 s is late and taken.
    let mut world = World::new(settings(1, 1));
    world.store(b"k");
    world.delete(b"k");
    world.now = 11 * SECOND;
    assert_eq!(world.answer(), 1);
    assert_eq!(world.tallies()[..2], [[UNKNOWN, UNKNOWN], [STALE, STALE]]);
    // Answers that never come end the sample a minute after the last delay.
    let silent: Vec<ProbeRequest> = world.probe.requests(60 * SECOND).collect();
    assert_eq!(silent.len(), 1);
    assert_eq!(world.probe.requests(119 * SECOND).count(), 0);
    assert_eq!(world.probe.report().under_way, 1);
    assert_eq!(world.probe.requests(120 * SECOND).count(), 0);
    assert_eq!((world.probe.report().under_way, world.tallies()[2].as_slice()), (0, &[UNKNOWN, UNKNOWN][..]));
    world.probe.answer(&silent[0], Seen::Miss);
    assert_eq!(world.tallies()[2], [UNKNOWN, UNKNOWN]);
}

#[test]
fn a_delete_that_is_not_sent_is_forgotten() {
    let mut probe = Probe::new(settings(1, 1));
    let id = probe.sampled(b"k", SECOND).unwrap();
    probe.cancel(id);
    assert_eq!((probe.requests(SECOND).count(), probe.report().sampled, probe.report().under_way), (0, 0, 0));
    let id = probe.sampled(b"k", SECOND).unwrap();
    probe.sent(id, SECOND);
    probe.cancel(id);
    assert_eq!(probe.report().under_way, 1);
}

#[test]
fn examples_are_bounded() {
    let mut world = World::new(settings(1, 1));
    for key in 0..150_u8 {
        world.store(&[key]);
        world.delete(&[key]);
    }
    world.pass(61 * SECOND);
    let report = world.probe.report();
    assert_eq!((report.examples.len(), report.more_examples), (EXAMPLES_MAX, 50));
    assert!(report.examples.iter().all(|example| example.seen == [SECOND, 60 * SECOND]));
}

#[test]
fn shares_are_of_what_was_judged() {
    let tally = Tally { consistent: 999, stale: 1, absent: 500, unknown: 7 };
    assert_eq!((tally.share(), tally.nines()), (Some(0.999), Some(3.0)));
    assert_eq!(Tally { stale: 0, consistent: 100, ..tally }.nines(), Some(2.0));
    assert_eq!(Tally { stale: 4, consistent: 0, ..tally }.nines(), Some(0.0));
    assert_eq!(Tally { stale: 0, consistent: 0, ..tally }.share(), None);
}

#[test]
fn figures_are_openmetrics() {
    let mut world = World::new(settings(1, 1));
    world.store(b"k");
    world.delete(b"k");
    world.pass(2 * SECOND);
    let text = world.probe.report().openmetrics(&["a\"b\\:1".to_owned()]);
    for line in [
        "guira_probe_sampled_total 1\n",
        "guira_probe_looks_total{delay=\"1\",node=\"\",outcome=\"stale\"} 1\n",
        "guira_probe_looks_total{delay=\"1\",node=\"a\\\"b\\\\:1\",outcome=\"stale\"} 1\n",
        "guira_probe_looks_total{delay=\"10\",node=\"\",outcome=\"stale\"} 0\n",
        "guira_probe_under_way 1\n# EOF\n",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

use super::*;
use crate::batch::Work;
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;

const SOON: Duration = Duration::from_secs(20);
/// Without a linger and without second deliveries.
pub(super) const LIMITS: Limits = Limits {
    batch_keys: 10,
    queue_weight: 8,
    linger: Duration::ZERO,
    again_after: None,
    spool_after: Duration::ZERO,
};

struct Tried {
    lane: Arc<Lane>,
    ledger: Arc<Ledger>,
}

fn lane(limits: Limits, spool: Option<Spool>) -> Tried {
    let ledger = Arc::new(Ledger::new(1));
    let counts = Arc::new(TargetCounts::new("east"));
    Tried { lane: Arc::new(Lane::new(0, limits, spool, ledger.clone(), counts)), ledger }
}

impl Tried {
    fn push(&self, number: u64, keys: &[&str]) {
        self.ledger.sent(number, 7, Some(number.to_string()));
        self.lane.push(&Arc::new(Batch::of_keys(number, keys))).unwrap();
    }

    /// The delivery that is due this many seconds after all batches arrived.
    fn look(&self, seconds: u64) -> Option<Task> {
        self.lane.look(&mut self.lane.state(), Duration::from_secs(50 + seconds)).ok()
    }

    /// Delivers and acknowledges the next batches; returns their keys.
    fn deliver(&self, seconds: u64) -> Option<String> {
        let task = self.look(seconds)?;
        self.lane.delivered(&task);
        Some(keys(&task))
    }

    fn saved(&self) -> Option<String> {
        self.ledger.take(Duration::ZERO)
    }
}

fn keys(task: &Task) -> String {
    let keys = task.batches.iter().flat_map(|batch| match batch.work() {
        Work::Delete(keys) => keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect(),
        Work::Flush => vec!["flush".to_owned()],
    });
    keys.collect::<Vec<_>>().join(" ")
}

fn spool(scratch: &Scratch) -> Option<Spool> {
    Some(Spool::open(&scratch.file("east"), 1 << 20).unwrap())
}

#[test]
fn batches_that_wait_go_together_as_far_as_they_may() {
    let it = lane(Limits { queue_weight: 100, ..LIMITS }, None);
    it.push(1, &["a", "b"]);
    it.push(2, &[]);
    it.push(3, &["c"; 8]);
    it.push(4, &["d"; 11]);
    assert_eq!(it.deliver(0).unwrap(), "a b c c c c c c c c");
    assert_eq!(it.saved().as_deref(), Some("3"));
    assert_eq!(it.deliver(0).unwrap().len(), 21, "more than may go together, but one batch");
    assert_eq!((it.saved().as_deref(), it.deliver(0)), (Some("4"), None));
}

#[test]
fn a_flush_goes_alone() {
    let it = lane(LIMITS, None);
    it.push(1, &["a"]);
    it.lane.push(&Arc::new(Batch::new(2, Work::Flush))).unwrap();
    it.push(3, &["b"]);
    let delivered: Vec<String> = std::iter::from_fn(|| it.deliver(0)).collect();
    assert_eq!(delivered, ["a", "flush", "b"]);
}

#[test]
fn keys_wait_for_others_until_there_are_enough_or_their_time_is_over() {
    let it = lane(Limits { linger: Duration::from_secs(3600), queue_weight: 100, ..LIMITS }, None);
    it.push(1, &["a"]);
    assert!(it.look(0).is_none());
    assert_eq!(keys(&it.look(3700).unwrap()), "a", "its time is over");
    it.push(2, &["b"; 9]);
    assert_eq!(it.look(0).unwrap().batches.len(), 2, "there are enough");
}

#[test]
fn what_was_delivered_is_delivered_again_and_acknowledged_then() {
    let it = lane(Limits { again_after: Some(Duration::from_secs(1000)), ..LIMITS }, None);
    it.push(1, &["a"]);
    it.push(2, &[]);
    assert_eq!(it.deliver(0).unwrap(), "a");
    assert_eq!((it.saved(), it.ledger.oldest()), (None, None), "no lag, and no position");
    assert!(it.look(900).is_none());
    it.push(3, &["b"]);
    assert_eq!(it.deliver(1100).unwrap(), "a", "what is due goes first");
    assert_eq!(it.saved().as_deref(), Some("2"));
    assert_eq!(it.deliver(1100).unwrap(), "b");
    assert_eq!(it.saved(), None);
    assert_eq!(it.deliver(1100).unwrap(), "b");
    assert_eq!((it.saved().as_deref(), it.deliver(5000)), (Some("3"), None));
}

#[test]
fn what_comes_again_at_nearly_the_same_time_goes_together() {
    let it = lane(Limits { again_after: Some(Duration::from_secs(1000)), ..LIMITS }, None);
    for (number, key) in [(1, "a"), (2, "b"), (3, "c")] {
        it.push(number, &[key]);
        it.deliver(0).unwrap();
    }
    assert_eq!(it.deliver(1100).unwrap(), "a b c");
    assert_eq!(it.saved().as_deref(), Some("3"));
}

#[test]
fn a_target_that_is_away_has_its_deletes_in_its_spool_in_order() {
    let scratch = Scratch::new();
    let limits = Limits { again_after: Some(Duration::from_secs(1000)), ..LIMITS };
    let it = lane(limits, spool(&scratch));
    it.push(1, &["a"]);
    it.deliver(0).unwrap();
    it.push(2, &["b"; 7]);
    let under_way = it.look(0).unwrap();
    assert_eq!(it.saved(), None);
    it.push(3, &["c"]);
    assert_eq!(it.saved().as_deref(), Some("3"), "everything is on the disk");
    it.push(4, &[]);
    it.push(5, &["d"]);
    assert_eq!(it.saved().as_deref(), Some("5"));
    // The delivery that was in flight is acknowledged too late to count.
    it.lane.delivered(&under_way);
    let first: Vec<String> = std::iter::from_fn(|| it.deliver(0)).collect();
    assert_eq!(first, ["a", "b b b b b b b", "c", "d"]);
    // The spool is read to its end: later batches wait in memory again.
    it.push(6, &["e"]);
    assert_eq!((it.deliver(0).as_deref(), it.saved()), (Some("e"), None));
    assert!(it.lane.counts().spool() > 0, "until all of it was delivered twice");
    let again: Vec<String> = std::iter::from_fn(|| it.deliver(1100)).collect();
    assert_eq!(again.join(" "), "a b b b b b b b c d e");
    assert_eq!((it.saved().as_deref(), it.lane.counts().spool()), (Some("6"), 0));
}

#[test]
fn the_next_process_delivers_what_is_in_the_spool_first() {
    let scratch = Scratch::new();
    let it = lane(LIMITS, spool(&scratch));
    it.push(1, &["a"; 8]);
    it.push(2, &["b"]);
    assert_eq!(it.deliver(0).as_deref(), Some("a a a a a a a a"));
    drop(it);
    let it = lane(LIMITS, spool(&scratch));
    it.push(1, &["c"]);
    let delivered: Vec<String> = std::iter::from_fn(|| it.deliver(0)).collect();
    assert_eq!(delivered, ["a a a a a a a a", "b", "c"]);
}

#[test]
fn without_room_on_the_disk_it_is_waited_and_nothing_is_lost() {
    let scratch = Scratch::new();
    let it = lane(LIMITS, Some(Spool::open(&scratch.file("east"), 40).unwrap()));
    it.push(1, &["a"; 8]);
    let (other, pusher) = (it.lane.clone(), it.ledger.clone());
    pusher.sent(2, 7, Some("2".to_owned()));
    let thread = guira_sync::thread::spawn(move || other.push(&Arc::new(Batch::of_keys(2, &["b"]))));
    let has_failed = || (it.lane.counts().get(TargetCount::SpoolFailures) > 0).then_some(());
    Deadline::after(SOON).poll(has_failed).expect("the spool is full");
    assert_eq!(it.saved(), None);
    assert_eq!(it.deliver(0).as_deref(), Some("a a a a a a a a"));
    thread.join().unwrap().unwrap();
    assert_eq!(it.saved().as_deref(), Some("1"));
    assert_eq!((it.deliver(0).as_deref(), it.saved().as_deref()), (Some("b"), Some("2")));
}

#[test]
fn who_waits_is_told_of_the_end() {
    let it = lane(LIMITS, None);
    it.push(1, &["a"; 8]);
    let other = it.lane.clone();
    let thread = guira_sync::thread::spawn(move || other.push(&Arc::new(Batch::of_keys(2, &["b"]))));
    it.lane.end();
    assert_eq!(thread.join().unwrap(), Err(Stopped));
    assert!(it.lane.next().is_none());
}

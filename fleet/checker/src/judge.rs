//! Decides which requests are due, and judges their replies. Times are relative to a moment that
//! the caller chooses.
//!
//! ```text
//! hint ── database: the base ─┬─ delay ── caches ── what differs? ── database: as before? ── inconsistent
//!                             └─ next delay …                             └ changed: a new base, and all delays again
//! ```
//!
//! A cache is read between two equal readings of the database, so that no change in between makes
//! it look wrong. A value that equals the first reading is not checked again, except at the first
//! look: a hint may arrive a moment before its change is visible.

use crate::look::{Look, Stage, Wrong};
use crate::pattern::Pattern;
use crate::report::{AtDelay, Counted, Example, Origin, Outcome, Report, Tally};
use crate::sight::{Cached, Content};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::time::Duration;

const EXAMPLES_MAX: usize = 100;

/// The pause before clusters that differ are read again, if there is no database.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The most changes of a key in a row that are followed without a hint.
const UNTOLD_MAX: u8 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    Database,
    EachOther,
}

#[derive(Debug)]
pub(crate) struct Settings {
    /// One hint in this many is sampled, by a counter.
    pub(crate) one_in: NonZeroU64,
    /// In ascending order.
    pub(crate) delays: Vec<Duration>,
    /// Kinds of keys. The first whose pattern a key has is its own.
    pub(crate) checks: Vec<(Pattern, Against)>,
    pub(crate) clusters: usize,
    pub(crate) regions: Vec<Vec<usize>>,
    /// Samples that may be under way. Others are dropped and counted.
    pub(crate) under_way_max: usize,
}

/// Which question an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tag {
    sample: u64,
    round: u32,
}

/// A question. Each is to be answered, if only by a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Cache { tag: Tag, cluster: usize, key: Box<[u8]> },
    Database { tag: Tag, check: usize, key: Box<[u8]> },
}

#[derive(Debug)]
struct Sample {
    key: Box<[u8]>,
    check: usize,
    origin: Origin,
    /// The number of changes before this one that came without a hint.
    untold: u8,
    changed: Duration,
    /// The start of the delays: the value of the database was known.
    zero: Duration,
    base: Option<Content>,
    /// The next delay to look at.
    next: usize,
    look: Option<Look>,
    round: u32,
    examples: Vec<Option<usize>>,
    due: Option<Due>,
}

/// A time at which a sample has to be read, and the sample.
type Due = (Duration, u64);

/// The samples in flight, and the results of all earlier ones.
#[derive(Debug)]
pub(crate) struct Judge {
    settings: Settings,
    counted: Counted,
    matched: u64,
    last: u64,
    samples: BTreeMap<u64, Sample>,
    by_key: HashMap<Box<[u8]>, u64>,
    agenda: BTreeSet<Due>,
    requests: Vec<Request>,
    delays: Vec<AtDelay>,
    examples: Vec<Example>,
    more_examples: u64,
    unmatched: Option<Vec<u8>>,
}

impl Judge {
    pub(crate) fn new(settings: Settings) -> Self {
        let at = |delay: &Duration| AtDelay {
            delay: *delay,
            all: Tally::default(),
            regions: vec![Tally::default(); settings.regions.len()],
            clusters: vec![Tally::default(); settings.clusters],
        };
        let delays = settings.delays.iter().map(at).collect();
        Judge {
            settings,
            counted: Counted::default(),
            matched: 0,
            last: 0,
            samples: BTreeMap::new(),
            by_key: HashMap::new(),
            agenda: BTreeSet::new(),
            requests: Vec::new(),
            delays,
            examples: Vec::new(),
            more_examples: 0,
            unmatched: None,
        }
    }

    /// Takes notice that a key was changed; returns whether it is the first that has no pattern.
    pub(crate) fn hint(&mut self, key: &[u8], now: Duration) -> bool {
        self.counted.hints += 1;
        let Some(check) = self.settings.checks.iter().position(|(pattern, _)| pattern.values(key).is_some())
        else {
            self.counted.unmatched += 1;
            self.unmatched.get_or_insert_with(|| key.to_vec());
            return self.counted.unmatched == 1;
        };
        if let Some(id) = self.by_key.get(key).copied() {
            self.give_up(id, Outcome::Superseded);
        }
        self.matched += 1;
        if self.matched.is_multiple_of(self.settings.one_in.get()) {
            if self.samples.len() < self.settings.under_way_max {
                self.counted.sampled += 1;
                self.begin(key, check, (Origin::Hint, 0), now);
            } else {
                self.counted.dropped += 1;
            }
        }
        false
    }

    fn begin(&mut self, key: &[u8], check: usize, (origin, untold): (Origin, u8), now: Duration) -> u64 {
        self.last += 1;
        let id = self.last;
        let sample = Sample {
            key: key.into(),
            check,
            origin,
            untold,
            changed: now,
            zero: now,
            base: None,
            next: 0,
            look: None,
            round: 1,
            examples: vec![None; self.settings.clusters],
            due: None,
        };
        if origin == Origin::Hint && self.settings.checks[check].1 == Against::Database {
            let tag = Tag { sample: id, round: 1 };
            self.requests.push(Request::Database { tag, check, key: key.into() });
        }
        self.samples.insert(id, sample);
        self.by_key.insert(key.into(), id);
        if self.settings.checks[check].1 == Against::EachOther {
            self.schedule(id, now + self.settings.delays[0]);
        }
        id
    }

    /// The database has this, and delays count from now.
    fn found(&mut self, id: u64, base: Content, now: Duration) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        sample.base = Some(base);
        sample.zero = now;
        self.schedule(id, now + self.settings.delays[0]);
    }

    fn schedule(&mut self, id: u64, at: Duration) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        if let Some(before) = sample.due.replace((at, id)) {
            self.agenda.remove(&before);
        }
        self.agenda.insert((at, id));
    }

    /// When there is something to do next; at once, if there are questions.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.requests.is_empty() { self.agenda.first().map(|(at, _)| *at) } else { Some(Duration::ZERO) }
    }

    pub(crate) fn due_requests(&mut self, now: Duration) -> Vec<Request> {
        while let Some(due) = self.agenda.first().copied().filter(|(at, _)| *at <= now) {
            self.agenda.remove(&due);
            let (_, id) = due;
            if let Some(sample) = self.samples.get_mut(&id) {
                sample.due = None;
            }
            self.proceed(id, now);
        }
        std::mem::take(&mut self.requests)
    }

    fn proceed(&mut self, id: u64, now: Duration) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        let next = self.settings.delays.get(sample.next).map(|delay| sample.zero + *delay);
        if let Some(look) = &mut sample.look {
            if look.stage == Stage::Pause && next.is_none_or(|next| now < next) {
                look.again();
                self.query_caches(id);
                if let Some(next) = next {
                    self.schedule(id, next);
                }
                return;
            }
            look.close(Outcome::Unknown);
            self.complete(id);
        }
        self.look(id, now);
    }

    /// Begins the look that is due. Those that come so late that the next one is due as well are left out.
    fn look(&mut self, id: u64, now: Duration) {
        while let Some(sample) = self.samples.get_mut(&id) {
            let due = |at: usize| self.settings.delays.get(at).map(|delay| sample.zero + *delay);
            let (delay, at, next) = (sample.next, due(sample.next), due(sample.next + 1));
            let Some(at) = at else { return };
            if at > now {
                return self.schedule(id, at);
            }
            sample.next += 1;
            let look =
                sample.look.insert(Look::new(delay, (sample.zero, at - sample.zero), self.settings.clusters));
            match next {
                Some(next) if next <= now => {
                    look.close(Outcome::Unknown);
                    self.complete(id);
                    continue;
                }
                Some(next) => self.schedule(id, next),
                None => {}
            }
            return self.query_caches(id);
        }
    }

    fn query_caches(&mut self, id: u64) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        let Some(look) = &sample.look else { return };
        sample.round += 1;
        let tag = Tag { sample: id, round: sample.round };
        self.requests.extend(look.open().map(|cluster| Request::Cache {
            tag,
            cluster,
            key: sample.key.clone(),
        }));
    }

    pub(crate) fn cache(&mut self, tag: Tag, cluster: usize, cached: Cached, now: Duration) {
        let id = tag.sample;
        let Some(sample) = self.samples.get_mut(&id).filter(|sample| sample.round == tag.round) else {
            return;
        };
        let against = self.settings.checks[sample.check].1;
        let Some(look) = &mut sample.look else { return };
        if !look.answer(cluster, cached, now) {
            return;
        }
        let mut wrong = Vec::new();
        match (look.stage, against, &sample.base) {
            (Stage::Again, ..) => wrong = look.close_by_each_other(),
            // The base may be from before the change, if the hint came early: the first look does
            // not rely on it.
            (_, Against::Database, Some(base))
                if look.is_first() && look.has_items() || look.match_with(base) =>
            {
                look.stage = Stage::Database;
                sample.round += 1;
                let tag = Tag { sample: id, round: sample.round };
                self.requests.push(Request::Database { tag, check: sample.check, key: sample.key.clone() });
                return;
            }
            (_, Against::EachOther, _) if look.agree() => {
                look.stage = Stage::Pause;
                return self.pause(id, now);
            }
            _ => {}
        }
        self.note(id, wrong);
        self.complete(id);
    }

    fn pause(&mut self, id: u64, now: Duration) {
        let Some(sample) = self.samples.get(&id) else { return };
        let next = self.settings.delays.get(sample.next).map(|delay| sample.zero + *delay);
        let again = now + AGAIN_AFTER;
        self.schedule(id, next.map_or(again, |next| next.min(again)));
    }

    /// Handles a reply of the database; `None` if the query failed.
    pub(crate) fn database(&mut self, tag: Tag, found: Option<Content>, now: Duration) {
        let id = tag.sample;
        let Some(sample) = self.samples.get_mut(&id).filter(|sample| sample.round == tag.round) else {
            return;
        };
        match (&mut sample.look, &sample.base, found) {
            (None, None, Some(found)) => self.found(id, found, now),
            (None, None, None) => self.give_up(id, Outcome::Unknown),
            (Some(look), Some(base), Some(found)) if *base == found => {
                look.match_with(&found);
                let wrong = look.close_as_wrong(&found);
                self.note(id, wrong);
                self.complete(id);
            }
            (Some(look), Some(_), Some(found)) => {
                look.match_with(&found);
                let (key, check, untold) = (sample.key.clone(), sample.check, sample.untold);
                self.give_up(id, Outcome::Superseded);
                if untold < UNTOLD_MAX {
                    self.counted.untold += 1;
                    let id = self.begin(&key, check, (Origin::Database, untold + 1), now);
                    self.found(id, found, now);
                }
            }
            (Some(look), _, None) => {
                look.close(Outcome::Unknown);
                self.complete(id);
            }
            _ => {}
        }
    }

    fn note(&mut self, id: u64, wrong: Vec<Wrong>) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        let Some(look) = &sample.look else { return };
        let at = self.settings.delays[look.delay];
        for (cluster, cache, truth) in wrong {
            if let Some(place) = sample.examples[cluster] {
                if let Some(example) = self.examples.get_mut(place) {
                    example.seen[1] = at;
                }
                continue;
            }
            sample.examples[cluster] = Some(self.examples.len());
            if self.examples.len() == EXAMPLES_MAX {
                sample.examples[cluster] = Some(usize::MAX);
                self.more_examples += 1;
                continue;
            }
            let (key, changed, origin) = (sample.key.to_vec(), sample.changed, sample.origin);
            self.examples.push(Example { key, cluster, changed, origin, cache, truth, seen: [at, at] });
        }
    }

    /// Counts a look of which nothing is open any more, and forgets the sample if it was the last.
    fn complete(&mut self, id: u64) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        let Some(look) = sample.look.take() else { return };
        let is_last = sample.next == self.settings.delays.len();
        self.count(look.delay, &look.outcomes().collect::<Vec<_>>());
        if is_last {
            self.forget(id);
        }
    }

    fn count(&mut self, delay: usize, outcomes: &[Outcome]) {
        let at = &mut self.delays[delay];
        at.all.add(Outcome::worst(outcomes.iter().copied()));
        for (tally, clusters) in at.regions.iter_mut().zip(&self.settings.regions) {
            tally.add(Outcome::worst(clusters.iter().map(|cluster| outcomes[*cluster])));
        }
        for (tally, outcome) in at.clusters.iter_mut().zip(outcomes) {
            tally.add(*outcome);
        }
    }

    /// Ends a sample: its remaining checks get this outcome.
    fn give_up(&mut self, id: u64, outcome: Outcome) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        let rest = sample.next..self.settings.delays.len();
        if let Some(look) = sample.look.take() {
            let mut look = look;
            look.close(outcome);
            self.count(look.delay, &look.outcomes().collect::<Vec<_>>());
        }
        for delay in rest {
            self.count(delay, &vec![outcome; self.settings.clusters]);
        }
        self.forget(id);
    }

    fn forget(&mut self, id: u64) {
        let Some(sample) = self.samples.remove(&id) else { return };
        self.by_key.remove(&sample.key);
        if let Some(due) = sample.due {
            self.agenda.remove(&due);
        }
    }

    /// Samples that are looked after.
    pub(crate) fn under_way(&self) -> usize {
        self.samples.len()
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            counts: self.counted,
            under_way: self.under_way(),
            delays: self.delays.clone(),
            examples: self.examples.clone(),
            more_examples: self.more_examples,
            unmatched: self.unmatched.clone(),
        }
    }
}

#[cfg(test)]
mod tests;

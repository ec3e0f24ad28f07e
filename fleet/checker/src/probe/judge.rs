//! Decides which requests are due, and judges their replies. Times are relative to a moment that
//! the caller chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Duration;

use super::report::{AtDelay, Example, Outcome, Report, Tally};
use super::sample::{Old, Sample};

const EXAMPLES_MAX: usize = 100;

/// How long after the last delay an answer is waited for.
const GRACE: Duration = Duration::from_secs(60);

/// When nodes are first read for a sampled key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// Before the delete is sent on: a node without the item has nothing to delete.
    BeforeDelete,
    /// The delete was already sent: a node without the item is consistent. An item that was stored
    /// again before the first look is taken for the old one.
    AfterDelete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// One delete in this many is sampled, by a counter.
    pub one_in: NonZeroU64,
    /// The delays after a delete at which nodes are read, in ascending order.
    pub delays: Vec<Duration>,
    pub nodes: usize,
    pub first_look: FirstLook,
    /// The most samples in flight. Further ones are dropped and counted.
    pub under_way_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// The first, which learns the cas unique of the item to be deleted.
    First,
    /// The look at this delay, by its index.
    After(usize),
}

/// A request for the item under the key of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    sample: SampleId,
    look: Look,
    node: usize,
    key: Box<[u8]>,
}

impl ProbeRequest {
    /// The number of the node to read.
    pub const fn node(&self) -> usize {
        self.node
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    pub const fn look(&self) -> Look {
        self.look
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// An item with this cas unique.
    Item(u64),
    /// No item.
    Miss,
    /// The node could not be read.
    Failed,
}

/// The meaning of a missing item at the first look.
const fn without_item(first_look: FirstLook) -> Outcome {
    match first_look {
        FirstLook::BeforeDelete => Outcome::Absent,
        FirstLook::AfterDelete => Outcome::Consistent,
    }
}

/// A due step: a look at a node, or the end of a sample, which has a look of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Duration,
    sample: SampleId,
    look: Look,
    node: usize,
}

/// The samples in flight, and the results of all earlier ones.
#[derive(Debug)]
pub struct Probe {
    settings: Settings,
    deletes: u64,
    sampled: u64,
    dropped: u64,
    samples: BTreeMap<SampleId, Sample>,
    agenda: BTreeSet<Due>,
    delays: Vec<AtDelay>,
    examples: Vec<Example>,
    more_examples: u64,
}

impl Probe {
    /// Without samples. Delays are sorted, and duplicates removed.
    pub fn new(mut settings: Settings) -> Self {
        settings.delays.sort_unstable();
        settings.delays.dedup();
        let at = |delay: &Duration| AtDelay {
            delay: *delay,
            overall: Tally::default(),
            nodes: vec![Tally::default(); settings.nodes],
        };
        let delays = settings.delays.iter().map(at).collect();
        Self {
            settings,
            deletes: 0,
            sampled: 0,
            dropped: 0,
            samples: BTreeMap::new(),
            agenda: BTreeSet::new(),
            delays,
            examples: Vec::new(),
            more_examples: 0,
        }
    }

    /// Counts a delete. If it is sampled, the nodes have to be read for `key`, and [`Probe::sent`]
    /// or [`Probe::cancel`] called.
    pub fn sampled(&mut self, key: &[u8], now: Duration) -> Option<SampleId> {
        self.deletes += 1;
        if !self.deletes.is_multiple_of(self.settings.one_in.get()) {
            return None;
        }
        if self.samples.len() >= self.settings.under_way_max {
            self.dropped += 1;
            return None;
        }
        self.sampled += 1;
        let id = SampleId(self.deletes);
        self.samples.insert(id, Sample::new(key, self.settings.nodes, self.settings.delays.len()));
        for node in 0..self.settings.nodes {
            self.agenda.insert(Due { at: now, sample: id, look: Look::First, node });
        }
        Some(id)
    }

    /// Whether all nodes have replied to the first look, or failed: the delete may be sent.
    pub fn is_known(&self, id: SampleId) -> bool {
        self.samples.get(&id).is_none_or(Sample::is_known)
    }

    /// Ends the wait for the first look: the items of nodes without a reply are unknown, since a
    /// later reply may be from after the delete.
    pub fn give_up(&mut self, id: SampleId) {
        let awaited = self.samples.get_mut(&id).into_iter().flat_map(|sample| &mut sample.nodes);
        awaited.filter(|node| node.old == Old::Awaited).for_each(|node| node.old = Old::Unknown);
    }

    /// The delete is sent on: delays count from `now`. First looks that are not answered yet still count, so they
    /// have to be sent to each node before the delete.
    pub fn sent(&mut self, id: SampleId, now: Duration) {
        let Some(sample) = self.samples.get_mut(&id).filter(|sample| sample.sent.is_none()) else { return };
        sample.sent = Some(now);
        for (number, delay) in self.settings.delays.iter().enumerate() {
            for node in 0..self.settings.nodes {
                self.agenda.insert(Due { at: now + *delay, sample: id, look: Look::After(number), node });
            }
        }
        let end = now + self.settings.delays.last().copied().unwrap_or_default() + GRACE;
        self.agenda.insert(Due {
            at: end,
            sample: id,
            look: Look::After(self.settings.delays.len()),
            node: 0,
        });
        self.finish(id);
    }

    /// The delete is not sent: the sample is forgotten.
    pub fn cancel(&mut self, id: SampleId) {
        if self.samples.get(&id).is_some_and(|sample| sample.sent.is_none()) {
            self.samples.remove(&id);
            self.sampled -= 1;
        }
    }

    /// The time of the next request.
    pub fn next_due(&self) -> Option<Duration> {
        self.agenda.first().map(|due| due.at)
    }

    /// The questions that are due. Each is to be answered, if only by [`Seen::Failed`]. A look that comes so late that
    /// the next one is due as well is left out, and its outcome is not known.
    pub fn requests(&mut self, now: Duration) -> impl Iterator<Item = ProbeRequest> + '_ {
        std::iter::from_fn(move || {
            loop {
                let due = *self.agenda.first().filter(|due| due.at <= now)?;
                self.agenda.remove(&due);
                if let Some(probe_request) = self.begin(due, now) {
                    return Some(probe_request);
                }
            }
        })
    }

    /// The question of one look, unless its outcome is clear without it.
    fn begin(&mut self, due: Due, now: Duration) -> Option<ProbeRequest> {
        let Due { sample: id, look, node, .. } = due;
        let sample = self.samples.get(&id)?;
        let probe_request = ProbeRequest { sample: id, look, node, key: sample.key.clone() };
        let Look::After(delay) = look else { return Some(probe_request) };
        if delay == self.settings.delays.len() {
            self.end(id);
            return None;
        }
        let next = self.settings.delays.get(delay + 1);
        let is_late = next.zip(sample.sent).is_some_and(|(next, sent)| now >= sent + *next);
        let clear = match sample.nodes[node].old {
            Old::Missing => Some(without_item(self.settings.first_look)),
            Old::Unknown => Some(Outcome::Unknown),
            // A node answers in order, so the first look will be known when this one is.
            Old::Awaited | Old::Unique(_) => is_late.then_some(Outcome::Unknown),
        };
        let Some(outcome) = clear else { return Some(probe_request) };
        self.settle(id, node, delay, outcome);
        None
    }

    /// Takes the reply to a request. A reply after the end of its sample is ignored.
    pub fn answer(&mut self, probe_request: &ProbeRequest, seen: Seen) {
        let Some(sample) = self.samples.get_mut(&probe_request.sample) else { return };
        let at_node = &mut sample.nodes[probe_request.node];
        let Look::After(delay) = probe_request.look else {
            if at_node.old == Old::Awaited {
                at_node.old = match seen {
                    Seen::Item(unique) => Old::Unique(unique),
                    Seen::Miss => Old::Missing,
                    Seen::Failed => Old::Unknown,
                };
            }
            return;
        };
        let outcome = match (at_node.old, seen) {
            (_, Seen::Failed) | (Old::Awaited | Old::Unknown, _) => Outcome::Unknown,
            (Old::Missing, _) => without_item(self.settings.first_look),
            (Old::Unique(old), Seen::Item(unique)) if old == unique => Outcome::Stale,
            (Old::Unique(_), _) => Outcome::Consistent,
        };
        self.settle(probe_request.sample, probe_request.node, delay, outcome);
    }

    fn settle(&mut self, id: SampleId, node: usize, delay: usize, outcome: Outcome) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        if sample.nodes[node].settled[delay].replace(outcome).is_some() {
            return;
        }
        let at = &mut self.delays[delay];
        at.nodes[node].add(outcome);
        if let Some(overall) = sample.overall(delay) {
            at.overall.add(overall);
        }
        if outcome == Outcome::Stale {
            let seen = at.delay;
            self.note(id, node, seen);
        }
        self.finish(id);
    }

    /// Notes an inconsistency, once for each node.
    fn note(&mut self, id: SampleId, node: usize, seen: Duration) {
        let Some(sample) = self.samples.get_mut(&id) else { return };
        let at_node = &mut sample.nodes[node];
        if let Some(place) = at_node.example {
            if let Some(example) = self.examples.get_mut(place) {
                example.seen[0] = example.seen[0].min(seen);
                example.seen[1] = example.seen[1].max(seen);
            }
            return;
        }
        at_node.example = Some(self.examples.len());
        if self.examples.len() == EXAMPLES_MAX {
            at_node.example = Some(usize::MAX);
            self.more_examples += 1;
            return;
        }
        let (Old::Unique(unique), Some(sent)) = (at_node.old, sample.sent) else { return };
        self.examples.push(Example { key: sample.key.to_vec(), node, sent, unique, seen: [seen, seen] });
    }

    /// Settles all looks without a reply as unknown.
    fn end(&mut self, id: SampleId) {
        for delay in 0..self.settings.delays.len() {
            for node in 0..self.settings.nodes {
                self.settle_open(id, node, delay);
            }
        }
    }

    fn settle_open(&mut self, id: SampleId, node: usize, delay: usize) {
        let is_open = |sample: &Sample| sample.nodes[node].settled[delay].is_none();
        if self.samples.get(&id).is_some_and(is_open) {
            self.settle(id, node, delay, Outcome::Unknown);
        }
    }

    /// Forgets a sample of which everything is settled.
    fn finish(&mut self, id: SampleId) {
        let Some(sent) =
            self.samples.get(&id).filter(|sample| sample.is_settled()).and_then(|sample| sample.sent)
        else {
            return;
        };
        self.samples.remove(&id);
        let end = sent + self.settings.delays.last().copied().unwrap_or_default() + GRACE;
        self.agenda.remove(&Due {
            at: end,
            sample: id,
            look: Look::After(self.settings.delays.len()),
            node: 0,
        });
    }

    /// Samples that are looked after.
    pub fn under_way(&self) -> usize {
        self.samples.len()
    }

    pub fn report(&self) -> Report {
        Report {
            deletes: self.deletes,
            sampled: self.sampled,
            dropped: self.dropped,
            under_way: self.under_way(),
            delays: self.delays.clone(),
            examples: self.examples.clone(),
            more_examples: self.more_examples,
        }
    }
}

#[cfg(test)]
mod tests;

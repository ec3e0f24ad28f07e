//! One cache on one stream: the wheel of the simulator.

use guira_workload::OnMiss;
use guira_workload::trace::Action;
use serde::Serialize;

use crate::policy::{Id, Policy};
use crate::stream::Stream;

/// In what the room of a cache is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// In objects: each takes one.
    Objects,
    /// In bytes: an object takes its key and value, or `size` bytes where the stream does not tell, and `overhead`.
    Bytes {
        /// Key and value of an object of unknown size.
        size: u32,
        /// What the cache needs for an object beside its key and value.
        overhead: u32,
    },
}

/// How a stream is driven through a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rules {
    pub on_miss: OnMiss,
    /// What the room is measured in.
    pub measure: Measure,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests that asked for a key.
    pub reads: u64,
    pub hits: u64,
    /// Reads that found it expired; they count as misses.
    pub expired: u64,
    /// Requests that stored, other than after a miss.
    pub stores: u64,
    pub deletes: u64,
    /// What the cache held at the end, in its measure.
    pub held: u64,
}

impl Counters {
    /// The share of reads that were hits; 0 when there were none.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { self.hits as f64 / self.reads as f64 }
    }

    /// The same for a sample that should have `expected` reads.
    pub(crate) fn hit_ratio_of(&self, reads_expected: f64) -> f64 {
        let misses = (self.reads - self.hits) as f64;
        if self.reads == 0 { 0.0 } else { (1.0 - misses / reads_expected).clamp(0.0, 1.0) }
    }

    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.reads + self.stores + self.deletes
    }
}

/// Requests between two notes of progress.
const CHUNK: usize = 1 << 18;

/// Drives `stream` through a cache with the policy `policy`; `progress` hears of every request once.
pub(crate) fn run<P: Policy + ?Sized>(
    policy: &mut P,
    stream: &Stream,
    rules: Rules,
    progress: &dyn Fn(u64),
) -> Counters {
    let mut counters = Counters::default();
    let mut expiries = Expiries::of(stream);
    let is_simple = stream.is_plain() && rules == Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    for from in (0..stream.len()).step_by(CHUNK) {
        let to = (from + CHUNK).min(stream.len());
        if is_simple {
            counters.hits += look_aside(policy, &stream.ids[from..to], from);
            counters.reads += (to - from) as u64;
        } else {
            for number in from..to {
                step(policy, stream, rules, number, &mut expiries, &mut counters);
            }
        }
        progress((to - from) as u64);
    }
    counters.held = policy.held();
    counters
}

/// Reads only, in objects, each miss followed by an insert: returns the hits.
fn look_aside<P: Policy + ?Sized>(policy: &mut P, ids: &[Id], from: usize) -> u64 {
    let mut hits = 0;
    for (index, &id) in ids.iter().enumerate() {
        policy.begin(from + index);
        if policy.read(id) {
            hits += 1;
        } else {
            policy.insert(id, 1);
        }
    }
    hits
}

fn step<P: Policy + ?Sized>(
    policy: &mut P,
    stream: &Stream,
    rules: Rules,
    number: usize,
    expiries: &mut Expiries,
    counters: &mut Counters,
) {
    let id = stream.ids[number];
    let action = stream.actions.get(number);
    // Nothing is, or ever will be, held of a lone key.
    match action {
        Action::LoneGet => return counters.reads += 1,
        Action::LoneDelete => return counters.deletes += 1,
        Action::Get | Action::Set | Action::Delete => policy.begin(number),
    }
    if expiries.has_passed(id, stream.times.get(number)) {
        policy.remove(id);
        expiries.forget(id);
        counters.expired += u64::from(action == Action::Get);
    }
    let store = |policy: &mut P, expiries: &mut Expiries| {
        policy.insert(id, weight(stream, rules.measure, number));
        expiries.note(id, stream.times.get(number), stream.ttls.get(number));
    };
    match action {
        Action::Get => {
            counters.reads += 1;
            if policy.read(id) {
                counters.hits += 1;
            } else if rules.on_miss == OnMiss::Fill {
                store(policy, expiries);
            }
        }
        Action::Set => {
            counters.stores += 1;
            // To store over an object counts as a read of it. The new value lies in new memory, as in the server; with objects nothing moves.
            let is_moved = rules.measure != Measure::Objects && policy.remove(id);
            if is_moved {
                store(policy, expiries);
                policy.read(id);
            } else if policy.read(id) {
                expiries.note(id, stream.times.get(number), stream.ttls.get(number));
            } else {
                store(policy, expiries);
            }
        }
        Action::Delete | Action::LoneGet | Action::LoneDelete => {
            counters.deletes += 1;
            policy.remove(id);
            expiries.forget(id);
        }
    }
}

/// What the object of request `number` takes of the room.
pub(crate) fn weight(stream: &Stream, measure: Measure, number: usize) -> u32 {
    match measure {
        Measure::Objects => 1,
        Measure::Bytes { size, overhead } => {
            let told = stream.sizes.get(number);
            (if told == 0 { size } else { told }).saturating_add(overhead).max(1)
        }
    }
}

/// When the objects of keys expire; nothing at all for a stream without expiry.
#[derive(Debug)]
struct Expiries {
    /// The second in which the object of each key is gone.
    seconds: Vec<u32>,
}

const NEVER: u32 = u32::MAX;

impl Expiries {
    fn of(stream: &Stream) -> Self {
        Self { seconds: if stream.ttls.is_usual() { Vec::new() } else { vec![NEVER; stream.keys()] } }
    }

    #[inline]
    fn has_passed(&self, id: Id, now: u32) -> bool {
        self.seconds.get(id as usize).is_some_and(|&second| second <= now)
    }

    fn note(&mut self, id: Id, now: u32, ttl: u32) {
        if let Some(second) = self.seconds.get_mut(id as usize) {
            *second = if ttl == 0 { NEVER } else { now.saturating_add(ttl) };
        }
    }

    fn forget(&mut self, id: Id) {
        if let Some(second) = self.seconds.get_mut(id as usize) {
            *second = NEVER;
        }
    }
}

#[cfg(test)]
mod tests {
    use guira_workload::trace::Trace;

    use super::{Counters, Measure, OnMiss, Rules, run};
    use crate::policy::Lru;
    use crate::sample::Sample;
    use crate::stream::{Reading, Stream, Writes};

    const OBJECTS: Rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };

    fn counters(text: &'static str, limit: u64, rules: Rules) -> Counters {
        let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
        let stream = Stream::read(Trace::new(text.as_bytes(), None).unwrap(), reading).unwrap();
        run(&mut Lru::new(limit, stream.keys()), &stream, rules, &|_| ())
    }

    #[test]
    fn a_miss_is_followed_by_an_insert_unless_the_trace_has_its_own() {
        let text = "a\na\nb\na\n";
        let filled = counters(text, 1, OBJECTS);
        assert_eq!((filled.reads, filled.hits, filled.held), (4, 1, 1));
        assert_eq!(counters(text, 1, Rules { on_miss: OnMiss::Leave, ..OBJECTS }).hits, 0);
    }

    #[test]
    fn stores_and_deletes_are_no_reads() {
        let text = "0,a,1,5,1,set,0\n1,a,1,5,1,get,0\n2,a,1,0,1,delete,0\n3,a,1,0,1,get,0\n";
        let counters = counters(text, 1, OBJECTS);
        assert_eq!((counters.reads, counters.hits, counters.stores, counters.deletes), (2, 1, 1, 1));
        assert_eq!((counters.requests(), counters.hit_ratio()), (4, 0.5));
    }

    #[test]
    fn an_object_is_gone_in_the_second_in_which_its_time_is_over() {
        let text = "10,a,1,5,1,set,5\n14,a,1,5,1,get,0\n15,a,1,0,1,get,0\n99,a,1,5,1,get,0\n";
        let counters = counters(text, 1, OBJECTS);
        assert_eq!((counters.hits, counters.expired), (2, 1), "what a miss stores has no expiry");
    }

    #[test]
    fn bytes_are_those_of_key_and_value_and_overhead() {
        // 1 + 9 + 10 bytes each: 40 hold two, 39 only one.
        let text = "0,a,1,9,1,set,0\n0,b,1,9,1,set,0\n0,a,1,9,1,get,0\n";
        let rules = Rules { measure: Measure::Bytes { size: 0, overhead: 10 }, ..OBJECTS };
        assert_eq!((counters(text, 40, rules).hits, counters(text, 39, rules).hits), (1, 0));
        let unknown = Rules { measure: Measure::Bytes { size: 100, overhead: 0 }, ..OBJECTS };
        assert_eq!(counters("a\nb\na\n", 200, unknown).held, 200);
    }

    #[test]
    fn a_value_of_another_length_takes_its_own_room() {
        let text = "0,a,1,9,1,set,0\n0,b,1,9,1,set,0\n0,a,1,29,1,set,0\n0,b,1,9,1,get,0\n";
        let rules = Rules { measure: Measure::Bytes { size: 0, overhead: 0 }, ..OBJECTS };
        let counters = counters(text, 30, rules);
        assert_eq!((counters.hits, counters.held), (0, 10), "b made room for a, and a for b");
    }
}

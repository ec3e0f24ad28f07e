//! A stream driven through a layout.

use guira_workload::OnMiss;
use guira_workload::trace::Action;
use serde::Serialize;

use super::item::{NEVER, Object};
use super::{Layout, Usage};
use crate::policy::{Id, PACE};
use crate::stream::Stream;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that asked for a key.
    pub reads: u64,
    pub hits: u64,
    /// Objects stored, also after misses.
    pub stores: u64,
    /// Objects that were refused, for being too large.
    pub refused: u64,
    /// Bytes of the items that were stored.
    pub bytes_stored: u64,
    /// Bytes of items that the cache copied to keep them.
    pub bytes_moved: u64,
    /// What memory was used for: the mean of moments in the second half.
    pub usage: Usage,
}

impl Outcome {
    /// The share of reads that found nothing; 0 when there were none.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { 1.0 - self.hits as f64 / self.reads as f64 }
    }

    /// Bytes that were copied for each byte that was stored.
    #[must_use]
    pub fn copied(&self) -> f64 {
        if self.bytes_stored == 0 { 0.0 } else { self.bytes_moved as f64 / self.bytes_stored as f64 }
    }
}

/// Moments at which memory is looked at.
const LOOKS: usize = 10;
/// Requests between two notes of progress.
const CHUNK: usize = 1 << 16;

/// Drives `stream` through `layout`. Objects of unknown size have `size` bytes of key and value.
pub(super) fn drive(
    layout: &mut impl Layout,
    stream: &Stream,
    (on_miss, size): (OnMiss, u32),
    progress: &dyn Fn(u64),
) -> Outcome {
    let mut outcome = Outcome::default();
    let half = stream.len() / 2;
    let every = (stream.len() - half).div_ceil(LOOKS).max(1);
    let mut looks = 0.0;
    for number in 0..stream.len() {
        step(layout, stream, (on_miss, size), number, &mut outcome);
        if number >= half && (stream.len() - 1 - number).is_multiple_of(every) {
            outcome.usage.add(&layout.usage(second(stream, number)));
            looks += 1.0;
        }
        if number.is_multiple_of(CHUNK) {
            progress(CHUNK.min(stream.len() - number) as u64);
        }
    }
    outcome.usage = if looks > 0.0 { outcome.usage.scaled(1.0 / looks) } else { outcome.usage };
    outcome.bytes_moved = layout.moved();
    outcome
}

fn step<L: Layout>(
    layout: &mut L,
    stream: &Stream,
    (on_miss, size): (OnMiss, u32),
    number: usize,
    outcome: &mut Outcome,
) {
    let (id, now) = (stream.ids[number], second(stream, number));
    let store = |layout: &mut L, outcome: &mut Outcome| {
        let object = object(stream, size, number);
        let is_stored = layout.store(id, object, now);
        outcome.refused += u64::from(!is_stored);
        outcome.stores += u64::from(is_stored);
        outcome.bytes_stored += if is_stored { object.item_bytes() } else { 0 };
    };
    match stream.actions.get(number) {
        Action::LoneGet => outcome.reads += 1,
        Action::LoneDelete => (),
        Action::Get => {
            outcome.reads += 1;
            if layout.read(id, now) {
                outcome.hits += 1;
            } else if on_miss == OnMiss::Fill {
                store(layout, outcome);
            }
        }
        Action::Set => store(layout, outcome),
        Action::Delete => layout.remove(id, now),
    }
}

/// What request `number` stores.
fn object(stream: &Stream, size: u32, number: usize) -> Object {
    let told = stream.sizes.get(number);
    let expires = match stream.ttls.get(number) {
        0 => NEVER,
        seconds => second(stream, number).saturating_add(seconds),
    };
    Object { bytes: if told == 0 { size } else { told }, expires }
}

fn second(stream: &Stream, number: usize) -> u32 {
    if stream.times.is_usual() { (number as u64 / PACE) as u32 } else { stream.times.get(number) }
}

/// Bytes of the items of all keys, each as it is stored last.
pub(super) fn footprint(stream: &Stream, size: u32) -> u64 {
    let mut items = vec![0; stream.keys()];
    for number in 0..stream.len() {
        let id: Id = stream.ids[number];
        if matches!(stream.actions.get(number), Action::Get | Action::Set) {
            items[id as usize] = object(stream, size, number).item_bytes();
        }
    }
    items.iter().sum()
}

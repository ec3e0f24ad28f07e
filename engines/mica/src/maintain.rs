//! Maintenance between requests: the index grows, expired items are removed, memory is given back.

use crate::core::Core;
use crate::growth;
use crate::local::Local;
use crate::relocate;
use crate::store::ItemStore;
use crate::writer::{ALL, Writer};
use guira_contract::Pace;
use guira_sync::clock::Seconds;

/// The partitions in which a session goes on.
#[derive(Debug, Default)]
pub(crate) struct NextPartitions {
    maintained: usize,
    crawled: usize,
}

/// Does up to `budget` steps of maintenance, in the `next` partition and those after it. Returns how many steps were done.
pub(crate) fn maintain<S: ItemStore>(
    local: &mut Local<S>,
    next: &mut NextPartitions,
    now: Seconds,
    pace: Pace,
    budget: usize,
) -> usize {
    if pace == Pace::Crawl {
        return crawl_partition(local, &mut next.crawled, now, budget);
    }
    let next = &mut next.maintained;
    let partitions = local.core().partitions.len();
    let mut done = 0;
    // Under load one partition has its turn, otherwise all have.
    let turns = if pace == Pace::Busy { 1 } else { partitions };
    for _ in 0..turns {
        let number = *next % partitions;
        *next = next.wrapping_add(1);
        let left = budget.saturating_sub(done);
        if left == 0 {
            break;
        }
        let work = |writer: &mut Writer<'_, S>| {
            let done = maintain_partition(writer, left);
            if pace == Pace::Idle { done + (done..left).take_while(|_| crawl(writer)).count() } else { done }
        };
        if pace == Pace::Busy && !has_work(local.core(), number) {
            continue;
        }
        done += local.try_holding(number, now, work).unwrap_or(0);
    }
    done
}

/// Does up to `steps` steps of the crawler, in one partition after the other: where it is through, items need not be looked at so closely any more. Returns how
/// many steps were done.
fn crawl_partition<S: ItemStore>(
    local: &mut Local<S>,
    next: &mut usize,
    now: Seconds,
    steps: usize,
) -> usize {
    let partitions = local.core().partitions.len();
    for _ in 0..partitions {
        let work = |writer: &mut Writer<'_, S>| (0..steps).take_while(|_| crawl(writer)).count();
        let done = local.try_holding(*next % partitions, now, work).unwrap_or(0);
        if done > 0 {
            return done;
        }
        *next = next.wrapping_add(1);
    }
    0
}

/// Whether [`maintain_partition`] may have something to do. Read without the partition's lock, which would take its line from the other workers in
/// each round: what has just changed is seen in a later round.
fn has_work<S: ItemStore>(core: &Core<S>, number: usize) -> bool {
    let part = &core.partitions[number];
    let (index, store) = (part.index(), part.store());
    !part.is_sized_for(core.sizing.share())
        || part.is_short()
        || index.is_crowded(part.items())
        || store.reached() > store.end()
}

fn maintain_partition<S: ItemStore>(writer: &mut Writer<'_, S>, budget: usize) -> usize {
    growth::adjust(writer);
    growth::end_shortage(writer);
    let mut done = 0;
    while done < budget && growth::grow(writer) {
        done += 1;
    }
    while done < budget && relocate::shrink(writer) {
        done += 1;
    }
    done
}

/// Removes dead items from some buckets, and stamps the others. False if there is nothing to do for now.
fn crawl<S: ItemStore>(writer: &mut Writer<'_, S>) -> bool {
    let buckets = writer.part().index().buckets();
    let flushes = (writer.part().clean_since(), writer.flushes());
    let Some(slice) = writer.core().crawler.slice(writer.partition(), buckets, flushes, writer.time()) else {
        return false;
    };
    for number in slice.buckets {
        let (checked, removed) = writer.remove_dead_of(number as u32);
        writer.counters().crawled(ALL, checked, removed);
    }
    slice.cleans.inspect(|flushes| writer.part().cleaned(*flushes));
    true
}

//! Maintenance between requests: the index grows, expired items are removed, memory is given back.

use crate::growth;
use crate::local::Local;
use crate::relocate;
use crate::store::ItemStore;
use crate::writer::{ALL, Writer};
use guira_contract::Pace;
use guira_sync::clock::Seconds;

/// Under load the crawler gets a slice in a partition once in this many rounds.
const BUSY_ROUNDS_A_SLICE: usize = 64;

/// Does up to `budget` steps of maintenance, in the partition `next` and those after it. Returns how many steps were done.
pub(crate) fn maintain<S: ItemStore>(
    local: &mut Local<S>,
    next: &mut usize,
    now: Seconds,
    pace: Pace,
    budget: usize,
) -> usize {
    let partitions = local.core().partitions.len();
    let mut done = 0;
    // Under load one partition has its turn, otherwise all have.
    let turns = if pace == Pace::Busy { 1 } else { partitions };
    for _ in 0..turns {
        let number = *next % partitions;
        *next = next.wrapping_add(1);
        let crawls = pace == Pace::Idle || (*next / partitions).is_multiple_of(BUSY_ROUNDS_A_SLICE);
        let left = budget.saturating_sub(done);
        if left == 0 {
            break;
        }
        let work = |writer: &mut Writer<'_, S>| {
            let done = maintain_partition(writer, left);
            if crawls { done + (done..left).take_while(|_| crawl(writer)).count() } else { done }
        };
        done += local.try_holding(number, now, work).unwrap_or(0);
    }
    done
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

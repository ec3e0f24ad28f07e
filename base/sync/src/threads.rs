//! Parallel work at starts and stops, while no worker runs.

use crate::thread;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads do not read a disk faster, and each needs a stack and a buffer.
const THREADS_MAX: usize = 8;

/// Calls `work` once for each of `items`, and returns the results in the order of the items. `begin` makes the state
/// of a thread, such as a buffer; a thread takes `share` items at a time. If threads cannot be created, fewer do the
/// work.
///
/// # Panics
/// If `work` does.
pub fn map_by_threads<T: Sync, B, R: Send>(
    items: &[T],
    share: usize,
    begin: impl Fn() -> B + Sync,
    work: impl Fn(&mut B, &T) -> R + Sync,
) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let threads = processors.min(items.len().div_ceil(share));
    // Relaxed: it only distributes indices; joining the threads orders the results.
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut kept, mut results) = (begin(), Vec::new());
        loop {
            let first = next.fetch_add(share, Ordering::Relaxed);
            let Some(rest) = items.get(first..).filter(|rest| !rest.is_empty()) else {
                return results;
            };
            let numbered = rest.iter().take(share).zip(first..);
            results.extend(numbered.map(|(item, number)| (number, work(&mut kept, item))));
        }
    };
    let mut results = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut results = run();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once_and_results_keep_their_order() {
        for (count, share) in [(0, 1), (1, 16), (1000, 1), (1000, 7), (1000, 5000)] {
            let items: Vec<usize> = (0..count).collect();
            let calls = AtomicUsize::new(0);
            let doubled = map_by_threads(
                &items,
                share,
                || 0,
                |seen, item| {
                    *seen += 1;
                    calls.fetch_add(1, Ordering::Relaxed);
                    (item * 2, *seen > 0)
                },
            );
            assert!(doubled.iter().copied().eq((0..count).map(|item| (item * 2, true))), "{count} {share}");
            assert_eq!(calls.into_inner(), count);
        }
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_is_passed_on() {
        map_by_threads(&[1, 7, 9, 11], 1, || (), |(), item| assert!(*item != 7, "seven"));
    }
}

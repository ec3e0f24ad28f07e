//! Threads that begin at the same moment, and the time until the last of them is done.

use std::num::NonZero;
use std::sync::Barrier;
use std::thread::available_parallelism;

use guira_sync::clock::Stopwatch;

use crate::affinity::pin_thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    Free,
    /// Each on one processor, in turn.
    Pinned,
}

/// Runs `work` with each number below `count` on a thread of its own. Returns what each returned, and the seconds from when the first thread
/// began until the last ended. Threads read the clock themselves: the thread that waits for them may be woken too late.
///
/// # Panics
/// If a thread panics.
pub fn together<T: Send>(
    count: usize,
    placement: Placement,
    work: impl Fn(usize) -> T + Sync,
) -> (Vec<T>, f64) {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let barrier = Barrier::new(count);
    let watch = Stopwatch::start();
    let timed = |index: usize| {
        if placement == Placement::Pinned {
            // A machine that refuses only measures less evenly.
            let _refused = pin_thread(&[index % cores]);
        }
        barrier.wait();
        let begin = watch.elapsed().as_secs_f64();
        let made = work(index);
        (made, begin, watch.elapsed().as_secs_f64())
    };
    let timed = &timed;
    let done: Vec<(T, f64, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || timed(index))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    });
    let begin = done.iter().map(|(_, begin, _)| *begin).fold(f64::INFINITY, f64::min);
    let end = done.iter().map(|(.., end)| *end).fold(0.0, f64::max);
    (done.into_iter().map(|(made, ..)| made).collect(), (end - begin).max(1e-9))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Placement, together};

    #[test]
    fn the_time_is_that_of_the_slowest() {
        for placement in [Placement::Free, Placement::Pinned] {
            let (made, seconds) = together(3, placement, |index| {
                std::thread::sleep(Duration::from_millis(20 * index as u64));
                index
            });
            assert_eq!(made, [0, 1, 2]);
            assert!((0.04..5.0).contains(&seconds), "{seconds}");
        }
    }
}

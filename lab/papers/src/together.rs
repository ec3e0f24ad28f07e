//! Threads that begin together, and the time until the last of them is done.

use std::sync::Barrier;

use guira_sync::clock::Stopwatch;

/// What `work` makes of each number below `count`, each on a thread of its own, and the seconds from when the first began
/// until the last ended. Threads look at the clock themselves: who waits for them may be woken too late to see either.
pub(crate) fn together<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> (Vec<T>, f64) {
    let barrier = Barrier::new(count);
    let watch = Stopwatch::start();
    let timed = |index| {
        barrier.wait();
        let begin = watch.elapsed().as_secs_f64();
        let made = work(index);
        (made, begin, watch.elapsed().as_secs_f64())
    };
    let timed = &timed;
    let done: Vec<(T, f64, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || timed(index))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let begin = done.iter().map(|(_, begin, _)| *begin).fold(f64::INFINITY, f64::min);
    let end = done.iter().map(|(.., end)| *end).fold(0.0, f64::max);
    (done.into_iter().map(|(made, ..)| made).collect(), (end - begin).max(1e-9))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::together;

    #[test]
    fn the_time_is_that_of_the_slowest() {
        let (made, seconds) = together(3, |index| {
            std::thread::sleep(Duration::from_millis(20 * index as u64));
            index
        });
        assert_eq!(made, [0, 1, 2]);
        assert!((0.04..5.0).contains(&seconds), "{seconds}");
    }
}

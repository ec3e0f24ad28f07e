//! Work on several threads.

use std::sync::{Mutex, PoisonError};

/// Does `work` for each of `jobs` on up to `threads` threads. Results are in the order of the jobs.
pub(crate) fn each<J: Send, R: Send>(jobs: Vec<J>, threads: usize, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let threads = threads.clamp(1, jobs.len().max(1));
    let done: Mutex<Vec<Option<R>>> = Mutex::new((0..jobs.len()).map(|_| None).collect());
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, job)) = next() {
                    let result = work(job);
                    done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn results_are_in_the_order_of_the_jobs_whatever_the_number_of_threads() {
        for threads in [0, 1, 3, 99] {
            let squares: Vec<u64> = each((0..50).collect(), threads, |number: u64| number * number);
            assert!(squares.iter().copied().eq((0..50).map(|number| number * number)), "{threads} threads");
        }
        assert!(each(Vec::new(), 2, |number: u8| number).is_empty());
    }
}

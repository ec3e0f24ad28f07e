//! The worst of contention: a thread that stands still in the middle of an operation.

use std::sync::mpsc;
use std::time::Duration;

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{ENGINES, FLEEC};
use crate::caches::{Cache, Touch};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-parked",
    claims: &["F4"],
    about: "What others get done on the same key while a thread stands still in the middle of an operation on it",
    run,
};

/// The key that all are at.
const KEY: u32 = 7;

/// What a thread got done beside one that stood still.
#[derive(Debug, Clone, Copy)]
struct Beside {
    /// Operations done, of those wanted.
    done: u64,
    wanted: u64,
    seconds: f64,
}

impl Beside {
    fn summary(&self) -> String {
        if self.done < self.wanted {
            format!("stalled: {} of {} in {:.1} s", self.done, self.wanted, self.seconds)
        } else {
            "all done".to_owned()
        }
    }
}

/// One thread stands still while it does `parked`; another does `wanted` of `other` on the same key. It is waited for at most `patience`.
fn beside(
    cache: &dyn Cache,
    parked: Touch,
    other: Touch,
    wanted: u64,
    patience: Duration,
) -> Result<Beside, Failure> {
    let (stands, is_standing) = mpsc::channel();
    let (go_on, is_over) = mpsc::channel::<()>();
    let (finished, is_finished) = mpsc::channel();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (done, stop) = (&done, &stop);
    std::thread::scope(|scope| {
        let standing = scope.spawn(move || {
            let mut has_stood = false;
            cache.touch(KEY, parked, &mut || {
                // An operation that begins anew comes by again.
                if !std::mem::replace(&mut has_stood, true) {
                    let _others_gone = stands.send(());
                    let _told = is_over.recv();
                }
            })
        });
        is_standing.recv().map_err(failed)?;
        let begin = guira_sync::clock::Stopwatch::start();
        let working = scope.spawn(move || {
            for _ in 0..wanted {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                cache.touch(KEY, other, &mut || {})?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            let _nobody_waits = finished.send(());
            Ok::<_, Failure>(())
        });
        let _in_time = is_finished.recv_timeout(patience);
        let beside =
            Beside { done: done.load(Ordering::Relaxed), wanted, seconds: begin.elapsed().as_secs_f64() };
        stop.store(true, Ordering::Relaxed);
        let _is_gone = go_on.send(());
        let panicked = |_| Failure::Other("a thread panicked".to_owned());
        standing.join().map_err(panicked)??;
        working.join().map_err(panicked)??;
        Ok(beside)
    })
}

const CASES: [(Touch, Touch); 4] =
    [(Touch::Get, Touch::Get), (Touch::Get, Touch::Set), (Touch::Set, Touch::Get), (Touch::Set, Touch::Set)];

fn name(touch: Touch) -> &'static str {
    match touch {
        Touch::Get => "get",
        Touch::Set => "set",
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let wanted = context.scale.pick(20_000, 500);
    let patience = Duration::from_secs_f64(context.scale.pick(2.0, 0.3));
    let (mut rows, mut stalled) = (Vec::new(), vec![0; ENGINES.len()]);
    for (parked, other) in CASES {
        let mut row = vec![name(parked).to_owned(), name(other).to_owned()];
        for (engine, config) in ENGINES.iter().enumerate() {
            let cache = config.open(64 << 20)?;
            cache.fill(1_000)?;
            let beside = beside(cache.as_ref(), parked, other, wanted, patience)?;
            stalled[engine] += u32::from(beside.done < beside.wanted);
            row.push(beside.summary());
        }
        rows.push(row);
    }
    if stalled[FLEEC] > 0 {
        return Err(Failure::Other("fleec stalled beside a thread that stands still".to_owned()));
    }
    let summary: Vec<String> =
        ENGINES.iter().zip(&stalled).map(|(config, stalled)| format!("{} {stalled}", config.name)).collect();
    let names = ENGINES.map(|config| config.name);
    let head: Vec<&str> = ["stands still in a", "the other does"].into_iter().chain(names).collect();
    Ok(Outcome {
        how: format!(
            "One thread is stopped in the middle of an operation, while the value is copied or while what is to be stored is decided; another does {wanted} operations on the same key, and is given {} s. The engine's tests do the same in eight windows within its operations, with other keys, eviction, growth and pages that change their class meanwhile.",
            patience.as_secs_f64()
        ),
        answers: vec![answer(
            "F4",
            format!("cases of {} in which another thread stalled: {}", CASES.len(), summary.join(", ")),
            verdict(&[
                ("fleec stalls in no case", stalled[FLEEC] == 0),
                ("memclock stalls in all cases", stalled[super::MEMCLOCK] == CASES.len() as u32),
            ]) + "In memclock a thread at a bucket holds up all others there, as in memcached; in memc3 and classic only one that stores does. Rates and delays of memclock beside memcached's are in F1.",
        )],
        tables: vec![table("Another thread on the same key:", &head, rows)],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ENGINES, FLEEC, beside};
    use crate::caches::Touch;

    #[test]
    fn only_locks_hold_up_others() {
        for (engine, stalls) in [(FLEEC, [false; 2]), (super::super::MEMCLOCK, [true; 2])] {
            let cache = ENGINES[engine].open(16 << 20).unwrap();
            cache.fill(100).unwrap();
            for (parked, stalls) in [Touch::Get, Touch::Set].into_iter().zip(stalls) {
                let patience = Duration::from_millis(if stalls { 100 } else { 60_000 });
                let beside = beside(cache.as_ref(), parked, Touch::Set, 200, patience).unwrap();
                assert_eq!(beside.done < 200, stalls, "{parked:?}: {beside:?}");
            }
        }
    }
}

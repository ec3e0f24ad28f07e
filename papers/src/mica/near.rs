//! Whether the server's processor and the client's are near each other.
//!
//! On a virtual machine the host moves processors about. Two that had a cache in common a second ago may then lie apart, and a cache line
//! takes six times as long from one to the other, which half of all that is measured between two threads consists of. So each run is
//! taken between two looks at the way, and again when it was long at either.

use guira_harness::affinity::pin_thread;
use guira_sync::atomic::{AtomicU64, Ordering, spin_loop};
use guira_sync::clock::Stopwatch;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::experiment::{Failure, failed};
use crate::servers::{CLIENT_CORE, SERVER_CORE};

/// Round trips of a look, if they do not take too long.
const ROUNDS: u64 = 20_000;
const LOOK_MAX: Duration = Duration::from_millis(50);
/// A round trip longer than this multiple of the shortest counts as far.
const FAR: f64 = 2.0;
/// How often a run is repeated before it is reported as it is, and the pause before: the host moves processors only every few seconds.
const ATTEMPTS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy)]
struct Seen {
    shortest_ns: f64,
    longest_ns: f64,
    runs: u32,
    again: u32,
    /// Runs that were reported although the processors were far apart.
    far: u32,
}

static SEEN: Mutex<Seen> =
    Mutex::new(Seen { shortest_ns: f64::MAX, longest_ns: 0.0, runs: 0, again: 0, far: 0 });

fn seen<T>(change: impl FnOnce(&mut Seen) -> T) -> T {
    change(&mut SEEN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Nanoseconds that a cache line takes to the server's processor and back. Keeps this thread on the client's.
fn round_trip_ns() -> Result<f64, Failure> {
    pin_thread(&[CLIENT_CORE]).map_err(failed)?;
    let line = AtomicU64::new(0);
    let end = u64::MAX;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_there = pin_thread(&[SERVER_CORE]).is_ok();
            loop {
                match line.load(Ordering::Acquire) {
                    number if number == end || !is_there => return,
                    number if number % 2 == 1 => line.store(number + 1, Ordering::Release),
                    _ => spin_loop(),
                }
            }
        });
        let whole = Stopwatch::start();
        let (mut watch, mut rounds) = (Stopwatch::start(), 0u64);
        while rounds < ROUNDS && whole.elapsed() < LOOK_MAX {
            line.store(2 * rounds + 1, Ordering::Release);
            while line.load(Ordering::Acquire) != 2 * rounds + 2 && whole.elapsed() < LOOK_MAX {
                spin_loop();
            }
            rounds += 1;
            if rounds == ROUNDS / 10 {
                // The other thread is there by now.
                watch = Stopwatch::start();
            }
        }
        let taken = watch.elapsed();
        line.store(end, Ordering::Release);
        let counted = rounds.saturating_sub(ROUNDS / 10);
        Ok(if counted == 0 { f64::MAX } else { taken.as_nanos() as f64 / counted as f64 })
    })
}

fn look() -> Result<bool, Failure> {
    let now = round_trip_ns()?;
    Ok(seen(|seen| {
        seen.shortest_ns = seen.shortest_ns.min(now);
        seen.longest_ns = seen.longest_ns.max(now);
        now < FAR * seen.shortest_ns
    }))
}

/// Takes a run while the processors are near each other.
pub(super) fn measured<T>(mut run: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut attempt = 0;
    seen(|seen| seen.runs += 1);
    loop {
        let before = look()?;
        let is_last = attempt == ATTEMPTS;
        if before || is_last {
            let result = run()?;
            if look()? || is_last {
                seen(|seen| seen.far += u32::from(is_last));
                return Ok(result);
            }
        }
        attempt += 1;
        seen(|seen| seen.again += 1);
        std::thread::sleep(PAUSE);
    }
}

/// What was seen, for those who read the figures.
pub(super) fn summary() -> String {
    let Seen { shortest_ns, longest_ns, runs, again, far } = seen(|seen| *seen);
    format!(
        "A cache line went from one processor to the other and back in {shortest_ns:.0} ns at best and {longest_ns:.0} at worst, as the host moved them about. Runs between which it took more than {FAR} times the best were taken again, {again} times in {runs} runs; {far} are reported although it did."
    )
}

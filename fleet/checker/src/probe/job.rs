//! A stream of deletes that is looked after, to its end and until the last delay.

use guira_sync::channel::{Receiver, RecvTimeoutError, sync_channel};
use guira_sync::thread;
use std::io::{self, BufRead};
use std::time::Duration;

use guira_client::text::Target;
use guira_sync::clock::Stopwatch;

use super::deleter::Deleter;
use super::driver::Driver;
use super::judge::{FirstLook, Settings};
use super::report::Report;
use crate::keys::{KeyLine, read};

const LINES_MAX: usize = 1024;

/// The wait for a line or a reply, before the other is checked.
const TURN: Duration = Duration::from_millis(10);

const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The longest time for the first looks at all nodes, before the delete is sent without them.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub enum Manner {
    /// Other programs send the deletes: the stream has their keys.
    Observe,
    /// This job, by each of these servers: the nodes, or a router in front of them.
    Delete(Vec<Target>),
}

#[derive(Clone, Debug)]
pub struct Job {
    /// The sampling; the number of nodes and the time of the first look follow from the rest.
    pub settings: Settings,
    pub nodes: Vec<Target>,
    pub manner: Manner,
    /// When to stop, at the latest.
    pub duration: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Outcomes {
    pub report: Report,
    /// Lines that were no keys.
    pub unusable: u64,
    /// Deletes that a server did not confirm.
    pub failed: u64,
}

/// Follows the deletes whose keys `source` has, one a line, until all samples are settled, the time
/// is over, or `is_over` returns true. `report` is called with the results so far, every second and
/// at the end.
///
/// # Errors
/// When the system has no threads left, or the source fails.
pub fn job(
    job: &Job,
    source: impl BufRead + Send + 'static,
    mut is_over: impl FnMut() -> bool,
    mut report: impl FnMut(&Outcomes) -> io::Result<()>,
) -> io::Result<Outcomes> {
    let first_look = match job.manner {
        Manner::Observe => FirstLook::AfterDelete,
        Manner::Delete(_) => FirstLook::BeforeDelete,
    };
    let mut work = Work {
        driver: Driver::start(Settings { first_look, ..job.settings.clone() }, &job.nodes)?,
        deleter: match &job.manner {
            Manner::Observe => None,
            Manner::Delete(targets) => Some(Deleter::new(targets)),
        },
        clock: Stopwatch::start(),
        unusable: 0,
    };
    let lines = lines(source)?;
    let mut reported = Duration::ZERO;
    let mut is_ended = false;
    while !is_over() && job.duration.is_none_or(|duration| work.clock.elapsed() < duration) {
        if is_ended && work.driver.under_way() == 0 {
            break;
        }
        // While lines come, answers are taken between them.
        work.turn(if is_ended { TURN } else { Duration::ZERO });
        if !is_ended {
            match lines.recv_timeout(TURN) {
                Ok(line) => work.take(line?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_ended = true,
            }
        }
        let now = work.clock.elapsed();
        if now - reported >= REPORT_EVERY {
            reported = now;
            report(&work.outcomes())?;
        }
    }
    let outcomes = work.outcomes();
    report(&outcomes)?;
    Ok(outcomes)
}

/// Reads lines in a thread, which may wait for them.
fn lines(mut source: impl BufRead + Send + 'static) -> io::Result<Receiver<io::Result<KeyLine>>> {
    let (sender, lines) = sync_channel(LINES_MAX);
    let read_all = move || {
        while let Some(line) = read(&mut source).transpose() {
            let is_failure = line.is_err();
            if sender.send(line).is_err() || is_failure {
                return;
            }
        }
    };
    thread::Builder::new().name("lines".to_owned()).spawn(read_all)?;
    Ok(lines)
}

struct Work {
    driver: Driver,
    deleter: Option<Deleter>,
    clock: Stopwatch,
    unusable: u64,
}

impl Work {
    fn take(&mut self, line: KeyLine) {
        let KeyLine::Key(key) = line else {
            self.unusable += 1;
            return;
        };
        let begin = self.clock.elapsed();
        let sample = self.driver.sampled(&key, begin);
        if let Some(deleter) = &mut self.deleter {
            while let Some(id) = sample.filter(|id| !self.driver.is_known(*id)) {
                let now = self.clock.elapsed();
                self.driver.turn(now, TURN);
                if now - begin >= FIRST_LOOK_MAX {
                    self.driver.give_up(id);
                }
            }
            deleter.delete(&key);
        }
        if let Some(id) = sample {
            self.driver.sent(id, self.clock.elapsed());
        }
    }

    fn turn(&mut self, wait: Duration) {
        self.driver.turn(self.clock.elapsed(), wait);
    }

    fn outcomes(&self) -> Outcomes {
        Outcomes {
            report: self.driver.report(),
            unusable: self.unusable,
            failed: self.deleter.as_ref().map_or(0, |deleter| deleter.failed),
        }
    }
}

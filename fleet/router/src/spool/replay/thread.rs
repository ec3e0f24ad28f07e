//! The thread that replays the router's logged deletes once their servers are up again.

use super::super::counts::LogCounts;
use super::super::writer::{Order, Orders, Unsealed};
use super::pass::{Replay, ReplayManner, ReplayTakes, Signal};
use super::places::{Configured, Places};
use super::report::{FileEnd, FileFate, FileReport, LeftReason};
use crate::config::SharedPlan;
use crate::shared::Shared;
use guira_routing::config::ConfigError;
use guira_sync::channel::{Receiver, RecvTimeoutError};
use guira_sync::clock::{Stopwatch, wall_clock};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often the health of servers is checked.
const TICK: Duration = Duration::from_millis(250);
/// How often the folder is listed, since other processes may have left files; and how often while
/// another process holds some of them.
const LIST_EVERY: Duration = Duration::from_secs(10);
const LIST_BUSY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Replayer {
    replay: Replay,
    shared: Arc<Shared>,
    plan: SharedPlan,
    orders: Orders,
    unsealed: Arc<Unsealed>,
    /// The replay ends when the sender is dropped.
    end: Receiver<()>,
    /// The result of the last listing.
    folder: Result<(), io::ErrorKind>,
}

impl Replayer {
    pub(crate) fn new(
        (folder, rate): (PathBuf, u32),
        shared: Arc<Shared>,
        counts: Arc<LogCounts>,
        (orders, unsealed): (Orders, Arc<Unsealed>),
        end: Receiver<()>,
    ) -> Result<Self, ConfigError> {
        let plan = shared.config.plan();
        let places = Configured::new(plan.clone(), &shared.policies.settings)?;
        let places = Places::Configured(Box::new(places));
        let (manner, takes) = (ReplayManner::Deliver, ReplayTakes::Finished);
        let replay = Replay::new(folder, places, rate, counts, manner, takes);
        Ok(Replayer { replay, shared, plan, orders, unsealed, end, folder: Ok(()) })
    }

    /// Runs until its owner ends it.
    pub(crate) fn run(mut self) {
        let mut looked: Option<Stopwatch> = None;
        let mut pause = LIST_EVERY;
        while wait(&self.end, TICK) == Signal::Continue {
            self.follow_plan();
            let is_due = looked.as_ref().is_none_or(|since| since.elapsed() >= pause);
            if is_due || self.replay.has_work() {
                pause = self.pass();
                looked = Some(Stopwatch::start());
            }
            if self.unsealed.has(|server| self.replay.would_try(server)) {
                // The sealed file is found by the next pass. An error means that the router ends.
                let _ = self.orders.send(Order::Seal);
                looked = None;
            }
        }
    }

    fn follow_plan(&mut self) {
        let plan = self.shared.config.plan();
        if Arc::ptr_eq(&plan, &self.plan) {
            return;
        }
        self.plan = plan.clone();
        match Configured::new(plan, &self.shared.policies.settings) {
            Ok(places) => self.replay.replace(Places::Configured(Box::new(places))),
            // Operator: Correct what the message names; logged deletes wait.
            Err(error) => tracing::error!(
                "cannot apply the new configuration to delete replay; using the previous one: {error}"
            ),
        }
    }

    /// Returns the time until the next pass.
    fn pass(&mut self) -> Duration {
        let end = &self.end;
        let done = self.replay.pass(wall_clock(), &mut |time| wait(end, time), &mut report);
        let is_busy = done.as_ref().is_ok_and(|report| report.busy > 0);
        let folder = done.map(|_| ()).map_err(|error| error.kind());
        if folder != self.folder
            && let Err(error) = &folder
        {
            // Operator: Check the permissions of `--async-dir`.
            tracing::warn!(%error, "cannot read the folder of logged deletes");
        }
        self.folder = folder;
        if is_busy { LIST_BUSY } else { LIST_EVERY }
    }
}

/// Waits, unless the router ends.
fn wait(end: &Receiver<()>, time: Duration) -> Signal {
    match end.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Signal::Continue,
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Signal::End,
    }
}

/// Logs the result of a file.
fn report(file: &FileReport) {
    let name = &file.name;
    let left: u64 = file.left.iter().map(|left| left.count).sum();
    if file.delivered > 0 || file.fate == FileFate::Removed {
        tracing::info!(file = name, file.delivered, left, "replayed logged deletes");
    }
    if file.end == FileEnd::Torn {
        // Operator: Nothing: its client received an error.
        tracing::warn!(file = name, "skipped an incomplete last line; its delete was never acknowledged");
    }
    if file.unreadable.count > 0 {
        let (count, first) = (file.unreadable.count, &file.unreadable.first);
        // Operator: Look at the file below `.replay` whose name ends with `unreadable`; deliver its
        // deletes by hand.
        tracing::warn!(file = name, count, first, "skipped malformed lines in a delete log");
    }
    if file.refused.count > 0 {
        let (count, first) = (file.refused.count, &file.refused.first);
        // Operator: Check the keys in the file; the servers consider them invalid.
        tracing::warn!(file = name, count, first, "dropped logged deletes that servers rejected");
    }
    for left in file.left.iter().filter(|left| left.reason == LeftReason::Homeless) {
        let (server, count) = (&left.server, left.count);
        // Operator: Add the server or pool to the configuration, or remove the file.
        tracing::warn!(
            file = name,
            server,
            count,
            "kept logged deletes whose server and pool are not in the configuration"
        );
    }
    if let Some(error) = &file.error {
        // Operator: Correct what `error` names; the router retries.
        tracing::warn!(file = name, error, "cannot replay a delete log");
    }
}

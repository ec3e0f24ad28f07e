//! The configuration in effect, and the attempts to replace it.

use crate::config::{LoadError, Plan, SharedPlan};
use crate::pools::Pools;
use crate::upstream::Server;
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::lock::Mutex;
use guira_upstream::Tko;
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ConfigState {
    /// LOCK: config_state. Leaf.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: SharedPlan,
    pools: Arc<Pools>,
    report: ConfigReport,
}

/// The source of the configuration in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Source,
    /// An earlier router has saved it.
    Saved,
}

/// A point in time: in seconds since 1970, and by a monotonic clock. Both are kept, since their
/// difference in whole seconds would change from time to time.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) unix: u64,
    pub(crate) past: Stopwatch,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Moment { unix: wall_clock(), past: Stopwatch::start() }
    }

    /// Seconds since then.
    pub(crate) fn age(&self) -> u64 {
        self.past.elapsed().as_secs()
    }
}

/// The state of the configuration, for `stats`.
#[derive(Clone, Debug)]
pub(crate) struct ConfigReport {
    /// When it came into effect.
    pub(crate) since: Moment,
    /// When it was last read and found valid.
    pub(crate) last_valid: Moment,
    pub(crate) last_attempt: Moment,
    pub(crate) attempts: u64,
    pub(crate) failures: u64,
    pub(crate) error: Option<String>,
    pub(crate) origin: Origin,
}

/// Clears the failures of servers that `plan` uses and `before` did not: a server that has left a
/// pool and comes back was started again. A server that leaves keeps its health, since workers may
/// still use `before`.
fn forget_failures(before: &Plan, plan: &Plan) {
    let of = |server: &Server| Arc::as_ptr(&server.health);
    let used: HashSet<_> = before.in_use().into_iter().map(|(_, server)| of(server)).collect();
    let all = plan.in_use().into_iter().map(|(_, server)| server);
    all.filter(|server| !used.contains(&of(server))).for_each(|server| _ = server.health.record_success());
}

/// Reports servers that leave while they are marked as failed, in mcrouter's words.
fn report_departed(before: &Plan, plan: &Plan) {
    let of = |server: &Server| Arc::as_ptr(&server.health);
    let used: HashSet<_> = plan.in_use().into_iter().map(|(_, server)| of(server)).collect();
    let out = |why| {
        let servers = plan.in_use().into_iter();
        servers.filter(|(_, server)| server.health.tko() == Some(why)).count()
    };
    let left = before.in_use().into_iter().filter(|(_, server)| !used.contains(&of(server)));
    for (address, _) in left.filter(|(_, server)| !server.health.is_up()) {
        tracing::info!(
            "{address} was TKO, removed from config. Total hard TKOs: {}; soft TKOs: {}. Reply: mc_res_ok",
            out(Tko::Hard),
            out(Tko::Soft)
        );
    }
}

impl ConfigState {
    /// Starts with `plan`.
    pub(crate) fn new(plan: SharedPlan) -> Self {
        let report = ConfigReport {
            since: Moment::now(),
            last_valid: Moment::now(),
            last_attempt: Moment::now(),
            attempts: 1,
            failures: 0,
            error: None,
            origin: Origin::Source,
        };
        ConfigState { state: Mutex::new(State { plan, pools: Arc::default(), report }) }
    }

    pub(crate) fn plan(&self) -> SharedPlan {
        self.state.lock().plan.clone()
    }

    /// The plan, and the counts of pools before it.
    pub(crate) fn plan_and_pools(&self) -> (SharedPlan, Arc<Pools>) {
        let state = self.state.lock();
        (state.plan.clone(), state.pools.clone())
    }

    pub(crate) fn replace(&self, plan: SharedPlan) {
        self.note_unchanged();
        forget_failures(&self.plan(), &plan);
        report_departed(&self.plan(), &plan);
        let mut state = self.state.lock();
        state.pools = Arc::new(state.pools.carried_over(&state.plan, &plan));
        (state.plan, state.report.since) = (plan, Moment::now());
    }

    /// The configuration was read, and has not changed.
    pub(crate) fn note_unchanged(&self) {
        let report = &mut self.state.lock().report;
        report.attempts += 1;
        (report.last_valid, report.last_attempt, report.error) = (Moment::now(), Moment::now(), None);
        report.origin = Origin::Source;
    }

    /// The router has started with a saved configuration, since the source cannot be used.
    pub(crate) fn note_saved(&self, error: &LoadError) {
        self.note_failure(error);
        self.state.lock().report.origin = Origin::Saved;
    }

    pub(crate) fn note_failure(&self, error: &LoadError) {
        let report = &mut self.state.lock().report;
        (report.attempts, report.failures) = (report.attempts + 1, report.failures + 1);
        (report.last_attempt, report.error) = (Moment::now(), Some(error.to_string()));
    }

    pub(crate) fn report(&self) -> ConfigReport {
        self.state.lock().report.clone()
    }
}

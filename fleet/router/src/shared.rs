//! What all threads of a router know.

use crate::config::{LoadError, SharedPlan, Source};
use crate::counters::{Counters, Sums};
use crate::pools::Pools;
use crate::running::{FailedGets, Health, Identity, RouterOptions};
use crate::spool::LogCounts;
use guira_routing::Settings;
use guira_serving::Host;
use guira_sync::clock::Stopwatch;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Shared {
    settings: Settings,
    health: Health,
    failed_gets: FailedGets,
    client_requests: usize,
    server_requests: usize,
    pub(crate) identity: Identity,
    pub(crate) source: Source,
    /// By name, as they are in effect.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) command_line: String,
    pub(crate) since: Stopwatch,
    pub(crate) host: Arc<Host>,
    counters: Vec<Arc<Counters>>,
    /// Of logged deletes.
    pub(crate) log: Arc<LogCounts>,
    /// LOCK: config_state. Leaf.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: SharedPlan,
    pools: Arc<Pools>,
    /// When it came into effect.
    since: Stopwatch,
    /// The last attempt that was right.
    right: Stopwatch,
    tried: Stopwatch,
    attempts: u64,
    failures: u64,
    error: Option<String>,
}

/// How the configuration does, for `stats`.
#[derive(Clone, Debug)]
pub(crate) struct ConfigReport {
    /// Seconds since it came into effect, since the last attempt that was right, and since the last one.
    pub(crate) age: u64,
    pub(crate) right: u64,
    pub(crate) tried: u64,
    pub(crate) attempts: u64,
    pub(crate) failures: u64,
    pub(crate) error: Option<String>,
}

/// A limit of an option, which has none if it is 0.
fn limit(most: u32) -> usize {
    if most == 0 { usize::MAX } else { most as usize }
}

impl Shared {
    pub(crate) fn new(options: &RouterOptions, host: Arc<Host>, plan: SharedPlan) -> Self {
        let state = State {
            plan,
            pools: Arc::default(),
            since: Stopwatch::start(),
            right: Stopwatch::start(),
            tried: Stopwatch::start(),
            attempts: 1,
            failures: 0,
            error: None,
        };
        Shared {
            settings: options.settings.clone(),
            health: options.health,
            failed_gets: options.failed_gets,
            client_requests: limit(options.limits.client_requests),
            server_requests: match options.limits.server_inflight {
                0 => usize::MAX,
                inflight => inflight as usize + options.limits.server_pending as usize,
            },
            identity: options.identity.clone(),
            source: options.source.clone(),
            options: options.shown.clone(),
            command_line: options.command_line.clone(),
            since: Stopwatch::start(),
            host,
            counters: (0..options.workers).map(|index| Arc::new(Counters::of(index))).collect(),
            log: Arc::default(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn health(&self) -> Health {
        self.health
    }

    pub(crate) fn failed_gets(&self) -> FailedGets {
        self.failed_gets
    }

    /// Requests of one client that are under way at once at most.
    pub(crate) fn client_requests(&self) -> usize {
        self.client_requests
    }

    /// Requests of a worker that one server has not answered at most.
    pub(crate) fn server_requests(&self) -> usize {
        self.server_requests
    }

    /// Those of a worker.
    pub(crate) fn counters(&self, worker: usize) -> Arc<Counters> {
        self.counters[worker].clone()
    }

    pub(crate) fn sums(&self) -> Sums<'_> {
        Sums(&self.counters)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration in effect.
    pub(crate) fn plan(&self) -> SharedPlan {
        self.state().plan.clone()
    }

    /// The same with what its pools have counted before.
    pub(crate) fn plan_and_pools(&self) -> (SharedPlan, Arc<Pools>) {
        let state = self.state();
        (state.plan.clone(), state.pools.clone())
    }

    pub(crate) fn replace(&self, plan: SharedPlan) {
        self.kept_as_it_is();
        let mut state = self.state();
        state.pools = Arc::new(state.pools.carried_over(&state.plan, &plan));
        (state.plan, state.since) = (plan, Stopwatch::start());
    }

    /// The configuration was read, and is the same.
    pub(crate) fn kept_as_it_is(&self) {
        let mut state = self.state();
        state.attempts += 1;
        (state.right, state.tried, state.error) = (Stopwatch::start(), Stopwatch::start(), None);
    }

    /// A new configuration is wrong.
    pub(crate) fn refused(&self, error: &LoadError) {
        let mut state = self.state();
        (state.attempts, state.failures) = (state.attempts + 1, state.failures + 1);
        (state.tried, state.error) = (Stopwatch::start(), Some(error.to_string()));
    }

    pub(crate) fn config_report(&self) -> ConfigReport {
        let state = self.state();
        ConfigReport {
            age: state.since.elapsed().as_secs(),
            right: state.right.elapsed().as_secs(),
            tried: state.tried.elapsed().as_secs(),
            attempts: state.attempts,
            failures: state.failures,
            error: state.error.clone(),
        }
    }
}

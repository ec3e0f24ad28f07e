//! What all threads of a router know.

use crate::client_limit::ClientLimit;
use crate::cluster::Cluster;
use crate::config::{LoadError, Loader, Plan, SharedPlan, Source};
use crate::counters::{Counters, Sums};
use crate::failures::Failures;
use crate::options::{Flushes, Identity, Operations, RouterOptions};
use crate::pools::Pools;
use crate::spool::LogCounts;
use crate::throttle::Throttle;
use crate::upstream::Server;
use guira_control::ControlCounts;
use guira_discovery::{NameCounts, Records};
use guira_routing::Settings;
use guira_serving::Host;
use guira_sync::atomic::Ordering;
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::Address;
use guira_upstream::{HealthOptions, Tko};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shared {
    settings: Settings,
    client_limit: ClientLimit,
    health: HealthOptions,
    failures: Failures,
    flushes: Flushes,
    operations: Operations,
    pub(crate) version: String,
    throttle: Throttle,
    client_requests: usize,
    server_requests: usize,
    held_replies: usize,
    pub(crate) identity: Identity,
    pub(crate) source: Source,
    /// By name, as they are in effect.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) command_line: String,
    pub(crate) started: Moment,
    pub(crate) host: Arc<Host>,
    counters: Vec<Arc<Counters>>,
    pub(crate) log: Arc<LogCounts>,
    pub(crate) names: Arc<NameCounts>,
    pub(crate) pools: Arc<ControlCounts>,
    pub(crate) records: Arc<Records>,
    pub(crate) cluster: Cluster,
    /// LOCK: config_state. Leaf.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: SharedPlan,
    pools: Arc<Pools>,
    /// When it came into effect.
    since: Moment,
    /// The last attempt that was right.
    right: Moment,
    tried: Moment,
    attempts: u64,
    failures: u64,
    error: Option<String>,
    origin: Origin,
}

/// Where the configuration in effect comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Source,
    /// It was saved by an earlier router.
    Saved,
}

/// When something was: in seconds since 1970, and for how long it is past, by a clock that nobody
/// sets. Each is told as it is, since a difference of both, in whole seconds, would be another one
/// from time to time.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) unix: u64,
    pub(crate) past: Stopwatch,
}

impl Moment {
    fn now() -> Self {
        Moment { unix: wall_clock(), past: Stopwatch::start() }
    }

    /// Seconds since then.
    pub(crate) fn age(&self) -> u64 {
        self.past.elapsed().as_secs()
    }
}

/// How the configuration does, for `stats`.
#[derive(Clone, Debug)]
pub(crate) struct ConfigReport {
    /// When it came into effect, the last attempt that was right, and the last one.
    pub(crate) since: Moment,
    pub(crate) right: Moment,
    pub(crate) tried: Moment,
    pub(crate) attempts: u64,
    pub(crate) failures: u64,
    pub(crate) error: Option<String>,
    pub(crate) origin: Origin,
}

/// A limit of an option, which has none if it is 0.
fn limit(most: u32) -> usize {
    if most == 0 { usize::MAX } else { most as usize }
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

impl Shared {
    pub(crate) fn new(
        options: &RouterOptions,
        host: Arc<Host>,
        plan: SharedPlan,
        loader: &Loader,
        own: &[Address],
    ) -> Self {
        let state = State {
            plan,
            pools: Arc::default(),
            since: Moment::now(),
            right: Moment::now(),
            tried: Moment::now(),
            attempts: 1,
            failures: 0,
            error: None,
            origin: Origin::Source,
        };
        let cluster = Cluster::new(&options.cluster_nodes, own);
        for (host, found) in loader.look_up_nodes() {
            match found {
                Ok(found) => cluster.learn(&host, &found),
                Err(reason) => {
                    // Operator: Correct the name in `--cluster-nodes`, or the DNS record.
                    tracing::warn!(
                        host = &*host,
                        reason,
                        "cluster node does not resolve; still advertised to clients"
                    )
                }
            }
        }
        let pools = options.settings.counted_pools.names().len();
        Shared {
            settings: options.settings.clone(),
            client_limit: options.client_limit(),
            health: options.health,
            failures: options.failures,
            flushes: options.flushes,
            operations: options.operations,
            version: options.version.clone(),
            throttle: Throttle::new(
                limit(options.limits.worker_inflight),
                limit(options.limits.worker_throttled),
            ),
            client_requests: limit(options.limits.client_requests),
            held_replies: options.limits.connection_memory / options.workers,
            server_requests: match options.limits.server_inflight {
                0 => usize::MAX,
                inflight => inflight as usize + options.limits.server_pending as usize,
            },
            identity: options.identity.clone(),
            source: options.source.clone(),
            options: options.shown.clone(),
            command_line: options.command_line.clone(),
            started: Moment::now(),
            host,
            counters: (0..options.workers).map(|index| Arc::new(Counters::counting(index, pools))).collect(),
            log: Arc::default(),
            names: loader.name_counts.clone(),
            pools: loader.reader.followed.pools.counts(),
            records: loader.reader.followed.records.clone(),
            cluster,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn health(&self) -> HealthOptions {
        self.health
    }

    pub(crate) fn failures(&self) -> Failures {
        self.failures
    }

    pub(crate) fn operations(&self) -> Operations {
        self.operations
    }

    pub(crate) fn flushes(&self) -> Flushes {
        self.flushes
    }

    /// How many requests of a worker may be under way; none is yet.
    pub(crate) fn throttle(&self) -> Throttle {
        self.throttle.clone()
    }

    /// Requests of one client that are under way at once at most.
    pub(crate) fn client_requests(&self) -> usize {
        self.client_requests
    }

    /// Requests of a worker that one server has not answered at most.
    pub(crate) fn server_requests(&self) -> usize {
        self.server_requests
    }

    /// Bytes of replies of a worker that wait for others of the same request, beside what
    /// connections hold.
    pub(crate) fn held_replies(&self) -> usize {
        self.held_replies
    }

    pub(crate) fn counters(&self, worker: usize) -> Arc<Counters> {
        self.counters[worker].clone()
    }

    pub(crate) fn sums(&self) -> Sums<'_> {
        Sums(&self.counters)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

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
        forget_failures(&self.plan(), &plan);
        report_departed(&self.plan(), &plan);
        self.limit_clients(plan.in_use().len());
        let mut state = self.state();
        state.pools = Arc::new(state.pools.carried_over(&state.plan, &plan));
        (state.plan, state.since) = (plan, Moment::now());
    }

    /// Each worker connects to every server: what that takes is not left to clients.
    fn limit_clients(&self, servers: usize) {
        let connections = &self.host.connections;
        let (most, before) = (self.client_limit.beside(servers), connections.max());
        if most == before {
            return;
        }
        connections.set_max(most);
        self.host.budget.resize(self.client_limit.memory(most));
        tracing::info!(servers, limit = most, "adjusted the limit of clients to the number of servers");
        let present = connections.current.load(Ordering::Relaxed);
        if present > most {
            // Operator: Raise `LimitNOFILE=`; further clients are not accepted.
            tracing::warn!(
                servers,
                clients = present,
                limit = most,
                "the configured servers leave too few file descriptors for the connected clients: raise \
                     the limit of open files"
            );
        }
    }

    /// The configuration was read, and is the same.
    pub(crate) fn kept_as_it_is(&self) {
        let mut state = self.state();
        state.attempts += 1;
        (state.right, state.tried, state.error) = (Moment::now(), Moment::now(), None);
        state.origin = Origin::Source;
    }

    /// The router has started with a saved configuration, since the source cannot be used.
    pub(crate) fn started_with_saved(&self, error: &LoadError) {
        self.refused(error);
        self.state().origin = Origin::Saved;
    }

    pub(crate) fn refused(&self, error: &LoadError) {
        let mut state = self.state();
        (state.attempts, state.failures) = (state.attempts + 1, state.failures + 1);
        (state.tried, state.error) = (Moment::now(), Some(error.to_string()));
    }

    pub(crate) fn config_report(&self) -> ConfigReport {
        let state = self.state();
        ConfigReport {
            since: state.since.clone(),
            right: state.right.clone(),
            tried: state.tried.clone(),
            attempts: state.attempts,
            failures: state.failures,
            error: state.error.clone(),
            origin: state.origin,
        }
    }
}

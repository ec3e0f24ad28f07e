//! The parts of a router that all its threads use.

use crate::config::{Loader, SharedPlan, Source};
use crate::config_state::{ConfigState, Moment};
use crate::counters::{Counters, Sums};
use crate::failures::Failures;
use crate::limits::Limits;
use crate::options::{Flushes, Identity, Operations, RouterOptions};
use crate::spool::LogCounts;
use guira_control::ControlCounts;
use guira_discovery::{NameCounts, Records};
use guira_routing::Settings;
use guira_serving::{Cluster, Host};
use guira_transport::Address;
use guira_upstream::HealthOptions;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) policies: Policies,
    pub(crate) limits: Limits,
    pub(crate) about: About,
    pub(crate) host: Arc<Host>,
    counters: Vec<Arc<Counters>>,
    pub(crate) counts: Counts,
    pub(crate) records: Arc<Records>,
    pub(crate) cluster: Cluster,
    pub(crate) config: ConfigState,
}

/// The options that decide how requests are executed.
#[derive(Debug)]
pub(crate) struct Policies {
    pub(crate) settings: Settings,
    pub(crate) health: HealthOptions,
    pub(crate) failures: Failures,
    pub(crate) flushes: Flushes,
    pub(crate) operations: Operations,
}

/// The description of this router that `stats` and the admin listener show.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) version: String,
    pub(crate) identity: Identity,
    pub(crate) source: Source,
    /// The effective options, by name.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) command_line: String,
    pub(crate) started: Moment,
}

/// The counters of threads that are no workers.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) log: Arc<LogCounts>,
    pub(crate) names: Arc<NameCounts>,
    pub(crate) pools: Arc<ControlCounts>,
}

/// The routers of the cluster, whose names are resolved.
fn cluster(options: &RouterOptions, loader: &Loader, own: &[Address]) -> Cluster {
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
    cluster
}

impl Shared {
    pub(crate) fn new(
        options: &RouterOptions,
        host: Arc<Host>,
        plan: SharedPlan,
        loader: &Loader,
        own: &[Address],
    ) -> Self {
        let pools = options.settings.counted_pools.names().len();
        Shared {
            policies: Policies {
                settings: options.settings.clone(),
                health: options.health,
                failures: options.failures,
                flushes: options.flushes,
                operations: options.operations,
            },
            limits: Limits::of(options),
            about: About {
                version: options.version.clone(),
                identity: options.identity.clone(),
                source: options.source.clone(),
                options: options.shown.clone(),
                command_line: options.command_line.clone(),
                started: Moment::now(),
            },
            host,
            counters: (0..options.workers).map(|index| Arc::new(Counters::counting(index, pools))).collect(),
            counts: Counts {
                log: Arc::default(),
                names: loader.name_counts(),
                pools: loader.reader.followed.pools.counts(),
            },
            records: loader.reader.followed.records.clone(),
            cluster: cluster(options, loader, own),
            config: ConfigState::new(plan),
        }
    }

    pub(crate) fn counters(&self, worker: usize) -> Arc<Counters> {
        self.counters[worker].clone()
    }

    pub(crate) fn sums(&self) -> Sums<'_> {
        Sums(&self.counters)
    }

    /// Puts another configuration into effect.
    pub(crate) fn replace(&self, plan: SharedPlan) {
        self.limits.limit_clients(&self.host, plan.in_use().len());
        self.config.replace(plan);
    }
}

//! Settings of the router that are not part of a configuration.

use crate::config::Pool;
use crate::counted_pools::CountedPools;
use crate::counts::RouteCounts;
use crate::leases::LeaseTokens;
use crate::prefix::{self, Unknown};
use crate::warm_ups::WarmUps;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// What a configuration does not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `/region/cluster/`: the route of keys without a prefix.
    pub default_route: Arc<str>,
    pub unknown_prefix: Unknown,
    pub timeouts: Timeouts,
    /// Values are split before they are routed, as by a BigValueRoute in front of each route.
    pub big_values: Option<BigValues>,
    /// How many requests each shadow may have under way in a thread. Others are dropped.
    pub shadow_limit: Option<NonZeroU32>,
    pub logging: Logging,
    /// Without it, packets to servers are not marked, whatever pools say.
    pub qos: Option<DefaultQos>,
    /// The lease tokens of all trees that are built with these settings.
    pub leases: Arc<LeaseTokens>,
    pub warm_ups: Arc<WarmUps>,
    pub counted_pools: CountedPools,
    /// The counters of route handles, of all trees that are made with these settings.
    pub counts: Arc<RouteCounts>,
}

/// Whether a LoggingRoute is in front of each route, as mcrouter's `--enable-logging-route` puts it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    Off,
    /// The handle logs nothing, since `watch` shows requests. Handles include this setting in their
    /// names.
    On,
}

/// Marks of packets to servers whose pool does not name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultQos {
    /// 0 to 4.
    pub class: u8,
    /// 0 to 3.
    pub path: u8,
}

impl Settings {
    /// Settings with only a default route and a timeout for all servers.
    pub fn plain(default_route: &str, server: Duration) -> Self {
        let timeouts = Timeouts { server, within_cluster: None, cross_cluster: None, cross_region: None };
        let (leases, warm_ups, default_route) = (Arc::default(), Arc::default(), default_route.into());
        let (unknown_prefix, big_values, shadow_limit, qos) = (Unknown::Refused, None, None, None);
        Settings {
            default_route,
            unknown_prefix,
            timeouts,
            big_values,
            shadow_limit,
            logging: Logging::Off,
            qos,
            leases,
            warm_ups,
            counted_pools: CountedPools::default(),
            counts: Arc::default(),
        }
    }

    /// How long servers of a pool may take.
    pub(crate) fn timeout(&self, pool: &Pool) -> Duration {
        let Timeouts { server, within_cluster, cross_cluster, cross_region } = self.timeouts;
        let by_pool = pool.server_timeout.unwrap_or(server);
        let home = prefix::parts(&self.default_route);
        let (Some(region), Some(cluster), Some(home)) = (&pool.region, &pool.cluster, home) else {
            return by_pool;
        };
        let by_distance = match (**region == *home.0, **cluster == *home.1) {
            (true, true) => within_cluster,
            (true, false) => cross_cluster,
            (false, _) => cross_region,
        };
        by_distance.unwrap_or(by_pool)
    }
}

/// How long a server may take. Those for distances replace what a pool says that names its region and cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub server: Duration,
    pub within_cluster: Option<Duration>,
    pub cross_cluster: Option<Duration>,
    pub cross_region: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BigValues {
    /// Longer values are split into pieces of this many bytes.
    pub threshold: NonZeroU32,
    /// The number of pieces that are requested at once; `None` is all.
    pub batch: Option<NonZeroU32>,
    pub flag: BigFlag,
}

/// Whether clients see the flag of items whose value is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BigFlag {
    Shown,
    Hidden,
}

//! The parts of a running server. The start composes them; everything else receives those that it needs.

use crate::auto::PolicyOwner;
use crate::background::BackgroundTasks;
use crate::options::Options;
use crate::statistics::Statistics;
use crate::watch::{Hub, Observers};
use guira_serving::{Cluster, Host};
use guira_sync::clock::CoarseClock;
use guira_transport::LossMeter;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) host: Arc<Host>,
    pub(crate) clock: CoarseClock,
    pub(crate) options: Arc<Options>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) background: Arc<BackgroundTasks>,
    pub(crate) observers: Observers,
    pub(crate) policy_owner: Arc<PolicyOwner>,
    /// The reply to `config get cluster`, if clients may request it.
    pub(crate) cluster: Option<Arc<Cluster>>,
}

impl Parts {
    /// The parts of a server whose engine has chunks of the sizes `chunks`.
    pub(crate) fn new(
        host: Arc<Host>,
        clock: CoarseClock,
        options: &Options,
        hub: Arc<Hub>,
        loss_meters: Vec<Arc<dyn LossMeter>>,
        background: Arc<BackgroundTasks>,
        chunks: &[usize],
    ) -> Self {
        let observers = Observers::new(hub, options, clock.now(), chunks);
        let counters = observers.hub.counters.clone();
        let statistics =
            Statistics::new(options.workers, host.clone(), counters, background.clone(), loss_meters);
        Parts {
            host,
            clock,
            options: Arc::new(options.clone()),
            statistics: Arc::new(statistics),
            background,
            observers,
            policy_owner: Arc::new(PolicyOwner::of(options)),
            cluster: None,
        }
    }
}

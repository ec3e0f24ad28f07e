//! Pools of etcd that a configuration inherits from.

use guira_control::{ControlCounts, ETCD, EtcdOptions, Follower};
use guira_routing::config::Texts;
use std::sync::Arc;
use std::time::Duration;

/// The pools in etcd, if an etcd is configured.
#[derive(Debug)]
pub struct EtcdPools {
    /// The error if they cannot be followed.
    follower: Result<Follower, String>,
    counts: Arc<ControlCounts>,
}

impl EtcdPools {
    /// Calls `notify` when a pool has changed.
    pub fn new(options: Option<&EtcdOptions>, notify: impl Fn() + Send + 'static) -> Self {
        let counts = Arc::<ControlCounts>::default();
        let follower = match options {
            Some(options) => {
                Follower::start(options.clone(), counts.clone(), notify).map_err(|error| error.to_string())
            }
            None => Err("a pool in etcd needs the URL of etcd: give --etcd, or Following::etcd".to_owned()),
        };
        EtcdPools { follower, counts }
    }

    pub fn counts(&self) -> Arc<ControlCounts> {
        self.counts.clone()
    }

    /// The definition of a pool, which has [`ETCD`] in front of its name.
    pub fn text(&self, name: &str, patience: Duration) -> Result<String, String> {
        let follower = self.follower.as_ref().map_err(String::clone)?;
        follower.definition(name.trim_start_matches(ETCD), patience)
    }

    /// The pools of a configuration that was kept.
    pub fn remember(&self, texts: &Texts) {
        let Ok(follower) = &self.follower else { return };
        for (name, text) in &texts.others {
            if let (Some(name), Ok(text)) = (name.strip_prefix(ETCD), text) {
                follower.remember(name, text);
            }
        }
    }
}

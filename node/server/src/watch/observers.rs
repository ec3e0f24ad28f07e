//! The parts that receive the events of commands.

use super::{DEFAULT_DELIMITER, Hub, Prefixes};
use crate::memory_split::{MemorySplit, subjects, top_keys_budget};
use crate::options::Options;
use crate::top_keys::TopKeys;
use guira_advice::Advisor;
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Observers {
    pub(crate) hub: Arc<Hub>,
    pub(crate) prefixes: Arc<Prefixes>,
    /// Absent if the options disable it, or memory is too small.
    pub(crate) advisor: Option<Arc<Advisor>>,
    /// Absent if the options hide keys.
    pub(crate) top_keys: Option<Arc<TopKeys>>,
}

impl Observers {
    pub(crate) fn new(hub: Arc<Hub>, options: &Options, now: Seconds, chunks: &[usize]) -> Self {
        let delimiter = options.prefix_delimiter.map(|delimiter| delimiter.0);
        let end = delimiter.unwrap_or(DEFAULT_DELIMITER);
        let budget = MemorySplit::of(options, options.memory.0).advice;
        let advisor = || Advisor::new(budget, end, (subjects(options), chunks)).aiming_at(options.worth);
        let top_keys = || TopKeys::new(top_keys_budget(options.memory.0), options.workers, end, now);
        Observers {
            hub,
            prefixes: Arc::new(Prefixes::new(delimiter)),
            advisor: (budget > 0).then(|| Arc::new(advisor())),
            top_keys: options.shows_top_keys().then(|| Arc::new(top_keys())),
        }
    }
}

//! State shared by all threads of an invalidator.

use crate::config::Config;
use crate::counters::{Counts, Flushed, TargetCounts};
use crate::ledger::Ledger;
use guira_sync::lock::Mutex;
use std::sync::Arc;

/// Shared state that survives a reload.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) counts: Arc<Counts>,
    /// LOCK: invalidator_view. Leaf.
    view: Mutex<View>,
}

/// Targets and positions since the start, or since the last reload.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) targets: Vec<Arc<TargetCounts>>,
    pub(crate) ledger: Arc<Ledger>,
    /// For how many seconds the database may send nothing.
    silence_max: Option<u64>,
}

impl View {
    /// `silence`, in seconds, if that is longer than the configuration allows.
    pub(crate) fn undue_silence(&self, silence: Option<u64>) -> Option<u64> {
        silence.filter(|silence| self.silence_max.is_some_and(|most| *silence > most))
    }
}

impl Shared {
    pub(crate) fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// A view for this configuration, without deletes under way. Targets that stay keep their counters.
    pub(crate) fn next(&self, config: &Config) -> View {
        let before = self.view().targets;
        let known = |name: &str| before.iter().find(|counts| counts.name() == name).cloned();
        let targets = config.targets.iter().map(|target| &*target.name);
        let targets = targets.map(|name| known(name).unwrap_or_else(|| Arc::new(TargetCounts::new(name))));
        View {
            targets: targets.collect(),
            ledger: Arc::new(Ledger::new(config.targets.len())),
            silence_max: config.silence_max(),
        }
    }

    /// Publishes a view. Its spools have to be open, or metrics would report them as empty.
    pub(crate) fn begin(&self, view: &View) {
        *self.view.lock() = view.clone();
        // A target with a flush left gets it again from the log or from its spool.
        view.targets.iter().for_each(|target| target.set_flushed(Flushed::Done));
        self.counts.set_retained(0);
        self.counts.set_extent(None);
    }
}

//! Reconfigures a client from outside, without using it.

use super::counters::Counts;
use super::plan::SetupError;
use guira_routing::config::Texts;
use std::fmt;
use std::sync::Arc;

type Reconfigure = dyn Fn(&Texts) -> Option<Result<(), SetupError>> + Send;

/// Gives a client other configurations as long as a caller uses it.
pub struct ReloadHandle {
    counts: Arc<Counts>,
    reconfigure: Box<Reconfigure>,
}

impl ReloadHandle {
    pub(super) fn new(
        counts: &Arc<Counts>,
        reconfigure: impl Fn(&Texts) -> Option<Result<(), SetupError>> + Send + 'static,
    ) -> Self {
        ReloadHandle { counts: Arc::clone(counts), reconfigure: Box::new(reconfigure) }
    }

    /// Gives the client another configuration ([`super::Client::reconfigure`]). `None` once no
    /// caller uses the client any more.
    pub fn reconfigure(&self, texts: &Texts) -> Option<Result<(), SetupError>> {
        (self.reconfigure)(texts)
    }

    /// Counts another configuration that could not be read, or was wrong.
    pub fn count_refused(&self) {
        self.counts.refused_configurations.add(1);
    }

    /// Whether no caller uses the client any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // The client has the other.
        Arc::strong_count(&self.counts) == 1
    }
}

impl fmt::Debug for ReloadHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReloadHandle").finish_non_exhaustive()
    }
}

//! What an experiment is, and all of them.

use std::path::PathBuf;

use crate::facebook;
use crate::fleec;
use crate::freshness;
use crate::klru;
use crate::memc3;
use crate::mica;
use crate::outcome::Outcome;

/// Something that is measured to answer claims.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// Its name on the command line, and that of its files.
    pub(crate) name: &'static str,
    /// The claims that it answers, as `claims.rs` numbers them.
    pub(crate) claims: &'static [&'static str],
    /// What is measured, in a line.
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Context) -> Result<Outcome, Failure>,
}

/// All experiments, in the order of the document.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[
    &memc3::threads::EXPERIMENT,
    &memc3::factors::EXPERIMENT,
    &memc3::fill::EXPERIMENT,
    &memc3::references::EXPERIMENT,
    &memc3::counters::EXPERIMENT,
    &memc3::items::EXPERIMENT,
    &memc3::cache::EXPERIMENT,
    &memc3::network::EXPERIMENT,
    &klru::curves::EXPERIMENT,
    &klru::samples::EXPERIMENT,
    &klru::delay::EXPERIMENT,
    &klru::server::EXPERIMENT,
    &klru::threads::EXPERIMENT,
    &klru::sampling::EXPERIMENT,
    &klru::metadata::EXPERIMENT,
    &klru::small::EXPERIMENT,
    &klru::expiry::EXPERIMENT,
    &klru::locks::EXPERIMENT,
    &klru::summary::EXPERIMENT,
    &fleec::skew::EXPERIMENT,
    &fleec::contention::EXPERIMENT,
    &fleec::writes::EXPERIMENT,
    &fleec::parked::EXPERIMENT,
    &fleec::growth::EXPERIMENT,
    &fleec::hits::EXPERIMENT,
    &fleec::drivers::EXPERIMENT,
    &mica::inside::EXPERIMENT,
    &mica::paths::EXPERIMENT,
    &mica::spread::EXPERIMENT,
    &mica::model::EXPERIMENT,
    &facebook::udp::EXPERIMENT,
    &facebook::discards::EXPERIMENT,
    &facebook::window::EXPERIMENT,
    &facebook::herd::EXPERIMENT,
    &facebook::churn::EXPERIMENT,
    &facebook::replicas::EXPERIMENT,
    &facebook::gutter::EXPERIMENT,
    &facebook::rehash::EXPERIMENT,
    &facebook::deletes::EXPERIMENT,
    &facebook::batches::EXPERIMENT,
    &facebook::regional::EXPERIMENT,
    &facebook::cold::EXPERIMENT,
    &facebook::markers::EXPERIMENT,
    &facebook::rates::EXPERIMENT,
    &facebook::balance::EXPERIMENT,
    &facebook::short_lived::EXPERIMENT,
    &facebook::upgrades::EXPERIMENT,
    &facebook::capacity::EXPERIMENT,
    &facebook::pages::EXPERIMENT,
    &facebook::latencies::EXPERIMENT,
    &facebook::sizes::EXPERIMENT,
    &facebook::pools::EXPERIMENT,
    &facebook::delivery::EXPERIMENT,
    &freshness::EXPERIMENT,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    /// Only to see that it works: seconds.
    Quick,
}

impl Scale {
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// The parameters of every experiment.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) runs: u32,
    pub(crate) scale: Scale,
    /// Run `n` of an experiment draws its random numbers from `seed + n`.
    pub(crate) seed: u64,
    pub(crate) memcached: PathBuf,
    /// Another one, where an experiment has room for it.
    pub(crate) other_memcached: Option<PathBuf>,
    /// The guira to start as a server.
    pub(crate) guira: PathBuf,
    /// The folder where papers.md and the folder papers lie.
    pub(crate) docs: PathBuf,
    /// The folder of the traces that are not in the repository.
    pub(crate) traces: Option<PathBuf>,
}

/// Why an experiment gave no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no experiment or claim {0:?}; --list tells what there is")]
    Unknown(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("what was measured cannot be written or read: {0}")]
    Json(#[source] serde_json::Error),
    #[error("a chart cannot be drawn: {0}")]
    Chart(#[from] guira_harness::plot::PlotError),
    #[error(transparent)]
    Load(#[from] guira_load::LoadError),
    #[error("{0}")]
    Other(String),
}

/// Whatever was in the way, in words.
pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Other(error.to_string())
}

//! A part of the log, read and delivered once more.

use crate::batch::Batcher;
use crate::config::{Config, ConfigError};
use crate::counters::TargetCount;
use crate::keys::Extractor;
use crate::running::{Fault, Shared, StartError, deliver, lanes, spawn};
use crate::source::mariadb::{MariaDb, Until};
use crate::source::{OnGap, Source, SourceError, Tail};
use crate::stop::Stop;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked whether everything is delivered.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const ONLY_MARIADB: &str = "only the log of a MariaDB can be replayed: what a slot of PostgreSQL has passed, or somebody has sent, is not there any more";

/// What is read and delivered.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Where it begins, as the position file has it.
    pub from: &'a str,
    /// Where it ends, if not at the present end of the log.
    pub to: Option<&'a str>,
    /// The one target that it is for, if not for all.
    pub target: Option<&'a str>,
}

/// How a replay has ended.
#[derive(Debug)]
pub struct Replayed {
    /// Whether all of it was delivered.
    pub is_whole: bool,
    /// Names of targets, and how many deletes each has acknowledged.
    pub deletes: Vec<(String, u64)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// What the command line asks for cannot be done with this configuration.
    #[error("{0}")]
    Wanted(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Delivers what a part of the log has changed, unless `is_over` says so before. Positions and spools are left alone, and whoever reads the log at the same time goes on.
///
/// # Errors
/// When the log cannot be read, has a gap, or there is no such target.
pub fn replay(
    mut config: Config,
    part: Part<'_>,
    mut is_over: impl FnMut() -> bool,
) -> Result<Replayed, ReplayError> {
    config.for_replay(part.target).map_err(ReplayError::Wanted)?;
    let Source::MariaDb(mut options) = config.source()? else {
        return Err(ReplayError::Wanted(ONLY_MARIADB.to_owned()));
    };
    options.until = part.to.map_or(Until::End, |last| Until::Position(last.to_owned()));
    let ways = config.ways()?;
    let shared = Shared::default();
    let view = shared.next(&config);
    let lanes = lanes(&config, &view)?;
    shared.begin(&view);
    let stop = Stop::default();
    let mut deliveries = Vec::new();
    for ((target, ways), lane) in config.targets.iter().zip(ways).zip(&lanes) {
        deliveries.push(deliver(target, ways, lane.clone(), stop.clone()).map_err(StartError::from)?);
    }
    let (ledger, counts) = (view.ledger, shared.counts.clone());
    let batcher = Batcher::new(lanes.clone(), ledger.clone(), counts.clone(), config.batch_keys.get());
    let changes = Extractor::new(config.tables(), batcher, counts.clone());
    let tail = Tail { changes, counts, on_gap: OnGap::Stop, stop: stop.clone() };
    let from = part.from.to_owned();
    let read = move || {
        let open = |position: Option<&str>| MariaDb::open(&options, position);
        tail.run(Some(from), open, |_| Ok(()))
    };
    let mut source = Some(spawn("source".to_owned(), read).map_err(StartError::from)?);
    let mut result = Ok(false);
    while !is_over() && stop.wait(LOOK_EVERY).is_ok() {
        if let Some(ended) = source.take_if(|source| source.is_finished()) {
            match ended.join().map_err(|_| Fault::Thread) {
                Ok(Err(SourceError::Ended)) => result = Ok(true),
                Ok(Ok(())) => result = Err(Fault::Thread),
                Ok(Err(error)) => result = Err(error.into()),
                Err(fault) => result = Err(fault),
            }
        }
        if source.is_none() && (result.is_err() || ledger.is_settled()) {
            break;
        }
        if deliveries.iter().any(JoinHandle::is_finished) {
            result = Err(Fault::Thread);
            break;
        }
    }
    stop.set();
    lanes.iter().for_each(|lane| lane.end());
    for delivery in deliveries {
        delivery.join().map_err(|_| Fault::Thread)?;
    }
    if let Some(source) = source {
        source.join().map_err(|_| Fault::Thread)?.or_else(|error| match error {
            SourceError::Ended => Ok(()),
            error => Err(Fault::from(error)),
        })?;
    }
    let deletes = lanes.iter().map(|lane| lane.counts());
    let deletes = deletes.map(|counts| (counts.name().to_owned(), counts.get(TargetCount::Deletes)));
    Ok(Replayed { is_whole: result? && ledger.is_settled(), deletes: deletes.collect() })
}

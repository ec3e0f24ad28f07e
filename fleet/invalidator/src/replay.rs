//! Reads a part of the log again, and delivers its deletes once more.

use crate::batcher::Batcher;
use crate::config::{Config, ConfigError};
use crate::counters::TargetCount;
use crate::error::{Fault, StartError};
use crate::keys::Extractor;
use crate::shared::Shared;
use crate::source::{OnGap, Source, SourceError, Tail, Until};
use crate::threads::{Deliveries, spawn};
use guira_sync::stop::Stop;
use std::time::Duration;

/// How often the replay checks whether all deletes were delivered.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const OF_SENDER: &str = "cannot replay change events: send them again from their source";

#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The start, in the syntax of the position file.
    pub from: &'a str,
    /// The end; `None` is the present end of the log.
    pub to: Option<&'a str>,
    /// The only target to deliver to; `None` is all targets.
    pub target: Option<&'a str>,
}

#[derive(Debug)]
pub struct Replayed {
    /// Whether all of it was delivered.
    pub is_whole: bool,
    /// The name of each target, and the number of deletes that it acknowledged.
    pub deletes: Vec<(String, u64)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The command line does not fit the configuration.
    #[error("{0}")]
    Wanted(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Delivers the deletes of a part of the log, until `is_over` returns true. The position file and
/// the spools are not touched, so that an invalidator may run at the same time.
///
/// # Errors
/// When the log cannot be read, has a gap, or there is no such target.
pub fn replay(
    mut config: Config,
    part: Part<'_>,
    mut is_over: impl FnMut() -> bool,
) -> Result<Replayed, ReplayError> {
    config.for_replay(part.target).map_err(ReplayError::Wanted)?;
    let database = config.source()?;
    if matches!(database, Source::Debezium(_)) {
        return Err(ReplayError::Wanted(OF_SENDER.to_owned()));
    }
    let until = part.to.map_or(Until::End, |last| Until::Position(last.to_owned()));
    let ways = config.ways()?;
    let shared = Shared::default();
    let view = shared.next(&config);
    let stop = Stop::default();
    let mut deliveries = Deliveries::start(&config, ways, &view, stop.clone())?;
    shared.begin(&view);
    let lanes = deliveries.lanes().to_vec();
    let (ledger, counts) = (view.ledger, shared.counts.clone());
    let batcher = Batcher::new(lanes.clone(), ledger.clone(), counts.clone(), config.batch_keys.get());
    let changes = Extractor::new(config.tables(), batcher, counts.clone(), config.key_max());
    let tail = Tail { changes, counts, on_gap: OnGap::Stop, stop: stop.clone() };
    let from = part.from.to_owned();
    let read = move || database.replay(tail, from, until);
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
        if deliveries.has_ended() {
            result = Err(Fault::Thread);
            break;
        }
    }
    deliveries.end()?;
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

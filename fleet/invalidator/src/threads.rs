//! The delivery threads, one for each target.

use crate::config::{Config, TargetConfig};
use crate::counters::TargetCounts;
use crate::deliver::{Delivery, Lane, PATIENCE, Ways};
use crate::error::{Fault, StartError};
use crate::shared::View;
use guira_sync::stop::Stop;
use guira_sync::thread::JoinHandle;
use std::io;
use std::sync::Arc;

/// One thread for each target. They end on drop, also when a later part of the start fails.
#[derive(Debug)]
pub(crate) struct Deliveries {
    stop: Stop,
    lanes: Vec<Arc<Lane>>,
    threads: Vec<JoinHandle<()>>,
}

impl Deliveries {
    /// Opens the spools, and starts a thread for each target. `stop` ends them.
    pub(crate) fn start(
        config: &Config,
        ways: Vec<Ways>,
        view: &View,
        stop: Stop,
    ) -> Result<Self, StartError> {
        let mut deliveries = Deliveries { stop, lanes: lanes(config, view)?, threads: Vec::new() };
        for ((target, ways), lane) in config.targets.iter().zip(ways).zip(&deliveries.lanes) {
            let thread = deliver(target, ways, lane.clone(), deliveries.stop.clone())?;
            deliveries.threads.push(thread);
        }
        Ok(deliveries)
    }

    pub(crate) fn lanes(&self) -> &[Arc<Lane>] {
        &self.lanes
    }

    /// Whether a thread has ended, which is a fault while the invalidator runs.
    pub(crate) fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the threads. A delivery in flight may or may not be acknowledged.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        self.stop.set();
        self.lanes.iter().for_each(|lane| lane.end());
        let ended = self.threads.drain(..).map(|thread| thread.join().map_err(|_| Fault::Thread));
        // All threads are joined, also after a failure.
        ended.fold(Ok(()), Result::and)
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!("{error}");
        }
    }
}

fn lanes(config: &Config, view: &View) -> Result<Vec<Arc<Lane>>, StartError> {
    let numbered = config.targets.iter().zip(&view.targets).enumerate();
    let lane = |(number, (target, counts)): (usize, (&TargetConfig, &Arc<TargetCounts>))| {
        let spool = config.open_spool(target)?;
        let limits = config.limits(target);
        Ok(Arc::new(Lane::new(number, limits, spool, view.ledger.clone(), counts.clone())))
    };
    numbered.map(lane).collect()
}

fn deliver(target: &TargetConfig, ways: Ways, lane: Arc<Lane>, stop: Stop) -> io::Result<JoinHandle<()>> {
    let delivery = Delivery {
        counts: lane.counts().clone(),
        lane,
        ways,
        dialect: target.dialect,
        how: target.how(),
        patience: PATIENCE,
        stop,
    };
    spawn(format!("target-{}", name(target)), move || delivery.run())
}

/// The kernel accepts 15 bytes as a thread's name.
fn name(target: &TargetConfig) -> String {
    target.name.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    guira_sync::thread::Builder::new().name(name).spawn(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;

    #[test]
    fn threads_end_when_nobody_holds_them_any_more() {
        let config = Config::of_targets(&["east", "west"]);
        let (stop, view) = (Stop::default(), Shared::default().next(&config));
        let deliveries = Deliveries::start(&config, config.ways().unwrap(), &view, stop.clone()).unwrap();
        let lanes = deliveries.lanes().to_vec();
        assert!(lanes.iter().all(|lane| Arc::strong_count(lane) > 1) && stop.check().is_ok());
        drop(deliveries);
        assert!(stop.check().is_err());
        assert!(lanes.iter().all(|lane| Arc::strong_count(lane) == 1), "a thread still has one");
    }
}

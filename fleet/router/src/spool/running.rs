//! Starting and stopping the threads of logged deletes.

use super::counts::LogCounts;
use super::entry::Author;
use super::file::Place;
use super::names::Naming;
use super::options::LogOptions;
use super::pending::LogAccess;
use super::replay::Replayer;
use super::writer::{LogWriter, Order, Unsealed};
use crate::options::RouterOptions;
use crate::shared::Shared;
use guira_sync::channel::{Sender, channel};
use guira_sync::thread::{Builder, JoinHandle};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The threads, and what workers log with.
#[derive(Debug)]
pub(crate) struct Logging {
    access: LogAccess,
    unsealed: Arc<Unsealed>,
    writer: JoinHandle<()>,
    /// The thread, and what it ends without.
    replayer: Option<(JoinHandle<()>, Sender<()>)>,
}

impl Logging {
    pub(crate) fn start(
        log: &LogOptions,
        options: &RouterOptions,
        counts: &Arc<LogCounts>,
    ) -> io::Result<Self> {
        warn_of(&log.folder);
        let (service, router) = (options.identity.service.clone(), options.identity.router.clone());
        let region = options.settings.default_route.split('/').nth(1).unwrap_or_default().to_owned();
        let naming = Naming::new(&service, &router);
        let place = Place { folder: log.folder.clone(), naming, sync: log.sync };
        let (orders, receiver) = channel();
        let unsealed = Arc::<Unsealed>::default();
        let writer = LogWriter::new(place, receiver, counts.clone(), unsealed.clone());
        let writer = Builder::new().name("router-log".to_owned()).spawn(|| writer.run())?;
        let author = Author { service, router, region };
        let access = LogAccess { version: log.version, author, orders, counts: counts.clone() };
        Ok(Logging { access, unsealed, writer, replayer: None })
    }

    pub(crate) fn access(&self) -> LogAccess {
        self.access.clone()
    }

    pub(crate) fn start_replay(&mut self, log: &LogOptions, shared: &Arc<Shared>) -> io::Result<()> {
        let Some(rate) = log.replay_rate else { return Ok(()) };
        let (folder, shared, counts) = (log.folder.clone(), shared.clone(), self.access.counts.clone());
        let writer = (self.access.orders.clone(), self.unsealed.clone());
        let (end, ended) = channel();
        let thread = Builder::new().name("router-replay".to_owned());
        let thread = thread.spawn(move || {
            match Replayer::new((folder, rate.get()), shared, counts, writer, ended) {
                Ok(replayer) => replayer.run(),
                // Operator: Correct what the message names, and restart the router: logged deletes are
                // not delivered until then.
                Err(error) => tracing::error!("cannot start the replay of logged deletes: {error}"),
            }
        })?;
        self.replayer = Some((thread, end));
        Ok(())
    }

    /// Ends the threads. No worker logs any more.
    pub(crate) fn stop(self) -> Result<(), Panicked> {
        let replayer = self.replayer.map(|(thread, end)| {
            drop(end);
            thread.join()
        });
        // If the order cannot be sent, the writer has already ended.
        let _ = self.access.orders.send(Order::End);
        let writer = self.writer.join();
        if writer.is_err() || replayer.is_some_and(|ended| ended.is_err()) {
            return Err(Panicked);
        }
        Ok(())
    }
}

/// A thread has not ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

fn warn_of(folder: &Path) {
    if let Err(error) = guira_disk::check_writable(folder) {
        let folder = folder.display();
        // Operator: Create the folder of `--async-dir`, writable by the router's user.
        tracing::warn!(%folder, %error, "cannot log failed deletes in this folder; clients receive the \
            error instead");
    }
}

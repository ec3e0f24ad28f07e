//! Starts, reloads and stops an invalidator.

use crate::batcher::Batcher;
use crate::config::{Config, ConfigError};
use crate::counters::Count;
use crate::error::{Fault, StartError};
use crate::keys::Extractor;
use crate::ledger::Ledger;
use crate::position::PositionFile;
use crate::shared::Shared;
use crate::source::{Source, SourceError, Tail};
use crate::threads::{Deliveries, spawn};
use crate::web;
use guira_sync::stop::Stop;
use guira_sync::thread::JoinHandle;
use guira_transport::Address;
use guira_web::Admin;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The next action of a running invalidator.
#[derive(Debug)]
pub enum Command {
    Continue,
    /// Switches to this configuration; after an error the current one stays.
    Reload(Box<Result<Config, ConfigError>>),
    Stop,
}

#[derive(Debug)]
pub struct Running {
    config: Config,
    shared: Arc<Shared>,
    pipeline: Pipeline,
    admin: Option<Admin>,
}

/// The threads and state between the database and the targets.
#[derive(Debug)]
struct Pipeline {
    /// `None` for a sender of change events, which keeps the position itself.
    file: Option<Arc<PositionFile>>,
    database: Arc<Source>,
    /// The last position that could not be saved.
    unsaved: Option<String>,
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    stop: Stop,
    source: JoinHandle<Result<(), SourceError>>,
    deliveries: Deliveries,
}

/// Positions are saved at most once in this time.
const SAVE_EVERY: Duration = Duration::from_millis(100);

/// Starts an invalidator. Its threads run by themselves, but [`Running::run`] has to save
/// positions.
///
/// # Errors
/// When a file cannot be used or the system refuses a thread or an address. An unreachable database
/// is no error.
pub fn start(config: Config) -> Result<Running, StartError> {
    let shared = Arc::<Shared>::default();
    let serve = |at: &String| web::serve(at, config.admin_token_file.as_deref(), shared.clone());
    let admin = config.admin.as_ref().map(serve).transpose()?;
    let restricted = config.system_calls.restrict().map_err(StartError::from);
    match restricted.and_then(|()| Pipeline::start(&config, &shared)) {
        Ok(pipeline) => Ok(Running { config, shared, pipeline, admin }),
        Err(error) => {
            admin.into_iter().for_each(Admin::end);
            Err(error)
        }
    }
}

fn whole(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

impl Running {
    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(Admin::address)
    }

    /// Executes the commands of `next`, called about ten times a second, and saves positions in
    /// between.
    ///
    /// # Errors
    /// When the log cannot be read any further.
    pub fn run(mut self, mut next: impl FnMut() -> Command) -> Result<(), Fault> {
        loop {
            match next() {
                Command::Continue => {}
                Command::Stop => break,
                Command::Reload(read) => match *read {
                    Ok(config) => self = self.reload(config)?,
                    Err(error) => {
                        self.shared.counts.add(Count::ReloadFailures);
                        // Operator: Correct the file that the message names, then send SIGHUP.
                        tracing::error!(
                            "cannot reload the configuration; keeping the current one: {}",
                            whole(&error)
                        );
                    }
                },
            }
            if self.pipeline.has_ended() {
                break;
            }
            self.pipeline.save(SAVE_EVERY);
            // The wait keeps a busy database from causing a busy disk.
            if self.pipeline.stop.wait(SAVE_EVERY).is_err() {
                break;
            }
        }
        let result = self.pipeline.end();
        self.admin.into_iter().for_each(Admin::end);
        result
    }

    /// Stops the pipeline, and starts one with `config` at the acknowledged position. The admin
    /// listener stays.
    fn reload(self, config: Config) -> Result<Self, Fault> {
        let Running { config: before, shared, pipeline, admin } = self;
        pipeline.end()?;
        admin.iter().for_each(Admin::reload);
        if (&config.admin, &config.admin_token_file) != (&before.admin, &before.admin_token_file) {
            // Operator: Restart the invalidator to use the new address.
            tracing::error!("changing `admin` needs a restart; keeping the current address");
        }
        if config.system_calls != before.system_calls {
            // Operator: Restart the invalidator to use the new setting.
            tracing::error!("changing `system-calls` needs a restart; keeping the current setting");
        }
        match Pipeline::start(&config, &shared) {
            Ok(pipeline) => {
                shared.counts.add(Count::Reloads);
                tracing::info!("reloaded the configuration");
                Ok(Running { config, shared, pipeline, admin })
            }
            Err(error) => {
                shared.counts.add(Count::ReloadFailures);
                // Operator: Correct the file that the message names, then send SIGHUP.
                tracing::error!(
                    "cannot reload the configuration; keeping the current one: {}",
                    whole(&error)
                );
                let pipeline = Pipeline::start(&before, &shared).map_err(Box::new)?;
                Ok(Running { config: before, shared, pipeline, admin })
            }
        }
    }
}

impl Pipeline {
    fn start(config: &Config, shared: &Arc<Shared>) -> Result<Self, StartError> {
        let database = Arc::new(config.source()?);
        let ways = config.ways()?;
        let opened = config.position.as_deref().map(PositionFile::open).transpose()?;
        let (file, position) = opened.unzip();
        let (file, position) = (file.map(Arc::new), position.flatten());
        for folder in config.forgotten_spools() {
            // Operator: Configure the target again, or remove the folder and flush the target's caches.
            tracing::error!(
                "the spool folder {} has deletes of a target that is not configured; not sent",
                folder.display()
            );
        }
        let view = shared.next(config);
        let stop = Stop::default();
        let deliveries = Deliveries::start(config, ways, &view, stop.clone())?;
        shared.begin(&view);
        let (ledger, counts) = (view.ledger, shared.counts.clone());
        let batcher = Batcher::new(
            deliveries.lanes().to_vec(),
            ledger.clone(),
            counts.clone(),
            config.batch_keys.get(),
        );
        let changes = Extractor::new(config.tables(), batcher, counts.clone(), config.key_max());
        let tail = Tail { changes, counts, on_gap: config.on_gap, stop: stop.clone() };
        let (first, log) = (file.clone(), database.clone());
        let save = move |position: &str| first.as_ref().map_or(Ok(()), |file| file.save(position));
        let read = move || log.run(tail, position, |position| save(position).map_err(SourceError::Position));
        let source = spawn("source".to_owned(), read)?;
        let shared = shared.clone();
        Ok(Pipeline { file, database, unsaved: None, shared, ledger, stop, source, deliveries })
    }

    fn has_ended(&self) -> bool {
        self.source.is_finished() || self.deliveries.has_ended()
    }

    /// Ends all threads, and saves the acknowledged position.
    fn end(mut self) -> Result<(), Fault> {
        // The reader ends once the lanes have.
        let result = self.deliveries.end();
        self.save(Duration::ZERO);
        self.source.join().map_err(|_| Fault::Thread)??;
        result
    }

    /// Waits up to `duration` for a new position, and saves it.
    fn save(&mut self, duration: Duration) {
        let newest = self.ledger.take(duration).or_else(|| self.unsaved.take());
        let Some(position) = newest else { return };
        match self.file.as_ref().map_or(Ok(()), |file| file.save(&position)) {
            Ok(()) => {
                self.database.saved(&position);
                self.unsaved = None;
                self.shared.counts.add(Count::Saves);
            }
            Err(error) => {
                if self.shared.counts.add(Count::SaveFailures) {
                    // Operator: Free space and check the permissions of the position file's folder.
                    tracing::error!("cannot save the position; a restart will repeat deletes: {error}");
                }
                self.unsaved = Some(position);
            }
        }
    }
}

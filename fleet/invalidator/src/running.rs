//! Starting and stopping an invalidator.

use crate::batch::Batcher;
use crate::config::{Config, ConfigError, TargetConfig};
use crate::counters::{Count, Counts, TargetCounts};
use crate::deliver::{Delivery, Lane, SpoolError};
use crate::keys::Extractor;
use crate::ledger::Ledger;
use crate::position::{PositionError, PositionFile};
use crate::source::{Source, SourceError, Tail};
use crate::stop::Stop;
use crate::web;
use guira_client::text::Target;
use guira_serving::{Crew, PortError};
use guira_transport::Address;
use guira_web::{Token, TokenError};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Position(#[from] PositionError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("admin {0}")]
    Place(String),
    #[error("cannot open the admin listener")]
    Admin(#[source] PortError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// Why an invalidator does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("a thread has ended unexpectedly")]
    Thread,
}

/// What all threads see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) counts: Arc<Counts>,
    pub(crate) targets: Vec<Arc<TargetCounts>>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Shared {
    pub(crate) fn new(config: &Config) -> Self {
        let targets = config.targets.iter().map(|target| Arc::new(TargetCounts::new(&target.name)));
        let ledger = Arc::new(Ledger::new(config.targets.len()));
        Shared { counts: Arc::default(), targets: targets.collect(), ledger }
    }
}

/// A running invalidator.
#[derive(Debug)]
pub struct Running {
    file: Arc<PositionFile>,
    database: Arc<Source>,
    /// The position that the file does not have yet.
    unsaved: Option<String>,
    shared: Arc<Shared>,
    stop: Stop,
    source: JoinHandle<Result<(), SourceError>>,
    lanes: Vec<Arc<Lane>>,
    deliveries: Vec<JoinHandle<()>>,
    admin: Option<(Address, Crew)>,
}

/// Positions are saved at most once in this time.
const SAVE_EVERY: Duration = Duration::from_millis(100);
/// How long the admin listener's replies under way are waited for at the end.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

/// Starts an invalidator. It goes on by itself, but for positions, which [`Running::run`] saves.
///
/// # Errors
/// When a file cannot be used, or what the system says. That the database cannot be reached is none.
pub fn start(config: &Config) -> Result<Running, StartError> {
    let database = Arc::new(config.source()?);
    let (file, position) = PositionFile::open(&config.position)?;
    let shared = Arc::new(Shared::new(config));
    for folder in config.forgotten_spools() {
        tracing::error!("{} has deletes that belong to no target, and are not delivered", folder.display());
    }
    let lanes = lanes(config, &shared)?;
    let admin = serve_admin(config, &shared)?;
    let stop = Stop::default();
    let mut deliveries = Vec::new();
    for (target, lane) in config.targets.iter().zip(&lanes) {
        deliveries.push(deliver(target, lane.clone(), stop.clone())?);
    }
    let counts = shared.counts.clone();
    let batcher = Batcher::new(lanes.clone(), shared.ledger.clone(), counts.clone(), config.batch_keys.get());
    let changes = Extractor::new(config.templates(), batcher, counts.clone());
    let tail = Tail { changes, counts, on_gap: config.on_gap, stop: stop.clone() };
    let file = Arc::new(file);
    let (first, log) = (file.clone(), database.clone());
    let read =
        move || log.run(tail, position, |position| first.save(position).map_err(SourceError::Position));
    let source = spawn("source".to_owned(), read)?;
    Ok(Running { file, database, unsaved: None, shared, stop, source, lanes, deliveries, admin })
}

pub(crate) fn lanes(config: &Config, shared: &Shared) -> Result<Vec<Arc<Lane>>, StartError> {
    let numbered = config.targets.iter().zip(&shared.targets).enumerate();
    let lane = |(number, (target, counts)): (usize, (&TargetConfig, &Arc<TargetCounts>))| {
        let spool = config.open_spool(target)?;
        let limits = config.limits(target);
        Ok(Arc::new(Lane::new(number, limits, spool, shared.ledger.clone(), counts.clone())))
    };
    numbered.map(lane).collect()
}

pub(crate) fn deliver(target: &TargetConfig, lane: Arc<Lane>, stop: Stop) -> io::Result<JoinHandle<()>> {
    let delivery = Delivery {
        counts: lane.counts().clone(),
        lane,
        target: Target::new(target.address.clone(), target.timeout()),
        dialect: target.dialect,
        how: target.how(),
        stop,
    };
    spawn(format!("target-{}", name(target)), move || delivery.run())
}

/// The system takes 15 bytes of a name.
fn name(target: &TargetConfig) -> String {
    target.name.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name).spawn(work)
}

fn serve_admin(config: &Config, shared: &Arc<Shared>) -> Result<Option<(Address, Crew)>, StartError> {
    let Some(place) = &config.admin else {
        return Ok(None);
    };
    let place = guira_web::place(place).map_err(StartError::Place)?;
    let token = config.admin_token_file.as_deref().map(Token::load).transpose()?.map(Arc::new);
    let port = guira_web::open(&place).map_err(StartError::Admin)?;
    let address = port.listener.address().clone();
    let crew = web::start(port, shared.clone(), token)?;
    crew.begin();
    Ok(Some((address, crew)))
}

impl Running {
    /// Where the admin listener is.
    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(|(address, _)| address)
    }

    /// Saves positions until `is_over` says so, about ten times a second, and stops.
    ///
    /// # Errors
    /// When the log cannot be read any further.
    pub fn run(mut self, mut is_over: impl FnMut() -> bool) -> Result<(), Fault> {
        let has_ended =
            |it: &Self| it.source.is_finished() || it.deliveries.iter().any(JoinHandle::is_finished);
        while !is_over() && !has_ended(&self) {
            self.save(SAVE_EVERY);
            // The next one is not saved at once, so that a busy database does not make a busy disk.
            if self.stop.wait(SAVE_EVERY).is_err() {
                break;
            }
        }
        self.stop.set();
        self.lanes.iter().for_each(|lane| lane.end());
        let mut result = Ok(());
        // Batches under way are acknowledged or not; the reader ends once its queues have.
        for delivery in self.deliveries.drain(..) {
            result = result.and(delivery.join().map_err(|_| Fault::Thread));
        }
        self.save(Duration::ZERO);
        if let Some((_, admin)) = self.admin
            && let Err(error) = admin.end(ADMIN_DRAIN)
        {
            tracing::warn!(%error, "the admin listener did not end in order");
        }
        self.source.join().map_err(|_| Fault::Thread)??;
        result
    }

    /// Waits for a new position for at most `duration`, and saves it.
    fn save(&mut self, duration: Duration) {
        let newest = self.shared.ledger.take(duration).or_else(|| self.unsaved.take());
        let Some(position) = newest else { return };
        match self.file.save(&position) {
            Ok(()) => {
                self.database.saved(&position);
                self.unsaved = None;
                self.shared.counts.add(Count::Saves);
            }
            Err(error) => {
                if self.shared.counts.add(Count::SaveFailures) {
                    tracing::error!("the position cannot be saved, a restart repeats deletes: {error}");
                }
                self.unsaved = Some(position);
            }
        }
    }
}

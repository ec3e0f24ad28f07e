//! Starting and stopping an invalidator.

use crate::batch::Batcher;
use crate::config::{Config, ConfigError, TargetConfig};
use crate::counters::{Count, Counts, TargetCounts};
use crate::deliver::Delivery;
use crate::keys::Extractor;
use crate::ledger::Ledger;
use crate::position::{PositionError, PositionFile};
use crate::source::{Source, SourceError, Tail};
use crate::stop::Stop;
use crate::web;
use guira_client::text::Target;
use guira_serving::{Crew, Port, PortError, Speaks};
use guira_transport::{Address, ListenOptions};
use guira_web::{Token, TokenError};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Position(#[from] PositionError),
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
    deliveries: Vec<JoinHandle<()>>,
    admin: Option<(Address, Crew)>,
}

/// Positions are saved at most once in this time.
const SAVE_EVERY: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 64;
/// Who may use a socket in the file system.
const UNIX_MODE: u32 = 0o700;
/// How long the admin listener's replies under way are waited for at the end.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

/// Starts an invalidator. It goes on by itself, but for positions, which [`Running::run`] saves.
///
/// # Errors
/// When a file cannot be used, or what the system says. That the database cannot be reached is none.
pub fn start(config: &Config) -> Result<Running, StartError> {
    let database = Arc::new(config.source()?);
    let (file, position) = PositionFile::open(&config.position)?;
    let ledger = Arc::new(Ledger::new(config.targets.len()));
    let counts = Arc::<Counts>::default();
    let targets = config.targets.iter().map(|target| Arc::new(TargetCounts::new(&target.name))).collect();
    let shared = Arc::new(Shared { counts, targets, ledger });
    let admin = serve_admin(config, &shared)?;
    let stop = Stop::default();
    let (mut outlets, mut deliveries) = (Vec::new(), Vec::new());
    for (number, target) in config.targets.iter().enumerate() {
        let (outlet, batches) = sync_channel(config.queue_batches.get());
        outlets.push(outlet);
        let delivery = Delivery {
            number,
            target: Target::new(target.address.clone(), target.timeout()),
            dialect: target.dialect,
            prefix: target.prefix.clone(),
            batches,
            ledger: shared.ledger.clone(),
            counts: shared.targets[number].clone(),
            stop: stop.clone(),
        };
        deliveries.push(spawn(format!("target-{}", name(target)), move || delivery.run())?);
    }
    let counts = shared.counts.clone();
    let batcher = Batcher::new(outlets, shared.ledger.clone(), counts.clone(), config.batch_keys.get());
    let changes = Extractor::new(config.templates(), batcher, counts.clone());
    let tail = Tail { changes, counts, on_gap: config.on_gap, stop: stop.clone() };
    let file = Arc::new(file);
    let (first, log) = (file.clone(), database.clone());
    let read =
        move || log.run(tail, position, |position| first.save(position).map_err(SourceError::Position));
    let source = spawn("source".to_owned(), read)?;
    Ok(Running { file, database, unsaved: None, shared, stop, source, deliveries, admin })
}

/// The system takes 15 bytes of a name.
fn name(target: &TargetConfig) -> String {
    target.name.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

fn spawn<T: Send + 'static>(
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
    let how = ListenOptions { backlog: BACKLOG, unix_mode: UNIX_MODE };
    let ports = Port::open_all(Vec::new(), &mut Vec::new(), &[place], how, Speaks::Any, None);
    let port =
        ports.map_err(StartError::Admin)?.pop().ok_or_else(|| io::Error::other("it has no address"))?;
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
        while !is_over() && !self.source.is_finished() {
            self.save(SAVE_EVERY);
            // The next one is not saved at once, so that a busy database does not make a busy disk.
            if self.stop.wait(SAVE_EVERY).is_err() {
                break;
            }
        }
        self.stop.set();
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

//! Starting and stopping an invalidator.

use crate::batch::Batcher;
use crate::config::{Config, ConfigError, TargetConfig};
use crate::counters::{Count, Counts, TargetCounts};
use crate::deliver::{Delivery, Lane, SpoolError, Ways};
use crate::keys::Extractor;
use crate::ledger::Ledger;
use crate::position::{PositionError, PositionFile};
use crate::source::{Source, SourceError, Tail};
use crate::stop::Stop;
use crate::web;
use guira_serving::{Crew, PortError};
use guira_transport::Address;
use guira_web::{Token, TokenError};
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
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
    #[error("it cannot begin again: {0}")]
    Begin(#[from] Box<StartError>),
}

/// What the threads of all times see.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) counts: Arc<Counts>,
    /// LOCK: invalidator_view. Leaf.
    view: Mutex<View>,
}

/// What there is since the start, or since the configuration was read anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) targets: Vec<Arc<TargetCounts>>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Shared {
    pub(crate) fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is to be done by this configuration, of which nothing is under way. Targets that were there before go on counting.
    pub(crate) fn next(&self, config: &Config) -> View {
        let before = self.view().targets;
        let known = |name: &str| before.iter().find(|counts| counts.name() == name).cloned();
        let targets = config.targets.iter().map(|target| &*target.name);
        let targets = targets.map(|name| known(name).unwrap_or_else(|| Arc::new(TargetCounts::new(name))));
        View { targets: targets.collect(), ledger: Arc::new(Ledger::new(config.targets.len())) }
    }

    /// This is done from now on. Spools have been opened: before that it would be told of them that they are empty.
    pub(crate) fn begin(&self, view: &View) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view.clone();
        self.counts.set_retained(0);
        self.counts.set_extent(None);
    }
}

/// What an invalidator is to do next.
#[derive(Debug)]
pub enum Wish {
    GoOn,
    /// To do what this configuration says, or, if there is none, to go on as before.
    Reload(Box<Result<Config, ConfigError>>),
    Stop,
}

/// A running invalidator.
#[derive(Debug)]
pub struct Running {
    config: Config,
    shared: Arc<Shared>,
    pipeline: Pipeline,
    admin: Option<Admin>,
}

#[derive(Debug)]
struct Admin {
    address: Address,
    crew: Crew,
    token: Option<Arc<Token>>,
}

/// Everything from the database to the targets.
#[derive(Debug)]
struct Pipeline {
    /// Without one the sender keeps the position.
    file: Option<Arc<PositionFile>>,
    database: Arc<Source>,
    /// The position that the file does not have yet.
    unsaved: Option<String>,
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    stop: Stop,
    source: JoinHandle<Result<(), SourceError>>,
    lanes: Vec<Arc<Lane>>,
    deliveries: Vec<JoinHandle<()>>,
}

/// Positions are saved at most once in this time.
const SAVE_EVERY: Duration = Duration::from_millis(100);
/// How long the admin listener's replies under way are waited for at the end.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

/// Starts an invalidator. It goes on by itself, but for positions, which [`Running::run`] saves.
///
/// # Errors
/// When a file cannot be used, or what the system says. That the database cannot be reached is none.
pub fn start(config: Config) -> Result<Running, StartError> {
    let shared = Arc::<Shared>::default();
    let admin = serve_admin(&config, &shared)?;
    match Pipeline::start(&config, &shared) {
        Ok(pipeline) => Ok(Running { config, shared, pipeline, admin }),
        Err(error) => {
            end_admin(admin);
            Err(error)
        }
    }
}

pub(crate) fn lanes(config: &Config, view: &View) -> Result<Vec<Arc<Lane>>, StartError> {
    let numbered = config.targets.iter().zip(&view.targets).enumerate();
    let lane = |(number, (target, counts)): (usize, (&TargetConfig, &Arc<TargetCounts>))| {
        let spool = config.open_spool(target)?;
        let limits = config.limits(target);
        Ok(Arc::new(Lane::new(number, limits, spool, view.ledger.clone(), counts.clone())))
    };
    numbered.map(lane).collect()
}

pub(crate) fn deliver(
    target: &TargetConfig,
    ways: Ways,
    lane: Arc<Lane>,
    stop: Stop,
) -> io::Result<JoinHandle<()>> {
    let delivery = Delivery {
        counts: lane.counts().clone(),
        lane,
        ways,
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

fn serve_admin(config: &Config, shared: &Arc<Shared>) -> Result<Option<Admin>, StartError> {
    let Some(place) = &config.admin else {
        return Ok(None);
    };
    let place = guira_web::place(place).map_err(StartError::Place)?;
    let token = config.admin_token_file.as_deref().map(Token::load).transpose()?.map(Arc::new);
    let port = guira_web::open(&place).map_err(StartError::Admin)?;
    let address = port.listener.address().clone();
    let crew = web::start(port, shared.clone(), token.clone())?;
    crew.begin();
    Ok(Some(Admin { address, crew, token }))
}

fn end_admin(admin: Option<Admin>) {
    if let Some(admin) = admin
        && let Err(error) = admin.crew.end(ADMIN_DRAIN)
    {
        tracing::warn!(%error, "the admin listener did not end in order");
    }
}

/// An error with its causes.
fn whole(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

impl Running {
    /// Where the admin listener is.
    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(|admin| &admin.address)
    }

    /// Does what `ask` wants, which is asked about ten times a second, and saves positions meanwhile.
    ///
    /// # Errors
    /// When the log cannot be read any further.
    pub fn run(mut self, mut ask: impl FnMut() -> Wish) -> Result<(), Fault> {
        loop {
            match ask() {
                Wish::GoOn => {}
                Wish::Stop => break,
                Wish::Reload(read) => match *read {
                    Ok(config) => self = self.reload(config)?,
                    Err(error) => {
                        self.shared.counts.add(Count::ReloadFailures);
                        tracing::error!("the configuration stays as it was: {}", whole(&error));
                    }
                },
            }
            if self.pipeline.has_ended() {
                break;
            }
            self.pipeline.save(SAVE_EVERY);
            // The next one is not saved at once, so that a busy database does not make a busy disk.
            if self.pipeline.stop.wait(SAVE_EVERY).is_err() {
                break;
            }
        }
        let result = self.pipeline.end();
        end_admin(self.admin);
        result
    }

    /// Ends what is done, and begins anew where that is acknowledged. The admin listener stays.
    fn reload(self, config: Config) -> Result<Self, Fault> {
        let Running { config: before, shared, pipeline, admin } = self;
        pipeline.end()?;
        if let Some(token) = admin.as_ref().and_then(|admin| admin.token.as_ref()) {
            token.reload();
        }
        if (&config.admin, &config.admin_token_file) != (&before.admin, &before.admin_token_file) {
            tracing::error!("the admin listener stays as it was: that it is another needs a restart");
        }
        match Pipeline::start(&config, &shared) {
            Ok(pipeline) => {
                shared.counts.add(Count::Reloads);
                tracing::info!("the configuration was read anew");
                Ok(Running { config, shared, pipeline, admin })
            }
            Err(error) => {
                shared.counts.add(Count::ReloadFailures);
                tracing::error!("the configuration stays as it was: {}", whole(&error));
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
            tracing::error!(
                "{} has deletes that belong to no target, and are not delivered",
                folder.display()
            );
        }
        let view = shared.next(config);
        let lanes = lanes(config, &view)?;
        shared.begin(&view);
        let stop = Stop::default();
        let mut deliveries = Vec::new();
        for ((target, ways), lane) in config.targets.iter().zip(ways).zip(&lanes) {
            deliveries.push(deliver(target, ways, lane.clone(), stop.clone())?);
        }
        let (ledger, counts) = (view.ledger, shared.counts.clone());
        let batcher = Batcher::new(lanes.clone(), ledger.clone(), counts.clone(), config.batch_keys.get());
        let changes = Extractor::new(config.tables(), batcher, counts.clone());
        let tail = Tail { changes, counts, on_gap: config.on_gap, stop: stop.clone() };
        let (first, log) = (file.clone(), database.clone());
        let save = move |position: &str| first.as_ref().map_or(Ok(()), |file| file.save(position));
        let read = move || log.run(tail, position, |position| save(position).map_err(SourceError::Position));
        let source = spawn("source".to_owned(), read)?;
        let shared = shared.clone();
        Ok(Pipeline { file, database, unsaved: None, shared, ledger, stop, source, lanes, deliveries })
    }

    fn has_ended(&self) -> bool {
        self.source.is_finished() || self.deliveries.iter().any(JoinHandle::is_finished)
    }

    /// Ends all threads, and saves what was acknowledged.
    fn end(mut self) -> Result<(), Fault> {
        self.stop.set();
        self.lanes.iter().for_each(|lane| lane.end());
        let mut result = Ok(());
        // Batches under way are acknowledged or not; the reader ends once its queues have.
        for delivery in self.deliveries.drain(..) {
            result = result.and(delivery.join().map_err(|_| Fault::Thread));
        }
        self.save(Duration::ZERO);
        self.source.join().map_err(|_| Fault::Thread)??;
        result
    }

    /// Waits for a new position for at most `duration`, and saves it.
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
                    tracing::error!("the position cannot be saved, a restart repeats deletes: {error}");
                }
                self.unsaved = Some(position);
            }
        }
    }
}

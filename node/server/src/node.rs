//! Starting and stopping a server.

use crate::admin::{Admin, EngineAdmin};
use crate::options::{Options, Placement};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::worker::{Acceptor, Worker};
use guira_contract::{Engine, EngineStats};
use guira_memory::{KIB, MIB};
use guira_roster::{OpenError, Setup};
use guira_sync::atomic::Ordering;
use guira_sync::clock::{CoarseClock, Stopwatch};
use guira_transport::{Address, ListenError, Listener, Mailbox, Stream};
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The engine cannot be opened.
    #[error("cannot open the engine")]
    Engine(#[from] OpenError),
    /// There is too little memory.
    #[error("--memory {memory} is too little: at least {least} are needed with {workers} workers")]
    Memory {
        /// What was given.
        memory: crate::Size,
        /// What is needed.
        least: crate::Size,
        /// With so many workers.
        workers: usize,
    },
    /// The system refused something that every server needs.
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// What the process takes beside the engine's memory: code, stacks, and what the system library keeps; a little more of it in large
/// caches, whose memory is committed in larger steps …
const PROCESS_BYTES: usize = 4 * MIB + 512 * KIB;
const PROCESS_SHARE: usize = 256;
const PROCESS_SHARE_MAX: usize = 2 * MIB + 512 * KIB;
/// … and each worker's buffers and stack.
const WORKER_BYTES: usize = 512 * KIB;
/// Less than this is no cache.
const ENGINE_LEAST: usize = 2 * MIB;

/// How long connections with something under way are waited for when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<Address>,
    shared: Arc<Shared>,
    mailboxes: Vec<Arc<Mailbox<Stream>>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// How memory is divided: what for, and bytes.
    memory: Vec<(&'static str, usize)>,
}

/// Starts a server.
///
/// # Errors
/// If an address is taken, or there is too little memory.
pub fn start(options: &Options) -> Result<Running, StartError> {
    let reserve = process_bytes(options) + options.workers * WORKER_BYTES;
    let memory = options.memory.0.saturating_sub(reserve);
    if memory < ENGINE_LEAST {
        // Rounded up, so that what is told is enough: the share of the process grows with memory.
        let least = crate::Size((reserve + ENGINE_LEAST + 64 * KIB).next_multiple_of(64 * KIB));
        return Err(StartError::Memory { memory: options.memory, least, workers: options.workers });
    }
    let opened = options.engine.open(&Setup::new(memory, options.max_item_size.0, seed()))?;
    start_with(options, opened.engine, CoarseClock::system_since(opened.base))
}

/// Starts a server with this engine and clock.
fn start_with<E: Engine + Clone>(
    options: &Options,
    engine: E,
    clock: CoarseClock,
) -> Result<Running, StartError> {
    let listeners: Vec<Listener> = options
        .listen
        .iter()
        .map(|address| Listener::bind(address, options.backlog))
        .collect::<Result<_, _>>()?;
    let addresses: Vec<Address> = listeners.iter().map(|listener| listener.address().clone()).collect();
    let shared = Arc::new(Shared::new(clock, options.workers, options.max_connections));
    let settings = settings(options, &addresses);
    let admin: Arc<dyn Admin> = Arc::new(EngineAdmin::new(engine.clone(), shared.clone(), settings));
    let mailboxes: Vec<Arc<Mailbox<Stream>>> =
        (0..options.workers).map(|_| Mailbox::new().map(Arc::new)).collect::<Result<_, _>>()?;
    let mut acceptor = Some(Acceptor::new(listeners, mailboxes.clone()));
    let mut threads = Vec::new();
    let (ready, started) = mpsc::channel();
    for (index, mailbox) in mailboxes.iter().enumerate() {
        let (session, shared, admin) = (engine.session(), shared.clone(), admin.clone());
        let (mailbox, acceptor) = (mailbox.clone(), acceptor.take());
        let (placement, ready) = (options.placement, ready.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            if placement == Placement::Pinned {
                pin(index);
            }
            match Worker::new(index, session, shared, admin, mailbox, acceptor) {
                Ok(worker) => {
                    // Whoever starts the server waits for this; if it is gone, so is the server.
                    let _ = ready.send(Ok(()));
                    worker.run()
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    Ok(())
                }
            }
        })?;
        threads.push(thread);
    }
    for _ in 0..options.workers {
        started.recv().map_err(io::Error::other)??;
    }
    let memory = division(options, &engine.stats());
    Ok(Running { addresses, shared, mailboxes, threads, memory })
}

fn settings(options: &Options, addresses: &[Address]) -> Settings {
    let port = addresses.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    });
    Settings {
        memory: options.memory.0,
        max_connections: options.max_connections,
        tcp_port: port.unwrap_or(0),
        listen: addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(","),
        workers: options.workers,
        item_size_max: options.max_item_size.0,
        backlog: options.backlog,
        engine: options.engine.settings(),
    }
}

fn process_bytes(options: &Options) -> usize {
    PROCESS_BYTES + (options.memory.0 / PROCESS_SHARE).min(PROCESS_SHARE_MAX)
}

fn division(options: &Options, stats: &EngineStats) -> Vec<(&'static str, usize)> {
    vec![
        ("items and index", stats.memory_limit as usize),
        ("workers' buffers and stacks", options.workers * WORKER_BYTES),
        ("code and system", process_bytes(options)),
    ]
}

/// A seed that nobody outside can know.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("guira")
}

/// Keeps this thread on processor `index`, around the number there are. If the system refuses, it runs anywhere.
fn pin(index: usize) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = rustix::thread::CpuSet::new();
    set.set(index % processors);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(%error, worker = index, "cannot pin a worker");
    }
}

impl Running {
    /// Where it listens, with the ports that were taken.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How memory is divided: what for, and bytes.
    pub fn memory(&self) -> &[(&'static str, usize)] {
        &self.memory
    }

    /// Stops: no connection is accepted any more, those at rest are closed at once, and the others when they are at rest, or
    /// after five seconds.
    ///
    /// # Errors
    /// What ended a worker before.
    pub fn stop(self) -> io::Result<()> {
        // Release: pairs with the Acquire in `Shared::is_stopping`.
        self.shared.stopping.store(true, Ordering::Release);
        let ring = || self.mailboxes.iter().for_each(|mailbox| mailbox.ring());
        ring();
        let started = Stopwatch::start();
        while started.elapsed() < DRAIN && !self.threads.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.shared.abandoned.store(true, Ordering::Release);
        ring();
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker has panicked")));
            result = result.and(ended);
        }
        result
    }
}

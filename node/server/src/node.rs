//! Starting and stopping a server.

use crate::acceptor::{Acceptor, Port};
use crate::admin::{Admin, EngineAdmin, Settings};
use crate::listen::{ListenTraits, Security};
use crate::options::{Options, Placement};
use crate::secrets::Secrets;
use crate::shared::Shared;
use crate::size::Size;
use crate::watch::{EvictionTap, Hub};
use crate::worker::Worker;
use guira_contract::{Engine, EngineStats};
use guira_memory::{KIB, MIB};
use guira_roster::{OpenError, Setup};
use guira_sync::atomic::Ordering;
use guira_sync::clock::{CoarseClock, Stopwatch};
use guira_transport::{
    Address, Inherited, ListenError, ListenOptions, Listener, Mailbox, TlsAcceptor, VerifyMode,
};
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A listener says something about TLS, and there is none.
    #[error("a listener with notls:, btls: or mtls: needs TLS: name a certificate")]
    NoTls,
    /// Nothing can be done with an inherited socket.
    #[error("a socket for datagrams was handed over, which is not supported")]
    InheritedDatagrams,
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
    pulse: Pulse,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// How memory is divided: what for, and bytes.
    memory: Vec<(&'static str, usize)>,
}

/// Tells how a running server is, to any thread.
#[derive(Clone, Debug)]
pub struct Pulse {
    shared: Arc<Shared>,
    /// Weak: the engine is closed by its last handle, which is none of ours.
    admin: Weak<dyn Admin>,
}

impl Pulse {
    /// How many items there are, as `stats` tells it: those that have expired and were not found yet are among them. None, once the
    /// server has stopped.
    pub fn items(&self) -> u64 {
        self.admin.upgrade().map_or(0, |admin| admin.items())
    }

    /// How many connections there are.
    pub fn connections(&self) -> u64 {
        self.shared.connections.current.load(Ordering::Relaxed)
    }
}

/// The least memory that a server with so many workers can be started with.
pub fn least_memory(workers: usize) -> Size {
    // Rounded up, so that what is told is enough: the share of the process grows with memory.
    let reserve = PROCESS_BYTES + workers * WORKER_BYTES;
    Size((reserve + reserve / PROCESS_SHARE + ENGINE_LEAST + 64 * KIB).next_multiple_of(MIB))
}

/// Starts a server. It serves the sockets that were `inherited` too; if there are some, the default address is not listened on.
///
/// # Errors
/// If an address is taken, or there is too little memory.
pub fn start(options: &Options, secrets: Secrets, inherited: Vec<Inherited>) -> Result<Running, StartError> {
    let reserve = process_bytes(options) + options.workers * WORKER_BYTES;
    let memory = options.memory.0.saturating_sub(reserve);
    if memory < ENGINE_LEAST {
        let least = least_memory(options.workers);
        return Err(StartError::Memory { memory: options.memory, least, workers: options.workers });
    }
    let opened = options.engine.open(&Setup::new(memory, options.max_item_size.0, seed()))?;
    let clock = if options.permissions.test {
        CoarseClock::shiftable_since(opened.base)
    } else {
        CoarseClock::system_since(opened.base)
    };
    start_with(options, secrets, inherited, opened.engine, clock)
}

/// Starts a server with this engine and clock.
fn start_with<E: Engine + Clone>(
    options: &Options,
    secrets: Secrets,
    inherited: Vec<Inherited>,
    engine: E,
    clock: CoarseClock,
) -> Result<Running, StartError> {
    let ports = open_ports(options, inherited, secrets.tls.as_ref())?;
    let addresses: Vec<Address> = ports.iter().map(|port| port.listener.address().clone()).collect();
    let mailboxes = (0..options.workers).map(|_| Mailbox::new().map(Arc::new)).collect::<Result<_, _>>()?;
    let hub = Arc::new(Hub::new(options.workers, options.log)?);
    engine.watch_evictions(Arc::new(EvictionTap { hub: hub.clone(), clock: clock.clone() }));
    let shared = Arc::new(Shared::new(clock, options, secrets, mailboxes, hub));
    for port in &ports {
        shared.registry.add_listener(port.listener.as_fd().as_raw_fd(), port.address.clone());
    }
    let settings = Settings::new(options, &addresses, &[]);
    let admin: Arc<dyn Admin> = Arc::new(EngineAdmin::new(engine.clone(), shared.clone(), settings));
    let pulse = Pulse { shared: shared.clone(), admin: Arc::downgrade(&admin) };
    let mut acceptor = Some(Acceptor::new(ports, shared.mailboxes.clone()));
    let mut threads = Vec::new();
    let (ready, started) = mpsc::channel();
    for index in 0..options.workers {
        let (session, shared, admin) = (engine.session(), shared.clone(), admin.clone());
        let acceptor = acceptor.take();
        let (placement, ready) = (options.placement, ready.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            if placement == Placement::Pinned {
                pin(index);
            }
            match Worker::new(index, session, shared, admin, acceptor) {
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
    Ok(Running { addresses, shared, pulse, threads, memory })
}

/// Opens everything that connections come from.
fn open_ports(
    options: &Options,
    inherited: Vec<Inherited>,
    tls: Option<&TlsAcceptor>,
) -> Result<Vec<Port>, StartError> {
    let port = |listener: Listener, traits: &ListenTraits| {
        let address = Arc::new(listener.address().clone());
        let speaks = traits.speaks.unwrap_or(options.speaks);
        let tls = security(&listener, traits.security, tls)?;
        Ok::<Port, StartError>(Port { listener, address, speaks, tls })
    };
    let how = ListenOptions { backlog: options.backlog, unix_mode: options.unix_mode };
    let mut ports = Vec::new();
    for socket in inherited {
        match socket {
            Inherited::Stream(listener) => ports.push(port(listener, &ListenTraits::default())?),
            Inherited::Datagram(_) => return Err(StartError::InheritedDatagrams),
        }
    }
    for listen in &options.listen {
        match Listener::bind(&listen.address, how) {
            Ok(listener) => ports.push(port(listener, &listen.traits)?),
            Err(error) if listen.optional && error.is_absent() => {
                tracing::info!(address = %listen.address, "this machine does not have the address");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ports)
}

/// How connections of a listener are secured. UNIX sockets are not, unless they say so.
fn security(
    listener: &Listener,
    security: Security,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<TlsAcceptor>, StartError> {
    let local = matches!(listener.address(), Address::Unix(_));
    let Some(tls) = tls else {
        return if security == Security::Default { Ok(None) } else { Err(StartError::NoTls) };
    };
    let verify = match security {
        Security::Plain => return Ok(None),
        Security::Default if local => return Ok(None),
        Security::Default => return Ok(Some(tls.clone())),
        Security::Basic => VerifyMode::None,
        Security::Mutual if tls.options().verify == VerifyMode::None => VerifyMode::Force,
        Security::Mutual => tls.options().verify,
    };
    if verify != VerifyMode::None && tls.options().authorities.is_none() {
        tracing::warn!(address = %listener.address(), "no certificate of a client will hold: no authority is named");
    }
    Ok(Some(tls.with_verify(verify)))
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

    /// Where it takes datagrams from, with the ports that were taken.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &[]
    }

    /// How it is.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Reads again whatever can change while it runs: users and certificates.
    pub fn reload(&self) {
        self.shared.reload();
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
        let ring = || self.shared.mailboxes.iter().for_each(|mailbox| mailbox.ring());
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

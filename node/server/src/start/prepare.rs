//! The first step of a start: checks options and opens ports.

use super::running::Running;
use crate::errors::StartError;
use crate::memory_split::{MemorySplit, most_connection_memory};
use crate::options::{Options, address_space_to_spare};
use crate::ports::{Handed, Ports};
use crate::secrets::Secrets;
use crate::takeover::{Bringing, Sockets};
use guira_memory::machine_memory;
use guira_roster::{
    Choice, ClassOptions, EngineOptions, Eviction, HugePages, Lasting, MEMORY_LEAST, OpenError, Residence,
    Setup,
};
use guira_serving::PortError;
use guira_sync::clock::wall_clock;
use guira_sync::random;
use guira_transport::net::UdpSocket;
use guira_transport::{Address, Inherited, ListenOptions, Listener};
use std::fmt;

/// Opens the engine of a choice and serves it. Only the crate that calls [`Choice::open`] with a [`Starting`] is
/// compiled for every engine, so this crate does not.
pub type OpenEngine = fn(&Choice, &Setup, Starting<'_>) -> Result<Result<Running, StartError>, OpenError>;

/// The options with which a server is started, and restarted if its successor fails.
#[derive(Clone)]
pub(crate) struct StartOptions {
    pub(crate) options: Options,
    pub(crate) secrets: Secrets,
    pub(crate) open: OpenEngine,
}

/// A server that waits for its engine.
pub struct Starting<'a> {
    pub(super) prepared: &'a mut Prepared,
    pub(super) bringing: &'a mut Bringing,
}

impl fmt::Debug for Starting<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Starting").finish_non_exhaustive()
    }
}

/// Checks the options of a server without starting one. [`super::start_after`] does so too; a program that goes to the
/// background calls this before, while it can still show errors.
///
/// # Errors
/// If users are combined with datagrams, if there is too little memory, or if connections would leave too little.
pub fn check(options: &Options, secrets: &Secrets, inherited: &[Inherited]) -> Result<(), StartError> {
    let is_datagrams = |socket: &Inherited| matches!(socket, Inherited::Datagram(_));
    if secrets.users.is_some()
        && (!options.udp.is_empty() || options.serves_mica() || inherited.iter().any(is_datagrams))
    {
        return Err(StartError::NamelessDatagrams);
    }
    if options.memory.0 < MEMORY_LEAST {
        return Err(StartError::LittleMemory { memory: options.memory, least: crate::Size(MEMORY_LEAST) });
    }
    let (memory, most) = (options.memory, most_connection_memory(options.memory));
    if let Some(wanted) = options.connection_memory.filter(|wanted| *wanted > most) {
        return Err(StartError::ConnectionMemory { wanted, memory, most });
    }
    Ok(())
}

/// A server whose ports are open and whose engine is not.
pub(crate) struct Prepared {
    pub(super) again: StartOptions,
    /// With the addresses of all UDP sockets.
    pub(super) options: Options,
    /// Taken once the engine is open.
    pub(super) ports: Option<Ports>,
    /// For a successor, if there may be one.
    pub(super) kept: Option<Sockets>,
}

/// Opens all ports of a server, or takes those of an earlier one.
///
/// # Errors
/// If an address is taken, or [`check`] says why not.
pub(crate) fn prepare(
    again: StartOptions,
    inherited: Vec<Inherited>,
    mut earlier: Sockets,
) -> Result<Prepared, StartError> {
    // Not where options are read: every way to start a server comes here.
    let StartOptions { options: given, secrets, .. } = &again;
    check(given, secrets, &inherited)?;
    let handed = Handed::of(inherited);
    let managed = [handed.streams.len(), handed.datagrams.len()];
    let wanted_udp = given.udp.clone();
    // Sockets from elsewhere count as well: their buffers take memory.
    let udp = handed.datagrams.iter().map(UdpSocket::local_addr).chain(wanted_udp.iter().copied().map(Ok));
    let options = Options { udp: udp.collect::<Result<_, _>>()?, ..given.clone() };
    check(&options, secrets, &[])?;
    let mut ports = Ports::open(&options, &wanted_udp, handed, &mut earlier, secrets.tls.as_ref())?;
    let kept = match &options.takeover {
        Some(path) => {
            let mut kept = ports.keep(managed)?;
            kept.takeover = Some(match earlier.takeover.take() {
                Some(listener) => listener,
                None => Listener::bind(&Address::Unix(path.clone()), TAKEOVER).map_err(PortError::from)?,
            });
            kept.with_files_of(&mut earlier);
            Some(kept)
        }
        None => None,
    };
    Ok(Prepared { again, options, ports: Some(ports), kept })
}

/// Only the user that the server runs as may take over.
const TAKEOVER: ListenOptions = ListenOptions { backlog: 16, unix_mode: 0o600 };

impl Prepared {
    pub(super) fn setup(&self) -> Setup {
        setup(&self.options, MemorySplit::of(&self.options, self.options.memory.0).engine)
    }
}

/// The setup of an engine with `memory` bytes.
pub(crate) fn setup(options: &Options, memory: usize) -> Setup {
    let usual = Setup::new(memory, options.max_item_size.0, random::seed());
    Setup {
        engine: EngineOptions {
            eviction: if options.disable_evictions { Eviction::Off } else { Eviction::On },
            huge_pages: options
                .huge_pages
                .map(|wanted| if wanted { HugePages::Requested } else { HugePages::No }),
            residence: if options.lock_memory { Residence::Locked } else { Residence::Swappable },
            first_cas: random::seed() >> CAS_SHIFT,
            short_lived: options.short_lived,
            ..usual.engine
        },
        classes: ClassOptions {
            factor: options.growth_factor,
            smallest_item: options.smallest_item as usize,
        },
        reserve: options.reserve.map(|reserve| MemorySplit::of_running(options, reserve.0).engine),
        reserve_least: address_space_to_spare(options),
        machine: machine_memory(),
        lasting: options.region.clone().map(|place| Lasting { place, now_unix: wall_clock() }),
    }
}

/// Starts cas uniques below 2^40: for a trillion stores they are numbers that JavaScript can hold.
const CAS_SHIFT: u32 = 24;

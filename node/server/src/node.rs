//! Starting and stopping a server.

use crate::admin::{Admin, Settings};
use crate::counters::ServerCount;
use crate::direct::{self, DatagramListener, DirectPath, Place};
use crate::errors::{StartError, StopError};
use crate::forward::{Forwarding, Inboxes};
use crate::held::{BACKGROUND_WAIT, Held};
use crate::kept_policy;
use crate::memory_split::{MemorySplit, most_connection_memory};
use crate::options::{Options, address_space_to_spare};
use crate::ports::{Handed, Ports};
use crate::saved_counters;
use crate::secrets::Secrets;
use crate::shared::Shared;
use crate::takeover::{
    Bringing, Door, HandedTime, Incoming, OfferedRegion, Predecessor, Sockets, region_identity,
};
use crate::udp::UdpListener;
use crate::watch::{EvictionSink, Hub};
use crate::web;
use crate::worker::{Ends, NodeService};
use guira_contract::{CommitAhead, Engine, Opening};
use guira_memory::lasting::HandedRegion;
use guira_memory::{machine_memory, release_code, release_heap, release_stack};
use guira_roster::{
    Choice, ClassOptions, EngineOptions, Eviction, Host, HugePages, Lasting, MEMORY_LEAST, OpenError, Opened,
    RegionPlace, Residence, Setup,
};
use guira_serving::{
    Acceptor, Arrival, ConnBudget, Connections, Crew, HostOptions, Placement, Port, PortError, Worker,
    WorkerError,
};
use guira_sync::atomic::Ordering;
use guira_sync::clock::{CoarseClock, Stopwatch, wall_clock, wall_clock_millis};
use guira_transport::{Address, Inherited, ListenOptions, Listener};
use guira_web::Token;
use rustix::fd::{AsFd, AsRawFd};
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the admin listener's replies under way are waited for when the server stops.
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

/// A running server.
pub struct Running {
    addresses: Vec<Address>,
    udp_addresses: Vec<SocketAddr>,
    mica_addresses: Vec<SocketAddr>,
    local: Option<PathBuf>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) status: ServerStatus,
    pub(crate) crew: Crew,
    /// The admin listener: where, the thread that serves it, and what its clients show.
    pub(crate) admin: Option<(Address, Crew)>,
    token: Option<Arc<Token>>,
    /// How memory is divided: what for, and bytes.
    memory: Vec<(&'static str, usize)>,
    /// The region that it has, and what was found in it.
    pub(crate) found: Option<(RegionPlace, Opening)>,
    pub(crate) held: Box<dyn Held>,
    /// Where successors ask, and what starts the server again if they fail.
    pub(crate) door: Option<Door>,
    pub(crate) again: StartOptions,
}

/// Opens the engine of this choice and has the server that waits for it serve it. The crate that calls
/// [`Choice::open`] with a [`Starting`] is compiled for every engine, so this one does not.
pub type OpenEngine = fn(&Choice, &Setup, Starting<'_>) -> Result<Result<Running, StartError>, OpenError>;

/// What a server is started with again if its successor fails.
#[derive(Clone)]
pub(crate) struct StartOptions {
    pub(crate) options: Options,
    pub(crate) secrets: Secrets,
    pub(crate) open: OpenEngine,
}

/// What becomes of the items when a server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// If the server has a region, they are there again at the next start.
    Kept,
    /// They are gone.
    Discarded,
}

impl From<WorkerError> for StopError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Failed(error) => StopError::Worker(error),
            WorkerError::Panicked => StopError::Panicked,
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// What any thread may ask of a running server.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    shared: Arc<Shared>,
    /// Weak: the engine is closed by its last handle, which is none of ours.
    pub(crate) admin: Weak<Admin>,
}

impl ServerStatus {
    /// How many items there are, as `stats` tells it: those that have expired and were not found yet are among them. 0, once the
    /// server has stopped.
    pub fn items(&self) -> u64 {
        self.admin.upgrade().map_or(0, |admin| admin.item_count())
    }

    /// How many connections there are.
    pub fn connections(&self) -> u64 {
        self.shared.connections.current.load(Ordering::Relaxed)
    }
}

/// Looks whether a server can be started with these, as far as that can be known without starting one. [`start_after`] does so itself; who goes to
/// the background first does so before, while its errors can still be shown.
///
/// # Errors
/// If users and datagrams are to be served, or there is too little memory, or connections would leave too little.
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

/// Starts a server, whose engine `open` opens. The server takes over from its predecessor, if there is one. It serves
/// the sockets that were `inherited` too; if there are some, the default address is not listened on.
///
/// # Errors
/// If an address is taken, or [`check`] says why not; or if the predecessor does not let go, or the server cannot go on
/// with its region. Then the predecessor goes on.
pub fn start_after(
    open: OpenEngine,
    options: &Options,
    secrets: Secrets,
    inherited: Vec<Inherited>,
    predecessor: Option<Predecessor>,
) -> Result<Running, StartError> {
    let again = StartOptions { options: options.clone(), secrets, open };
    let Some(mut predecessor) = predecessor else {
        return prepare(again, inherited, Sockets::default())?.open(Bringing::default());
    };
    let earlier = std::mem::take(&mut predecessor.sockets);
    let prepared = prepare(again, inherited, earlier).and_then(|prepared| {
        predecessor.check_region(&prepared.options, &prepared.setup())?;
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => prepared.open(predecessor.let_go()?),
        Err(error) => {
            predecessor.refuse(&error);
            Err(error)
        }
    }
}

/// A server that can be opened: everything was looked at that can fail before.
pub(crate) struct Prepared {
    again: StartOptions,
    /// With the addresses of all UDP sockets.
    options: Options,
    /// Taken when the engine is there.
    ports: Option<Ports>,
    /// For a successor, if there may be one.
    kept: Option<Sockets>,
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
    // Here, and not where options are read: no way to start a server leads past it.
    let StartOptions { options: given, secrets, .. } = &again;
    check(given, secrets, &inherited)?;
    let handed = Handed::of(inherited);
    let managed = [handed.streams.len(), handed.datagrams.len()];
    let wanted_udp = given.udp.clone();
    // Wherever datagrams come from: what they take is to be counted.
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
    fn setup(&self) -> Setup {
        setup(&self.options, MemorySplit::of(&self.options, self.options.memory.0).engine)
    }

    /// Opens the engine and serves it.
    ///
    /// # Errors
    /// If that cannot be done. What was brought is the predecessor's again.
    pub(crate) fn open(mut self, mut bringing: Bringing) -> Result<Running, StartError> {
        let handed = bringing.region.take();
        let mut result = self.open_in(handed.as_ref(), &mut bringing);
        if let (Err(StartError::Engine(OpenError::NotTakenOver { .. })), Some(handed)) = (&result, &handed)
            && !bringing.is_on_trial()
        {
            // The successor has left it so. An empty server is better than none.
            if let Err(error) = &result {
                // Operator: The cache starts empty: expect load on the database.
                tracing::error!("lost all items: {error}");
            }
            result = self.open_in(Some(&Arc::new(handed.spoilt())), &mut bringing);
        }
        if let Err(error) = &result {
            bringing.refuse(error);
        }
        result
    }

    fn open_in(
        &mut self,
        handed: Option<&Arc<HandedRegion>>,
        bringing: &mut Bringing,
    ) -> Result<Running, StartError> {
        let mut setup = self.setup();
        if let (Some(lasting), Some(handed)) = (&mut setup.lasting, handed) {
            lasting.place = lasting.place.with(handed.clone());
            if let Some(time) = bringing.time {
                lasting.now_unix = time.now() / 1000;
            }
        }
        let choice = self.options.choice()?;
        (self.again.open)(&choice, &setup, Starting { prepared: self, bringing })?
    }

    /// Serves an engine that has served before, with the region that it has, if any.
    ///
    /// # Errors
    /// If that cannot be done. What is in the region lasts.
    pub(crate) fn serve(
        mut self,
        held: Box<dyn Held>,
        found: Option<(RegionPlace, Opening)>,
        shared: &Shared,
        mut bringing: Bringing,
    ) -> Result<Running, StartError> {
        held.serve(Starting { prepared: &mut self, bringing: &mut bringing }, found, shared)
    }
}

/// Gives memory back that only the start has used. To be called by the main thread, when there is nothing left to start.
pub fn release_start() {
    release_heap();
    let released = release_stack().and_then(|stack| Ok(stack + release_code()?));
    match released {
        Ok(bytes) => tracing::debug!(bytes, "released memory that only the start used"),
        Err(error) => tracing::debug!(%error, "cannot release memory that only the start used"),
    }
}

/// A server that waits for its engine.
pub struct Starting<'a> {
    prepared: &'a mut Prepared,
    bringing: &'a mut Bringing,
}

impl fmt::Debug for Starting<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Starting").finish_non_exhaustive()
    }
}

impl Host for Starting<'_> {
    type Output = Result<Running, StartError>;

    fn run<E: Engine + Clone>(mut self, opened: Opened<E>) -> Result<Running, StartError> {
        let Opened { engine, opening, notes, base, shortage } = opened;
        tracing::debug!(us = self.bringing.waited_us(), "the engine is open");
        let options = &self.prepared.options;
        // Only items have times that go on.
        let handed = self.bringing.time.filter(|_| options.region.is_some());
        let now = handed.map_or_else(wall_clock_millis, HandedTime::now);
        let clock = CoarseClock::system_at(base, now);
        let clock = if options.test_commands { clock.shiftable() } else { clock };
        let found = options.region.as_ref().map(|place| (place.clone(), opening));
        match &found {
            Some((place, Opening::Emptied(why))) => {
                // Operator: The cache starts empty: expect load on the database. The message has the
                // reason.
                tracing::warn!("emptied region {place}: {why}");
            }
            Some((place, opening @ Opening::Salvaged { .. })) => {
                // Operator: Nothing, if items were restored. If items were dropped, check the disk and
                // the memory.
                tracing::warn!("region {place} is {opening}");
            }
            Some((place, opening)) => tracing::info!("region {place} is {opening}"),
            None => {}
        }
        if let Some((place, shortage)) = options.region.as_ref().zip(shortage) {
            // Operator: Free space in the file system of `--region`, or lower `--memory`.
            tracing::warn!("the file system of the region {place} {shortage}; stores beyond that fail");
        }
        let opening = found.as_ref().map(|(_, opening)| opening.clone());
        match start_with(&mut self, &engine, &notes, opening, clock.clone()) {
            Ok(running) => Ok(running.with_region(found)),
            // A predecessor goes on with what was not closed.
            Err(error) => {
                if let Some((place, _)) = found
                    && !self.bringing.is_on_trial()
                    && let Err(error) = engine.close(clock.now(), &notes)
                {
                    // Operator: The cache starts empty: expect load on the database.
                    tracing::error!("lost the items in region {place}: {error}");
                }
                Err(error)
            }
        }
    }
}

/// How the engine is to be opened, with so much memory of its own.
pub(crate) fn setup(options: &Options, memory: usize) -> Setup {
    let usual = Setup::new(memory, options.max_item_size.0, seed());
    Setup {
        engine: EngineOptions {
            eviction: if options.disable_evictions { Eviction::Off } else { Eviction::On },
            huge_pages: options.huge_pages.map(|ask| if ask { HugePages::Ask } else { HugePages::No }),
            residence: if options.lock_memory { Residence::Locked } else { Residence::Swappable },
            first_cas: seed() >> CAS_SHIFT,
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

/// Starts a server with this engine and clock, at these ports. After an error the engine is not in use.
pub(crate) fn start_with<E: Engine + Clone>(
    starting: &mut Starting<'_>,
    engine: &E,
    notes: &[u8],
    opening: Option<Opening>,
    clock: CoarseClock,
) -> Result<Running, StartError> {
    let Starting { prepared, bringing } = starting;
    let (options, secrets) = (&prepared.options, prepared.again.secrets.clone());
    let ports = prepared.ports.take().ok_or_else(|| io::Error::other("the ports are in use"))?;
    let (addresses, udp_addresses) = (ports.addresses(), ports.udp_addresses());
    let mica_addresses = ports.mica_addresses(options);
    let Ports { streams: ports, udp, paths, admin: admin_port } = ports;
    let ways = direct::describe_all(paths, engine.partitioning(), options.workers);
    let division = MemorySplit::of(options, options.memory.0);
    division.report(options.memory);
    let budget = Arc::new(ConnBudget::new(division.conn_limits(), options.workers));
    let hub = Arc::new(Hub::new(options, budget.clone())?);
    let token = secrets.token.clone();
    let host = host_of(options, secrets, budget, hub.clone())?;
    engine.watch_evictions(Arc::new(EvictionSink { hub: hub.clone(), clock: clock.clone() }));
    let meters = ways.iter().flatten().filter_map(|way| way.path.meter()).collect();
    let background_tasks = bringing.background_tasks.clone();
    let chunks = engine.chunk_sizes();
    let shared = Arc::new(Shared::new(host.clone(), clock, options, hub, meters, background_tasks, &chunks));
    saved_counters::read(notes, &shared);
    kept_policy::read(notes, &shared, engine);
    let incoming = std::mem::take(&mut bringing.incoming);
    let arrivals = arrivals(incoming, &shared, &ports);
    register(&shared, &ports, &udp)?;
    let settings = Settings::new(options.choice()?, &addresses, &udp_addresses, &mica_addresses, opening);
    let admin = admin_of(engine, &shared, settings);
    admin.begin_to_learn();
    let status = ServerStatus { shared: shared.clone(), admin: Arc::downgrade(&admin) };
    let crew = workers(options, engine, (&shared, &admin), (ports, udp, ways))?;
    let serve = |port: Port| {
        let address = port.listener.address().clone();
        web::start(port, admin, shared.clone(), token.clone()).map(|crew| (address, crew))
    };
    let admin = admin_port.map(serve).transpose()?;
    let door = prepared.kept.take().map(|kept| door(kept, options, engine)).transpose()?;
    let door = begin(bringing, &crew, &shared, arrivals, door)?;
    if let Some((_, crew)) = &admin {
        crew.begin();
    }
    Ok(Running {
        addresses,
        udp_addresses,
        mica_addresses,
        local: options.local.clone(),
        shared,
        status,
        crew,
        admin,
        token,
        memory: division.parts(),
        found: None,
        held: Box::new(engine.clone()),
        door,
        again: prepared.again.clone(),
    })
}

/// Makes the workers, which serve what comes by these ports once they begin.
fn workers<E: Engine>(
    options: &Options,
    engine: &E,
    (shared, admin): (&Arc<Shared>, &Arc<Admin>),
    (ports, udp, ways): (Vec<Port>, Vec<Vec<UdpSocket>>, Vec<Vec<DirectPath>>),
) -> Result<Crew, StartError> {
    let partitioning = engine.partitioning();
    let mut acceptor = Some(Acceptor::new(ports, shared.mailboxes.clone()));
    let inboxes = Arc::new(Inboxes::new(options.workers));
    let placement = if options.pin_workers { Placement::Pinned } else { Placement::Anywhere };
    let mut crew = Crew::new(shared.host.clone());
    for (index, (sockets, ways)) in udp.into_iter().zip(ways).enumerate() {
        let place = Place { worker: index, workers: options.workers, partitioning };
        let ends = Ends {
            udp: (!sockets.is_empty()).then(|| UdpListener::new(sockets, options.protocol)),
            direct: DatagramListener::new(ways, place, shared.bursts[index].clone()),
            forwarding: Forwarding::new(index, inboxes.clone(), shared.mailboxes.clone(), partitioning),
        };
        let acceptor = acceptor.take();
        let (session, shared, admin) = (engine.session(), shared.clone(), admin.clone());
        let make = move || {
            let host = shared.host.clone();
            let service = NodeService::new(index, session, shared, admin, ends);
            Worker::new(index, service, host, acceptor)
        };
        crew.start(index, placement, make)?;
    }
    // Asked here, so that no thread is started for an engine that has no use for it.
    if engine.commit_ahead() != CommitAhead::Unsupported {
        let (engine, host) = (engine.clone(), shared.host.clone());
        crew.spawn("committer".to_owned(), move || {
            commit_ahead(&engine, &host);
            Ok(())
        })?;
    }
    crew.wait_until_ready()?;
    Ok(crew)
}

/// Has the engine commit memory before it is needed, until the server stops.
fn commit_ahead(engine: &impl Engine, host: &guira_serving::Host) {
    while !host.is_stopping() {
        match engine.commit_ahead() {
            CommitAhead::Committed => {}
            CommitAhead::Idle => std::thread::park(),
            CommitAhead::Unsupported => return,
        }
    }
}

/// Has `stats conns` show everything that requests come by.
fn register(shared: &Shared, ports: &[Port], udp: &[Vec<UdpSocket>]) -> io::Result<()> {
    for port in ports {
        shared.registry.add_listener(port.listener.as_fd().as_raw_fd(), &port.address);
    }
    for socket in udp.iter().flatten() {
        let address = socket.local_addr()?;
        shared.registry.add_datagram_socket(socket.as_fd().as_raw_fd(), address);
    }
    Ok(())
}

/// Has the workers begin, if there is no predecessor, or it agrees: from then on it is this server that serves.
fn begin(
    bringing: &mut Bringing,
    crew: &Crew,
    shared: &Shared,
    arrivals: Vec<Arrival>,
    mut door: Option<Door>,
) -> Result<Option<Door>, StartError> {
    let wanted = arrivals.len();
    let us_ready = bringing.waited_us();
    let taken = shared.take_over(arrivals);
    let takes_over = bringing.is_on_trial();
    bringing.commit()?;
    crew.begin();
    bringing.serving();
    if let Some(door) = &mut door {
        door.sockets.own_files();
    }
    if takes_over {
        shared.hub.counters.add(ServerCount::Takeovers, 1);
        shared.hub.counters.add(ServerCount::ConnectionsTakenOver, taken as u64);
        tracing::info!(
            connections = taken,
            us_ready,
            us = bringing.waited_us(),
            "took over from the previous server"
        );
    }
    if taken < wanted {
        // Operator: Raise `connection-memory` to that of the previous server.
        tracing::warn!("closed {} connections: no memory for their state", wanted - taken);
    }
    Ok(door)
}

/// Where successors will ask.
fn door<E: Engine>(kept: Sockets, options: &Options, engine: &E) -> Result<Door, StartError> {
    let offered = options.region.as_ref().zip(Engine::preview(engine)).and_then(|(place, preview)| {
        let identity = region_identity(place.path())?;
        Some(OfferedRegion { path: place.to_string(), identity, preview })
    });
    Ok(Door::new(kept, offered)?)
}

/// The connections that a server begins with. Those of an address that speaks TLS now are closed: what they say can be read by others.
fn arrivals(incoming: Vec<Incoming>, shared: &Shared, ports: &[Port]) -> Vec<Arrival> {
    let is_plain = |arrival: &Arrival| {
        let port = ports.iter().find(|port| *port.address == *arrival.facts.listener());
        port.is_none_or(|port| port.tls.is_none())
    };
    let arrived = incoming.into_iter().filter_map(|incoming| match incoming {
        Incoming::Back(arrival) => Some(arrival),
        Incoming::Written(fd, written) => {
            // A client that is gone meanwhile.
            Arrival::read(fd, &written, shared.access(), shared.clock.now()).ok()
        }
    });
    arrived.filter(is_plain).collect()
}

/// What workers and acceptor share.
fn host_of(
    options: &Options,
    secrets: Secrets,
    budget: Arc<ConnBudget>,
    observer: Arc<Hub>,
) -> io::Result<Arc<guira_serving::Host>> {
    let Secrets { users, tls, .. } = secrets;
    let connections = Connections::new(options.max_connections, options.beyond_max);
    let (workers, idle) = (options.workers, options.idle_limit());
    guira_serving::Host::new(HostOptions { workers, connections, budget, idle, users, tls, observer })
        .map(Arc::new)
}

/// What workers ask of the engine beside items. If a region holds more than there is memory for now, the log says so.
fn admin_of<E: Engine>(engine: &E, shared: &Arc<Shared>, settings: Settings) -> Arc<Admin> {
    let admin = Admin::new(engine, shared.clone(), settings);
    if let Some([used, limit]) = admin.look_for_excess() {
        // Operator: Nothing: the server evicts until the limit holds.
        tracing::warn!("items and index use {used} MiB, over the limit of {limit}; evicting items");
    }
    Arc::new(admin)
}

/// Leaves cas uniques 40 bits to begin with: numbers that JavaScript can hold, for a trillion stores.
const CAS_SHIFT: u32 = 24;

/// A seed that clients cannot know.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("guira")
}

impl Running {
    /// It has this region, in which this was found.
    pub(crate) fn with_region(self, found: Option<(RegionPlace, Opening)>) -> Self {
        Running { found, ..self }
    }

    /// Where it listens, with the ports that were taken.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where it takes datagrams from, with the ports that were taken.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp_addresses
    }

    /// Where it takes MICA's datagrams for its first worker from; the others have the ports after it.
    pub fn mica_addresses(&self) -> &[SocketAddr] {
        &self.mica_addresses
    }

    /// Where clients on this host find the rings for MICA's datagrams.
    pub fn local(&self) -> Option<&Path> {
        self.local.as_deref()
    }

    /// What any thread may ask of it.
    pub fn status(&self) -> &ServerStatus {
        &self.status
    }

    /// Where the admin listener is.
    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(|(address, _)| address)
    }

    /// Reads again whatever can change while it runs: users, certificates and the admin listener's token.
    pub fn reload(&self) {
        self.shared.reload();
        if let Some(token) = &self.token {
            token.reload();
        }
    }

    /// The region that it has, and what was found in it.
    pub fn region(&self) -> Option<(&RegionPlace, &Opening)> {
        self.found.as_ref().map(|(place, opening)| (place, opening))
    }

    /// How memory is divided: what for, and bytes.
    pub fn memory(&self) -> &[(&'static str, usize)] {
        &self.memory
    }

    /// Stops: no connection is accepted any more, those at rest are closed at once, and the others when they are at rest, or
    /// after `drain-timeout`.
    ///
    /// # Errors
    /// What ended a worker before, or why items could not be kept.
    pub fn stop(self, ending: Ending) -> Result<(), StopError> {
        let started = Stopwatch::start();
        let drain = Duration::from_secs(self.shared.options.drain_timeout.into());
        let ended = self.crew.end(drain).map_err(StopError::from);
        // Last: until then it tells that the server stops. It only reads what is in the region.
        let admin_ended =
            self.admin.map_or(Ok(()), |(_, crew)| crew.end(ADMIN_DRAIN).map_err(StopError::from));
        if let Err(StopError::Panicked) = ended {
            // It may have been in the middle of anything: what it has left in the region cannot be believed.
            return ended;
        }
        if self.found.is_some() && ending == Ending::Kept {
            // Background tasks see that the server stops, and give their sessions back.
            let patience = (drain + BACKGROUND_WAIT).saturating_sub(started.elapsed());
            self.shared.wait_for_background(patience);
            self.held.close(&self.shared)?;
            tracing::info!("closed the region");
        }
        ended.and(admin_ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_transport::Address;

    /// A server with a region, on a port that the system chooses.
    fn serve(region: &RegionPlace) -> Running {
        let mut options = Options { workers: 2, memory: crate::Size(32 << 20), ..Options::default() };
        options.listen[0].address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.region = Some(region.clone());
        let secrets = Secrets { users: None, tls: None, token: None };
        start_after(crate::open_default, &options, secrets, Vec::new(), None).unwrap()
    }

    #[test]
    fn a_region_is_closed_in_order_though_a_worker_has_failed_but_not_if_one_has_panicked() {
        let path = std::env::temp_dir().join(format!("guira-node-region-{}", std::process::id()));
        let region = RegionPlace::at(&path);
        let mut running = serve(&region);
        assert_eq!(running.region().unwrap().1, &Opening::New);
        running
            .crew
            .spawn("failing".to_owned(), || Err(io::Error::other("listener failed; disabled")))
            .unwrap();
        assert!(matches!(running.stop(Ending::Kept), Err(StopError::Worker(_))));
        let mut running = serve(&region);
        assert_eq!(running.region().unwrap().1, &Opening::Restored { items: 0 });
        running.crew.spawn("panicking".to_owned(), || panic!("on purpose")).unwrap();
        assert!(matches!(running.stop(Ending::Kept), Err(StopError::Panicked)));
        let running = serve(&region);
        assert!(matches!(running.region().unwrap().1, Opening::Emptied(_)));
        running.stop(Ending::Kept).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

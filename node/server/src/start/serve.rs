//! The last step of a start: serves an open engine at open ports.

use super::prepare::Starting;
use super::running::{Bound, Held, Running, ServerStatus, close_unserved};
use super::workers::workers;
use crate::admin::{Admin, Settings};
use crate::auto::kept;
use crate::background::BackgroundTasks;
use crate::cluster::cluster_of;
use crate::counters::ServerCount;
use crate::direct;
use crate::errors::StartError;
use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::parts::Parts;
use crate::ports::Ports;
use crate::saved_counters;
use crate::secrets::Secrets;
use crate::takeover::{Bringing, Door, HandedTime, Incoming, OfferedRegion, Sockets, region_identity};
use crate::watch::{EvictionSink, Hub};
use crate::web;
use guira_contract::{CloseError, Control, Engine, NotHandedOver, Opening};
use guira_memory::lasting::HandedRegion;
use guira_roster::{Host, Opened, RegionPlace};
use guira_serving::{Arrival, ConnBudget, Connections, Crew, HostOptions, Port, Registry};
use guira_sync::clock::{CoarseClock, wall_clock_millis};
use guira_transport::net::UdpSocket;
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::sync::Arc;

impl Host for Starting<'_> {
    type Output = Result<Running, StartError>;

    fn run<E: Engine + Clone>(mut self, opened: Opened<E>) -> Result<Running, StartError> {
        let Opened { engine, opening, notes, base, shortage } = opened;
        tracing::debug!(us = self.bringing.waited_us(), "the engine is open");
        let options = &self.prepared.options;
        // Only items have times that continue.
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
            // A predecessor continues with an engine that was not closed.
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

/// The notes that the server stores in a region beside the items.
fn notes(parts: &Parts, control: &impl Control) -> Vec<u8> {
    let learnt = kept::write_learnt(parts.observers.advisor.as_deref());
    [saved_counters::write(&parts.statistics), kept::write(&parts.policy_owner, control), learnt].concat()
}

impl<E: Engine + Clone> Held for E {
    fn close(self: Box<Self>, parts: &Parts) -> Result<(), CloseError> {
        let notes = notes(parts, &*self);
        Engine::close(*self, parts.clock.now(), &notes)
    }

    fn hand_over(self: Box<Self>, parts: &Parts) -> Result<HandedRegion, (Box<dyn Held>, CloseError)> {
        let notes = notes(parts, &*self);
        let handed = Engine::hand_over(*self, parts.clock.now(), &notes);
        handed.map_err(|NotHandedOver { engine, why }| (Box::new(engine) as Box<dyn Held>, why))
    }

    fn serve(
        self: Box<Self>,
        mut starting: Starting<'_>,
        found: Option<(RegionPlace, Opening)>,
        parts: &Parts,
    ) -> Result<Running, StartError> {
        let notes = notes(parts, &*self);
        let opening = found.as_ref().map(|(_, opening)| opening.clone());
        match start_with(&mut starting, &*self, &notes, opening, parts.clock.clone()) {
            Ok(running) => Ok(running.with_region(found)),
            Err(error) => {
                if let Some((place, _)) = found {
                    close_unserved(self, parts, &place);
                }
                Err(error)
            }
        }
    }
}

/// Starts a server with this engine and clock, at these ports. After an error the engine is not in use.
fn start_with<E: Engine + Clone>(
    starting: &mut Starting<'_>,
    engine: &E,
    notes: &[u8],
    opening: Option<Opening>,
    clock: CoarseClock,
) -> Result<Running, StartError> {
    let Starting { prepared, bringing } = starting;
    let (options, secrets) = (&prepared.options, prepared.again.secrets.clone());
    let ports = prepared.ports.take().ok_or_else(|| io::Error::other("the ports are in use"))?;
    let bound = Bound::of(&ports, options);
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
    let background = Arc::new(BackgroundTasks::continued(bringing.background_tasks.clone()));
    let chunks = engine.chunk_sizes();
    let parts = Parts::new(host, clock, options, hub, meters, background, &chunks);
    let parts = Parts { cluster: cluster_of(options, &bound.streams)?, ..parts };
    saved_counters::read(notes, &parts.statistics);
    kept::read(notes, &parts.policy_owner, engine);
    kept::read_learnt(notes, parts.observers.advisor.as_deref());
    let incoming = std::mem::take(&mut bringing.incoming);
    let arrivals = arrivals(incoming, &parts, &ports);
    register(&parts.host.registry, &ports, &udp)?;
    let settings = Settings::new(options.choice()?, &bound.streams, &bound.udp, &bound.mica, opening);
    let admin = admin_of(engine, &parts, settings);
    admin.begin_to_learn();
    let status = ServerStatus { host: parts.host.clone(), admin: Arc::downgrade(&admin) };
    let crew = workers(options, engine, (&parts, &admin), (ports, udp, ways))?;
    let serve = |port: Port| {
        let address = port.listener.address().clone();
        web::start(port, admin, &parts, token.clone()).map(|crew| (address, crew))
    };
    let admin = admin_port.map(serve).transpose()?;
    let door = prepared.kept.take().map(|kept| door(kept, options, engine)).transpose()?;
    // All threads of the server exist now, and everything that needs more is open.
    options.system_calls.restrict()?;
    let door = begin(bringing, &crew, &parts, arrivals, door)?;
    if let Some((_, crew)) = &admin {
        crew.begin();
    }
    Ok(Running {
        bound,
        parts,
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

/// Has `stats conns` show everything that requests come by.
fn register(registry: &Registry, ports: &[Port], udp: &[Vec<UdpSocket>]) -> io::Result<()> {
    for port in ports {
        registry.add_listener(port.listener.as_fd().as_raw_fd(), &port.address);
    }
    for socket in udp.iter().flatten() {
        let address = socket.local_addr()?;
        registry.add_datagram_socket(socket.as_fd().as_raw_fd(), address);
    }
    Ok(())
}

/// Starts the workers, if there is no predecessor or it agrees. From then on this server serves.
fn begin(
    bringing: &mut Bringing,
    crew: &Crew,
    parts: &Parts,
    arrivals: Vec<Arrival>,
    mut door: Option<Door>,
) -> Result<Option<Door>, StartError> {
    let wanted = arrivals.len();
    let us_ready = bringing.waited_us();
    let taken = parts.host.take_over(arrivals);
    let takes_over = bringing.is_on_trial();
    bringing.commit()?;
    crew.begin();
    bringing.serving();
    if let Some(door) = &mut door {
        door.sockets.own_files();
    }
    if takes_over {
        parts.statistics.server().add(ServerCount::Takeovers, 1);
        parts.statistics.server().add(ServerCount::ConnectionsTakenOver, taken as u64);
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

/// The socket on which a successor requests a takeover.
fn door<E: Engine>(kept: Sockets, options: &Options, engine: &E) -> Result<Door, StartError> {
    let offered = options.region.as_ref().zip(Engine::preview(engine)).and_then(|(place, preview)| {
        let identity = region_identity(place.path())?;
        Some(OfferedRegion { path: place.to_string(), identity, preview })
    });
    Ok(Door::new(kept, offered)?)
}

/// The connections that a server begins with. Connections to an address that uses TLS now are closed: they are not
/// encrypted.
fn arrivals(incoming: Vec<Incoming>, parts: &Parts, ports: &[Port]) -> Vec<Arrival> {
    let is_plain = |arrival: &Arrival| {
        let port = ports.iter().find(|port| *port.address == *arrival.facts.listener());
        port.is_none_or(|port| port.tls.is_none())
    };
    let arrived = incoming.into_iter().filter_map(|incoming| match incoming {
        Incoming::Back(arrival) => Some(arrival),
        Incoming::Written(fd, written) => {
            // A client that has closed its connection.
            Arrival::read(fd, &written, parts.host.access(), parts.clock.now()).ok()
        }
    });
    arrived.filter(is_plain).collect()
}

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

/// Creates the admin commands of the engine. Logs a warning if the region holds more than the
/// memory limit allows.
fn admin_of<E: Engine>(engine: &E, parts: &Parts, settings: Settings) -> Arc<Admin> {
    let admin = Admin::new(engine, parts, settings);
    if let Some([used, limit]) = admin.check_excess() {
        // Operator: Nothing: the server evicts until the limit holds.
        tracing::warn!("items and index use {used} MiB, over the limit of {limit}; evicting items");
    }
    Arc::new(admin)
}

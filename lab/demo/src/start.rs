//! Starts the parts of a region, its users, and the threads that watch it.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use guira_client::lookaside::LookAside;
use guira_client::text::{Endpoint, Target};
use guira_control::{Etcd, Pool, Rules, Store};
use guira_harness::deadline::Deadline;
use guira_regions::{Progress, database};
use guira_sync::histogram::Times;
use guira_sync::stop::Stop;

use crate::child::{Programs, Spawner};
use crate::counts::{Counts, UserState};
use crate::events::Events;
use crate::follow;
use crate::followed::Followed;
use crate::home::Home;
use crate::part::{Part, Role};
use crate::programs::{
    Builder, HOLD_DOWN_S, Installed, Made, POOL, ROUTERS, SLOTS, admin_of_invalidator, database_folders,
    position_of_invalidator, spool,
};
use crate::relay::Flow;
use crate::rows::{self, Rows, Table};
use crate::truth::Truth;
use crate::user::{self, CACHE_MAX, USERS};
use crate::world::World;

/// The longest time until all slots have servers.
const JOINED_MAX: Duration = Duration::from_secs(60);
/// How often ended parts are restarted.
const WATCH: Duration = Duration::from_millis(200);
/// The notices for missing programs, with their replacements.
const NO_ETCD: &str =
    "etcd is not installed (Debian package etcd-server): the pool is a fixed list of four nodes";
const NO_MARIADB: &str = "MariaDB is not installed (Debian package mariadb-server): this process holds the rows and sends the deletes";

type Work = Box<dyn FnOnce(&Arc<World>) + Send>;

impl World {
    /// Starts all parts, and waits until all serve. Users start later.
    ///
    /// # Errors
    /// The output of a part that does not start.
    pub(crate) fn start(home: Home, programs: Programs, seed: u64) -> Result<Arc<Self>, String> {
        let failed = |error: io::Error| format!("cannot create the region: {error}");
        let installed = Installed::look();
        let spawner = Arc::new(Spawner::open(programs).map_err(failed)?);
        let Made { parts, etcd, database, routers } =
            Builder { home: &home, spawner }.make(installed).map_err(failed)?;
        let mut left_out = Vec::new();
        left_out.extend((!installed.etcd).then_some(NO_ETCD));
        left_out.extend((!installed.mariadb).then_some(NO_MARIADB));
        let progress = installed.mariadb.then(|| Progress {
            position: position_of_invalidator(&home),
            admin: admin_of_invalidator(&home),
        });
        let spools = (0..ROUTERS).map(|router| spool(&home, router)).collect();
        let world = World {
            home,
            seed,
            left_out,
            parts,
            rows: database.map_or_else(|| Rows::Table(Table::new()), Rows::MariaDb),
            progress,
            followed: Followed::default(),
            truth: Truth::new(),
            counts: Counts::default(),
            user_states: (0..USERS).map(|_| state(&routers)).collect(),
            events: Events::default(),
            snapshot: Mutex::default(),
            chaos: Mutex::default(),
            stop: Stop::default(),
            etcd,
            spools,
            deleter: client(&routers[0]),
        };
        world.start_parts()?;
        Ok(Arc::new(world))
    }

    /// The database takes longest, so it starts in parallel with the others.
    fn start_parts(&self) -> Result<(), String> {
        thread::scope(|scope| {
            let database = scope.spawn(|| self.start_database());
            self.start_caches()?;
            database.join().map_err(|_| "the database thread panicked".to_owned())?
        })
    }

    fn start_all(&self, role: Role) -> Result<(), String> {
        self.of_role(role).try_for_each(Part::start)
    }

    fn start_caches(&self) -> Result<(), String> {
        self.start_all(Role::Etcd)?;
        if let Some(etcd) = &self.etcd {
            let rules = Rules { hold_down_s: HOLD_DOWN_S, ..Rules::default() };
            let etcd = Etcd::new(etcd.clone(), Arc::default());
            let made = etcd.map_err(|error| error.to_string()).and_then(|etcd| {
                Store::new(etcd)
                    .create(POOL, &Pool::of_empty_slots(SLOTS, rules))
                    .map_err(|error| error.to_string())
            });
            made.map_err(|error| format!("cannot create the pool: {error}"))?;
        }
        for role in [Role::Node, Role::Gutter] {
            self.start_all(role)?;
        }
        self.join()?;
        self.start_all(Role::Router)
    }

    /// The last member starts once all slots have servers, so that its node becomes the spare.
    fn join(&self) -> Result<(), String> {
        self.of_role(Role::Member).take(SLOTS).try_for_each(Part::start)?;
        let joined = || self.look_at_slots().then_some(());
        if Deadline::after(JOINED_MAX).poll(joined).is_none() {
            return Err("the nodes did not get their slots".to_owned());
        }
        self.of_role(Role::Member).skip(SLOTS).try_for_each(Part::start)
    }

    fn start_database(&self) -> Result<(), String> {
        let Some(database) = self.of_role(Role::Database).next() else { return Ok(()) };
        database::install(&database_folders(&self.home))?;
        database.start()?;
        if let Some(socket) = database.socket() {
            rows::prepare(&Endpoint::Unix(socket.clone())).map_err(|error| error.to_string())?;
        }
        self.start_all(Role::Invalidator)
    }

    /// Starts the users and all other threads.
    pub(crate) fn begin(self: &Arc<Self>) -> io::Result<()> {
        let go = |name: String, work: Work| {
            let world = self.clone();
            thread::Builder::new().name(name).spawn(move || work(&world)).map(drop)
        };
        self.truth.note_gutter(self.given_to_gutter());
        for number in 0..USERS {
            let seed = self.seed;
            go(format!("user-{number}"), Box::new(move |world| user::live(world, number, seed)))?;
        }
        go("follow".to_owned(), Box::new(follow::follow))?;
        go("invalidate".to_owned(), Box::new(follow::invalidate))?;
        go("watch".to_owned(), Box::new(watch))?;
        go("look".to_owned(), Box::new(|world| world.look()))
    }
}

fn client(router: &Endpoint) -> LookAside {
    LookAside::new(Target::new(router.clone(), CACHE_MAX)).expiry(Duration::from_secs(600))
}

fn state(routers: &[Endpoint]) -> UserState {
    // Clients of its own, whose counters are those of this user.
    let caches = [client(&routers[0]), client(&routers[1])];
    UserState { caches, reads: Times::default(), writes: Times::default() }
}

/// Restarts parts that have ended by themselves, as a host does.
fn watch(world: &Arc<World>) {
    while world.stop.wait(WATCH).is_ok() {
        for number in 0..world.parts.len() {
            let part = &world.parts[number];
            let how = part.ended();
            let is_down = how.is_some() || !part.is_running();
            if part.is_held() || !is_down || !part.hold() {
                continue;
            }
            if let Some(how) = how {
                part.flow(Flow::Closed);
                world.events.event(format!("{}: {how}; restarting", part.name));
            }
            let kept = world.clone();
            let started = thread::Builder::new().spawn(move || {
                let part = &kept.parts[number];
                if let Err(why) = part.start() {
                    kept.events.event(why);
                }
                part.let_go();
            });
            if started.is_err() {
                part.let_go();
            }
        }
    }
}

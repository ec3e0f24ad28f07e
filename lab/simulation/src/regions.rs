//! Two regions: a master region, and a region whose database is a replica of the master's. Each has an invalidator, a
//! router, nodes and users. Users of the replica region set remote markers when they write.

use crate::database::{Database, Replication, replicate};
use crate::faults::{Running, Swarm};
use crate::found::{Fault, Found, OF_REGIONS};
use crate::marking::{Lives, Marking};
use crate::programs::{
    Deletes, HOME, InvalidatorPlan, Program, Repeats, RouterPlan, TIME, TargetPlan, an_engine, host,
};
use crate::region::{finish, wait_for_readers};
use crate::rows::{Cluster, ROWS};
use crate::scenario::Setup;
use crate::tasks::lock;
use crate::user::{Deleted, User};
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw};
use guira_world::thread::{sleep, spawn};
use guira_world::{hooks, time};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// In each region.
const USERS: usize = 2;
/// The hosts of a region.
#[derive(Clone, Copy, Debug)]
struct Hosts {
    nodes: [u8; 2],
    database: u8,
    router: u8,
    invalidator: u8,
}

const MASTER: Hosts = Hosts { nodes: [1, 2], database: 30, router: 50, invalidator: 60 };
const REPLICA: Hosts = Hosts { nodes: [11, 12], database: 31, router: 51, invalidator: 61 };
const MARKERS: u8 = 21;
/// Engines that keep all items while they have memory.
const KEEPING: [&str; 3] = ["memc3", "classic", "fleec"];
/// How long a replica applies nothing.
const STOPPED_MAX_MS: u64 = 8_000;
/// A replica has all changes this long after the last write.
const CAUGHT_UP: Duration = Duration::from_secs(20);

impl Hosts {
    fn cluster(&self, database: &Arc<Mutex<Database>>) -> Cluster {
        let (router, nodes) = (self.router, self.nodes.to_vec());
        Cluster { database: database.clone(), router, nodes, gutter: None }
    }

    fn start(&self, database: &Arc<Mutex<Database>>) -> Vec<Running> {
        let nodes = self.nodes.iter().map(|node| Running::start(*node, Program::Node(an_engine())));
        nodes.chain([Running::start(self.database, Program::Database(database.clone()))]).collect()
    }

    fn start_fleet(&self, deletes: Deletes, markers: Option<u8>) -> [Running; 2] {
        let plan = RouterPlan { nodes: self.nodes.to_vec(), gutter: None, deletes, warm: None };
        let router = Running::start(self.router, Program::Router(plan));
        let mut targets = vec![TargetPlan { host: self.router, flushed: self.nodes.to_vec(), prefix: "" }];
        targets.extend(markers.map(|host| TargetPlan { host, flushed: Vec::new(), prefix: "" }));
        let repeats = if markers.is_some() { Repeats::Always } else { Repeats::Sometimes };
        let plan = InvalidatorPlan { database: self.database, targets, repeats };
        [router, Running::start(self.invalidator, Program::Invalidator(plan))]
    }
}

pub(crate) fn play(setup: &Setup, found: &Arc<Mutex<Found>>) {
    set_host(current_process(), host(HOME));
    let [master, replica] = [(); 2].map(|()| Arc::new(Mutex::new(Database::new(ROWS))));
    let mut swarm = Swarm::draw(OF_REGIONS, &[&master, &replica], setup);
    let logged = if swarm.has(Fault::Power) { Deletes::Synced } else { Deletes::Logged };
    // Where a router logs a delete, the old value is read until the router delivers it.
    let deletes = [Deletes::Refused, logged][draw(2) as usize];
    let lag = Duration::from_millis([0, 20, 300, 2_000][draw(4) as usize]);
    let shown_after = Duration::from_millis([0, 20, 200][draw(3) as usize]);
    let limit = Duration::from_secs([5, 600][draw(2) as usize]);
    replicate(master.clone(), replica.clone(), Replication { lag, shown_after });
    let mut running = MASTER.start(&master);
    running.extend(REPLICA.start(&replica));
    let engine = KEEPING[draw(KEEPING.len() as u64) as usize];
    let markers = Running::start(MARKERS, Program::Markers(engine));
    let losses = markers.losses();
    running.push(markers);
    running.extend(MASTER.start_fleet(logged, None));
    running.extend(REPLICA.start_fleet(deletes, Some(MARKERS)));
    wait_for_readers(&[&master, &replica]);
    let deleted: Deleted = Arc::new(Mutex::new(vec![0; ROWS]));
    let mut users = Vec::new();
    for number in 0..setup.clients(2 * USERS) {
        let (found, swarm) = (found.clone(), swarm.clone());
        if number % 2 == 1 {
            let user = User::new([MASTER.router, MASTER.database], deleted.clone(), master.clone());
            users.push(spawn(move || user.work(&swarm, &found)));
        } else {
            let lives = Lives { losses: losses.clone(), limit, is_logged: deletes != Deletes::Refused };
            let hosts = [REPLICA.router, REPLICA.database, MASTER.database, MARKERS];
            let user = Marking::new(hosts, lives, [master.clone(), replica.clone()]);
            users.push(spawn(move || user.work(&found)));
        }
    }
    while time::now() < TIME {
        swarm.pause();
        if swarm.strike(&mut running, found) == Some(Fault::Lag) {
            hooks::sometimes("replica-stopped");
            lock(&replica).stopped = time::now() + Duration::from_millis(draw(STOPPED_MAX_MS));
        }
    }
    let clusters = [MASTER.cluster(&master), REPLICA.cluster(&replica)];
    for user in users {
        // A panic is reported by the world.
        let _ = user.join();
    }
    catch_up(&master, &replica, found);
    finish(Vec::new(), &clusters, &swarm, found);
}

/// Waits until the replica has all changes.
fn catch_up(master: &Mutex<Database>, replica: &Mutex<Database>, found: &Mutex<Found>) {
    let limit = time::now() + CAUGHT_UP;
    while !lock(replica).has_all_of(&lock(master)) {
        if time::now() > limit {
            lock(found).wrong.push("the replica does not have all changes".to_owned());
            return;
        }
        sleep(Duration::from_millis(100));
    }
}

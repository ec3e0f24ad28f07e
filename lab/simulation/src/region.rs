//! A region: a database, an invalidator, a router, nodes, and users of the look-aside client. Faults strike while they
//! work. After the faults, within a bounded time, each cache must have the database's version of each row, or nothing.

use crate::cold;
use crate::database::Database;
use crate::faults::{Running, Swarm};
use crate::found::{Fault, Found, OF_REGION};
use crate::programs::{
    Deletes, HOME, InvalidatorPlan, Program, ROUTER, Repeats, RouterPlan, TIME, TargetPlan, an_engine, host,
};
use crate::rows::{self, Cluster, ROWS};
use crate::scenario::Setup;
use crate::tasks::lock;
use crate::user::{Deleted, User};
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw};
use guira_world::thread::{JoinHandle, sleep, spawn};
use guira_world::time;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const USERS: usize = 4;
const NODES: [u8; 2] = [1, 2];
const GUTTER: u8 = 3;
const DATABASE: u8 = 30;
const INVALIDATOR: u8 = 60;
/// The invalidator saves its first position in this time.
const START: Duration = Duration::from_millis(100);

pub(crate) fn play(setup: &Setup, found: &Arc<Mutex<Found>>) {
    set_host(current_process(), host(HOME));
    if draw(4) == 0 {
        return cold::play(setup, found);
    }
    let database = Arc::new(Mutex::new(Database::new(ROWS)));
    let mut swarm = Swarm::draw(OF_REGION, &[&database], setup);
    let has_gutter = draw(2) == 0;
    let deletes = if swarm.has(Fault::Power) { Deletes::Synced } else { Deletes::Logged };
    let cluster = Cluster {
        database: database.clone(),
        router: ROUTER,
        nodes: NODES.to_vec(),
        gutter: has_gutter.then_some(GUTTER),
    };
    let (gutter, flushed) = (cluster.gutter, cluster.caches());
    let plan = RouterPlan { nodes: NODES.to_vec(), gutter, deletes, warm: None };
    let mut running = vec![Running::start(DATABASE, Program::Database(database.clone()))];
    running.extend(flushed.iter().map(|node| Running::start(*node, Program::Node(an_engine()))));
    running.push(Running::start(ROUTER, Program::Router(plan)));
    let (targets, repeats) = (vec![TargetPlan { host: ROUTER, flushed, prefix: "" }], Repeats::Sometimes);
    let plan = InvalidatorPlan { database: DATABASE, targets, repeats };
    running.push(Running::start(INVALIDATOR, Program::Invalidator(plan)));
    wait_for_readers(&[&database]);
    let deleted: Deleted = Arc::new(Mutex::new(vec![0; ROWS]));
    let users: Vec<_> = (0..setup.clients(USERS))
        .map(|_| {
            let user = User::new([ROUTER, DATABASE], deleted.clone(), database.clone());
            let (found, swarm) = (found.clone(), swarm.clone());
            spawn(move || user.work(&swarm, &found))
        })
        .collect();
    while time::now() < TIME {
        swarm.pause();
        swarm.strike(&mut running, found);
    }
    finish(users, &[cluster], &swarm, found);
}

/// Waits until invalidators read these logs: one without a saved position starts at the end of the log, so that earlier
/// changes are not deleted.
pub(crate) fn wait_for_readers(databases: &[&Arc<Mutex<Database>>]) {
    while databases.iter().any(|database| !lock(database).is_read()) {
        sleep(START);
    }
    sleep(START);
}

/// Ends the faults and the users, and checks the caches.
pub(crate) fn finish(users: Vec<JoinHandle<()>>, clusters: &[Cluster], swarm: &Swarm, found: &Mutex<Found>) {
    Swarm::end();
    for user in users {
        // A panic is reported by the world.
        let _ = user.join();
    }
    rows::settle(clusters, found);
    let mut found = lock(found);
    let counts = found.counts;
    if swarm.is_calm() && (counts.failures > 0 || counts.hits < counts.reads / 4) {
        found.wrong.push(format!("without faults: {counts:?}"));
    }
}

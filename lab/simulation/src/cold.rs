//! A region with two clusters, of which one begins empty and is filled from the other.

use crate::database::Database;
use crate::faults::{Running, Swarm};
use crate::found::{Fault, Found, OF_COLD};
use crate::programs::{
    Deletes, EVERYWHERE, InvalidatorPlan, Program, Repeats, RouterPlan, TIME, TargetPlan, WarmPlan, an_engine,
};
use crate::region::{finish, wait_for_readers};
use crate::rows::{Cluster, ROWS};
use crate::scenario::Setup;
use crate::user::{Deleted, User};
use guira_world::scheduler::draw;
use guira_world::thread::{sleep, spawn};
use guira_world::time;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const USERS: usize = 4;
const COLD: [u8; 2] = [1, 2];
const WARM: [u8; 2] = [4, 5];
const ROUTERS: [u8; 2] = [50, 51];
const DATABASE: u8 = 30;
const INVALIDATOR: u8 = 60;
/// How long the warm cluster is used before the cold one.
const WARMED: Duration = Duration::from_secs(3);

pub(crate) fn play(setup: &Setup, found: &Arc<Mutex<Found>>) {
    let database = Arc::new(Mutex::new(Database::new(ROWS)));
    let mut swarm = Swarm::draw(OF_COLD, &[], setup);
    // A hold-off is longer than deletes ever take to reach the warm cluster: with faults, longer than the run.
    let hold_off_s = if swarm.is_calm() { 2 } else { 120 };
    let hold_off = ["native", "sentinel"][draw(2) as usize];
    // The invalidator sends its deletes to the router of each cluster, or all to one router, which deletes in both.
    let is_routed_to = draw(2) == 0;
    let logged = if swarm.has(Fault::Power) { Deletes::Synced } else { Deletes::Logged };
    // Without a log, a delete that fails in one cluster must fail as a whole.
    let deletes = if is_routed_to && draw(2) == 0 { Deletes::Refused } else { logged };
    let warm = WarmPlan { nodes: WARM.to_vec(), hold_off, hold_off_s, is_routed_to };
    tracing::info!("hold-offs are {hold_off}, of {hold_off_s} s; one router for all deletes: {is_routed_to}");
    let clusters = [COLD, WARM].into_iter().zip(ROUTERS).map(|(nodes, router)| Cluster {
        database: database.clone(),
        router,
        nodes: nodes.to_vec(),
        gutter: None,
    });
    let clusters: Vec<Cluster> = clusters.collect();
    let mut running = vec![Running::start(DATABASE, Program::Database(database.clone()))];
    // A cold node that lost its items would have no hold-offs.
    running.extend(COLD.iter().map(|node| Running::start(*node, Program::Node(an_engine())).kept()));
    running.extend(WARM.iter().map(|node| Running::start(*node, Program::Node(an_engine()))));
    for (cluster, warm) in clusters.iter().zip([Some(warm), None]) {
        let plan = RouterPlan { nodes: cluster.nodes.clone(), gutter: None, deletes, warm };
        running.push(Running::start(cluster.router, Program::Router(plan)));
    }
    let targets = targets(&clusters, is_routed_to);
    let plan = InvalidatorPlan { database: DATABASE, targets, repeats: Repeats::Sometimes };
    running.push(Running::start(INVALIDATOR, Program::Invalidator(plan)));
    wait_for_readers(&[&database]);
    let deleted: [Deleted; 2] = [(); 2].map(|()| Arc::new(Mutex::new(vec![0; ROWS])));
    let users: Vec<_> = (0..setup.clients(USERS))
        .map(|number| {
            let cluster = number % 2;
            let user = User::new([ROUTERS[cluster], DATABASE], deleted[cluster].clone(), database.clone());
            let (found, swarm) = (found.clone(), swarm.clone());
            spawn(move || {
                if cluster == 0 {
                    sleep(WARMED);
                }
                user.work(&swarm, &found);
            })
        })
        .collect();
    while time::now() < TIME {
        swarm.pause();
        swarm.strike(&mut running, found);
    }
    finish(users, &clusters, &swarm, found);
}

fn targets(clusters: &[Cluster], is_routed_to: bool) -> Vec<TargetPlan> {
    if is_routed_to {
        let flushed = clusters.iter().flat_map(|it| it.nodes.clone()).collect();
        return vec![TargetPlan { host: clusters[0].router, flushed, prefix: EVERYWHERE }];
    }
    let target = |it: &Cluster| TargetPlan { host: it.router, flushed: it.nodes.clone(), prefix: "" };
    clusters.iter().map(target).collect()
}

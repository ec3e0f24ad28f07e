//! All scenarios. This file has those of a node and of a router; the region's is in region.rs.

use crate::client::{Client, Losses};
use crate::faults::{Running, Swarm};
use crate::found::{Fault, Found, OF_CACHES};
use crate::programs::{Deletes, HOME, Program, ROUTER, RouterPlan, TIME, an_engine, host, server};
use crate::tasks::lock;
use crate::text_cache::TextCache;
use crate::{membership, pools, region, regions};
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw};
use guira_world::thread::{sleep, spawn};
use guira_world::time;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CLIENTS: usize = 4;

/// What a run leaves out of its seed, so that a failure becomes simpler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Kinds of faults that do nothing.
    pub(crate) without: Vec<Fault>,
    /// The number of clients, or the scenario's.
    pub(crate) clients: Option<usize>,
}

impl Setup {
    pub(crate) fn clients(&self, usual: usize) -> usize {
        self.clients.map_or(usual, |clients| clients.min(usual))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Node,
    /// Clients of a router before two nodes.
    Router,
    /// A database, an invalidator, a router, nodes, and users who look aside.
    Region,
    /// The same, and a region whose database is a replica of the first one's.
    Regions,
    /// Threads of clients that route by themselves, before some nodes.
    Pools,
    /// etcd, members beside nodes, and routers and a client that follow a pool.
    Membership,
}

pub(crate) const SCENARIOS: [Scenario; 6] = [
    Scenario::Node,
    Scenario::Router,
    Scenario::Region,
    Scenario::Regions,
    Scenario::Pools,
    Scenario::Membership,
];

impl Scenario {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let names = || SCENARIOS.map(Scenario::name).join(", ");
        let found = SCENARIOS.into_iter().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| format!("unknown scenario {name}: known are {}", names()))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario::Node => "node",
            Scenario::Router => "router",
            Scenario::Region => "region",
            Scenario::Regions => "regions",
            Scenario::Pools => "pools",
            Scenario::Membership => "membership",
        }
    }

    pub(crate) fn play(self, setup: &Setup) -> Found {
        let found = Arc::<Mutex<Found>>::default();
        match self {
            Scenario::Node => play(vec![(1, Program::Node(an_engine()))], 1, setup, &found),
            Scenario::Router => {
                let plan =
                    RouterPlan { nodes: vec![1, 2], gutter: None, deletes: Deletes::Refused, warm: None };
                let nodes = [1, 2].map(|node| (node, Program::Node(an_engine())));
                let programs = nodes.into_iter().chain([(ROUTER, Program::Router(plan))]).collect();
                play(programs, ROUTER, setup, &found);
            }
            Scenario::Region => region::play(setup, &found),
            Scenario::Regions => regions::play(setup, &found),
            Scenario::Pools => pools::play(setup, &found),
            Scenario::Membership => membership::play(setup, &found),
        }
        let found = lock(&found).clone();
        found
    }
}

/// Runs clients, each with keys of its own, of the server at `target`.
fn play(programs: Vec<(u8, Program)>, target: u8, setup: &Setup, found: &Arc<Mutex<Found>>) {
    set_host(current_process(), host(HOME));
    let mut swarm = Swarm::draw(OF_CACHES, &[], setup);
    let losses = if swarm.has(Fault::Kill) { Losses::Expected } else { Losses::None };
    let mut running: Vec<Running> =
        programs.into_iter().map(|(host, program)| Running::start(host, program)).collect();
    let clients: Vec<_> = (0..setup.clients(CLIENTS))
        .map(|number| {
            let found = found.clone();
            let client = Client::new(number as u32, TextCache::new(server(target))).with_losses(losses);
            spawn(move || work(client, &found))
        })
        .collect();
    while time::now() < TIME {
        swarm.pause();
        swarm.strike(&mut running, found);
    }
    for client in clients {
        // A panic is reported by the world.
        let _ = client.join();
    }
}

fn work(mut client: Client<TextCache>, found: &Mutex<Found>) {
    while time::now() < TIME && lock(found).wrong.is_empty() {
        if let Err(wrong) = client.act() {
            lock(found).wrong.push(wrong);
        }
        sleep(Duration::from_micros(draw(20_000)));
    }
    lock(found).counts.add(client.counts);
}

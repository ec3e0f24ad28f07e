//! A region, clients that check their replies, and faults.

use crate::client::{Client, Counts};
use crate::programs::{Program, host, server};
use guira_world::lock::Mutex;
use guira_world::net::{Faults, cut, heal, set_faults, set_host};
use guira_world::scheduler::{Process, current_process, draw, freeze, kill};
use guira_world::thread::{sleep, spawn};
use guira_world::time;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const ENGINES: [&str; 5] = ["memc3", "classic", "fleec", "mica", "mica:erew"];
const CLIENTS: u32 = 4;
/// How long clients work, in the world's time.
const TIME: Duration = Duration::from_secs(20);
const HOME: u8 = 100;
const ROUTER: u8 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Node,
    /// Clients of a router before two nodes.
    Router,
}

pub(crate) const SCENARIOS: [Scenario; 2] = [Scenario::Node, Scenario::Router];

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    counts: Counts,
    kills: u64,
    freezes: u64,
    cuts: u64,
    pub(crate) wrong: Vec<String>,
}

impl Found {
    pub(crate) fn add(&mut self, other: &Found) {
        self.counts.add(other.counts);
        self.kills += other.kills;
        self.freezes += other.freezes;
        self.cuts += other.cuts;
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { writes, reads, hits, failures } = self.counts;
        let (kills, freezes, cuts) = (self.kills, self.freezes, self.cuts);
        write!(formatter, "{writes} writes, {reads} reads ({hits} hits), {failures} requests failed; ")?;
        write!(formatter, "{kills} kills, {freezes} freezes, {cuts} cuts; no reply was wrong")
    }
}

#[derive(Debug)]
struct Running {
    program: Program,
    host: u8,
    process: Process,
}

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
        }
    }

    pub(crate) fn play(self) -> Found {
        set_host(current_process(), host(HOME));
        set_faults(Faults { resets: 500, ..Faults::default() });
        let engine = || Program::Node(ENGINES[draw(ENGINES.len() as u64) as usize]);
        let (programs, target) = match self {
            Scenario::Node => (vec![(1, engine())], 1),
            Scenario::Router => {
                (vec![(1, engine()), (2, engine()), (ROUTER, Program::Router(vec![1, 2]))], ROUTER)
            }
        };
        let start = |(host, program): (u8, Program)| Running { process: program.start(host), program, host };
        let mut running: Vec<Running> = programs.into_iter().map(start).collect();
        let found = Arc::new(Mutex::new(Found::default()));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let found = found.clone();
                spawn(move || work(Client::new(number, server(target)), &found))
            })
            .collect();
        while time::now() < TIME {
            sleep(Duration::from_millis(draw(2_000)));
            strike(&mut running, &found);
        }
        for client in clients {
            // A panic is reported by the world.
            let _ = client.join();
        }
        let found = found.lock().clone();
        found
    }
}

/// A fault, or none.
fn strike(running: &mut [Running], found: &Mutex<Found>) {
    let at = draw(running.len() as u64) as usize;
    let victim = &mut running[at];
    match draw(4) {
        0 => {
            kill(victim.process);
            found.lock().kills += 1;
            sleep(Duration::from_millis(draw(300)));
            victim.process = victim.program.start(victim.host);
        }
        1 => {
            freeze(victim.process, Duration::from_millis(draw(4_000)));
            found.lock().freezes += 1;
        }
        2 => {
            // Between the victim and a host that has connections to it.
            let other = host(if victim.host == ROUTER || draw(2) == 0 { HOME } else { ROUTER });
            let ends = (host(victim.host), other);
            let (from, to) = if draw(2) == 0 { ends } else { (ends.1, ends.0) };
            cut(from, to);
            found.lock().cuts += 1;
            sleep(Duration::from_millis(draw(3_000)));
            heal(from, to);
        }
        _ => {}
    }
}

fn work(mut client: Client, found: &Mutex<Found>) {
    while time::now() < TIME && found.lock().wrong.is_empty() {
        if let Err(wrong) = client.act() {
            found.lock().wrong.push(wrong);
        }
        sleep(Duration::from_micros(draw(20_000)));
    }
    found.lock().counts.add(client.counts);
}

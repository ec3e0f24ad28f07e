//! Faults of a seed: which kinds there are, and when they strike.

use crate::database::Database;
use crate::found::{Fault, Found};
use crate::programs::{Program, host, reconfigure, server};
use crate::refuser;
use crate::scenario::Setup;
use crate::tasks::lock;
use guira_world::net::{self, cut, heal, host_of};
use guira_world::scheduler::{Process, current_process, draw, freeze, kill};
use guira_world::thread::{sleep, spawn};
use guira_world::{Random, disk, time};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A program that is lost is started again, and a host that is isolated is reached again, by then.
const LOSS_MAX_MS: u64 = 10_000;
/// How often a link flaps.
const FLAPS: u32 = 6;

/// A program that runs on a host of its own.
#[derive(Debug)]
pub(crate) struct Running {
    program: Program,
    pub(crate) host: u8,
    process: Arc<Mutex<Process>>,
    /// How often it has lost its memory.
    losses: Arc<Mutex<u64>>,
    /// Whether it never ends.
    is_kept: bool,
}

/// How long an ended program takes to be started again.
fn a_restart(random: &mut Random) -> Duration {
    Duration::from_millis(random.below(600))
}

impl Running {
    pub(crate) fn start(host: u8, program: Program) -> Self {
        let process = Arc::new(Mutex::new(program.start(host)));
        Running { process, program, host, losses: Arc::default(), is_kept: false }
    }

    /// The same, which faults do not end.
    pub(crate) fn kept(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// How often it has lost its memory so far.
    pub(crate) fn losses(&self) -> Arc<Mutex<u64>> {
        self.losses.clone()
    }

    /// The hosts of this database and of this program, if it reads the log.
    fn reads(&self, database: &Arc<Mutex<Database>>, running: &[Running]) -> Option<(IpAddr, IpAddr)> {
        let Program::Invalidator(plan) = &self.program else { return None };
        let log = running.iter().find(|it| it.host == plan.database)?;
        let is_it = matches!(&log.program, Program::Database(its) if Arc::ptr_eq(its, database));
        is_it.then(|| (host(log.host), host(self.host)))
    }

    fn restart(&mut self, pause: Duration) {
        let ended = self.process();
        sleep(pause);
        // One that was lost before may run again.
        if self.process() != ended {
            return;
        }
        tracing::info!("starting {} again", host(self.host));
        *lock(&self.process) = self.program.start(self.host);
    }

    fn process(&self) -> Process {
        *lock(&self.process)
    }

    /// Kills the process, and starts the program again much later, unless it was lost again meanwhile.
    fn lose(&self, time: Duration) {
        let (lost, process) = (self.process(), self.process.clone());
        kill(lost);
        let (program, number) = (self.program.clone(), self.host);
        drop(spawn(move || {
            sleep(time);
            if *lock(&process) == lost {
                tracing::info!("starting {} again", host(number));
                *lock(&process) = program.start(number);
            }
        }));
    }
}

/// Ends a fault after some time, while others begin.
fn later(random: &mut Random, end: impl FnOnce() + Send + 'static) {
    let time = Duration::from_millis(random.below(3_000));
    drop(spawn(move || {
        sleep(time);
        end();
    }));
}

/// Cuts a host off from these and from clients, or from most of them.
fn isolate(place: IpAddr, hosts: BTreeSet<u8>, random: &mut Random) {
    let home = host_of(current_process());
    let mut others: Vec<IpAddr> =
        hosts.into_iter().map(host).chain([home]).filter(|other| *other != place).collect();
    // Some reach a host that most do not.
    if random.below(2) == 0 {
        others.retain(|_| random.below(4) > 0);
    }
    for other in &others {
        cut(place, *other);
        cut(*other, place);
    }
    let time = Duration::from_millis(random.below(LOSS_MAX_MS));
    drop(spawn(move || {
        sleep(time);
        tracing::info!("{place} is reached again");
        for other in others {
            heal(place, other);
            heal(other, place);
        }
    }));
}

/// No packet passes between two hosts in one direction for some time.
fn cut_one_way(one: IpAddr, other: IpAddr, random: &mut Random) {
    let (from, to) = if random.below(2) == 0 { (one, other) } else { (other, one) };
    tracing::info!("no packet from {from} to {to}");
    cut(from, to);
    later(random, move || {
        heal(from, to);
        tracing::info!("packets from {from} to {to} again");
    });
}

/// A disk has faults for some time.
fn spoil_disk(place: IpAddr, faults: disk::Faults, random: &mut Random) {
    disk::set_faults(place, faults);
    later(random, move || {
        disk::set_faults(place, disk::Faults::default());
        tracing::info!("the disk of {place} is good again");
    });
}

/// A server that refuses all requests has the addresses of all or some nodes for some time. The nodes keep their items.
fn replace(mut nodes: Vec<SocketAddr>, random: &mut Random) {
    if random.below(2) == 0 {
        nodes.retain(|_| random.below(2) == 0);
    }
    nodes.iter().for_each(|node| net::redirect(*node, Some(refuser::address())));
    later(random, move || {
        nodes.iter().for_each(|node| net::redirect(*node, None));
        tracing::info!("nodes have their addresses again");
    });
}

/// Sets the wall clock of a host, by seconds, hours or weeks, and has it gain or lose up to a twentieth.
fn disturb_clock(place: IpAddr, random: &mut Random) {
    let most_ms = [10_000, 3_600_000, 40 * 24 * 3_600_000][random.below(3) as usize];
    let either_way = |random: &mut Random, most: u64| random.below(2 * most) as i64 - most as i64;
    let jump = either_way(random, most_ms);
    let drift = if random.below(2) == 0 { 0 } else { either_way(random, 50_000) };
    tracing::info!("the clock of {place} is set by {jump} ms and gains {drift} ppm");
    time::set_wall(place, jump, drift);
}

/// The kinds of faults that a seed has: some seeds have all, some have none.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    kinds: Vec<Fault>,
    /// Kinds that do nothing.
    without: Vec<Fault>,
    resets: u64,
    databases: Vec<Arc<Mutex<Database>>>,
    /// Decides the faults, so that they stay the same if programs and clients do other things.
    random: Random,
}

impl Swarm {
    /// Draws from `kinds`, and has the network follow.
    pub(crate) fn draw(kinds: &[Fault], databases: &[&Arc<Mutex<Database>>], setup: &Setup) -> Self {
        let databases = databases.iter().map(|database| (*database).clone()).collect();
        let mut random = Random::new(draw(u64::MAX));
        let kinds = if random.below(8) == 0 { Vec::new() } else { kinds.to_vec() };
        let kinds: Vec<Fault> = kinds.into_iter().filter(|_| random.below(3) > 0).collect();
        let resets = if kinds.is_empty() || random.below(2) == 0 { 0 } else { 500 };
        let swarm = Swarm { kinds, without: setup.without.clone(), resets, databases, random };
        let resets = if swarm.without.contains(&Fault::Resets) { 0 } else { resets };
        net::set_faults(net::Faults { resets, ..net::Faults::default() });
        if swarm.has(Fault::Impostor) {
            refuser::start();
        }
        swarm
    }

    /// Whether nothing goes wrong.
    pub(crate) fn is_calm(&self) -> bool {
        self.kinds.is_empty() && self.resets == 0
    }

    pub(crate) fn has(&self, kind: Fault) -> bool {
        self.kinds.contains(&kind)
    }

    /// Waits for the next fault.
    pub(crate) fn pause(&mut self) {
        sleep(Duration::from_millis(self.random.below(2_000)));
    }

    /// One fault of these programs, from its beginning to its end. Returns its kind: a scenario may have more to do.
    pub(crate) fn strike(&mut self, running: &mut [Running], found: &Mutex<Found>) -> Option<Fault> {
        if self.kinds.is_empty() {
            return None;
        }
        // A fault that is left out draws as many numbers.
        let random = &mut Random::new(self.random.bits());
        let kind = self.kinds[random.below(self.kinds.len() as u64) as usize];
        if self.without.contains(&kind) {
            return None;
        }
        lock(found).struck(kind);
        // The last programs of a region are those with disks.
        let with_disks = running.iter().filter(|it| it.program.has_disk()).count();
        let of_disks = matches!(kind, Fault::Power | Fault::Full | Fault::DiskErrors) && with_disks > 0;
        let range = if of_disks && random.below(4) > 0 { with_disks } else { running.len() };
        let at = running.len() - 1 - random.below(range as u64) as usize;
        let other = running[random.below(running.len() as u64) as usize].host;
        let hosts: BTreeSet<u8> = running.iter().map(|it| it.host).collect();
        let victim = &mut running[at];
        let place = host(victim.host);
        tracing::info!("{kind:?} strikes {place}");
        if matches!(kind, Fault::Kill | Fault::Power | Fault::Loss) {
            if victim.is_kept {
                return None;
            }
            *lock(&victim.losses) += 1;
        }
        match kind {
            Fault::Kill => {
                kill(victim.process());
                victim.restart(a_restart(random));
            }
            Fault::Power => {
                net::crash(victim.process());
                disk::lose_power(place);
                victim.restart(a_restart(random));
            }
            Fault::Freeze => freeze(victim.process(), Duration::from_millis(random.below(4_000))),
            Fault::Cut => {
                let other = if other == victim.host { host_of(current_process()) } else { host(other) };
                cut_one_way(place, other, random);
            }
            Fault::Full => {
                let room = random.below(4_096);
                spoil_disk(place, disk::Faults { room, ..disk::Faults::default() }, random);
            }
            Fault::DiskErrors => {
                spoil_disk(place, disk::Faults { errors: 4, ..disk::Faults::default() }, random);
            }
            Fault::Reload => {
                let routers = running.iter().filter_map(|it| Some((it.host, it.program.router_plan()?)));
                routers.for_each(|(host, plan)| reconfigure(host, plan));
            }
            Fault::Loss => victim.lose(Duration::from_millis(random.below(LOSS_MAX_MS))),
            Fault::Isolation => isolate(place, hosts, random),
            Fault::Clock => disturb_clock(place, random),
            Fault::Impostor => {
                let nodes = running.iter().filter(|it| it.program.is_node());
                replace(nodes.map(|it| server(it.host)).collect(), random);
            }
            // The scenario does it.
            Fault::NoLeader | Fault::Lag | Fault::Move => {}
            // The network does it.
            Fault::Resets => {}
            Fault::Purge => self.purge(running, random),
        }
        Some(kind)
    }

    /// Purges the log of a database, in half of the cases while its reader is cut off. The link between the two flaps then,
    /// while the reader looks for the end of the log.
    fn purge(&self, running: &[Running], random: &mut Random) {
        if self.databases.is_empty() {
            return;
        }
        let database = self.databases[random.below(self.databases.len() as u64) as usize].clone();
        let link = running.iter().find_map(|it| it.reads(&database, running));
        let Some((log, reader)) = link.filter(|_| random.below(2) == 0) else {
            return lock(&database).purge();
        };
        let (address, mut random) = (SocketAddr::new(log, server(0).port()), random.clone());
        cut(log, reader);
        drop(spawn(move || {
            sleep(Duration::from_millis(random.below(1_000)));
            // Its connections end, so that the reader does not get what was sent to it.
            net::redirect(address, None);
            lock(&database).purge();
            heal(log, reader);
            for _ in 0..FLAPS {
                sleep(Duration::from_millis(random.below(20)));
                cut(reader, log);
                sleep(Duration::from_millis(random.below(500)));
                heal(reader, log);
            }
        }));
    }

    /// Nothing goes wrong any more, once the last faults have ended.
    pub(crate) fn end() {
        net::set_faults(net::Faults::default());
    }
}

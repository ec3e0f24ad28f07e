//! Faults of a seed: which kinds there are, and when they strike.

use crate::database::Database;
use crate::found::{Fault, Found};
use crate::programs::{Program, host, reconfigure};
use crate::tasks::lock;
use guira_world::disk;
use guira_world::net::{self, cut, heal, host_of};
use guira_world::scheduler::{Process, current_process, draw, freeze, kill};
use guira_world::thread::{sleep, spawn};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A program that is lost is started again, and a host that is isolated is reached again, by then.
const LOSS_MAX_MS: u64 = 10_000;

/// A program that runs on a host of its own.
#[derive(Debug)]
pub(crate) struct Running {
    program: Program,
    pub(crate) host: u8,
    process: Arc<Mutex<Process>>,
}

impl Running {
    pub(crate) fn start(host: u8, program: Program) -> Self {
        Running { process: Arc::new(Mutex::new(program.start(host))), program, host }
    }

    fn restart(&mut self) {
        let ended = self.process();
        sleep(Duration::from_millis(draw(600)));
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
    fn lose(&self) {
        let (lost, process) = (self.process(), self.process.clone());
        kill(lost);
        let (program, number, time) = (self.program.clone(), self.host, draw(LOSS_MAX_MS));
        drop(spawn(move || {
            sleep(Duration::from_millis(time));
            if *lock(&process) == lost {
                tracing::info!("starting {} again", host(number));
                *lock(&process) = program.start(number);
            }
        }));
    }
}

/// Ends a fault after some time, while others begin.
fn later(end: impl FnOnce() + Send + 'static) {
    let time = Duration::from_millis(draw(3_000));
    drop(spawn(move || {
        sleep(time);
        end();
    }));
}

/// Cuts a host off from these and from clients, or from most of them.
fn isolate(place: IpAddr, hosts: BTreeSet<u8>) {
    let home = host_of(current_process());
    let mut others: Vec<IpAddr> =
        hosts.into_iter().map(host).chain([home]).filter(|other| *other != place).collect();
    // Some reach a host that most do not.
    if draw(2) == 0 {
        others.retain(|_| draw(4) > 0);
    }
    for other in &others {
        cut(place, *other);
        cut(*other, place);
    }
    let time = Duration::from_millis(draw(LOSS_MAX_MS));
    drop(spawn(move || {
        sleep(time);
        tracing::info!("{place} is reached again");
        for other in others {
            heal(place, other);
            heal(other, place);
        }
    }));
}

/// The kinds of faults that a seed has: some seeds have all, some have none.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    kinds: Vec<Fault>,
    resets: u64,
    database: Option<Arc<Mutex<Database>>>,
}

impl Swarm {
    /// Draws from `kinds`, and has the network follow.
    pub(crate) fn draw(kinds: &[Fault], database: Option<Arc<Mutex<Database>>>) -> Self {
        let kinds = if draw(8) == 0 { Vec::new() } else { kinds.to_vec() };
        let kinds: Vec<Fault> = kinds.into_iter().filter(|_| draw(3) > 0).collect();
        let resets = if kinds.is_empty() || draw(2) == 0 { 0 } else { 500 };
        net::set_faults(net::Faults { resets, ..net::Faults::default() });
        Swarm { kinds, resets, database }
    }

    /// Whether nothing goes wrong.
    pub(crate) fn is_calm(&self) -> bool {
        self.kinds.is_empty() && self.resets == 0
    }

    pub(crate) fn has(&self, kind: Fault) -> bool {
        self.kinds.contains(&kind)
    }

    /// One fault of these programs, from its beginning to its end. Returns its kind: a scenario may have more to do.
    pub(crate) fn strike(&self, running: &mut [Running], found: &Mutex<Found>) -> Option<Fault> {
        if self.kinds.is_empty() {
            return None;
        }
        let kind = self.kinds[draw(self.kinds.len() as u64) as usize];
        lock(found).struck(kind);
        // The last programs of a region are those with disks.
        let with_disks = running.iter().filter(|it| it.program.has_disk()).count();
        let of_disks = matches!(kind, Fault::Power | Fault::Full | Fault::DiskErrors) && with_disks > 0;
        let range = if of_disks && draw(4) > 0 { with_disks } else { running.len() };
        let at = running.len() - 1 - draw(range as u64) as usize;
        let other = running[draw(running.len() as u64) as usize].host;
        let hosts: BTreeSet<u8> = running.iter().map(|it| it.host).collect();
        let victim = &mut running[at];
        let place = host(victim.host);
        tracing::info!("{kind:?} strikes {place}");
        match kind {
            Fault::Kill => {
                kill(victim.process());
                victim.restart();
            }
            Fault::Power => {
                net::crash(victim.process());
                disk::lose_power(place);
                victim.restart();
            }
            Fault::Freeze => freeze(victim.process(), Duration::from_millis(draw(4_000))),
            Fault::Cut => {
                let other = if other == victim.host { host_of(current_process()) } else { host(other) };
                let (from, to) = if draw(2) == 0 { (place, other) } else { (other, place) };
                tracing::info!("no packet from {from} to {to}");
                cut(from, to);
                later(move || {
                    heal(from, to);
                    tracing::info!("packets from {from} to {to} again");
                });
            }
            Fault::Full | Fault::DiskErrors => {
                let good = disk::Faults::default();
                let errors = if kind == Fault::DiskErrors { 4 } else { 0 };
                let room = if kind == Fault::Full { draw(4_096) } else { good.room };
                disk::set_faults(place, disk::Faults { errors, room, ..good });
                later(move || {
                    disk::set_faults(place, good);
                    tracing::info!("the disk of {place} is good again");
                });
            }
            Fault::Reload => {
                let routers = running.iter().filter_map(|it| Some((it.host, it.program.router_plan()?)));
                routers.for_each(|(host, plan)| reconfigure(host, plan));
            }
            Fault::Loss => victim.lose(),
            Fault::Isolation => isolate(place, hosts),
            // The scenario does it.
            Fault::NoLeader => {}
            Fault::Purge => self.database.iter().for_each(|database| lock(database).purge()),
        }
        Some(kind)
    }

    /// Nothing goes wrong any more, once the last faults have ended.
    pub(crate) fn end() {
        net::set_faults(net::Faults::default());
    }
}

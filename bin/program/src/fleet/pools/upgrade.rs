//! `guira fleet upgrade`.

use super::course::{self, Progress};
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_control::{CommandError, OrderState, Pool, Servers, Store, View};
use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// Time that an abandoned order stays in etcd.
const LEASE: Duration = Duration::from_secs(60);
/// etcd ends leases some time later.
const SLACK: Duration = Duration::from_secs(15);
/// Start times are whole seconds of two clocks.
const START_SLACK_S: u64 = 2;

/// Arguments of `guira fleet upgrade`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// Time limit for the upgrade of one server.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    within: Span,
    /// Start with the first server, even after an interrupted upgrade.
    #[arg(long)]
    anew: bool,
    /// Print the plan and exit.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

/// Values that differ between two processes of a server.
#[derive(Clone, Debug)]
struct Identity {
    version: String,
    pid: String,
    start_s: u64,
}

impl Identity {
    fn read(servers: &Servers, server: &str) -> Result<Self, CommandError> {
        let stats = servers.stats(server)?;
        let get = |name: &str| stats.get(name).cloned().unwrap_or_default();
        let seconds = |name: &str| get(name).parse::<u64>().unwrap_or(0);
        let start_s = seconds("time").saturating_sub(seconds("uptime"));
        Ok(Identity { version: get("version"), pid: get("pid"), start_s })
    }

    fn is_another(&self, before: &Identity) -> bool {
        self.version != before.version
            || self.pid != before.pid
            || self.start_s > before.start_s + START_SLACK_S
    }
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let name = &args.pool;
    let mut progress = Progress::new();
    let view = if args.dry_run { super::view(store)? } else { without_orders(name, store, &mut progress)? };
    let pool = view.pool(name)?;
    let servers = course::servers(&args.access, pool)?;
    let mut done: Vec<String> = if args.anew { Vec::new() } else { view.upgraded(name).to_vec() };
    let all: Vec<(usize, String)> = of_slots(pool);
    done.retain(|server| all.iter().any(|(_, known)| known == server));
    let left: Vec<_> = all.into_iter().filter(|(_, server)| !done.contains(server)).collect();
    check(&view, name, &servers, &left)?;
    let mut text = String::new();
    for server in &done {
        text.push_str(&format!("{server}: already upgraded before the interruption\n"));
    }
    if args.dry_run {
        for (slot, server) in &left {
            text.push_str(&format!("{server}: would be upgraded, slot {slot}\n"));
        }
        return print(&text);
    }
    print(&text)?;
    for (slot, server) in &left {
        let lease = store.lease(LEASE)?;
        let upgrade = Upgrade { args, servers: &servers, slot: *slot, server };
        let ended = upgrade.run(store, &mut progress, lease);
        let revoked = store.revoke(lease);
        progress.report(&ended?)?;
        revoked?;
        done.push(server.clone());
        store.keep_upgraded(name, &done)?;
    }
    store.keep_upgraded(name, &[])?;
    progress.report(&format!("pool {name}: all servers are upgraded"))
}

/// Reads etcd once the orders of an interrupted upgrade have expired.
fn without_orders(name: &str, store: &mut Store, progress: &mut Progress) -> Result<View, Failure> {
    let (first, since) = (super::view(store)?, Stopwatch::start());
    if !first.has_orders(name) {
        return Ok(first);
    }
    let mut was_over = false;
    loop {
        progress.show(&format!(
            "pool {name}: waiting for the order of another upgrade; an abandoned order expires within a minute"
        ))?;
        progress.wait();
        let view = super::view(store)?;
        if view.upgraded(name) != first.upgraded(name) || since.elapsed() > LEASE + SLACK {
            return Err(Failure::usage(format!("pool {name} is already being upgraded")));
        }
        // A running upgrade records its progress and writes the next order between two polls.
        let is_over = !view.has_orders(name);
        if is_over && was_over {
            return Ok(view);
        }
        was_over = is_over;
    }
}

fn of_slots(pool: &Pool) -> Vec<(usize, String)> {
    let slots = pool.slots.iter().enumerate();
    slots.filter_map(|(number, slot)| Some((number, slot.server.clone()?))).collect()
}

/// Checks that all servers can be upgraded, before the first upgrade.
fn check(view: &View, name: &str, servers: &Servers, left: &[(usize, String)]) -> Result<(), Failure> {
    let pool = view.pool(name)?;
    if pool.resize.is_some() || pool.slots.iter().any(|slot| slot.handover.is_some()) {
        return Err(Failure::usage(format!(
            "keys of pool {name} are moving: finish the drain or resize first"
        )));
    }
    for (slot, server) in left {
        let member = view.registered(name).find(|one| pool.slots[*slot].is_served_by(&one.server));
        match member {
            None => return Err(Failure::usage(format!("{server} is not registered"))),
            Some(member) if !member.can_upgrade => {
                let reason = format!(
                    "the member of {server} has no upgrade command: run `guira fleet join` with --upgrade-command"
                );
                return Err(Failure::usage(reason));
            }
            Some(_) => {}
        }
    }
    let first = left.first().map(|(slot, _)| *slot);
    check_rest(view, name, servers, (0..pool.slots.len()).filter(|slot| Some(*slot) != first))
}

/// Checks that enough servers serve without one of them.
fn check_rest(
    view: &View,
    name: &str,
    servers: &Servers,
    rest: impl Iterator<Item = usize>,
) -> Result<(), Failure> {
    course::check_minimum(view.pool(name)?, course::serving(view, name, servers, rest))
}

struct Upgrade<'a> {
    args: &'a Args,
    servers: &'a Servers,
    slot: usize,
    server: &'a str,
}

impl Upgrade<'_> {
    /// Upgrades the server; returns the line to print.
    fn run(
        &self,
        store: &mut Store,
        progress: &mut Progress,
        lease: guira_control::Lease,
    ) -> Result<String, Failure> {
        let (name, server) = (&self.args.pool, self.server);
        let view = super::view(store)?;
        let slots = view.pool(name)?.slots.len();
        check_rest(&view, name, self.servers, (0..slots).filter(|slot| *slot != self.slot))?;
        let before = Identity::read(self.servers, server).map_err(course::failed(server))?;
        let member = view
            .registered(name)
            .find(|one| view.pool(name).is_ok_and(|pool| pool.slots[self.slot].is_served_by(&one.server)));
        let member = member.map_or(server, |one| one.server.as_str()).to_owned();
        store.request_upgrade(name, &member, lease)?;
        let since = Stopwatch::start();
        let mut why = String::new();
        while since.elapsed() < self.args.within.0 {
            store.keep_alive(lease)?;
            let view = super::view(store)?;
            if view.pool(name)?.slots.get(self.slot).is_none_or(|slot| !slot.is_served_by(server)) {
                return Err(self.failed("the server lost its slot"));
            }
            let state = match view.order(name, &member).map(|order| (order.state, order.said.as_str())) {
                Some((OrderState::Failed, said)) => {
                    return Err(self.failed(&format!("the upgrade command failed: {said}")));
                }
                Some((state, _)) => state,
                None => return Err(self.failed("the order expired: etcd was down for too long")),
            };
            why = match Identity::read(self.servers, server) {
                _ if state == OrderState::Running => "the upgrade command is running".to_owned(),
                _ if state != OrderState::Done => {
                    "waiting for the member to run the upgrade command".to_owned()
                }
                Err(error) => format!("the server does not reply: {error}"),
                Ok(now) if !now.is_another(&before) => {
                    format!("still the previous process, {} of version {}", before.pid, before.version)
                }
                Ok(_) if !view.is_registered(name, server) => "the server is not registered".to_owned(),
                Ok(now) => {
                    return Ok(format!("{server}: upgraded, version {} -> {}", before.version, now.version));
                }
            };
            progress.show(&format!("{server}: {why}"))?;
            progress.wait();
        }
        Err(self.failed(&why))
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(format!(
            "{}: {why}. The servers after it were not upgraded; run `guira fleet upgrade` again to resume",
            self.server
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_one_of_another_version_number_or_start() {
        let known = |version: &str, pid: &str, start_s| Identity {
            version: version.to_owned(),
            pid: pid.to_owned(),
            start_s,
        };
        let before = known("1", "7", 100);
        for (now, expected) in [
            (known("1", "7", 100), false),
            (known("1", "7", 101), false),
            (known("2", "7", 100), true),
            (known("1", "8", 100), true),
            (known("1", "7", 200), true),
        ] {
            assert_eq!(now.is_another(&before), expected, "{now:?}");
        }
    }
}

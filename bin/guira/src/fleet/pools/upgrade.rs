//! `guira fleet upgrade`.

use super::course::{self, Progress};
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_control::{AskError, OrderState, Pool, Servers, Store, View};
use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// How long an order stays that nobody looks after.
const LEASE: Duration = Duration::from_secs(60);
/// etcd ends leases some time later than that.
const SLACK: Duration = Duration::from_secs(15);
/// Start times are told in whole seconds, of two clocks.
const START_SLACK_S: u64 = 2;

/// Arguments of `guira fleet upgrade`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// How long the upgrade of one server may take.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    within: Span,
    /// Begin with the first server, also if an upgrade that was interrupted has done some.
    #[arg(long)]
    anew: bool,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

/// What tells one process of a server from another one.
#[derive(Clone, Debug)]
struct Identity {
    version: String,
    pid: String,
    start_s: u64,
}

impl Identity {
    fn ask(servers: &Servers, server: &str) -> Result<Self, AskError> {
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
        text.push_str(&format!("{server}: was upgraded before the interruption\n"));
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
        progress.tell(&ended?)?;
        revoked?;
        done.push(server.clone());
        store.keep_upgraded(name, &done)?;
    }
    store.keep_upgraded(name, &[])?;
    progress.tell(&format!("pool {name}: all servers are upgraded"))
}

/// What is in etcd once no order is left of an upgrade that was interrupted: its lease ends soon.
fn without_orders(name: &str, store: &mut Store, progress: &mut Progress) -> Result<View, Failure> {
    let (first, since) = (super::view(store)?, Stopwatch::start());
    if !first.has_orders(name) {
        return Ok(first);
    }
    let mut was_over = false;
    loop {
        progress.show(&format!(
            "pool {name}: an order of another upgrade is waited for, which ends within a minute if nobody looks after it"
        ))?;
        progress.wait();
        let view = super::view(store)?;
        if view.upgraded(name) != first.upgraded(name) || since.elapsed() > LEASE + SLACK {
            return Err(Failure::usage(format!("pool {name} is being upgraded already")));
        }
        // Whoever is at work keeps what is done and gives the next order between two looks.
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

/// Whether all can be upgraded, before the first one is.
fn check(view: &View, name: &str, servers: &Servers, left: &[(usize, String)]) -> Result<(), Failure> {
    let pool = view.pool(name)?;
    if pool.resize.is_some() || pool.slots.iter().any(|slot| slot.handover.is_some()) {
        return Err(Failure::usage(format!("keys of pool {name} move: end that first")));
    }
    for (slot, server) in left {
        let member = view.registered(name).find(|one| pool.slots[*slot].is_served_by(&one.server));
        match member {
            None => return Err(Failure::usage(format!("{server} is not registered"))),
            Some(member) if !member.can_upgrade => {
                let reason = format!(
                    "the member of {server} was not told how: give `guira fleet join` --upgrade-command"
                );
                return Err(Failure::usage(reason));
            }
            Some(_) => {}
        }
    }
    let first = left.first().map(|(slot, _)| *slot);
    check_rest(view, name, servers, (0..pool.slots.len()).filter(|slot| Some(*slot) != first))
}

/// Whether enough servers serve without one of them.
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
    /// What was done, as it is told.
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
        let before = Identity::ask(self.servers, server).map_err(course::failed(server))?;
        let member = view
            .registered(name)
            .find(|one| view.pool(name).is_ok_and(|pool| pool.slots[self.slot].is_served_by(&one.server)));
        let member = member.map_or(server, |one| one.server.as_str()).to_owned();
        store.ask_for_upgrade(name, &member, lease)?;
        let since = Stopwatch::start();
        let mut why = String::new();
        while since.elapsed() < self.args.within.0 {
            store.keep_alive(lease)?;
            let view = super::view(store)?;
            if view.pool(name)?.slots.get(self.slot).is_none_or(|slot| !slot.is_served_by(server)) {
                return Err(self.failed("it has lost its slot"));
            }
            let state = match view.order(name, &member).map(|order| (order.state, order.said.as_str())) {
                Some((OrderState::Failed, said)) => return Err(self.failed(&format!("its command: {said}"))),
                Some((state, _)) => state,
                None => return Err(self.failed("the order is gone: etcd was away for too long")),
            };
            why = match Identity::ask(self.servers, server) {
                _ if state == OrderState::Running => "its command runs".to_owned(),
                _ if state != OrderState::Done => "its member is asked".to_owned(),
                Err(error) => format!("it does not answer: {error}"),
                Ok(now) if !now.is_another(&before) => {
                    format!("it is the process that it was, {} of version {}", before.pid, before.version)
                }
                Ok(_) if !view.is_registered(name, server) => "it is not registered".to_owned(),
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
            "{}: {why}. Those after it were left as they are; `upgrade` again goes on with it",
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

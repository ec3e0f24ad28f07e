//! `guira fleet resize` and `guira fleet add`.

use super::course::{self, How, Progress};
use super::shares;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::{Key, Pool, Registration, Resize, Servers, Slot, Stage, Store, View};
use guira_routing::hash::{Selector, before_hash_stop};
use guira_sync::clock::{Stopwatch, wall_clock};

/// Largest share of a server's keys that may belong to other slots, as leftovers of earlier moves. With another hash
/// than that of the routers, the share is half or more.
const STRANGERS_MAX: f64 = 0.4;

/// Arguments of `guira fleet resize`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// The new number of slots.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    #[command(flatten)]
    how: How,
}

/// Arguments of `guira fleet add`.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// The pool.
    pool: String,
    /// Number of slots to add.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    #[command(flatten)]
    how: How,
}

pub(super) fn add(args: &AddArgs, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let pool = view.pool(&args.pool)?;
    let from = pool.resize.map_or(pool.slots.len(), |resize| resize.from);
    resize(&args.pool, from + args.slots as usize, &args.how, store)
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    resize(&args.pool, args.slots as usize, &args.how, store)
}

fn resize(name: &str, to: usize, how: &How, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let pool = view.pool(name)?;
    let servers = course::servers(&how.access, pool)?;
    if let Some(resize) = pool.resize {
        if resize.to != to {
            let reason = format!(
                "pool {name} is being resized from {} to {} slots: finish the resize first",
                resize.from, resize.to
            );
            return Err(Failure::usage(reason));
        }
        let mut course = Course::new(name, how, &servers, &pool.slots, resize)?;
        course.survey(&[&course.before, &course.after])?;
        if how.pace.dry_run {
            return print(&format!(
                "pool {name}: would resume the resize from {} to {to} slots\n",
                resize.from
            ));
        }
        return course.resume(store);
    }
    let spares = check(&view, name, to, &servers)?;
    let (mut announced, taken) = (pool.clone(), spares.iter().collect::<Vec<_>>());
    announced.announce_resize(to, &taken, wall_clock());
    let resize = announced.resize.ok_or_else(|| Failure::new(format!("pool {name} has {to} slots")))?;
    let mut course = Course::new(name, how, &servers, &announced.slots, resize)?;
    course.survey(&[&course.before])?;
    print(&course.plan(&spares))?;
    if how.pace.dry_run {
        return Ok(());
    }
    course::empty(store, &servers, &taken)?;
    store.change(&view, name, &announced, &taken, None)?;
    course.resume(store)
}

/// The spares that take the new slots, if the pool can have this number of slots.
fn check(view: &View, name: &str, to: usize, servers: &Servers) -> Result<Vec<Registration>, Failure> {
    let pool = view.pool(name)?;
    let from = pool.slots.len();
    if to == from {
        return Err(Failure::usage(format!("pool {name} already has {from} slots")));
    }
    course::check_no_drain(name, pool)?;
    let needed = to.saturating_sub(from);
    let (spares, unfit) =
        super::fit(view.spares(name), needed, |spare| course::can_be_filled(servers, &spare.server));
    if spares.len() < needed {
        if let Some(failure) = unfit {
            return Err(failure);
        }
        let available = spares.len();
        let reason = format!(
            "pool {name} needs {needed} spares and has {available}: run `guira fleet join` on the hosts of further servers"
        );
        return Err(Failure::usage(reason));
    }
    for (number, slot) in pool.slots.iter().enumerate() {
        let Some(server) = &slot.server else {
            return Err(Failure::usage(format!("slot {number} of pool {name} has no server")));
        };
        course::can_be_copied_from(servers, server)?;
        if number < to {
            course::can_be_filled(servers, server)?;
        }
    }
    if to < from {
        course::check_minimum(pool, course::serving(view, name, servers, 0..to))?;
    }
    Ok(spares.into_iter().cloned().collect())
}

struct Course<'a> {
    name: &'a str,
    how: &'a How,
    servers: &'a Servers,
    progress: Progress,
    resize: Resize,
    /// The slots of the larger of the two pools.
    slots: Vec<Slot>,
    before: Selector,
    after: Selector,
    /// Keys of the sample that move, from slot to slot.
    moves: Vec<(usize, usize)>,
}

impl<'a> Course<'a> {
    fn new(
        name: &'a str,
        how: &'a How,
        servers: &'a Servers,
        slots: &[Slot],
        resize: Resize,
    ) -> Result<Self, Failure> {
        let before = how.hashing.selector(name, &slots[..resize.from])?;
        let after = how.hashing.selector(name, &slots[..resize.to])?;
        let (slots, moves) = (slots.to_vec(), shares::moves(&before, &after));
        Ok(Course { name, how, servers, progress: Progress::new(), resize, slots, before, after, moves })
    }

    fn plan(&self, spares: &[Registration]) -> String {
        let Resize { from, to, .. } = self.resize;
        let (name, hash) = (self.name, self.how.hashing.name(&self.slots));
        let mut text = format!(
            "pool {name}: {from} -> {to} slots: {} of the keys move (hash {hash}). During the resize, misses of these keys are filled from their former servers, and changes go to both\n",
            shares::percent(shares::share(self.moves.len()))
        );
        for (number, spare) in (from..).zip(spares) {
            text.push_str(&format!("slot {number}: {}\n", spare.server));
        }
        for (number, slot) in self.slots.iter().enumerate().skip(to) {
            let server = slot.server.as_deref().unwrap_or("-");
            text.push_str(&format!("slot {number}: {server} is removed\n"));
        }
        text
    }

    /// Slots of both pools, with their servers, that `touches` selects from the moves.
    fn staying(&self, touches: impl Fn(&(usize, usize)) -> usize) -> Vec<(usize, String)> {
        let both = 0..self.resize.from.min(self.resize.to);
        let both = both.filter(|slot| self.moves.iter().any(|moved| touches(moved) == *slot));
        both.filter_map(|slot| Some((slot, self.slots[slot].server.clone()?))).collect()
    }

    /// Checks that the keys of servers are where one of these hashes puts them.
    fn survey(&self, hashes: &[&Selector]) -> Result<(), Failure> {
        let mut servers = self.staying(|(_, to)| *to);
        servers.extend(self.staying(|(from, _)| *from));
        servers.sort();
        servers.dedup();
        for (slot, server) in servers {
            let (mut all, mut strangers) = (0_usize, 0_usize);
            self.servers
                .keys(&server, |key| {
                    all += 1;
                    let is_known = hashes.iter().any(|hash| belongs(hash, &key, slot));
                    strangers += usize::from(!is_known);
                })
                .map_err(course::failed(&server))?;
            if strangers as f64 > all as f64 * STRANGERS_MAX {
                let share = shares::percent(strangers as f64 / all as f64);
                let reason = format!(
                    "{share} of the keys of {server} do not belong to slot {slot} by hash {}: give the routers' hash with --hash and --salt",
                    self.how.hashing.name(&self.slots)
                );
                return Err(Failure::usage(reason));
            }
        }
        Ok(())
    }

    /// Deletes outdated keys: leftovers of earlier moves, which do not belong to the slots of these servers.
    fn prune(&mut self, servers: Vec<(usize, String)>, stage: Stage) -> Result<(), Failure> {
        for (slot, server) in servers {
            let hash = if stage == Stage::Announced { &self.before } else { &self.after };
            let mut left: Vec<Key> = Vec::new();
            self.servers
                .keys(&server, |key| {
                    if !belongs(hash, &key, slot) {
                        left.push(key);
                    }
                })
                .map_err(course::failed(&server))?;
            self.servers.delete(&server, &left).map_err(course::failed(&server))?;
            if !left.is_empty() {
                let keys = left.len();
                self.progress
                    .report(&format!("{server}: deleted {keys} keys that do not belong to slot {slot}"))?;
            }
        }
        Ok(())
    }

    /// Runs the resize from its current stage to the end.
    fn resume(&mut self, store: &mut Store) -> Result<(), Failure> {
        let name = self.name;
        let Resize { from, to, .. } = self.resize;
        loop {
            let what = format!("pool {name}");
            let view = self.progress.read(store, &what)?;
            let pool = view.pool(name)?;
            let stage = match pool.resize {
                Some(resize) if (resize.from, resize.to) == (from, to) => resize.stage,
                None if pool.slots.len() == to => {
                    return self.progress.report(&format!("pool {name} has {to} slots"));
                }
                _ => {
                    let reason = format!(
                        "another command resized pool {name}, which now has {} slots",
                        pool.slots.len()
                    );
                    return Err(Failure::new(reason));
                }
            };
            self.slots.clone_from(&pool.slots);
            match stage {
                Stage::Announced => {
                    self.progress.settle(store, &self.how.pace, &what)?;
                    self.check_new_servers(pool)?;
                    self.prune(self.staying(|(_, to)| *to), stage)?;
                }
                Stage::Warming => {
                    self.progress.report(&format!(
                        "{what} has {to} slots, which are filled from the previous {from}"
                    ))?;
                    if !self.fill(store)? {
                        continue;
                    }
                    self.check_new_servers(pool)?;
                }
                Stage::Ending => {
                    self.progress.report(&format!("{what}: the former servers receive no more requests"))?;
                    self.progress.settle(store, &self.how.pace, &what)?;
                    self.check_new_servers(pool)?;
                    self.empty_former(pool)?;
                }
            }
            let mut now = view.clone();
            // A step whose reply was lost does not restart the stage.
            while now.pool(name)? == pool {
                let mut next = pool.clone();
                next.step_resize(wall_clock());
                self.progress.step(store, &now, name, &next)?;
                now = self.progress.read(store, &what)?;
            }
        }
    }

    /// Checks that all servers of the resized pool reply.
    fn check_new_servers(&self, pool: &Pool) -> Result<(), Failure> {
        let mut servers = pool.slots.iter().take(self.resize.to).filter_map(|slot| slot.server.as_deref());
        servers
            .try_for_each(|server| course::check_reply(self.servers, server, &format!("pool {}", self.name)))
    }

    /// Waits until the time is over; `false` if the stage has changed.
    fn fill(&mut self, store: &mut Store) -> Result<bool, Failure> {
        let since = Stopwatch::start();
        let within = self.how.pace.within.0;
        while since.elapsed() < within {
            let view = self.progress.read(store, &format!("pool {}", self.name))?;
            let stage = view.pool(self.name)?.resize.map(|resize| resize.stage);
            if stage != Some(Stage::Warming) {
                return Ok(false);
            }
            let left = within.saturating_sub(since.elapsed()).as_secs();
            self.progress
                .show(&format!("pool {}: filling from the former servers for {left} s more", self.name))?;
            self.progress.wait();
        }
        Ok(true)
    }

    /// Routers no longer read the keys on their former servers. Late readers must not find old values.
    fn empty_former(&mut self, pool: &Pool) -> Result<(), Failure> {
        for server in pool.slots.iter().skip(self.resize.to).filter_map(|slot| slot.server.as_deref()) {
            if let Err(error) = self.servers.flush(server) {
                self.progress.report(&format!(
                    "cannot flush {server}: {error}. Its member flushes the server when it is up"
                ))?;
            }
        }
        let left = self.staying(|(from, _)| *from);
        if let Err(error) = self.prune(left, Stage::Ending) {
            self.progress
                .report(&format!("cannot delete moved keys: {error}. The next resize deletes them first"))?;
        }
        Ok(())
    }
}

/// Whether a key belongs to a slot.
fn belongs(hash: &Selector, key: &Key, slot: usize) -> bool {
    let bytes = key.bytes();
    hash.pick(before_hash_stop(without_prefix(&bytes))) == slot
}

/// A key without the routing prefix that some pools keep.
fn without_prefix(key: &[u8]) -> &[u8] {
    let mut slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    match (key.first(), slashes.nth(2)) {
        (Some(b'/'), Some(end)) => &key[end + 1..],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hashed_without_its_routing_prefix() {
        for (key, expected) in
            [("k", "k"), ("/a/b/k", "k"), ("/a/b/k/l", "k/l"), ("/a", "/a"), ("a/b/c/d", "a/b/c/d")]
        {
            assert_eq!(without_prefix(key.as_bytes()), expected.as_bytes());
        }
    }
}

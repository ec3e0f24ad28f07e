//! `guira fleet resize` and `guira fleet add`.

use super::course::{self, How, Progress};
use super::shares;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::{Key, Pool, Registration, Resize, Servers, Slot, Stage, Store, View};
use guira_routing::hash::{Selector, before_hash_stop};
use guira_sync::clock::{Stopwatch, wall_clock};

/// Of the keys of a server so many at most may belong to other slots, since they were left there. With another hash than that of the routers
/// it would be half of them or more.
const STRANGERS_MAX: f64 = 0.4;

/// Arguments of `guira fleet resize`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// How many slots it is to have.
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
    /// How many slots it is to have more.
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
            let reason =
                format!("pool {name} is resized from {} to {} slots: end that first", resize.from, resize.to);
            return Err(Failure::usage(reason));
        }
        let mut course = Course::new(name, how, &servers, &pool.slots, resize)?;
        course.survey(&[&course.before, &course.after])?;
        if how.pace.dry_run {
            return print(&format!(
                "pool {name}: the resize from {} to {to} slots would go on\n",
                resize.from
            ));
        }
        return course.go_on(store);
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
    course.go_on(store)
}

/// The spares that are taken, if the pool can have so many slots.
fn check(view: &View, name: &str, to: usize, servers: &Servers) -> Result<Vec<Registration>, Failure> {
    let pool = view.pool(name)?;
    let from = pool.slots.len();
    if to == from {
        return Err(Failure::usage(format!("pool {name} has {from} slots already")));
    }
    course::check_no_drain(name, pool)?;
    let needed = to.saturating_sub(from);
    let (spares, unfit) =
        super::fit(view.spares(name), needed, |spare| course::can_be_filled(servers, &spare.server));
    if spares.len() < needed {
        if let Some(failure) = unfit {
            return Err(failure);
        }
        let (there, missing) = (spares.len(), needed - spares.len());
        let reason = format!(
            "pool {name} has {there} spares of {needed} that are needed: {missing} are missing. Run `guira fleet join` beside further servers"
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
    /// Of the larger pool of the two.
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
        let (name, hash) = (self.name, self.how.hashing.name());
        let mut text = format!(
            "pool {name}: {from} -> {to} slots: {} of the keys by {hash} move, the others stay where they are. A get of a key that has moved and is missed is asked of its former server too, and what that has is added to the new one; a change of such a key is a request to both, until it is over\n",
            shares::percent(shares::share(self.moves.len()))
        );
        for (number, spare) in (from..).zip(spares) {
            text.push_str(&format!("slot {number}: {}\n", spare.server));
        }
        for (number, slot) in self.slots.iter().enumerate().skip(to) {
            let server = slot.server.as_deref().unwrap_or("-");
            text.push_str(&format!("slot {number}: {server} is let go\n"));
        }
        text
    }

    /// Slots of both pools, with their servers: those that `touches` finds in the moves.
    fn staying(&self, touches: impl Fn(&(usize, usize)) -> usize) -> Vec<(usize, String)> {
        let both = 0..self.resize.from.min(self.resize.to);
        let both = both.filter(|slot| self.moves.iter().any(|moved| touches(moved) == *slot));
        both.filter_map(|slot| Some((slot, self.slots[slot].server.clone()?))).collect()
    }

    /// Whether the keys that servers have are where one of these has them.
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
                    "{share} of the keys of {server} do not belong to slot {slot} by {}: say by --hash and --salt how routers choose a slot",
                    self.how.hashing.name()
                );
                return Err(Failure::usage(reason));
            }
        }
        Ok(())
    }

    /// Takes keys away from servers that do not belong to their slots: they were left there when they moved, and are outdated.
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
                self.progress.tell(&format!(
                    "{server}: {keys} keys that do not belong to slot {slot} are taken away"
                ))?;
            }
        }
        Ok(())
    }

    /// From wherever it is to its end.
    fn go_on(&mut self, store: &mut Store) -> Result<(), Failure> {
        let name = self.name;
        let Resize { from, to, .. } = self.resize;
        loop {
            let what = format!("pool {name}");
            let view = self.progress.look(store, &what)?;
            let pool = view.pool(name)?;
            let stage = match pool.resize {
                Some(resize) if (resize.from, resize.to) == (from, to) => resize.stage,
                None if pool.slots.len() == to => {
                    return self.progress.tell(&format!("pool {name} has {to} slots"));
                }
                _ => {
                    let reason = format!(
                        "somebody else has resized pool {name} meanwhile, which has {} slots",
                        pool.slots.len()
                    );
                    return Err(Failure::new(reason));
                }
            };
            self.slots.clone_from(&pool.slots);
            match stage {
                Stage::Announced => {
                    self.progress.settle(store, &self.how.pace, &what)?;
                    self.check_new_places(pool)?;
                    self.prune(self.staying(|(_, to)| *to), stage)?;
                }
                Stage::Warming => {
                    self.progress.tell(&format!(
                        "{what}: it has {to} slots, which are filled from the {from} before"
                    ))?;
                    if !self.fill(store)? {
                        continue;
                    }
                    self.check_new_places(pool)?;
                }
                Stage::Ending => {
                    self.progress.tell(&format!("{what}: the slots before are not asked any more"))?;
                    self.progress.settle(store, &self.how.pace, &what)?;
                    self.check_new_places(pool)?;
                    self.empty_former(pool)?;
                }
            }
            let mut now = view.clone();
            // One that is lost on the way is no reason to begin the stage anew.
            while now.pool(name)? == pool {
                let mut next = pool.clone();
                next.step_resize(wall_clock());
                self.progress.step(store, &now, name, &next)?;
                now = self.progress.look(store, &what)?;
            }
        }
    }

    /// That all servers of the pool as it will be are there.
    fn check_new_places(&self, pool: &Pool) -> Result<(), Failure> {
        let mut servers = pool.slots.iter().take(self.resize.to).filter_map(|slot| slot.server.as_deref());
        servers.try_for_each(|server| course::answers(self.servers, server, &format!("pool {}", self.name)))
    }

    /// Until the time is over; `false` if something has come between.
    fn fill(&mut self, store: &mut Store) -> Result<bool, Failure> {
        let since = Stopwatch::start();
        let within = self.how.pace.within.0;
        while since.elapsed() < within {
            let view = self.progress.look(store, &format!("pool {}", self.name))?;
            let stage = view.pool(self.name)?.resize.map(|resize| resize.stage);
            if stage != Some(Stage::Warming) {
                return Ok(false);
            }
            let left = within.saturating_sub(since.elapsed()).as_secs();
            self.progress.show(&format!("pool {}: former servers are asked for {left} s more", self.name))?;
            self.progress.wait();
        }
        Ok(true)
    }

    /// Nobody reads the keys in their former places any more. Whoever still does finds nothing old.
    fn empty_former(&mut self, pool: &Pool) -> Result<(), Failure> {
        for server in pool.slots.iter().skip(self.resize.to).filter_map(|slot| slot.server.as_deref()) {
            if let Err(error) = self.servers.flush(server) {
                self.progress
                    .tell(&format!("{server} is not emptied: {error}. Its member does it when it is back"))?;
            }
        }
        let left = self.staying(|(from, _)| *from);
        if let Err(error) = self.prune(left, Stage::Ending) {
            self.progress.tell(&format!(
                "keys stay where they were: {error}. They are taken away before they could be found again"
            ))?;
        }
        Ok(())
    }
}

/// Whether a key belongs to a slot.
fn belongs(hash: &Selector, key: &Key, slot: usize) -> bool {
    let bytes = key.bytes();
    hash.pick(before_hash_stop(without_prefix(&bytes))) == slot
}

/// A key without the routing prefix that pools may send along.
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

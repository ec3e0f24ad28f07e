//! `guira fleet drain`.

use super::course::{self, How, Progress, Share};
use super::shares;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_control::{Handover, Pool, Registration, Servers, Slot, Stage, Store, View};
use guira_sync::clock::{Stopwatch, wall_clock};

/// Arguments of `guira fleet drain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pool.
    pool: String,
    /// The slot whose server is drained.
    slot: usize,
    /// The spare that takes the slot [default: the first suitable one]
    #[arg(long, value_name = "SERVER")]
    with: Option<String>,
    /// Stop filling when the new server returns this share of the hits of both servers.
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = share)]
    until: f64,
    #[command(flatten)]
    how: How,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "give a number between 0 and 1".to_owned())
}

pub(super) fn run(args: &Args, store: &mut Store) -> Result<(), Failure> {
    let view = super::view(store)?;
    let pool = view.pool(&args.pool)?;
    let servers = course::servers(&args.how.access, pool)?;
    let mut drain = Drain { args, servers, progress: Progress::new() };
    let Some(slot) = pool.slots.get(args.slot) else {
        return Err(Failure::usage(format!(
            "pool {} has the slots 0 to {}",
            args.pool,
            pool.slots.len() - 1
        )));
    };
    let (former, new) = match (&slot.server, &slot.handover) {
        (None, _) => {
            return Err(Failure::usage(format!("slot {} of pool {} has no server", args.slot, args.pool)));
        }
        (Some(server), Some(handover)) => {
            let [former, new] = former_and_new(server, handover);
            if args.with.as_ref().is_some_and(|with| with != new) {
                return Err(Failure::usage(format!("slot {} already moves to {new}", args.slot)));
            }
            if args.how.pace.dry_run {
                return print(&format!(
                    "slot {} of pool {}: would resume {former} -> {new}\n",
                    args.slot, args.pool
                ));
            }
            (former.to_owned(), new.to_owned())
        }
        (Some(former), None) => {
            let spare = drain.spare(&view, pool)?;
            drain.check(&view, pool, former)?;
            print(&drain.plan(pool, former, spare)?)?;
            if args.how.pace.dry_run {
                return Ok(());
            }
            course::empty(store, &drain.servers, &[spare])?;
            let mut announced = pool.clone();
            announced.announce_handover(args.slot, spare, wall_clock());
            store.change(&view, &args.pool, &announced, &[spare], None)?;
            (former.clone(), spare.server.clone())
        }
    };
    drain.resume(store, &former, &new)
}

/// The former and the new server of a slot that is now served by `server`.
fn former_and_new<'a>(server: &'a str, Handover { other, stage, .. }: &'a Handover) -> [&'a str; 2] {
    if *stage == Stage::Announced { [server, other] } else { [other, server] }
}

struct Drain<'a> {
    args: &'a Args,
    servers: Servers,
    progress: Progress,
}

impl Drain<'_> {
    fn what(&self) -> String {
        format!("slot {} of pool {}", self.args.slot, self.args.pool)
    }

    fn spare<'v>(&self, view: &'v View, pool: &Pool) -> Result<&'v Registration, Failure> {
        let args = self.args;
        if let Some(resize) = pool.resize {
            let reason = format!(
                "pool {} is being resized from {} to {} slots: finish the resize first",
                args.pool, resize.from, resize.to
            );
            return Err(Failure::usage(reason));
        }
        super::spare(view, &args.pool, args.with.as_deref(), |spare| {
            course::can_be_filled(&self.servers, &spare.server)
        })
    }

    fn check(&self, view: &View, pool: &Pool, former: &str) -> Result<(), Failure> {
        course::can_be_copied_from(&self.servers, former)?;
        let others = (0..pool.slots.len()).filter(|slot| *slot != self.args.slot);
        let left = course::serving(view, &self.args.pool, &self.servers, others) + 1;
        course::check_minimum(pool, left)
    }

    fn plan(&self, pool: &Pool, former: &str, spare: &Registration) -> Result<String, Failure> {
        let Args { pool: name, slot, how: How { hashing, .. }, .. } = self.args;
        let selector = hashing.selector(name, &pool.slots)?;
        let share = shares::percent(shares::of_slot(&selector, *slot));
        Ok(format!(
            "slot {slot} of pool {name}: {former} -> {}: {share} of the keys move (hash {}). During the drain, the new server fills its misses from the former one, and changes go to both\n",
            spare.server,
            hashing.name(&pool.slots)
        ))
    }

    /// Runs the drain from its current stage to the end.
    fn resume(&mut self, store: &mut Store, former: &str, new: &str) -> Result<(), Failure> {
        loop {
            let number = self.args.slot;
            let what = self.what();
            let view = self.progress.read(store, &what)?;
            let pool = view.pool(&self.args.pool)?;
            let slot = pool.slots.get(number);
            let server = slot.and_then(|slot| slot.server.as_deref());
            let Some(handover) = slot.and_then(|slot| slot.handover.as_ref()) else {
                return self.end(server, former, new);
            };
            let stage = handover.stage;
            if server.map(|server| former_and_new(server, handover)) != Some([former, new]) {
                return Err(Failure::new(format!(
                    "another command drains {what} now: {former} keeps its items"
                )));
            }
            match stage {
                Stage::Announced => {
                    self.progress.settle(store, &self.args.how.pace, &format!("{what} moves to {new}"))?;
                    course::check_reply(&self.servers, new, &what)?;
                }
                Stage::Warming => {
                    self.progress
                        .report(&format!("{what}: {new} serves the slot and is filled from {former}"))?;
                    if !self.fill(store, former, new)? {
                        continue;
                    }
                    course::check_reply(&self.servers, new, &what)?;
                }
                Stage::Ending => {
                    self.progress.report(&format!("{what}: {former} receives no more requests"))?;
                    self.progress.settle(store, &self.args.how.pace, &format!("{what} leaves {former}"))?;
                    course::check_reply(&self.servers, new, &what)?;
                    // The leader may have given the slot back to the former server.
                    if self.unchanged(store, slot, &what)?.is_none() {
                        continue;
                    }
                    // Late readers must not find old values.
                    if let Err(error) = self.servers.flush(former) {
                        self.progress.report(&format!(
                            "cannot flush {former}: {error}. Its member flushes the server when it is up"
                        ))?;
                    }
                }
            }
            while let Some(view) = self.unchanged(store, slot, &what)? {
                let mut next = view.pool(&self.args.pool)?.clone();
                let zone = view.registered(&self.args.pool).find(|one| one.server == new);
                next.step_handover(number, zone.and_then(|one| one.zone.as_deref()), wall_clock());
                self.progress.step(store, &view, &self.args.pool, &next)?;
            }
        }
    }

    /// Reads etcd; nothing if the slot has changed. Changes of other slots do not restart a step.
    fn unchanged(
        &mut self,
        store: &mut Store,
        slot: Option<&Slot>,
        what: &str,
    ) -> Result<Option<View>, Failure> {
        let view = self.progress.read(store, what)?;
        let is_same = view.pool(&self.args.pool)?.slots.get(self.args.slot) == slot;
        Ok(is_same.then_some(view))
    }

    /// Waits until the new server is warm; `false` if the stage has changed.
    fn fill(&mut self, store: &mut Store, former: &str, new: &str) -> Result<bool, Failure> {
        let (args, since, what) = (self.args, Stopwatch::start(), self.what());
        let mut share = Share::default();
        while since.elapsed() < args.how.pace.within.0 {
            let view = self.progress.read(store, &what)?;
            let slot = view.pool(&args.pool)?.slots.get(args.slot);
            let stage = slot.and_then(|slot| slot.handover.as_ref()).map(|handover| handover.stage);
            if stage != Some(Stage::Warming) {
                return Ok(false);
            }
            let hits = |server: &str| {
                course::hits(&self.servers, server).map_err(|error| format!("{server}: {error}"))
            };
            let warmth = match (hits(new), hits(former)) {
                (Ok(new), Ok(former)) => {
                    share.add([new, former]);
                    warmth(&share)
                }
                (Err(error), _) | (_, Err(error)) => error,
            };
            if share.has_reached(args.until) {
                self.progress.report(&format!("{what}: {warmth}"))?;
                break;
            }
            self.progress.show(&format!("{what}: {warmth}"))?;
            self.progress.wait();
        }
        Ok(true)
    }

    fn end(&mut self, server: Option<&str>, former: &str, new: &str) -> Result<(), Failure> {
        let (slot, pool) = (self.args.slot, &self.args.pool);
        if server != Some(new) {
            let server = server.unwrap_or("no server");
            let reason =
                format!("slot {slot} of pool {pool} now has {server}: see the leader's log for the reason");
            return Err(Failure::new(reason));
        }
        self.progress.report(&format!("slot {slot} of pool {pool} is drained: {new} replaces {former}"))
    }
}

/// How warm the new server is.
fn warmth(share: &Share) -> String {
    match share.now() {
        None => "no hits yet on either server".to_owned(),
        Some((share, gets)) => {
            format!("the new server returned {} of {gets} hits", shares::percent(share))
        }
    }
}

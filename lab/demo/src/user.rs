//! Users: they read rows and now and then write one, through the look-aside client, and judge what they read.

use std::sync::Arc;
use std::time::Duration;

use guira_client::lookaside::{LookAside, Value};
use guira_harness::random::Random;
use guira_sync::clock::Stopwatch;

use crate::counts::{Count, UserState};
use crate::rows::{Door, ROWS, Unanswered, key, text};
use crate::world::World;

pub(crate) const USERS: usize = 8;
/// How long a user waits for a router, which itself waits for a node and then for the gutter.
pub(crate) const CACHE_MAX: Duration = Duration::from_millis(1500);
/// A user writes once in this many operations, and reads a rarely used row once in this many.
const WRITE_ONCE_IN: u64 = 20;
const RARE_ONCE_IN: u64 = 4;
const POPULAR: u64 = 100;
/// The longest pause, in milliseconds.
const PAUSE_MAX_MS: u64 = 16;

struct User<'w> {
    world: &'w World,
    state: &'w UserState,
    name: String,
    /// The router it uses.
    router: usize,
    door: Door<'w>,
    random: Random,
}

/// Lives until everything ends.
pub(crate) fn live(world: &Arc<World>, number: usize, seed: u64) {
    let random = Random::new(seed * 1000 + number as u64);
    let (state, name) = (&world.user_states[number], format!("user {number}"));
    let router = number % state.caches.len();
    let mut user = User { world, state, name, router, door: Door::of(&world.rows), random };
    loop {
        let pause = Duration::from_millis(user.random.below(PAUSE_MAX_MS));
        if world.stop.wait(pause).is_err() {
            return;
        }
        let rows = if user.random.once_in(RARE_ONCE_IN) { ROWS as u64 } else { POPULAR };
        let row = user.random.below(rows) as usize;
        if user.random.once_in(WRITE_ONCE_IN) { user.write(row) } else { user.read(row) }
    }
}

impl User<'_> {
    fn cache(&self) -> &LookAside {
        &self.state.caches[self.router]
    }

    fn write(&mut self, row: usize) {
        let (world, cache) = (self.world, self.cache().clone());
        let (calm, before, time) = (world.truth.sight.calm(), cache.counters(), Stopwatch::start());
        let written = cache.write_through_delete(&[&key(row)], |changed| {
            let version = self.door.write(row, &changed.comment())?;
            world.truth.history.committed(row, version, &self.name);
            Ok::<u64, Unanswered>(version)
        });
        self.state.writes.note(1, time.elapsed());
        let after = cache.counters();
        let is_delivered = after.failed_deletes == before.failed_deletes;
        if !is_delivered {
            self.go_to_the_other_router();
        }
        let Ok(version) = written else { return world.counts.add(Count::Failed) };
        world.counts.add(Count::Writes);
        // A delete that a router has logged is still to come.
        if let Some(calm) = calm.filter(|_| is_delivered && !world.owes_deletes()) {
            world.truth.sight.confirmed(row, version, calm);
        }
    }

    fn read(&mut self, row: usize) {
        let (world, cache) = (self.world, self.cache().clone());
        let (begun, before, time) = (world.truth.begin(row), cache.counters(), Stopwatch::start());
        let found = cache.get_or_fill(&key(row), |_| {
            let (version, text) = self.door.read(row)?;
            Ok::<_, Unanswered>(Some(Value::new(text).with_version(version)))
        });
        self.state.reads.note(1, time.elapsed());
        if cache.counters().failures > before.failures {
            self.go_to_the_other_router();
        }
        let Ok(found) = found else { return world.counts.add(Count::Failed) };
        world.counts.add(Count::Reads);
        let version = found.as_ref().and_then(Value::version).unwrap_or(0);
        let verdict = world.truth.judge(begun, version, || world.given_to_gutter());
        if verdict.is_stale {
            world.counts.add(Count::Stale);
        }
        if verdict.is_judged {
            world.counts.add(Count::Judged);
        }
        if let Some(why) = verdict.wrong {
            self.wrong(why);
        }
        if found.is_none_or(|value| value.data() != text(row).as_bytes()) {
            self.wrong(format!("row {row} was read with the text of another row"));
        }
    }

    fn wrong(&self, why: String) {
        self.world.counts.add(Count::Wrong);
        self.world.events.wrong(format!("{} at router-{}: {why}", self.name, self.router));
    }

    fn go_to_the_other_router(&mut self) {
        self.world.counts.add(Count::Retries);
        self.router = (self.router + 1) % self.state.caches.len();
    }
}

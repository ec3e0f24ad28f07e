//! Random faults for some time, and their outcome.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::random::Random;
use guira_protocol::client::Reply;
use guira_regions::judge::lock;
use guira_sync::clock::Stopwatch;

use crate::counts::{Count, Seen, Sums};
use crate::faults::{Among, KINDS, LENGTHS, inflict, take};
use crate::outcome::{Chaos, Outcome};
use crate::part::Role;
use crate::programs::open;
use crate::rows::{Door, ROWS, key};
use crate::world::World;

/// The longest time in which the region recovers from all faults, and reports that.
const SETTLING_MAX: Duration = Duration::from_secs(120);
/// The faults of one lane follow each other, so that not all parts which stand in for each other
/// are broken at once.
const LANES: [&[Role]; 2] = [
    &[Role::Node, Role::Gutter, Role::Member, Role::Etcd],
    &[Role::Router, Role::Database, Role::Invalidator],
];
/// The longest fault and pause, in milliseconds; shorter if less time is left.
const FAULT_MAX_MS: u64 = 8000;
const PAUSE_MAX_MS: u64 = 3000;

/// Starts random faults on a thread of its own, unless they are running already.
///
/// # Errors
/// The reason that they cannot start.
pub(crate) fn begin(world: &Arc<World>, seed: u64, length: Duration) -> Result<(), String> {
    check(length)?;
    let mut chaos = lock(&world.chaos);
    if chaos.as_ref().is_some_and(|chaos| chaos.outcome.is_none()) {
        return Err("random faults are already in progress".to_owned());
    }
    let kept = world.clone();
    let work = move || {
        let outcome = run(&kept, seed, length);
        *lock(&kept.chaos) = Some(Chaos { seed, outcome: Some(outcome) });
    };
    thread::Builder::new().name("chaos".to_owned()).spawn(work).map_err(|error| error.to_string())?;
    *chaos = Some(Chaos { seed, outcome: None });
    Ok(())
}

/// Checks that random faults may last this long.
///
/// # Errors
/// The allowed range.
pub(crate) fn check(length: Duration) -> Result<(), String> {
    if LENGTHS.contains(&length) {
        return Ok(());
    }
    Err(format!("random faults last from {:?} to {:?}", LENGTHS.start(), LENGTHS.end()))
}

fn run(world: &Arc<World>, seed: u64, length: Duration) -> Outcome {
    world.events.event(format!("random faults for {length:?}, seed {seed}"));
    let (before, time) = (world.sums(), Stopwatch::start());
    let done = Mutex::new(BTreeMap::<String, u64>::new());
    thread::scope(|scope| {
        for (number, roles) in LANES.into_iter().enumerate() {
            let (random, done) = (Random::new(seed * 1000 + 900 + number as u64), &done);
            scope.spawn(move || lane(world, roles, random, time, length, done));
        }
    });
    let mut wrong = Vec::new();
    if let Err(why) = settle(world) {
        wrong.push(why);
    }
    let after = world.sums();
    let (held, differences) = compare(world);
    wrong.extend(differences);
    let mut all = world.events.all_wrong();
    all.extend(wrong);
    if Seen::between(&before, &after).reads == 0 || count(&before, &after, Count::Judged) == 0 {
        all.push("no reads were verified".to_owned());
    }
    let summary = summary(seed, time.elapsed(), &before, &after, held, &lock(&done));
    world.events.event("random faults are over".to_owned());
    Outcome { summary, wrong: all }
}

fn count(before: &Sums, after: &Sums, count: Count) -> u64 {
    after.counts[count as usize] - before.counts[count as usize]
}

/// Injects one fault after the other.
fn lane(
    world: &World,
    roles: &[Role],
    mut random: Random,
    time: Stopwatch,
    length: Duration,
    done: &Mutex<BTreeMap<String, u64>>,
) {
    let of_length = |most: u64| (length.as_millis() as u64 / 3).clamp(200, most);
    while time.elapsed() < length {
        let pause = Duration::from_millis(100 + random.below(of_length(PAUSE_MAX_MS)));
        if world.stop.wait(pause).is_err() || time.elapsed() >= length {
            return;
        }
        let role = random.pick(roles);
        let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| KINDS[*kind].breaks(role)).collect();
        let kind = &KINDS[random.pick(&kinds)];
        let fault = Duration::from_millis(100 + random.below(of_length(FAULT_MAX_MS)));
        // The region may have no database.
        if let Ok(part) = take(world, kind, Some(role.name()), Among::All, &mut random) {
            *lock(done).entry(format!("{} {}", kind.verb, role.name())).or_default() += 1;
            inflict(world, kind, part, fault);
        }
    }
}

/// Waits until all deletes have reached the caches.
fn settle(world: &World) -> Result<(), String> {
    let is_calm = || world.truth.sight.calm().map(drop);
    if Deadline::after(SETTLING_MAX).poll(is_calm).is_none() {
        return Err(format!(
            "some deletes have not reached the caches {SETTLING_MAX:?} after the last fault"
        ));
    }
    // Operations that were in flight when the region became calm end within two more rounds.
    let before = world.followed.rounds();
    let done = || (world.followed.rounds() >= before + 2).then_some(());
    Deadline::after(SETTLING_MAX)
        .poll(done)
        .ok_or_else(|| "the invalidator did not reach the end of the log".to_owned())
}

/// Compares all caches with the database. Returns the number of cached values, and those that are
/// outdated.
fn compare(world: &World) -> (usize, Vec<String>) {
    let mut door = Door::of(&world.rows);
    // Read before the caches are, since these may have newer values.
    let versions_of = || door.versions().ok();
    let Some(versions) = Deadline::after(SETTLING_MAX).poll(versions_of) else {
        return (0, vec!["the database does not reply after the faults".to_owned()]);
    };
    // By then the deletes of those writes have arrived, and a node that lost its slot is flushed
    // before it becomes a spare.
    if let Err(why) = settle(world) {
        return (0, vec![why]);
    }
    let have_places =
        || (world.look_at_slots() && world.snapshot().has_place_for_all(&world.parts)).then_some(());
    if Deadline::after(SETTLING_MAX).poll(have_places).is_none() {
        return (0, vec!["a node neither serves a slot nor is a spare after the faults".to_owned()]);
    }
    let (mut held, mut differences) = (0, Vec::new());
    for part in world.parts.iter().filter(|part| matches!(part.role(), Role::Node | Role::Gutter)) {
        let Some(found) = part.socket().and_then(|socket| contents(socket)) else {
            differences.push(format!("{} does not reply after the faults", part.name));
            continue;
        };
        held += found.len();
        for (row, version) in found {
            let is_old = version < versions[row];
            let may_be = part.role() == Role::Gutter && world.truth.may_be_in_gutter(row, version);
            if is_old && !may_be {
                differences.push(format!(
                    "{} ({}) has version {version} of row {row} after the faults, but the database has {}: a delete was lost",
                    part.name,
                    world.snapshot().duty(part),
                    versions[row]
                ));
            }
        }
    }
    (held, differences)
}

/// The rows in a cache, with their versions.
fn contents(socket: &std::path::Path) -> Option<Vec<(usize, u64)>> {
    let mut connection = open(socket)?;
    let mut found = Vec::new();
    for row in 0..ROWS {
        connection.send(format!("get {}\r\n", key(row)).as_bytes()).ok()?;
        let Reply::Value(value) = connection.reply().ok()? else { continue };
        // The first eight bytes are the version.
        let version = value.value.first_chunk()?;
        found.push((row, u64::from_be_bytes(*version)));
        connection.reply().ok()?;
    }
    Some(found)
}

fn summary(
    seed: u64,
    length: Duration,
    before: &Sums,
    after: &Sums,
    held: usize,
    done: &BTreeMap<String, u64>,
) -> String {
    let seen = Seen::between(before, after);
    let ms = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1?}"));
    let mut text = format!(
        "seed {seed}, {:.0} s: {} reads, {} writes, {} of them failed, {} misses, {} retries; 50 % of reads within {}, 99 % within {}\n",
        length.as_secs_f64(),
        seen.reads,
        seen.writes,
        seen.failed,
        seen.misses,
        seen.retries,
        ms(seen.median),
        ms(seen.p99),
    );
    let _ = writeln!(
        text,
        "{} reads were verified, {} were older than the last commit, {} wrong; the caches have {held} values after the faults",
        count(before, after, Count::Judged),
        seen.stale,
        seen.wrong,
    );
    let faults: Vec<String> = done.iter().map(|(what, times)| format!("{what} {times}")).collect();
    let _ = writeln!(text, "faults: {}", faults.join(", "));
    text
}

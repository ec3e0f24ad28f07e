//! Random faults for a while, and what comes of them in the end.

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

/// How long everything may take to be well again, and to say so.
const SETTLING_MAX: Duration = Duration::from_secs(120);
/// Faults of one lane are one after the other: so not all that can stand in for each other is broken at once.
const LANES: [&[Role]; 2] = [
    &[Role::Node, Role::Gutter, Role::Member, Role::Etcd],
    &[Role::Router, Role::Database, Role::Invalidator],
];
/// The longest fault and pause, in milliseconds; less if there is less time.
const FAULT_MAX_MS: u64 = 8000;
const PAUSE_MAX_MS: u64 = 3000;

/// Begins, unless faults are being injected already, in a thread of its own.
///
/// # Errors
/// Why that cannot be.
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

/// Whether random faults can last so long.
///
/// # Errors
/// Why they cannot.
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

/// One fault after the other.
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
        // There may be no database here.
        if let Ok(part) = take(world, kind, Some(role.name()), Among::All, &mut random) {
            *lock(done).entry(format!("{} {}", kind.verb, role.name())).or_default() += 1;
            inflict(world, kind, part, fault);
        }
    }
}

/// Waits until all deletes have come to the caches.
fn settle(world: &World) -> Result<(), String> {
    let is_calm = || world.truth.sight.calm().map(drop);
    if Deadline::after(SETTLING_MAX).poll(is_calm).is_none() {
        return Err(format!(
            "some deletes have not reached the caches {SETTLING_MAX:?} after the last fault"
        ));
    }
    // What was under way when it was seen to be calm is done when two more looks have come to their end.
    let before = world.followed.rounds();
    let done = || (world.followed.rounds() >= before + 2).then_some(());
    Deadline::after(SETTLING_MAX)
        .poll(done)
        .ok_or_else(|| "the invalidator did not reach the end of the log".to_owned())
}

/// Holds what all caches have against the database. Returns how many values they have, and those that are older.
fn compare(world: &World) -> (usize, Vec<String>) {
    let mut door = Door::of(&world.rows);
    // Taken before the caches are queried: what they have may be newer.
    let versions_of = || door.versions().ok();
    let Some(versions) = Deadline::after(SETTLING_MAX).poll(versions_of) else {
        return (0, vec!["the database does not reply after the faults".to_owned()]);
    };
    // Deletes of what was written until then have come, and whoever has lost its slot is emptied before it is a spare.
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

/// The rows that a cache has, with their versions.
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

//! What goes wrong.

use super::world::{Door, ROWS, World, wait_for};
use guira_regions::database::MariaDb;
use guira_regions::judge::lock;
use guira_regions::{Member, Region};
use guira_tests::deadline::Deadline;
use guira_tests::random::Random;
use std::time::Duration;

/// A fault: its name, and what it does until it has healed.
type Kind = (&'static str, fn(&World, &mut Random));

/// Of caches, routers, and pools of markers.
pub(super) const CACHES: &[Kind] = &[
    ("node killed", |world, random| of_node(world, random, Harm::Kill)),
    ("node frozen", |world, random| of_node(world, random, Harm::Freeze)),
    ("router killed", |world, random| of_router(world, random, Duration::from_secs(2))),
    ("router away", |world, random| of_router(world, random, Duration::from_secs(60))),
    ("markers killed", |world, random| of_markers(world, random, Harm::Kill)),
    ("markers frozen", |world, random| of_markers(world, random, Harm::Freeze)),
];

/// Of databases: one at a time, since a replica that is away needs its master's log.
pub(super) const DATABASES: &[Kind] = &[
    ("master restarted", |world, _| interrupt(world, 0, MariaDb::restart)),
    ("replica restarted", |world, _| interrupt(world, 1, MariaDb::restart)),
    ("master killed", |world, _| interrupt(world, 0, MariaDb::crash)),
    ("replica killed", |world, _| interrupt(world, 1, MariaDb::crash)),
    ("log purged", purge),
    ("table altered", alter),
    ("many rows", |world, _| change_all(world)),
];

pub(super) const OTHERS: &[Kind] = &[("invalidator killed", kill_invalidator), ("disk full", fill_disk)];

/// The names of all of them.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    [CACHES, DATABASES, OTHERS].into_iter().flatten().map(|(name, _)| *name)
}

/// One after the other, until the end.
pub(super) fn go_on(world: &World, kinds: &[Kind], mut random: Random) {
    while world.is_used() {
        world.wait(Duration::from_millis(500 + random.below(6000)));
        if !world.is_used() {
            return;
        }
        let (name, harm) = random.pick(kinds);
        world.fault(name, "begins");
        harm(world, &mut random);
        world.fault_ended(name);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Kill,
    Freeze,
}

/// Harms a member of these clusters for a while.
fn to(world: &World, random: &mut Random, clusters: &[usize], member: &Member, harm: Harm, most: Duration) {
    clusters.iter().for_each(|cluster| world.sights[*cluster].fault_begins());
    let pause = Duration::from_millis(random.below(most.as_millis() as u64 + 1));
    match harm {
        Harm::Kill => {
            member.kill();
            world.wait(pause);
            member.start_again();
        }
        Harm::Freeze => {
            member.freeze();
            world.wait(pause);
            member.thaw();
        }
    }
    clusters.iter().for_each(|cluster| world.sights[*cluster].fault_ends());
}

fn of_node(world: &World, random: &mut Random, harm: Harm) {
    let number = random.below(world.clusters() as u64) as usize;
    let nodes = world.cluster(number).1.nodes();
    let node = &nodes[random.below(nodes.len() as u64) as usize];
    to(world, random, &[number], node, harm, Duration::from_secs(8));
}

fn of_router(world: &World, random: &mut Random, most: Duration) {
    let number = random.below(world.clusters() as u64) as usize;
    to(world, random, &[number], world.cluster(number).1.entrance(), Harm::Kill, most);
}

fn of_markers(world: &World, random: &mut Random, harm: Harm) {
    let markers = world.regions[1].markers.as_ref().expect("a pool of markers");
    to(world, random, &[1, 2], markers, harm, Duration::from_secs(3));
}

fn interrupt(world: &World, region: usize, how: impl FnOnce(&MariaDb)) {
    let database = &world.regions[region].database;
    how(database);
    wait_for(database);
}

/// Changes all rows in one transaction.
fn change_all(world: &World) {
    let text = "BEGIN; UPDATE shop.rows SET version = version + 1, writer = 'all'; SET SESSION group_concat_max_len = 1000000; \
                SELECT GROUP_CONCAT(version ORDER BY id) INTO @versions FROM shop.rows; COMMIT; SELECT @versions";
    let rows: Vec<usize> = (0..ROWS).collect();
    // A deadlock, or a database that is away, leaves everything as it was, or as nobody knows.
    if let Ok(versions) = Door::of(&world.regions[0].database).row(text) {
        let _ = world.committed(&rows, &versions, "all");
    }
}

/// A new column before all others but the first.
fn alter(world: &World, random: &mut Random) {
    let statement =
        format!("ALTER TABLE shop.rows ADD COLUMN extra{:x} INT DEFAULT 7 AFTER id", random.bits());
    let _ = world.regions[0].database.run(&statement);
}

fn kill_invalidator(world: &World, random: &mut Random) {
    let number = random.below(2) as usize;
    let _one = lock(&world.of_invalidators[number]);
    let invalidator = &world.regions[number].invalidator;
    invalidator.kill();
    world.wait(Duration::from_millis(random.below(4000)));
    invalidator.start_again();
}

fn fill_disk(world: &World, random: &mut Random) {
    let Some(disk) = &world.disk else { return };
    // Whoever deletes is told that it cannot be logged.
    disk.take_all();
    world.wait(Duration::from_millis(random.below(8000)));
    disk.give();
}

/// Whether the replica has all of the master's log, and waits for more.
fn is_followed(regions: &[Region; 2]) -> bool {
    let Ok(position) = regions[0].database.run("SELECT @@gtid_binlog_pos") else { return false };
    let number = |text: &str| text.trim().rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    let Ok(status) = regions[1].database.run("SHOW SLAVE STATUS\\G") else { return false };
    let value =
        |name: &str| status.lines().find_map(|line| line.trim().strip_prefix(name).map(str::to_owned));
    let has = value("Gtid_IO_Pos: ").and_then(|position| number(&position));
    value("Slave_IO_Running: ").as_deref() == Some("Yes") && has >= number(&position)
}

/// The invalidator of a region is away while the log that it has not read is purged.
fn purge(world: &World, random: &mut Random) {
    let number = random.below(2) as usize;
    let _one = lock(&world.of_invalidators[number]);
    let (region, database) = (&world.regions[number], &world.regions[number].database);
    // A replica whose master has purged what it needs is lost.
    if number == 0
        && Deadline::after(Duration::from_secs(10))
            .poll(|| is_followed(&world.regions).then_some(()))
            .is_none()
    {
        return;
    }
    region.invalidator.kill();
    world.wait(Duration::from_millis(2000 + random.below(2000)));
    database.execute("FLUSH BINARY LOGS");
    let newest = database.execute("SHOW MASTER STATUS");
    let newest = newest.split_whitespace().next().expect("a file");
    // A file is kept as long as the database believes that its reader is there.
    let is_purged = || {
        database.execute(&format!("PURGE BINARY LOGS TO '{newest}'"));
        (database.execute("SHOW BINARY LOGS").lines().count() == 1).then_some(())
    };
    let purged = Deadline::after(Duration::from_secs(10)).poll(is_purged);
    region.invalidator.start_again();
    let gap = || region.metric("guira_invalidator_gaps_total").filter(|gaps| *gaps > 0);
    if purged.is_some() && Deadline::after(Duration::from_secs(10)).poll(gap).is_some() {
        world.fault("gap", "flushed");
    }
}

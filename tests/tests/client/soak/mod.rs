//! A random history of two regions with all faults at once: every read is judged while it runs, and in the end every key in every cache is what
//! the database says, or is not there.
//!
//! ```text
//! master ──► invalidator ──► router ──► two nodes                the region of the master
//!    │ a lag of a second
//! replica ─► invalidator ─┬► router ──► a node                   two clusters of the replica's region
//!                         ├► router ──► a node
//!                         └► the pool of their remote markers
//! both invalidators ──► the checker, which looks at all clusters
//! ```

mod checker;
mod harm;
mod user;
mod world;

use guira_tests::random::Random;
use guira_tests::skip;
use harm::{CACHES, DATABASES, OTHERS};
use std::time::Duration;
use user::User;
use world::World;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
/// `GUIRA_SOAK_SECONDS` is another time.
const SECONDS: u64 = 600;
const USERS_OF_CLUSTER: usize = 3;

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

#[test]
#[ignore = "takes ten minutes"]
fn a_random_history_of_two_regions_leaves_nothing_old() {
    let (seed, seconds) = (number_of("GUIRA_CLIENT_SEED", SEED), number_of("GUIRA_SOAK_SECONDS", SECONDS));
    let Some(world) = World::start(seed) else {
        return skip::say("MariaDB is not installed (Debian: mariadb-server)");
    };
    println!("{seconds} s, seed {seed}");
    std::thread::scope(|scope| {
        let (world, began) = (&world, world.history.began());
        scope.spawn(move || world.guarded(|| world.checker.watch(world, began)));
        for cluster in 0..world.clusters() {
            scope.spawn(move || world.guarded(|| world.follow(cluster)));
            for number in 0..USERS_OF_CLUSTER {
                scope.spawn(move || world.guarded(|| User::new(world, cluster, number).live()));
            }
        }
        for (number, kinds) in [CACHES, DATABASES, OTHERS].into_iter().enumerate() {
            let random = Random::new(seed * 1000 + 900 + number as u64);
            scope.spawn(move || world.guarded(|| harm::go_on(world, kinds, random)));
        }
        world.wait(Duration::from_secs(seconds));
        world.end_users();
        world.guarded(|| world.settle());
        world.guarded(|| world.checker.finish(world, began));
        world.end();
    });
    world.compare();
    world.report(seconds >= SECONDS);
}

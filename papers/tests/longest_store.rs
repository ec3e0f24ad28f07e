//! The longest that a store takes while the table grows and memory is committed, with a thread that commits ahead and without one.
//!
//! `cargo test --manifest-path papers/Cargo.toml --release --test longest_store -- --ignored --nocapture`

use guira_contract::{CommitAhead, Engine, Expiry, Opened};
use guira_harness::driver::{Driver, Maintenance};
use guira_harness::process::thread_cpu_s;
use guira_roster::{Choice, Host, HugePages, Setup};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_sync::clock::{Seconds, Stopwatch};

const NOW: Seconds = Seconds(1000);
const KEYS: u64 = 8_000_000;
const MEMORY: usize = 1 << 30;
const BATCH: u64 = 32;

/// Upper ends of the histogram, in microseconds.
const ENDS: [f64; 6] = [10.0, 100.0, 1e3, 3e3, 10e3, f64::INFINITY];

/// What was measured of many things of a kind, in microseconds.
#[derive(Default)]
struct Times {
    longest: f64,
    longest_wall: f64,
    counts: [u64; ENDS.len()],
}

impl Times {
    fn note(&mut self, cpu_us: f64, wall_us: f64) {
        self.longest = self.longest.max(cpu_us);
        self.longest_wall = self.longest_wall.max(wall_us);
        let bin = ENDS.iter().position(|end| cpu_us < *end).unwrap_or(ENDS.len() - 1);
        self.counts[bin] += 1;
    }

    fn show(&self, what: &str) {
        let Times { longest, longest_wall, counts } = self;
        println!("{what:40} longest {longest:7.0} us of processor time, {longest_wall:7.0} us; {counts:?}");
    }
}

/// What is measured.
#[derive(Clone, Copy)]
struct Measured {
    name: &'static str,
    pages: HugePages,
    is_helped: bool,
}

impl Host for Measured {
    type Output = ();

    fn run<E: Engine + Clone>(self, opened: Opened<E>) {
        let (engine, over) = (opened.engine, AtomicBool::new(false));
        let Measured { name, pages, is_helped } = self;
        std::thread::scope(|scope| {
            let helper = is_helped.then(|| {
                let (engine, over) = (engine.clone(), &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        match engine.commit_ahead() {
                            CommitAhead::Committed => {}
                            CommitAhead::Idle => std::thread::park(),
                            CommitAhead::Unsupported => return,
                        }
                    }
                })
            });
            let ahead = if is_helped { "ahead" } else { "" };
            fill(&engine, &format!("{name} {pages:?} {ahead}"));
            over.store(true, Ordering::Relaxed);
            if let Some(helper) = helper {
                helper.thread().unpark();
            }
        });
    }
}

fn fill<E: Engine>(engine: &E, what: &str) {
    let mut driver: Driver<E::Session, 32> =
        Driver::new(engine.session(), Maintenance { every: 1, steps: 32 });
    let (mut stores, mut maintenance) = (Times::default(), Times::default());
    for i in 0..KEYS {
        let key = format!("key-{i:012}");
        let (wall, begin) = (Stopwatch::start(), thread_cpu_s());
        let lookup = driver.look_up(key.as_bytes());
        driver.set(key.as_bytes(), lookup, &[7; 32], Expiry::Never, NOW).expect("there is memory");
        stores.note((thread_cpu_s() - begin) * 1e6, wall.elapsed().as_secs_f64() * 1e6);
        if i % BATCH == 0 {
            let (wall, begin) = (Stopwatch::start(), thread_cpu_s());
            driver.end_batch(NOW);
            maintenance.note((thread_cpu_s() - begin) * 1e6, wall.elapsed().as_secs_f64() * 1e6);
        }
    }
    println!("{what}: {} of {KEYS} items are left", engine.stats().items);
    stores.show(what);
    maintenance.show(&format!("{what}, maintenance"));
}

#[test]
#[ignore = "a measurement"]
fn the_longest_store_while_memory_is_committed() {
    println!("counts below {ENDS:?} us of processor time");
    let mut nothing = Times::default();
    for _ in 0..KEYS {
        let (wall, begin) = (Stopwatch::start(), thread_cpu_s());
        nothing.note((thread_cpu_s() - begin) * 1e6, wall.elapsed().as_secs_f64() * 1e6);
    }
    nothing.show("nothing");
    for pages in [HugePages::Requested, HugePages::No] {
        for name in ["memc3", "classic", "fleec", "mica"] {
            for is_helped in [false, true] {
                if is_helped && !["memc3", "classic"].contains(&name) {
                    continue;
                }
                let choice = Choice::new(name, None, None).expect("there is such an engine");
                let mut setup = Setup::new(MEMORY, 1 << 20, 1);
                setup.engine.huge_pages = Some(pages);
                choice.open(&setup, Measured { name, pages, is_helped }).expect("there is address space");
            }
        }
    }
}

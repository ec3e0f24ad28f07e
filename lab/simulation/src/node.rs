//! One node, clients that check their replies, and faults.

use crate::client::{Client, Counts};
use crate::options::Options;
use guira_server::{GivenOptions, Options as NodeOptions, Secrets};
use guira_world::lock::Mutex;
use guira_world::net::{Faults, cut, heal, set_faults, set_host};
use guira_world::scheduler::{Process, current_process, draw, freeze, kill, start};
use guira_world::thread::{park, sleep, spawn};
use guira_world::{Outcome, run as run_world, time};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ENGINES: [&str; 5] = ["memc3", "classic", "fleec", "mica", "mica:erew"];
const CLIENTS: u32 = 4;
/// How long clients work, in the world's time.
const TIME: Duration = Duration::from_secs(20);

fn host(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

/// What a run has found.
#[derive(Clone, Debug, Default)]
struct Found {
    counts: Counts,
    kills: u64,
    faults: Vec<String>,
}

/// Runs the seeds.
#[expect(clippy::disallowed_methods, reason = "how fast the simulation is, is measured outside of the world")]
pub(crate) fn run(options: &Options) -> ExitCode {
    let begin = Instant::now();
    let (mut simulated, mut steps, mut total) = (Duration::ZERO, 0, Found::default());
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let outcome = run_seed(seed);
        simulated += outcome.time;
        steps += outcome.steps;
        let found = outcome.result.unwrap_or_default();
        let wrong: Vec<String> = found
            .faults
            .into_iter()
            .chain(outcome.panics.into_iter().map(|(task, text)| format!("{task} panicked: {text}")))
            .chain(outcome.stuck.into_iter().map(|task| format!("{task} waits for ever")))
            .collect();
        if !wrong.is_empty() {
            println!("seed {seed}: {}\nrepeat with --seed {seed}", wrong.join("\n"));
            return ExitCode::FAILURE;
        }
        total.counts.writes += found.counts.writes;
        total.counts.reads += found.counts.reads;
        total.counts.hits += found.counts.hits;
        total.counts.failures += found.counts.failures;
        total.kills += found.kills;
    }
    let took = begin.elapsed().as_secs_f64();
    let Counts { writes, reads, hits, failures } = total.counts;
    println!(
        "{} seeds from {}: {writes} writes, {reads} reads ({hits} hits), {failures} failed, {} kills; {:.0} s in {took:.1} s, {:.0} times as fast; {:.2} million steps a second",
        options.seeds,
        options.seed,
        total.kills,
        simulated.as_secs_f64(),
        simulated.as_secs_f64() / took,
        steps as f64 / took / 1e6,
    );
    ExitCode::SUCCESS
}

fn run_seed(seed: u64) -> Outcome<Found> {
    let options = guira_world::Options { switch_every: 2 << (seed % 6), ..guira_world::Options::of(seed) };
    run_world(options, move || scenario(ENGINES[seed as usize % ENGINES.len()]))
}

fn scenario(engine: &'static str) -> Found {
    set_host(current_process(), host(2));
    let server = SocketAddr::new(host(1), 11211);
    set_faults(Faults { resets: 500, ..Faults::default() });
    let mut node = start_node(engine, server);
    let found = Arc::new(Mutex::new(Found::default()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let found = found.clone();
            spawn(move || work(Client::new(number, server), &found))
        })
        .collect();
    while time::now() < TIME {
        sleep(Duration::from_millis(draw(2_000)));
        match draw(4) {
            0 => {
                kill(node);
                found.lock().kills += 1;
                sleep(Duration::from_millis(draw(300)));
                node = start_node(engine, server);
            }
            1 => freeze(node, Duration::from_millis(draw(4_000))),
            2 => {
                let (from, to) = if draw(2) == 0 { (1, 2) } else { (2, 1) };
                cut(host(from), host(to));
                sleep(Duration::from_millis(draw(3_000)));
                heal(host(from), host(to));
            }
            _ => {}
        }
    }
    for client in clients {
        if client.join().is_err() {
            break;
        }
    }
    let found = found.lock().clone();
    found
}

fn work(mut client: Client, found: &Mutex<Found>) {
    while time::now() < TIME && found.lock().faults.is_empty() {
        if let Err(fault) = client.act() {
            found.lock().faults.push(fault);
        }
        sleep(Duration::from_micros(draw(20_000)));
    }
    let mut found = found.lock();
    found.counts.writes += client.counts.writes;
    found.counts.reads += client.counts.reads;
    found.counts.hits += client.counts.hits;
    found.counts.failures += client.counts.failures;
}

fn start_node(engine: &'static str, server: SocketAddr) -> Process {
    let process = start("node", move || {
        set_host(current_process(), server.ip());
        let options = node_options(engine, server);
        let secrets = Secrets::load(&options).expect("there are none");
        let _running = guira_node::start_after(&options, secrets, Vec::new(), None).expect("a node starts");
        loop {
            park();
        }
    });
    set_host(process, server.ip());
    process
}

fn node_options(engine: &str, server: SocketAddr) -> NodeOptions {
    let (name, access) = engine.split_once(':').map_or((engine, None), |(name, access)| (name, Some(access)));
    let mut given = GivenOptions::new();
    given.insert("listen", vec![server.to_string()]);
    given.insert("memory", vec!["8MiB".to_owned()]);
    given.insert("workers", vec!["2".to_owned()]);
    given.insert("engine", vec![name.to_owned()]);
    given.extend(access.map(|access| ("access", vec![access.to_owned()])));
    NodeOptions::read(&given).expect("a node can have these options")
}

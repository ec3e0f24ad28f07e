//! Servers on another host, of whose packets some are lost: a network namespace with a filter.

use std::process::Command;
use std::time::Duration;

use guira_harness::netns::Netns;
use guira_harness::server::{ServerProcess, Spec};
use guira_sync::atomic::Ordering;
use guira_workload::Rng;

use super::fleet::{Router, only};
use super::stops::Progress;
use super::{Failures, as_text};
use crate::plan::Plan;

const CLIENTS: u64 = 4;
/// Packets of a hundred that are lost, in either direction.
const LOST: u32 = 3;
/// The part of the replies of the other stages that is waited for: each packet that is lost takes a fifth of a second.
const PART: u64 = 50;
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A namespace whose packets get lost, if this machine can have one.
fn lossy() -> Result<Netns, String> {
    let netns = Netns::create().map_err(as_text)?;
    let rule = format!("numgen random mod 100 < {LOST} counter drop");
    let chains = [("input", "iifname"), ("output", "oifname")].map(|(hook, interface)| {
        format!("chain {hook} {{ type filter hook {hook} priority 0; meta {interface} != \"lo\" {rule}; }};")
    });
    let table = format!("table inet loss {{ {} }}", chains.concat());
    let output = netns.command("nft").arg(table).output().map_err(as_text)?;
    if output.status.success() {
        return Ok(netns);
    }
    Err(format!("nft refuses: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn start(plan: &Plan, netns: &Netns) -> Result<ServerProcess, String> {
    let [address, _] = netns.servers();
    let mut command: Command = netns.command(&plan.binary);
    command.args(["serve", "--workers", "1", "--memory", "64MiB", "--listen", &address.to_string()]);
    let mut process = ServerProcess::start(Spec::of_service(command)).map_err(as_text)?;
    process.wait_until_ready(WAIT_MAX).map_err(as_text)?;
    Ok(process)
}

pub(super) fn run(plan: &Plan) -> Result<Failures, String> {
    let netns = match lossy() {
        Ok(netns) => netns,
        Err(why) => {
            println!("  skipped: {why}");
            return Ok(Vec::new());
        }
    };
    let _process = start(plan, &netns)?;
    let [address, _] = netns.servers();
    let mut router = Router::start(&plan.binary, &only(&[address]), &[])?;
    let progress = Progress::default();
    std::thread::scope(|scope| {
        for name in 0..CLIENTS {
            let (progress, router) = (&progress, &router);
            scope.spawn(move || progress.run_client(router, name, Rng::part(plan.seed, name)));
        }
        while progress.goes_on() && progress.replies() < plan.replies / PART {
            std::thread::sleep(Duration::from_millis(20));
        }
        progress.is_over.store(true, Ordering::Relaxed);
    });
    let (answers, mut failures) = progress.end();
    println!(
        "  {} replies, {} hits, {} errors; {LOST} % of the packets are lost both ways",
        answers.replies, answers.hits, answers.errors
    );
    if failures.is_empty() && (answers.errors == 0 || answers.hits == 0) {
        failures.push("without errors, or without hits, nothing was tried".to_owned());
    }
    failures.extend(router.failures());
    Ok(failures)
}

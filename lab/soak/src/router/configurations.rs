//! Frequent new configurations, half of them broken, while clients send requests.

use std::fs;
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_sync::atomic::Ordering;
use guira_workload::Rng;

use super::fleet::{Node, Router, only};
use super::stops::Progress;
use super::{Failures, as_text};
use crate::line::Line;
use crate::plan::Plan;

const CLIENTS: u64 = 4;
/// How long a configuration may take to come into effect.
const WAIT_MAX: Duration = Duration::from_secs(30);
const AT_ONCE: [&str; 7] = [
    "--reconfiguration-delay-ms=0",
    "--file-observer-sleep-before-update-ms=0",
    "--file-observer-poll-period-ms=20",
    // No server hangs here, so that no request may fail.
    "--server-timeout-ms",
    "20000",
    "--timeouts-until-tko",
    "0",
];

pub(super) fn run(plan: &Plan) -> Result<Failures, String> {
    let nodes = (0..2).map(|_| Node::start(plan)).collect::<Result<Vec<_>, _>>()?;
    let both: Vec<_> = nodes.iter().map(|node| node.address).collect();
    // The keys move with every configuration.
    let whole = [only(&both[..1]), only(&both[1..]), only(&both)];
    let mut router = Router::start(&plan.binary, &whole[0], &AT_ONCE)?;
    let progress = Progress::default();
    let (file, address) = (router.file(), router.address);
    let mut broken = 0;
    std::thread::scope(|scope| {
        for name in 0..CLIENTS {
            let (progress, router) = (&progress, &router);
            scope.spawn(move || progress.run_client(router, name, Rng::part(plan.seed, name)));
        }
        let mut line = Line::open(address).map_err(as_text)?;
        let mut change = |number: u64| -> Result<(), String> {
            // Every whole one is another than the one before.
            let text = &whole[(number / 2 + 1) as usize % whole.len()];
            let refused = line.stat("config_failures").map_err(as_text)?;
            let before = line.request("get __mcrouter__.config_md5_digest\r\n").map_err(as_text)?;
            let digest = line.line().map_err(as_text)?;
            line.line().map_err(as_text)?;
            match number % 4 {
                0 => fs::write(&file, &text[..text.len() / 2]),
                2 => fs::write(&file, format!("{text}}}")),
                1 => fs::write(&file, text),
                _ => fs::write(file.with_extension("new"), text)
                    .and_then(|()| fs::rename(file.with_extension("new"), &file)),
            }
            .map_err(as_text)?;
            let is_broken = number.is_multiple_of(2);
            broken += u64::from(is_broken);
            let is_done = |line: &mut Line| -> Result<bool, std::io::Error> {
                if is_broken {
                    return Ok(line.stat("config_failures")? > refused);
                }
                line.request("get __mcrouter__.config_md5_digest\r\n")?;
                let now = line.line()?;
                line.line()?;
                Ok(now != digest)
            };
            let done = Deadline::after(WAIT_MAX).poll(|| match is_done(&mut line) {
                Ok(false) => None,
                other => Some(other.map(|_| ())),
            });
            done.ok_or_else(|| format!("configuration {number} has no effect: {before}"))?.map_err(as_text)
        };
        let changed = (0..plan.configurations).try_for_each(&mut change);
        progress.is_over.store(true, Ordering::Relaxed);
        changed
    })?;
    let (answers, mut failures) = progress.end();
    println!(
        "  {} replies beside {} configurations, {broken} of them broken",
        answers.replies, plan.configurations
    );
    if answers.errors > 0 {
        failures.push(format!("{} requests failed", answers.errors));
    }
    failures.extend(router.failures());
    Ok(failures)
}

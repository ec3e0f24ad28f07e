//! Statistics in all forms, and commands that change how the server works.

use std::time::Duration;

use guira_workload::Rng;

use super::{lines, wire};
use crate::client::{Wire, is_stall};
use crate::field::Field;
use crate::link::Carrier;

const PAUSE: Duration = Duration::from_millis(20);

/// Forms of `stats`, and the line that ends them.
const STATS: [(&str, &str); 13] = [
    ("stats", "END"),
    ("stats settings", "END"),
    ("stats items", "END"),
    ("stats slabs", "END"),
    ("stats sizes", "END"),
    ("stats conns", "END"),
    ("stats reset", "RESET"),
    ("stats detail on", "OK"),
    ("stats detail dump", "END"),
    ("stats detail off", "OK"),
    ("stats cachedump 1 100", "END"),
    ("stats cachedump 20 0", "END"),
    ("version", "VERSION"),
];

/// Policies with options of their own. Without options, the server lists them.
const WITH_OPTIONS: [&str; 4] = [
    "lazy-lru interval=1 tail_reclaim=on",
    "seg-lru temp_ttl=61",
    "klru samples=8",
    "klru priority=hyperbolic",
];

/// Commands with an answer of one line.
const VERBS: [&str; 12] = [
    "slabs reassign -1 5",
    "slabs reassign 2 9",
    "slabs reassign 40 1",
    "slabs reassign 3 0",
    "slabs automove 0",
    "slabs automove 1",
    "verbosity 0",
    "verbosity 1",
    "lru_crawler crawl all",
    "lru_crawler tocrawl 100",
    "lru mode segmented",
    "refresh_certs",
];

/// Sends queries and commands until the run ends. The server has `memory` MiB.
pub(crate) fn run(field: &Field, mut random: Rng, memory: u64) {
    let mut counters = field.counters();
    let mut policies: Vec<String> = Vec::new();
    while field.goes_on() {
        let Some(mut wire) = wire(field, Carrier::random(&mut random)) else { continue };
        if policies.is_empty() {
            policies = known_policies(&mut wire);
        }
        for _ in 0..30 {
            let (command, ends) = match random.below(8) {
                0..4 => {
                    let (command, end) = STATS[random.below(STATS.len() as u64) as usize];
                    (command.to_owned(), end)
                }
                4 if random.below(6) == 0 => {
                    (format!("cache_memlimit {}", memory / 2 + random.below(memory / 2 + 1)), "")
                }
                5 if random.below(3) == 0 => (format!("policy {}", one_of(&policies, &mut random)), ""),
                _ => (VERBS[random.below(VERBS.len() as u64) as usize].to_owned(), ""),
            };
            counters.one(match command.split(' ').next() {
                Some("stats") => "stats",
                Some("cache_memlimit") => "cache_memlimit",
                Some("policy") => "policy",
                Some("slabs") => "slabs reassign and automove",
                _ => "other commands",
            });
            if !command.starts_with("stats") {
                field.remember(&command);
            }
            match exchange(&mut wire, &command, ends) {
                Ok(answer) if answer.contains("MEMLIMIT_ADJUST_FAILED") => {
                    counters.one("cache_memlimit refused");
                }
                Ok(answer) if answer.starts_with("BUSY another policy") => {
                    counters.one("policy refused: busy")
                }
                Ok(answer) if answer.starts_with("ERROR Too many open") => break,
                Ok(answer) if answer.is_empty() || answer == "ERROR" => {
                    field.fail(format!("{answer:?} to {command}"));
                }
                Ok(_) => {}
                Err(error) => {
                    if is_stall(&error) {
                        field.fail(format!("no answer to {command}"));
                    }
                    break;
                }
            }
            field.pause(PAUSE);
            if !field.goes_on() {
                break;
            }
        }
    }
    // Restores the memory limit of the start for the rest of the run.
    let restored = wire(field, Carrier::Unix);
    if let Some(mut wire) = restored {
        let _ = exchange(&mut wire, &format!("cache_memlimit {memory}"), "");
    }
}

/// The last line of the answer.
fn exchange(wire: &mut Wire, command: &str, end: &str) -> std::io::Result<String> {
    wire.send(format!("{command}\r\n").as_bytes())?;
    let ends =
        if end.is_empty() { vec![""] } else { vec![end, "ERROR", "CLIENT_ERROR", "SERVER_ERROR", "BUSY"] };
    let mut all = lines(wire, &ends)?;
    Ok(all.pop().unwrap_or_default())
}

/// A policy of `policies`, or one with options.
fn one_of<'a>(policies: &'a [String], random: &mut Rng) -> &'a str {
    let number = random.below((policies.len() + WITH_OPTIONS.len()) as u64) as usize;
    policies.get(number).map_or_else(|| WITH_OPTIONS[number - policies.len()], String::as_str)
}

/// The policies without options: the server lists them in its reply to an unknown name. Empty if it
/// did not answer.
fn known_policies(wire: &mut Wire) -> Vec<String> {
    let answer = exchange(wire, "policy unknown", "").unwrap_or_default();
    let names = answer.trim_end().rsplit_once("there are: ").map_or("", |(_, names)| names);
    names.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

//! `guira-soak`: everything at once against a live server, with every answer checked.
//!
//! ```text
//! load:  checked writers and readers ── histories of keys ── every answer
//!        clients that misbehave, commands, lists, watchers, files, signals
//!        ──► guira serve ──► memory, descriptors, threads, log
//! full:  servers whose memory is full, every answer held against a model of what they hold
//! kills: a server with a region, stopped or killed at any moment, and started again
//! takeovers: a server that others take over from, under load
//! pauses: how long clients wait for a takeover of much memory; only when asked for
//! router: a router before servers that hang, die and are slow; only when asked for
//! ```
//!
//! It shares no code with the server: the protocols are written here a second time, so that one
//! mistake does not hide another.

#![forbid(unsafe_code)]

mod admin;
mod checked;
mod client;
mod field;
mod full;
mod history;
mod kills;
mod line;
mod link;
mod load;
mod pauses;
mod plan;
mod report;
mod rough;
mod router;
mod server;
mod speech;
mod takeovers;
mod value;
mod vitals;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::plan::Plan;

/// Everything at once against a live server, with every answer checked.
#[derive(Debug, Parser)]
#[command(name = "guira-soak", version, about)]
struct Args {
    /// Parts to run; all but `pauses` and `router` when left out.
    parts: Vec<Part>,
    #[arg(long, value_name = "PATH")]
    guira: PathBuf,
    /// The engine that the server runs; `mica:erew` names an access mode too.
    #[arg(long, value_name = "NAME", default_value = "memc3")]
    engine: String,
    /// The seed of all random choices; taken from the clock by default.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long the load lasts. Up to two minutes there is less of everything.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    seconds: u64,
    /// Memory of the server under load, and of the one whose pauses are measured.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: u64,
    /// How long each server is used whose memory is full.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    filling: u64,
    /// How often a server with a region is stopped or killed.
    #[arg(long, value_name = "N", default_value_t = 200)]
    kills: u64,
    /// How often a server takes over from another.
    #[arg(long, value_name = "N", default_value_t = 100)]
    takeovers: u64,
    /// Replies that are checked while the servers of a router hang and die.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    replies: u64,
    /// Configurations that a router is given under load.
    #[arg(long, value_name = "N", default_value_t = 200)]
    configurations: u64,
    /// Clients of a router that never read.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    crowd: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Everything at once.
    Load,
    /// Memory that is full.
    Full,
    /// A server that is killed and restarted.
    Kills,
    /// A server that others take over from.
    Takeovers,
    /// How long clients wait for takeovers.
    Pauses,
    /// A router before servers that misbehave.
    Router,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        binary: args.guira,
        engine: args.engine,
        seed: args.seed.unwrap_or_else(guira_sync::clock::wall_clock),
        length: Duration::from_secs(args.seconds),
        memory: args.memory,
        filling: Duration::from_secs(args.filling),
        kills: args.kills,
        takeovers: args.takeovers,
        replies: args.replies,
        configurations: args.configurations,
        crowd: args.crowd,
    };
    let all = vec![Part::Load, Part::Full, Part::Kills, Part::Takeovers];
    let parts = if args.parts.is_empty() { all } else { args.parts };
    let mut failures = Vec::new();
    for part in parts {
        let result = match part {
            Part::Load => load::run(&plan),
            Part::Full => full::run(&plan),
            Part::Kills => kills::run(&plan),
            Part::Takeovers => takeovers::run(&plan),
            Part::Pauses => pauses::run(&plan),
            Part::Router => router::run(&plan),
        };
        let failed = result.unwrap_or_else(|what| {
            println!("{part:?}: {what}");
            vec![what]
        });
        failures.extend(failed.into_iter().map(|failure| (part, failure)));
    }
    report::end(plan.seed, &failures)
}

//! What the papers claim, measured again: `make papers`.
//!
//! ```text
//!  experiments ──► outcomes ──► docs/results/papers/*.json, *.svg ──► docs/results/papers.md
//!  (memc3, klru)   (tables, charts, an answer to each claim)
//! ```
//!
//! An experiment is one file that answers one claim or several. What only an experiment needs (a table without tags,
//! an index under one lock) is a type beside it, over the building blocks of the engines, and never a switch in them.

#![forbid(unsafe_code)]

mod caches;
mod claims;
mod document;
mod experiment;
mod facebook;
mod figure;
mod fleec;
mod freshness;
mod klru;
mod memc3;
mod mica;
mod outcome;
mod results;
mod servers;
mod simulate;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use guira_load::clock::Date;

use crate::experiment::{Context, EXPERIMENTS, Experiment, Failure, Scale};
use crate::fleec::writes::{Turns, take_turns};
use crate::mica::echo::{EchoAt, send_back_at};
use crate::outcome::Filed;

/// Measures again what the papers claim, and writes it beside what they found.
#[derive(Debug, Parser)]
#[command(name = "guira-papers")]
struct Args {
    /// Experiments or claims to run, separated by commas (see --list); all when left out.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Tell what there is to run, and do nothing.
    #[arg(long)]
    list: bool,
    /// Write docs/results/papers.md anew from what was measured before, and run nothing.
    #[arg(long, conflicts_with = "only")]
    render: bool,
    /// Runs of each point; reported are their mean and their spread.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Smaller and shorter, to see whether it works: filed only where --docs says.
    #[arg(long, requires = "docs")]
    quick: bool,
    /// The folder where papers.md and the folder papers lie.
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// A memcached to compare with.
    #[arg(long, value_name = "FILE", default_value = "memcached")]
    memcached: PathBuf,
    /// Another memcached, such as the newest release, that facebook-rates compares with as well.
    #[arg(long, value_name = "FILE", env = "GUIRA_OTHER_MEMCACHED")]
    other_memcached: Option<PathBuf>,
    /// The guira to start as a server.
    #[arg(long, value_name = "FILE", default_value = "target/release/guira")]
    guira: PathBuf,
    /// The folder of the traces that are not in the repository.
    #[arg(long, value_name = "DIR", env = "GUIRA_TRACES")]
    traces: Option<PathBuf>,
    /// Be the process that `fleec-writes` watches.
    #[arg(long, hide = true, value_name = "ENGINE,SET_EACH,SESSIONS")]
    turns: Option<Turns>,
    /// Be the process that sends back what it gets, beside the servers of `mica-paths`.
    #[arg(long, hide = true, value_name = "ADDRESS:PORT,INTERFACE,MODE")]
    echo: Option<EchoAt>,
    /// Where all random numbers come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("guira-papers: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    if let Some(turns) = args.turns {
        return take_turns(turns);
    }
    if let Some(at) = &args.echo {
        return send_back_at(at);
    }
    if args.list {
        for experiment in EXPERIMENTS {
            println!("{:<22} {:<18} {}", experiment.name, experiment.claims.join(","), experiment.about);
        }
        return Ok(());
    }
    let docs = args.docs.clone().unwrap_or_else(|| PathBuf::from("docs/results"));
    if !args.render {
        let context = Context {
            runs: args.runs,
            scale: if args.quick { Scale::Quick } else { Scale::Full },
            seed: args.seed,
            memcached: args.memcached.clone(),
            other_memcached: args.other_memcached.clone(),
            guira: args.guira.clone(),
            docs: docs.clone(),
            traces: args.traces.clone(),
        };
        for experiment in chosen(&args.only)? {
            measure(experiment, &context, &docs)?;
        }
    }
    let text = document::render(&docs)?;
    write(&docs.join("papers.md"), &text)
}

/// The experiments that are called so, or that answer claims that are.
fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    let called = |experiment: &Experiment, name: &str| {
        experiment.name == name || experiment.claims.iter().any(|claim| claim.eq_ignore_ascii_case(name))
    };
    if let Some(unknown) = names.iter().find(|name| !EXPERIMENTS.iter().any(|one| called(one, name))) {
        return Err(Failure::Unknown(unknown.clone()));
    }
    let wanted = |one: &&Experiment| names.is_empty() || names.iter().any(|name| called(one, name));
    Ok(EXPERIMENTS.iter().copied().filter(wanted).collect())
}

fn measure(experiment: &Experiment, context: &Context, docs: &Path) -> Result<(), Failure> {
    eprintln!("{}: {}", experiment.name, experiment.about);
    let filed = Filed { measured: Date::today().to_string(), outcome: (experiment.run)(context)? };
    let folder = docs.join("papers");
    fs::create_dir_all(&folder).map_err(|source| Failure::File { path: folder.clone(), source })?;
    for chart in &filed.outcome.charts {
        write(&folder.join(format!("{}.svg", chart.name)), &chart.draw()?)?;
    }
    let json = serde_json::to_string_pretty(&filed).map_err(Failure::Json)?;
    write(&folder.join(format!("{}.json", experiment.name)), &(json + "\n"))?;
    print!("{}", document::section(experiment, &filed));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|source| Failure::File { path: path.to_owned(), source })
}

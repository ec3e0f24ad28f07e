//! Filing a bench: `<date>-<machine>/` with a README, the raw data and plots.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::columns::push;
use super::machine::{self, Machine};
use super::{LoadResult, Options, Results, Series, plot, routers, table};
use crate::clock::Date;
use crate::error::LoadError;
use crate::run::{Outcome, Record};

/// The contents of `results.json`.
#[derive(Debug, Serialize)]
struct Raw<'a> {
    date: String,
    machine: &'a Machine,
    versions: Vec<(String, String)>,
    command: &'a str,
    #[serde(flatten)]
    results: &'a Results,
}

#[derive(Debug, Serialize)]
struct RawLoad {
    load: &'static str,
    about: &'static str,
    server: String,
    rounds: Vec<Record>,
}

/// Writes the results into a new folder below `parent`; returns it. `machine` was read before the
/// bench, so that its load is that of other programs.
///
/// # Errors
/// When a file cannot be written or a plot not drawn.
pub fn file(
    results: &Results,
    options: &Options,
    machine: &Machine,
    command: &str,
    parent: &Path,
) -> Result<PathBuf, LoadError> {
    let date = Date::today();
    let dir = new_folder(parent, &format!("{date}-{}", machine.slug()))?;
    let mut versions = machine::versions(&options.servers);
    if !results.routed.is_empty() {
        versions.extend(routers::versions(options));
    }
    let plots = plot::draw(results, &dir)?;
    let raw = Raw { date: date.to_string(), machine, versions, command, results };
    let readme = readme(&raw, options, &plots);
    write(&dir.join("README.md"), readme.as_bytes())?;
    let path = dir.join("results.json");
    let json = serde_json::to_vec_pretty(&raw)
        .map_err(|error| LoadError::File { path: path.clone(), source: error.into() })?;
    write(&path, &json)?;
    Ok(dir)
}

/// Writes the rounds of all loads as one list.
pub(super) fn raw_loads<S: Serializer>(loads: &[LoadResult], serializer: S) -> Result<S::Ok, S::Error> {
    let of_load = |load: &LoadResult| {
        let (name, about) = (load.spec.name, load.spec.about);
        let of_server = move |series: &Series| RawLoad {
            load: name,
            about,
            server: series.server.clone(),
            rounds: series.rounds.iter().map(Outcome::record).collect(),
        };
        load.series.iter().map(of_server).collect::<Vec<_>>()
    };
    serializer.collect_seq(loads.iter().flat_map(of_load))
}

/// Makes `parent/name`, or `parent/name-2`, … when an earlier bench of the day has it.
pub(crate) fn new_folder(parent: &Path, name: &str) -> Result<PathBuf, LoadError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| LoadError::File { path, source }
    };
    fs::create_dir_all(parent).map_err(fail(parent))?;
    for attempt in 1_u32.. {
        let dir = if attempt == 1 { parent.join(name) } else { parent.join(format!("{name}-{attempt}")) };
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail(&dir)(error)),
        }
    }
    Err(LoadError::Options(format!("no free name for {name}")))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    fs::write(path, bytes).map_err(|source| LoadError::File { path: path.to_owned(), source })
}

fn readme(raw: &Raw<'_>, options: &Options, plots: &[&str]) -> String {
    let results = raw.results;
    let mut text = format!("# Bench of {}\n\n", raw.date);
    push(&mut text, format_args!("{}", machine_lines(raw.machine, &raw.versions)));
    push(&mut text, format_args!("- Command: `{}`\n", raw.command));
    if is_timed(results) {
        push_how(&mut text, options);
    }
    text.push('\n');
    text.push_str(&table::all(results));
    if !results.loads.is_empty() {
        text.push_str("\nThe loads:\n\n");
        for load in &results.loads {
            push(&mut text, format_args!("- **{}**: {}\n", load.spec.name, load.spec.about));
        }
        text.push_str(NOTES);
    }
    if !results.missed.is_empty() {
        text.push_str(MISSES_NOTES);
    }
    if !results.routed.is_empty() {
        text.push_str(routers::NOTES);
    }
    text.push('\n');
    plots.iter().for_each(|plot| push(&mut text, format_args!("![{plot}]({plot})\n")));
    text.push_str("\nEvery round is in [results.json](results.json).\n");
    text
}

/// Whether the results have times, and not only instruction counts, which are exact.
fn is_timed(results: &Results) -> bool {
    let counts = Results { counted: results.counted.clone(), ..Results::default() };
    results.counted.is_empty() || table::all(results) != table::all(&counts)
}

/// The number of rounds, and the processors.
fn push_how(text: &mut String, options: &Options) {
    push(
        text,
        format_args!(
            "- {} rounds of {:.1} s after {:.1} s of warm-up, the servers taking turns within each round\n",
            options.rounds,
            options.duration.as_secs_f64(),
            options.warmup.as_secs_f64()
        ),
    );
    let (server, client) = (list(&options.server_cores), list(&options.client_cores));
    push(text, format_args!("- Server on processor {server}, client on {client}\n"));
}

/// Notes for readers of the tables.
const NOTES: &str = "
How to read it: the figure is operations (keys of gets, and sets) divided by what the whole server process spent,
user and system time. Sets that follow misses are part of the cost and no operations of their own. `floor` reads the
requests, finds their ends and sends as many bytes as a cache would, without storing or looking up anything; for
loads with values of many sizes it answers with the mean size. Every reply's key, flags and length were compared, and
the contents of one value in 64. In `mixed` both caches are allowed the same memory, a tenth of the set's bytes;
guira counts its whole process in that, memcached only its items. The sizes are those of kvcache_reg from
facebook/CacheLib (Apache-2.0).
Loads over TLS use version 1.3 with AES-128-GCM: the client takes nothing else, and the floor encrypts too. Over UDP at
most 0.1 % of the requests were lost. A server without TLS or UDP has no figure there.
";

/// Notes for readers of the tables of misses.
const MISSES_NOTES: &str = "
How to read the misses: memcached was given memory for a percentage of all keys and values that the trace asks for, and
each Guira what made its process at most as large as memcached's had become; sizes are those at the end. One request was in
flight, a miss was followed by a set. What was replayed of each trace, with values of which length, and what every
server held is in the raw data.
Sources: cache2k-* by headissue GmbH, Jens Wilke (cache2k), CC BY 4.0; corda, adapt_size and lirs-* from ben-manes/caffeine
(Apache-2.0); OLTP and P3 from the ARC paper (Megiddo and Modha, FAST 2003); cloudPhysics from 1a1a11a/libCacheSim.
";

pub(crate) fn machine_lines(machine: &Machine, versions: &[(String, String)]) -> String {
    let mut text = format!(
        "- Machine: {}, {} processors, {:.1} GiB, {}; load average before the run {}\n",
        machine.processor,
        machine.processors,
        machine.memory as f64 / (1_u64 << 30) as f64,
        machine.kernel,
        machine.busy
    );
    for (server, version) in versions {
        push(&mut text, format_args!("- {server}: {version}\n"));
    }
    text
}

fn list(cores: &[usize]) -> String {
    if cores.is_empty() {
        return "any".to_owned();
    }
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use guira_harness::scratch::Scratch;

    use super::new_folder;

    #[test]
    fn a_second_bench_of_the_day_gets_a_folder_of_its_own() {
        let parent = Scratch::new();
        let first = new_folder(parent.path(), "2026-11-20-x").unwrap();
        let second = new_folder(parent.path(), "2026-11-20-x").unwrap();
        assert!(first.ends_with("2026-11-20-x") && second.ends_with("2026-11-20-x-2"));
    }
}

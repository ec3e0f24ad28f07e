//! A trace through several caches, at equal resident size.

use std::path::{Path, PathBuf};

use guira_workload::SizeModel;
use serde::Serialize;

use super::Replay;
use crate::bench::columns::{mib, rows};
use crate::bench::machine::{self, Machine};
use crate::bench::memory::{self, Case};
use crate::bench::{Options, report};
use crate::clock::Date;
use crate::engine::Observer;
use crate::equal;
use crate::error::LoadError;
use crate::run::{Outcome, Record};
use crate::server::{Kind, Server, Spec};

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The resident size of the comparison, in bytes.
    pub size: u64,
    pub server: String,
    /// The memory that the server was given to reach that size, in bytes.
    pub memory: u64,
    /// Resident size of the process after the replay, in bytes.
    pub resident: u64,
    pub items: u64,
    /// Processor time of the server for each request of the trace, in microseconds.
    pub cpu_us_per_request: f64,
    /// The counts and latencies of the replay.
    pub record: Record,
}

/// Replays the trace on every cache of `options` at every size of `sizes`, and adds the results to
/// `rows`. After an error `rows` has the results up to then.
///
/// Guira gets the size itself, since its `--memory` bounds the process. memcached gets the memory
/// with which it becomes as large as Guira became (or as the size, when Guira is not in the
/// comparison).
///
/// # Errors
/// When a server cannot be started, the trace not read, or a cache answers wrongly.
pub fn run(
    replay: &Replay,
    sizes: &[u64],
    options: &Options,
    listener: &mut dyn Observer,
    log: &mut dyn FnMut(&str),
    rows: &mut Vec<Row>,
) -> Result<(), LoadError> {
    let mut kinds: Vec<&Kind> = options.servers.iter().filter(|kind| kind.is_cache()).collect();
    kinds.sort_by_key(|kind| !matches!(kind, Kind::Guira { .. }));
    for &size in sizes {
        let mut target = size;
        for kind in &kinds {
            let mut spec = Spec::new((*kind).clone(), size, &options.server_cores);
            if !matches!(kind, Kind::Guira { .. }) {
                log(&format!("{}: finding the memory for {:.1} MiB", kind.name(), mib(target)));
                let case = filling(replay, target);
                spec.memory = equal::fit(&spec, target, &mut |server| memory::fill(&case, server, options))?;
            }
            log(&format!("{}: replaying in {:.0} MiB", kind.name(), mib(spec.memory)));
            let row = measure(replay, size, &spec, options, listener)?;
            if matches!(kind, Kind::Guira { .. }) {
                target = row.resident;
            }
            rows.push(row);
        }
    }
    Ok(())
}

/// Items like those of the trace, twice as many as fit.
fn filling(replay: &Replay, target: u64) -> Case {
    let keys = 2 * target / (u64::from(replay.value_len) + 64);
    Case { sizes: SizeModel::Constant(replay.value_len), ..memory::small("filling", target, keys) }
}

fn measure(
    replay: &Replay,
    size: u64,
    spec: &Spec,
    options: &Options,
    listener: &mut dyn Observer,
) -> Result<Row, LoadError> {
    let server = Server::start(spec)?;
    let outcome: Outcome =
        replay.run_on(server.addr(), Some(server.process()), &options.client_cores, listener)?;
    outcome.require_right()?;
    let resident = server.resident_bytes()?;
    let requests = outcome.counters.counts.operations().max(1) as f64;
    Ok(Row {
        size,
        server: server.name().to_owned(),
        memory: spec.memory,
        resident,
        items: server.stat("curr_items")?,
        cpu_us_per_request: outcome.server_cpu_s.unwrap_or(0.0) * 1e6 / requests,
        record: outcome.record(),
    })
}

/// The rows as a table in Markdown.
#[must_use]
pub fn table(replayed: &[Row]) -> String {
    rows(
        replayed,
        &[
            ("size, MiB", &|row| format!("{:.0}", mib(row.size))),
            ("server", &|row| row.server.clone()),
            ("allowed, MiB", &|row| format!("{:.0}", mib(row.memory))),
            ("resident, MiB", &|row| format!("{:.1}", mib(row.resident))),
            ("items", &|row| row.items.to_string()),
            ("hit ratio", &|row| format!("{:.4}", row.record.hit_ratio)),
            ("get p50, µs", &|row| format!("{:.0}", row.record.get_latency.p50_us)),
            ("p99", &|row| format!("{:.0}", row.record.get_latency.p99_us)),
            ("p99.9", &|row| format!("{:.0}", row.record.get_latency.p999_us)),
            ("server CPU per request, µs", &|row| format!("{:.2}", row.cpu_us_per_request)),
        ],
    )
}

/// Writes the rows into a new folder `<date>-<machine>-replay` below `parent`; returns it.
///
/// # Errors
/// When a file cannot be written.
pub fn file(
    rows: &[Row],
    replay: &Replay,
    options: &Options,
    this: &Machine,
    command: &str,
    parent: &Path,
) -> Result<PathBuf, LoadError> {
    let date = Date::today();
    let dir = report::new_folder(parent, &format!("{date}-{}-replay", this.slug()))?;
    let versions = machine::versions(&options.servers);
    let trace = replay.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let readme = format!(
        "# Replay of {trace}, {date}\n\n{}- Command: `{command}`\n- {} connections, one request in flight on each; \
         a miss is followed by a set; values of {} bytes where the trace tells no size\n\n{}\n\
         A server's resident size is that of its process after the replay; processor time is the server's, user and \
         system, over the whole replay, fills included. Source and licence of the trace: \
         lab/workload/traces/README.md.\n\nEverything measured is in [results.json](results.json).\n",
        report::machine_lines(this, &versions),
        replay.connections,
        replay.value_len,
        table(rows)
    );
    report::write(&dir.join("README.md"), readme.as_bytes())?;
    let path = dir.join("results.json");
    let json = serde_json::to_vec_pretty(rows)
        .map_err(|error| LoadError::File { path: path.clone(), source: error.into() })?;
    report::write(&path, &json)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::{Row, table};
    use crate::counters::Counters;
    use crate::run::Outcome;

    #[test]
    fn a_row_shows_size_ratio_and_cost() {
        let mut counters = Counters::default();
        (counters.counts.gets, counters.counts.hits) = (1000, 900);
        let record =
            Outcome { counters, elapsed_s: 1.0, server_cpu_s: Some(0.5), server_user_s: Some(0.1) }.record();
        let (size, resident) = (8 << 20, 17 << 19);
        let row = Row {
            size,
            server: "guira".to_owned(),
            memory: size,
            resident,
            items: 7,
            cpu_us_per_request: 5.25,
            record,
        };
        assert!(table(&[row]).contains("| 8 | guira | 8 | 8.5 | 7 | 0.9000 | 0 | 0 | 0 | 5.25 |"));
    }
}

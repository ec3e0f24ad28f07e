//! Statistics in files, as mcrouter writes them: JSON with sorted members, replaced as a whole.

use crate::options::{Identity, RouterOptions, StatsFilesOptions};
use crate::shared::Shared;
use crate::sources_info;
use crate::stats::Figures;
use guira_disk::{self as disk, Durability, Mode};
use guira_routing::{BuiltPool, CountedPool, CountedPools, Settings};
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::host;
use guira_web::object;
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MODE: u32 = 0o666;

/// The files, their folder, and the time of the last write.
#[derive(Debug)]
pub(crate) struct StatsFiles {
    root: PathBuf,
    interval: Duration,
    /// The beginning of all names: of files, and of statistics in them.
    prefix: String,
    /// The last write; none yet.
    written: Option<Stopwatch>,
    wrote_options: bool,
    is_failing: bool,
}

impl StatsFiles {
    pub(crate) fn new(options: &StatsFilesOptions, identity: &Identity) -> Self {
        StatsFiles {
            root: options.root.clone(),
            interval: options.interval,
            prefix: format!("libmcrouter.{}.{}", identity.service, identity.router),
            written: None,
            wrote_options: false,
            is_failing: false,
        }
    }

    /// How long it takes until the next write.
    pub(crate) fn patience(&self) -> Duration {
        let elapsed = self.written.as_ref().map(Stopwatch::elapsed);
        elapsed.map_or(Duration::ZERO, |elapsed| self.interval.saturating_sub(elapsed))
    }

    /// Writes, if it is time to.
    pub(crate) fn write_when_due(&mut self, shared: &Shared) {
        if !self.patience().is_zero() {
            return;
        }
        self.written = Some(Stopwatch::start());
        match self.write(shared) {
            Ok(()) => self.is_failing = false,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                // Operator: Check the permissions and the free space of the folder of `--stats-root`.
                tracing::warn!(folder = %self.root.display(), %error, "cannot write statistics");
            }
            Err(_) => {}
        }
    }

    fn write(&mut self, shared: &Shared) -> io::Result<()> {
        disk::create_dir_all(&self.root)?;
        let options = self.path("startup_options");
        if self.wrote_options && disk::exists(&options) {
            // A reader of the folder takes a file that is not touched for that of a dead router.
            disk::File::options()
                .write(true)
                .open(options)?
                .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(wall_clock()))?;
        } else {
            replace(&options, &pretty(startup_options(shared)))?;
            self.wrote_options = true;
        }
        let stats = with_prefix(&self.prefix, figures(shared));
        replace(&self.path("stats"), &pretty(stats))?;
        let sources = sources_info::text(&shared.about.source, &shared.config.plan().texts);
        replace(&self.path("config_sources_info"), &sources)
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.root.join(format!("{}.{suffix}", self.prefix))
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    disk::replace(path, text.as_bytes(), Mode::Masked(MODE), Durability::Unsynced)
}

/// The settings of a router that counts the pools which the file of `--pool-stats-config-file` names.
pub(crate) fn settings(options: &RouterOptions) -> Settings {
    let path = options.stats_files.as_ref().and_then(|files| files.pools.as_deref());
    let names = path.map_or_else(Vec::new, |path| {
        read_pools(path).unwrap_or_else(|reason| {
            // Operator: Correct the file of `--pool-stats-config-file` and restart the router.
            tracing::warn!(file = %path.display(), reason, "cannot read the names of pools for statistics");
            Vec::new()
        })
    });
    Settings { counted_pools: CountedPools::new(names), ..options.settings.clone() }
}

fn read_pools(path: &Path) -> Result<Vec<String>, String> {
    let text = disk::read_to_string(path).map_err(|error| error.to_string())?;
    let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let names = json.get("stats_enabled_pools").and_then(Value::as_array);
    let names = names.ok_or_else(|| "there is no array stats_enabled_pools".to_owned())?;
    Ok(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn pretty(members: Map<String, Value>) -> String {
    let value = Value::Object(members);
    let text = serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string());
    format!("{text}\n")
}

/// All options as strings, and the process id.
fn startup_options(shared: &Shared) -> Map<String, Value> {
    let options = shared.about.options.iter().map(|(name, value)| (name.clone(), value.clone().into()));
    object(options.chain([("pid".to_owned(), host::process().to_string().into())]))
}

fn with_prefix(prefix: &str, stats: Map<String, Value>) -> Map<String, Value> {
    object(stats.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)))
}

/// The lines of `stats` that are numbers, and those of pools.
fn figures(shared: &Shared) -> Map<String, Value> {
    let figures = Figures::of(shared);
    let mut stats = Map::new();
    figures.each(&mut |name, value| {
        if let Ok(number) = serde_json::from_str::<serde_json::Number>(value) {
            stats.insert(name.to_owned(), number.into());
        }
    });
    let pools = &shared.policies.settings.counted_pools;
    for (place, name) in (0..).zip(pools.names()) {
        put_pool(&figures, (CountedPool(place), name), &mut stats);
    }
    stats
}

/// Writes the figures of a counted pool: those of all pools whose names begin with its name, and
/// with no longer counted one. Requests and their duration are counted at servers; failures and the
/// total duration are those of clients, each for the pool that its request reached first.
fn put_pool(figures: &Figures<'_>, (place, name): (CountedPool, &str), stats: &mut Map<String, Value>) {
    let names = &figures.shared.policies.settings.counted_pools;
    let of_pool = figures.plan.pools.iter().filter(|pool| names.of(&pool.name) == Some(place));
    let mut sums = [0; 2];
    let mut latencies = Vec::new();
    for pool in of_pool {
        let counts = figures.pools.counts(&figures.plan, pool);
        let of_pool = [counts.requests, connections(figures, pool)];
        sums.iter_mut().zip(of_pool).for_each(|(sum, more)| *sum += more);
        latencies.extend(figures.plan.servers_of(pool).filter_map(|server| server.meters().latency()));
    }
    let latency = latencies.iter().sum::<f64>() / latencies.len().max(1) as f64;
    let [requests, connections] = sums;
    for (statistic, value) in [
        ("requests.sum", requests),
        ("final_result_error.sum", figures.sums.failures_of_pool(place)),
        ("connections", connections),
        ("duration_us.avg", latency.round() as u64),
        ("total_duration_us.avg", figures.sums.average_of_pool(place).round() as u64),
    ] {
        stats.insert(format!("{name}.{statistic}"), value.into());
    }
}

fn connections(figures: &Figures<'_>, pool: &BuiltPool) -> u64 {
    figures.plan.servers_of(pool).map(|server| server.meters().states()[1]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pools_are_an_array() {
        let path = std::env::temp_dir().join(format!("guira-router-pools-{}.json", std::process::id()));
        disk::write(&path, r#"{"stats_enabled_pools": ["a", "b"]}"#).unwrap();
        assert_eq!(read_pools(&path).unwrap(), ["a", "b"]);
        disk::write(&path, "{}").unwrap();
        assert!(read_pools(&path).is_err());
        disk::remove_file(&path).unwrap();
    }
}

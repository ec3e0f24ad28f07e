//! The traces, and the size of their keys and values.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use guira_workload::trace::{Action, Broken, Format, Key, Trace};
use guira_workload::{OnMiss, Recipe};

use super::Plan;
use crate::error::LoadError;
use crate::pace::Pace;
use crate::replay::Replay;

/// The longest value: memcached accepts no item above 1 MiB, including key and header.
const VALUE_LEN_MAX: u32 = 1_000_000;
/// The length of a key for a number in the trace.
const NUMBER_KEY_LEN: u64 = 16;

/// A recorded trace, and the settings of its replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) name: &'static str,
    /// The path below the folder of traces.
    path: &'static str,
    /// The keys of a model, whose path is a folder; `None` if it is a trace.
    model_keys: Option<u64>,
    format: Option<Format>,
    /// The length of each value, unless the trace has sizes.
    pub(super) value_len: u32,
    /// The number of requests that are replayed.
    limit: Option<u64>,
    /// The servers' memory in percent of the trace's keys and values. A small trace has no small
    /// parts, in which the minimum of a server would be most of its size.
    pub(super) percents: &'static [u64],
}

/// The requests of long traces that are replayed: each takes some 20 µs, on each server.
const LONG: Option<u64> = Some(700_000);
/// More requests than are replayed of a model.
const REQUESTS_OF_MODEL: u64 = 1_000_000_000;
const ALL: &[u64] = &[5, 10, 25, 50];
const LARGER: &[u64] = &[10, 25, 50];

const fn recorded(name: &'static str, path: &'static str, value_len: u32) -> Recorded {
    Recorded { name, path, model_keys: None, format: None, value_len, limit: None, percents: ALL }
}

/// A model of CacheLib's with this number of keys. Its values have lengths.
const fn model(name: &'static str, path: &'static str, keys: u64) -> Recorded {
    let format = Some(Format::Sized);
    Recorded { model_keys: Some(keys), format, limit: LONG, percents: &[10, 25], ..recorded(name, path, 0) }
}

/// The traces, the longest first. The length of values is chosen so that each trace has some
/// hundred MB.
const TRACES: &[Recorded] = &[
    Recorded { limit: LONG, ..recorded("cache2k-orm-busy", "caffeine/cache2k-orm-busy.trace.zst", 8192) },
    Recorded { limit: LONG, ..recorded("OLTP", "arc/OLTP.lis.zst", 4096) },
    Recorded { limit: LONG, percents: LARGER, ..recorded("P3", "arc/P3.lis.zst", 2048) },
    recorded("cloudPhysics", "libcachesim/cloudPhysicsIO.csv.zst", 4096),
    Recorded {
        format: Some(Format::BeU64),
        ..recorded("corda-vaultservice", "caffeine/corda-trace_vaultservice.zst", 8192)
    },
    Recorded { percents: LARGER, ..recorded("cache2k-web12", "caffeine/cache2k-web12.trace.zst", 16_384) },
    Recorded { percents: LARGER, ..recorded("cache2k-web07", "caffeine/cache2k-web07.trace.zst", 16_384) },
    recorded("adapt_size", "caffeine/adapt_size-request.trace.zst", 4096),
    Recorded { percents: &[25, 50], ..recorded("lirs-sprite", "caffeine/lirs-sprite.trace.zst", 16_384) },
    Recorded { percents: &[25, 50], ..recorded("lirs-multi3", "caffeine/lirs-multi3.trace.zst", 16_384) },
    model("cdn", "cachelib/hit_ratio/cdn", 20_000),
    model("leader_assocs", "cachelib/hit_ratio/graph_cache_leader_assocs", 400_000),
    model("follower_assocs", "cachelib/hit_ratio/graph_cache_follower_assocs", 1_000_000),
    model("leader_fbobj", "cachelib/hit_ratio/graph_cache_leader_fbobj", 1_000_000),
    model("follower_fbobj", "cachelib/hit_ratio/graph_cache_follower_fbobj", 1_000_000),
    model("kvcache_reg", "cachelib/hit_ratio/kvcache_reg", 1_000_000),
];

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) trace: Recorded,
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) requests: u64,
    pub(super) keys: u64,
    /// Bytes of all keys, each with the longest of its values.
    pub(super) bytes: u64,
    /// Whether the trace has the sizes of values.
    pub(super) is_sized: bool,
}

/// The traces whose files are in the plan's folder or in the repository; the others are skipped
/// with a notice. Requests of models are written to files in `scratch`.
pub(super) fn present(
    plan: &Plan,
    scratch: &Path,
    log: &mut dyn FnMut(&str),
) -> Result<Vec<Case>, LoadError> {
    let committed = Path::new("lab/workload/traces");
    let mut cases = Vec::new();
    for &trace in TRACES.iter().filter(|trace| plan.wants_trace(trace)) {
        let limit = trace.limit.into_iter().chain(plan.limit).min();
        let trace = Recorded { limit, ..trace };
        let elsewhere = plan.folder.as_ref().map(|folder| folder.join(trace.path));
        let here = Path::new(trace.path).file_name().map(|name| committed.join(name));
        let exists = |path: &PathBuf| if trace.model_keys.is_some() { path.is_dir() } else { path.is_file() };
        let Some(path) = elsewhere.into_iter().chain(here).find(exists) else {
            log(&format!("misses: skipped {}: {} does not exist", trace.name, trace.path));
            continue;
        };
        let path = match trace.model_keys {
            None => path,
            Some(keys) => {
                let file = scratch.join(trace.name);
                write_requests(&path, keys, limit, &file)?;
                file
            }
        };
        cases.push(Case { trace, path });
    }
    Ok(cases)
}

/// Writes the gets of the model in `folder` as lines of time, key and length. Lone gets, which never
/// hit, are left out.
fn write_requests(folder: &Path, keys: u64, limit: Option<u64>, file: &Path) -> Result<(), LoadError> {
    let text = format!("cachelib:dir={},keys={keys},requests={REQUESTS_OF_MODEL}", folder.display());
    let recipe = Recipe::parse(&text, &|path| fs::read_to_string(path));
    let recipe = recipe.map_err(|error| LoadError::Options(error.to_string()))?;
    let gets = recipe.requests().filter_map(|request| match request {
        Ok(request) if request.action == Action::Get => Some(request),
        _ => None,
    });
    let write = || -> io::Result<()> {
        let mut out = BufWriter::new(File::create(file)?);
        for request in gets.take(limit.map_or(usize::MAX, |limit| limit as usize)) {
            writeln!(out, "0 {} {}", request.key.id(), request.value_len.unwrap_or_default())?;
        }
        out.flush()
    };
    write().map_err(|source| LoadError::File { path: file.to_owned(), source })
}

impl Case {
    /// With one request in flight, so that no request overtakes another.
    pub(super) fn replay(&self) -> Replay {
        Replay {
            path: self.path.clone(),
            format: self.trace.format,
            broken: Broken::Refuse,
            value_len: self.trace.value_len,
            value_len_max: VALUE_LEN_MAX,
            limit: self.trace.limit,
            on_miss: OnMiss::Fill,
            connections: 1,
            pace: Pace::Closed,
            sample: 16,
        }
    }

    pub(super) fn extent(&self) -> Result<Extent, LoadError> {
        let fail = |error| LoadError::Trace(Box::new(error));
        let file =
            File::open(&self.path).map_err(|source| LoadError::File { path: self.path.clone(), source })?;
        let trace = Trace::new(file, self.trace.format).map_err(fail)?;
        let is_sized = trace.format().has_sizes();
        let limit = self.trace.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut lens: HashMap<u64, u64> = HashMap::new();
        let mut requests = 0;
        for request in trace.take(limit) {
            let request = request.map_err(fail)?;
            let key_len = match &request.key {
                Key::Number(_) => NUMBER_KEY_LEN,
                Key::Text(text) => text.len().max(request.key_len.unwrap_or(0)) as u64,
            };
            let value_len = request.value_len.unwrap_or(self.trace.value_len).min(VALUE_LEN_MAX);
            let len = lens.entry(request.key.id()).or_default();
            *len = (*len).max(key_len + u64::from(value_len));
            requests += 1;
        }
        Ok(Extent { requests, keys: lens.len() as u64, bytes: lens.values().sum(), is_sized })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use guira_harness::scratch::Scratch;

    use super::{Case, TRACES, present};
    use crate::bench::misses::Plan;

    fn cases(plan: &Plan, scratch: &Scratch, missing: &mut Vec<String>) -> Vec<Case> {
        present(plan, scratch.path(), &mut |line| missing.push(line.to_owned())).unwrap()
    }

    #[test]
    fn traces_that_are_missing_are_told_and_those_that_are_there_are_no_longer_than_was_asked_for() {
        // The tests run in another folder than the repository's root.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload");
        let plan = Plan { folder: Some(folder), limit: Some(1000), ..Plan::default() };
        let (scratch, mut missing) = (Scratch::new(), Vec::new());
        let cases = cases(&plan, &scratch, &mut missing);
        assert_eq!(cases.len() + missing.len(), TRACES.len());
        assert!(missing.iter().any(|line| line.contains("skipped P3")), "{missing:?}");
        assert!(cases.iter().all(|case| case.trace.limit == Some(1000)));
    }

    #[test]
    fn each_key_counts_once_with_its_longest_value() {
        let scratch = Scratch::new();
        let folder = scratch.path().to_owned();
        std::fs::create_dir_all(folder.join("libcachesim")).unwrap();
        let text = "version,time,op,size,lbn\n1,1,28,100,7\n1,2,28,300,7\n1,3,28,0,9\n";
        std::fs::write(folder.join("libcachesim/cloudPhysicsIO.csv.zst"), text).unwrap();
        let plan = Plan { folder: Some(folder), limit: Some(1000), ..Plan::default() };
        let cases = cases(&plan, &scratch, &mut Vec::new());
        let extent = cases.iter().find(|case| case.trace.name == "cloudPhysics").unwrap().extent().unwrap();
        assert_eq!((extent.requests, extent.keys, extent.bytes), (3, 2, 1 + 300 + 1 + 4096));
        assert!(extent.is_sized);
    }

    #[test]
    fn the_requests_of_a_model_are_a_trace_with_sizes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/traces/kvcache_reg");
        let scratch = Scratch::new();
        let place = scratch.path().join("cachelib/hit_ratio");
        std::fs::create_dir_all(&place).unwrap();
        std::os::unix::fs::symlink(folder.canonicalize().unwrap(), place.join("kvcache_reg")).unwrap();
        let plan = Plan { folder: Some(scratch.path().to_owned()), limit: Some(1000), ..Plan::default() };
        let cases = cases(&plan, &scratch, &mut Vec::new());
        let extent = cases.iter().find(|case| case.trace.name == "kvcache_reg").unwrap().extent().unwrap();
        assert!(extent.is_sized && extent.requests == 1000 && extent.keys > 100 && extent.bytes > 10_000);
    }
}

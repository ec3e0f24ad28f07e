//! The simulator's exact LRU has the hit ratios that others published for real traces.
//!
//! One of the traces is in the repository. The others are public, but not ours to hand on: the environment variable
//! `GUIRA_TRACES` names a folder that holds them (ben-manes/caffeine's simulator resources below `caffeine/`,
//! moka-rs/cache-trace's below `arc/`, each compressed with zstd).

use std::fs::File;
use std::path::{Path, PathBuf};

use guira_sim::{Choice, Means, Measure, OnMiss, Reading, Rules, Sample, Size, Stream, Sweep, Writes};
use guira_workload::trace::{Format, Trace};

const PERCENT: [f64; 5] = [1.0, 5.0, 10.0, 25.0, 50.0];

/// A trace, its requests and keys, and LRU's hit ratios in percent at [`PERCENT`] of the keys.
struct Known {
    path: &'static str,
    format: Option<Format>,
    requests: usize,
    keys: usize,
    lru: [f64; 5],
}

const ELSEWHERE: [Known; 5] = [
    Known {
        path: "caffeine/cache2k-web07.trace.zst",
        format: None,
        requests: 76_118,
        keys: 20_484,
        lru: [39.1, 50.6, 55.7, 62.9, 69.2],
    },
    Known {
        path: "caffeine/cache2k-web12.trace.zst",
        format: None,
        requests: 95_607,
        keys: 13_756,
        lru: [39.7, 60.0, 68.5, 77.7, 83.0],
    },
    Known {
        path: "caffeine/corda-trace_vaultservice.zst",
        format: Some(Format::BeU64),
        requests: 135_702,
        keys: 90_468,
        lru: [33.3; 5],
    },
    Known {
        path: "arc/OLTP.lis.zst",
        format: None,
        requests: 914_145,
        keys: 186_880,
        lru: [41.6, 60.1, 66.5, 73.3, 78.1],
    },
    Known {
        path: "arc/P3.lis.zst",
        format: None,
        requests: 3_912_296,
        keys: 762_543,
        lru: [1.6, 4.3, 16.8, 57.7, 74.5],
    },
];

fn stream(path: &Path, format: Option<Format>) -> Stream {
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
    Stream::read(Trace::new(File::open(path).unwrap(), format).unwrap(), reading).unwrap()
}

/// Hit ratios in percent, for each size those of all policies.
fn hit_ratios(stream: &Stream, policies: &[&str], sizes: &[Size]) -> Vec<f64> {
    let policies: Vec<Choice> = policies.iter().map(|name| Choice::parse(name).unwrap()).collect();
    let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    let sweep = Sweep { stream, policies: &policies, sizes, rules };
    let points = sweep.run(Means { threads: 2, now_ns: &|| 0, progress: &|_| () }).unwrap();
    points.iter().map(|point| 100.0 * point.hit_ratio).collect()
}

fn check(known: &Known, path: &Path) {
    let stream = stream(path, known.format);
    assert_eq!((stream.len(), stream.keys()), (known.requests, known.keys), "{}", known.path);
    let ratios = hit_ratios(&stream, &["exact-lru"], &PERCENT.map(Size::Percent));
    for (ratio, published) in ratios.iter().zip(known.lru) {
        assert!((ratio - published).abs() < 0.051, "{}: {ratios:?} beside {:?}", known.path, known.lru);
    }
}

fn elsewhere() -> Option<PathBuf> {
    let folder = std::env::var_os("GUIRA_TRACES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: GUIRA_TRACES names no folder with traces");
    }
    folder
}

#[test]
fn lru_on_the_trace_that_is_here() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/traces/cache2k-orm-busy.trace.zst");
    let known = Known {
        path: "cache2k-orm-busy.trace.zst",
        format: None,
        requests: 5_000_000,
        keys: 76_349,
        lru: [77.0, 84.1, 88.0, 93.4, 96.7],
    };
    check(&known, &path);
}

#[test]
fn the_engines_lru_is_exact_and_its_approximations_are_close() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/traces/cache2k-orm-busy.trace.zst");
    let names = ["exact-lru", "lru", "lazy-lru:interval=0", "klru", "klru:samples=32", "seg-lru"];
    let busy = stream(&path, None);
    for percent in [1.0, 10.0, 50.0] {
        let ratios = hit_ratios(&busy, &names, &[Size::Percent(percent)]);
        assert_eq!([ratios[1], ratios[2]], [ratios[0]; 2], "{percent} %");
        assert!(ratios.iter().all(|ratio| (ratio - ratios[0]).abs() < 1.5), "{percent} %: {ratios:?}");
        assert!(ratios[3..5].iter().all(|ratio| (ratio - ratios[0]).abs() < 0.5), "{percent} %: {ratios:?}");
    }
}

#[test]
fn lru_on_traces_elsewhere() {
    let Some(folder) = elsewhere() else { return };
    ELSEWHERE.iter().for_each(|known| check(known, &folder.join(known.path)));
}

#[test]
fn the_loop_that_defeats_lru_does_not_defeat_lirs() {
    let Some(folder) = elsewhere() else { return };
    let looping = stream(&folder.join("caffeine/lirs-loop.trace.zst"), None);
    let ratios = hit_ratios(&looping, &["exact-lru", "lirs", "belady"], &[Size::Percent(50.0)]);
    assert!(ratios[0] == 0.0 && ratios[1] > 49.0 && ratios[2] > ratios[1], "{ratios:?}");
    let sprite = stream(&folder.join("caffeine/lirs-sprite.trace.zst"), None);
    let ratios = hit_ratios(&sprite, &["exact-lru"], &[Size::Percent(5.0)]);
    assert!((ratios[0] - 65.6).abs() < 0.051, "{ratios:?}");
}

#[test]
fn nothing_exceeds_the_optimum_and_no_policy_exceeds_its_room() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/traces/cache2k-orm-busy.trace.zst");
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: 300_000 };
    let stream = Stream::read(Trace::new(File::open(path).unwrap(), None).unwrap(), reading).unwrap();
    let names: Vec<&str> = guira_sim::policies().map(|entry| entry.name).collect();
    let belady = names.iter().position(|name| *name == "belady").unwrap();
    for size in [Size::Objects(1), Size::Objects(2), Size::Percent(1.0), Size::Percent(20.0)] {
        let ratios = hit_ratios(&stream, &names, &[size]);
        assert!(ratios.iter().all(|ratio| *ratio <= ratios[belady]), "{size}: {names:?} {ratios:?}");
    }
    let all = hit_ratios(&stream, &names, &[Size::Percent(100.0)]);
    assert!(all.iter().all(|ratio| (ratio - all[belady]).abs() < 0.5), "{names:?} {all:?}");
}

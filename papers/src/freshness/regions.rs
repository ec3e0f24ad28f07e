//! The settings of remote markers, in a region whose replica lags.

use crate::experiment::{Context, Failure, failed};
use crate::outcome::{Table, table};
use guira_client::lookaside::{Database, Markers};
use guira_harness::scratch::Scratch;
use guira_regions::users::{Life, Marking, live, rows};
use guira_regions::{Cluster, Member, Region, Settings, pair};
use std::time::Duration;

/// How much the replica lags, in seconds.
const LAG_S: u64 = 2;
const ROWS: usize = 200;

/// What happens to the pool of markers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pool {
    Serves,
    /// It is killed at half of the time, and does not come back.
    Dies,
}

type Row = (&'static str, Marking, fn(Markers) -> Markers, Pool);

const SETTINGS: [Row; 5] = [
    ("no markers", Marking::Without, |markers| markers, Pool::Serves),
    ("limit 10 min", Marking::With, |markers| markers, Pool::Serves),
    ("limit 1 s", Marking::With, |markers| markers.limit(Duration::from_secs(1)), Pool::Serves),
    ("their pool dies, and the master is read", Marking::With, |markers| markers, Pool::Dies),
    (
        "their pool dies, and the replica is read",
        Marking::With,
        |markers| markers.when_unreachable(Database::Nearest),
        Pool::Dies,
    ),
];

pub(super) fn markers(context: &Context) -> Result<Table, Failure> {
    let length = context.scale.pick(Duration::from_secs(20), Duration::from_secs(6));
    let databases = pair(LAG_S, &rows(ROWS))
        .ok_or_else(|| failed("MariaDB is not installed: apt-get install mariadb-server"))?;
    let (scratch, mut names) = (Scratch::new(), ["home", "away"].into_iter());
    let regions = databases.map(|database| {
        let name = names.next().unwrap_or_default();
        let node = |what: &str| {
            Member::node(&context.guira, scratch.file(&format!("{name}-{what}")), &["--disable-evictions"])
        };
        Region::start(
            &context.guira,
            database,
            vec![Cluster::of_node(node("cache"))],
            Some(node("markers")),
            &Settings::default(),
        )
    });
    let row = |(name, marking, tune, pool): &Row| {
        let life = Life {
            rows: ROWS,
            write_once_in: 20,
            marking: *marking,
            tune: *tune,
            length,
            seed: context.seed,
        };
        let found = live(&regions, life, || {
            if *pool == Pool::Dies {
                std::thread::sleep(length / 2);
                regions[1].markers.iter().for_each(Member::kill);
            }
        });
        regions[1].markers.iter().for_each(Member::start_again);
        vec![
            (*name).to_owned(),
            found.reads.to_string(),
            found.older.to_string(),
            format!("{:.2} %", 100.0 * found.older as f64 / found.reads.max(1) as f64),
            format!("{:.1}", found.latest_ms as f64 / 1000.0),
            found.nearest.to_string(),
            found.master.to_string(),
        ]
    };
    Ok(table(
        "Remote markers, in a region whose replica lags by 2 s; reads are held against the own last write of their reader:",
        &[
            "setting",
            "reads",
            "older than the own last write",
            "share",
            "latest, s after it",
            "queries of the replica",
            "of the master",
        ],
        SETTINGS.iter().map(row).collect(),
    ))
}

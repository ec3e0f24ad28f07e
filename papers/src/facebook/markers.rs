//! Remote markers: users of a region whose database is a replica that lags, with markers and without.

use guira_harness::scratch::Scratch;
use guira_regions::users::{Found, Life, Marking, live, rows};
use guira_regions::{Cluster, Member, Region, Settings, pair};
use std::time::Duration;

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, build, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-markers",
    claims: &["S14"],
    about: "Reads that are older than the reader's own last write in a region whose replica lags, with remote markers and without",
    run,
};

/// How much the replica lags, in seconds.
const LAG_S: u64 = 5;
/// A user writes once in so many times.
const WRITE_ONCE_IN: u64 = 20;
/// Rows that users share: so few that their writes meet, and more.
const ROWS: [usize; 2] = [200, 10_000];

/// Both regions. Markers are in a node that may evict.
fn regions(context: &Context, scratch: &Scratch, rows_max: usize) -> Result<[Region; 2], Failure> {
    let databases = pair(LAG_S, &rows(rows_max))
        .ok_or_else(|| failed("MariaDB is not installed: apt-get install mariadb-server"))?;
    let mut names = ["home", "away"].into_iter();
    Ok(databases.map(|database| {
        let name = names.next().unwrap_or_default();
        let node = |what: &str| Member::node(&context.guira, scratch.file(&format!("{name}-{what}")), &[]);
        let clusters = vec![Cluster::of_node(node("cache"))];
        let markers = Some(node("markers"));
        Region::start(&context.guira, database, clusters, markers, &Settings::default())
    }))
}

/// Some rows with markers, or without, and what users came to.
type Way = (usize, Marking, Found);

fn share(part: u64, all: u64) -> String {
    percent(part as f64 / all.max(1) as f64)
}

fn row((rows, marking, found): &Way) -> Vec<String> {
    let is_marked = *marking == Marking::With;
    let marked = |text: String| if is_marked { text } else { "–".to_owned() };
    vec![
        rows.to_string(),
        if is_marked { "with" } else { "without" }.to_owned(),
        found.reads.to_string(),
        found.older.to_string(),
        format!("{:.1}", found.latest_ms as f64 / 1000.0),
        found.nearest.to_string(),
        found.master.to_string(),
        found.writes.to_string(),
        marked(format!("{} %", share(found.concurrent, found.writes))),
        marked(found.evictions.to_string()),
        marked(found.counters.unmarked_writes.to_string()),
    ]
}

fn measure(context: &Context, length: Duration) -> Result<Vec<Way>, Failure> {
    let scratch = Scratch::new();
    let mut found = Vec::new();
    let regions = regions(context, &scratch, ROWS[1])?;
    for rows in ROWS {
        for marking in [Marking::Without, Marking::With] {
            let (write_once_in, seed) = (WRITE_ONCE_IN, context.seed);
            let life = Life { rows, write_once_in, marking, tune: |markers| markers, length, seed };
            found.push((rows, marking, live(&regions, life, || {})));
        }
    }
    Ok(found)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let length = context.scale.pick(Duration::from_secs(60), Duration::from_secs(8));
    let found = measure(context, length)?;
    let of = |rows: usize, marking: Marking| {
        let found = found.iter().find(|one| (one.0, one.1) == (rows, marking));
        found.map(|one| &one.2).ok_or_else(|| failed("each was measured"))
    };
    let [few, many] = ROWS;
    let (without, with, rare) =
        (of(few, Marking::Without)?, of(few, Marking::With)?, of(many, Marking::With)?);
    let evictions = with.evictions + rare.evictions;
    Ok(Outcome {
        how: format!(
            "Two MariaDB, the one a replica of the other with MASTER_DELAY = {LAG_S} s; in each region a node for the cache, a node of 64 MiB for markers, \
             which may evict, and guira invalidate. Four users in the replica's region and two in the master's read rows, each with a pause of \
             up to 10 ms, and write one once in {WRITE_ONCE_IN} times, for {} s each way, by the look-aside client. A write is concurrent if its row has a marker of an \
             earlier write then, of anybody in the region, itself included.{}",
            length.as_secs(),
            build()
        ),
        answers: vec![answer(
            "S14",
            format!(
                "older than the reader's own last write without markers {} of {} reads, with them {} of {}; markers evicted {evictions}; concurrent writers {few} rows {} %, {many} rows {} % of writes",
                without.older,
                without.reads,
                with.older,
                with.reads,
                share(with.concurrent, with.writes),
                share(rare.concurrent, rare.writes),
            ),
            verdict(&[
                ("nobody reads what was before its own write", with.older + rare.older == 0),
                ("without markers they do", without.older > 0),
                ("no marker is evicted", evictions == 0),
                (
                    "concurrent writers are rare where rows are many (below 5 %)",
                    20 * rare.concurrent < rare.writes,
                ),
            ]) + "How rare concurrent writers are is a matter of writes for each row within the lag.",
        )],
        tables: vec![table(
            "What users of the replica's region read, and what it takes:",
            &[
                "rows",
                "markers",
                "reads",
                "older than the own last write",
                "last of them, s after it",
                "queries of the replica",
                "of the master",
                "writes",
                "concurrent",
                "markers evicted",
                "writes without a marker",
            ],
            found.iter().map(row).collect(),
        )],
        charts: Vec::new(),
    })
}

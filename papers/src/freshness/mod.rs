//! How old reads are under the settings that trade freshness for load: the figures of docs/guide/freshness.md. It answers no claim of a paper.

mod knobs;
mod regions;
mod trial;

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, table};
use guira_regions::database::MariaDb;
use guira_regions::prepare;
use std::sync::Arc;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "freshness",
    claims: &[],
    about: "Reads that are older than the last write that was committed when they began, under the settings that trade freshness for load",
    run,
};

fn run(context: &Context) -> Result<Outcome, Failure> {
    let database = MariaDb::start().map(Arc::new);
    let database =
        database.ok_or_else(|| failed("MariaDB is not installed: apt-get install mariadb-server"))?;
    let rows: Vec<String> = (0..trial::ROWS).map(|row| format!("({row}, 0)")).collect();
    prepare(
        &database,
        &format!(
            "CREATE DATABASE shop; CREATE TABLE shop.rows (id INT PRIMARY KEY, version BIGINT UNSIGNED); INSERT INTO shop.rows VALUES {}",
            rows.join(",")
        ),
    );
    let mut tables = Vec::new();
    for knob in knobs::all() {
        let mut rows = Vec::new();
        for setting in &knob.settings {
            let found = trial::run(context, &database, setting);
            let row = found.row(&setting.name);
            eprintln!("{}: {}", knob.about, row.join(" | "));
            rows.push(row);
        }
        tables.push(table(knob.about, &trial::HEAD, rows));
    }
    tables.push(regions::markers(context)?);
    Ok(Outcome {
        how: format!(
            "A MariaDB, guira invalidate, a router and a node, and clients of the look-aside client: four that read {} rows, each with a pause of up to 4 ms, and one that \
             writes one of them every 10 to 20 ms, for {} s with each setting. A read is older if a write had been committed when it began that it does not know of, and \
             as much older as that write was committed before.",
            trial::ROWS,
            context.scale.pick(trial::LENGTH, trial::QUICK).as_secs()
        ),
        answers: Vec::new(),
        tables,
        charts: Vec::new(),
    })
}

//! The misses as a table, and what it comes to.

use super::{DEFAULT, MIB, Missed, VARIANTS};
use crate::bench::table::{header, push};

/// Guira without options may miss at most this many times as often as memcached.
const BOUND: f64 = 1.02;
/// Policies of which the best is to miss less than memcached.
const BETTER: [&str; 3] = ["s3-fifo", "sieve", "klru"];

/// The rows of a trace at one size.
struct Group<'a> {
    rows: &'a [Missed],
}

impl<'a> Group<'a> {
    fn of(&self, server: &str) -> Option<&'a Missed> {
        self.rows.iter().find(|row| row.server == server)
    }

    /// What it is compared with.
    fn peer(&self) -> Option<&'a Missed> {
        self.rows.iter().find(|row| VARIANTS.iter().all(|(name, _)| *name != row.server))
    }

    /// The misses of `row` as a multiple of memcached's.
    fn times(&self, row: &Missed) -> Option<f64> {
        self.peer().map(|peer| row.ratio() / peer.ratio().max(1e-9))
    }

    fn best(&self) -> Option<&'a Missed> {
        let rows = BETTER.iter().filter_map(|name| self.of(name));
        rows.min_by(|one, other| one.ratio().total_cmp(&other.ratio()))
    }
}

fn groups(rows: &[Missed]) -> impl Iterator<Item = Group<'_>> {
    rows.chunk_by(|one, other| (one.trace, one.percent) == (other.trace, other.percent))
        .map(|rows| Group { rows })
}

/// The table in Markdown, and under it in how many rows Guira misses as little as it is meant to.
pub(crate) fn table(rows: &[Missed]) -> String {
    let mut columns =
        vec!["trace", "part, %", "resident, MiB", "items, memcached", "items, guira", "memcached"];
    columns.extend(VARIANTS.iter().map(|(name, _)| *name));
    columns.push("guira ÷ memcached");
    columns.push("best of s3-fifo, sieve and klru ÷ memcached");
    let columns: Vec<String> = columns.into_iter().map(str::to_owned).collect();
    let mut table = header(&columns);
    for group in groups(rows) {
        line(&mut table, &group);
    }
    push(&mut table, format_args!("\n{}\n", verdict(rows)));
    table
}

fn line(table: &mut String, group: &Group<'_>) {
    let Some(first) = group.rows.first() else { return };
    let missing = || "–".to_owned();
    let items = |row: Option<&Missed>| row.map_or_else(missing, |row| row.items.to_string());
    let ratio = |row: Option<&Missed>| row.map_or_else(missing, |row| format!("{:.2}", 100.0 * row.ratio()));
    let times = |row: Option<&Missed>| {
        row.and_then(|row| group.times(row)).map_or_else(missing, |times| format!("{times:.3}"))
    };
    let (peer, default) = (group.peer(), group.of(DEFAULT));
    push(
        table,
        format_args!(
            "| {} | {} | {:.1} | {} | {} | {} |",
            first.trace,
            first.percent,
            first.resident as f64 / MIB as f64,
            items(peer),
            items(default),
            ratio(peer)
        ),
    );
    VARIANTS.iter().for_each(|(name, _)| push(table, format_args!(" {} |", ratio(group.of(name)))));
    push(table, format_args!(" {} | {} |\n", times(default), times(group.best())));
}

fn verdict(rows: &[Missed]) -> String {
    let (mut compared, mut bound, mut better) = (0, 0, 0);
    for group in groups(rows) {
        let times = |row: Option<&Missed>| row.and_then(|row| group.times(row));
        let (Some(default), Some(best)) = (times(group.of(DEFAULT)), times(group.best())) else { continue };
        compared += 1;
        bound += u32::from(default <= BOUND);
        better += u32::from(best < 1.0);
    }
    format!(
        "Of {compared} rows, guira without options misses at most {BOUND} times as much as memcached in {bound}, and the best \
         of s3-fifo, sieve and klru less than memcached in {better}."
    )
}

#[cfg(test)]
mod tests {
    use super::{Missed, table};

    fn row(server: &str, percent: u64, misses: u64) -> Missed {
        Missed {
            trace: "OLTP",
            value_len: Some(2048),
            requests: 1000,
            keys: 500,
            bytes: 1 << 20,
            percent,
            server: server.to_owned(),
            memory: 9 << 20,
            resident: 19 << 19,
            items: misses + 1,
            evictions: 3,
            gets: 1000,
            misses,
            refused: 0,
        }
    }

    #[test]
    fn a_row_has_all_servers_and_the_verdict_counts_rows() {
        let rows = [
            row("memcached", 5, 200),
            row("guira", 5, 204),
            row("s3-fifo", 5, 190),
            row("klru", 5, 180),
            row("memcached", 10, 100),
            row("guira", 10, 103),
            row("sieve", 10, 100),
        ];
        let text = table(&rows);
        let first =
            "| OLTP | 5 | 9.5 | 201 | 205 | 20.00 | 20.40 | – | 19.00 | – | 18.00 | – | 1.020 | 0.900 |";
        assert!(text.contains(first), "{text}");
        assert!(text.contains("Of 2 rows") && text.contains("memcached in 1, and the best"), "{text}");
        assert!(text.ends_with("less than memcached in 1.\n"), "{text}");
    }

    #[test]
    fn without_memcached_there_is_nothing_to_divide_by() {
        let text = table(&[row("guira", 5, 204)]);
        assert!(text.contains("| – | 205 | – | 20.40 |") && text.contains("Of 0 rows"), "{text}");
    }
}

//! The misses as a table, and a summary of it.

use super::{DEFAULT, MIB, Missed, VARIANTS};
use crate::bench::columns::{header, push};

/// Fixed policies of the default engine.
const FIXED: [&str; 6] = ["clock", "s3-fifo", "sieve", "klru", "lru", "seg-lru"];

/// The rows of a trace at one size.
struct Group<'a> {
    rows: &'a [Missed],
}

impl<'a> Group<'a> {
    fn of(&self, server: &str) -> Option<&'a Missed> {
        self.rows.iter().find(|row| row.server == server)
    }

    fn peer(&self) -> Option<&'a Missed> {
        self.rows.iter().find(|row| VARIANTS.iter().all(|(name, _)| *name != row.server))
    }

    fn best(&self) -> Option<&'a Missed> {
        let rows = FIXED.iter().filter_map(|name| self.of(name));
        rows.min_by(|one, other| one.ratio().total_cmp(&other.ratio()))
    }

    /// The misses of Guira without options as a multiple of memcached's, and of those of the best policy.
    fn compared(&self) -> Compared {
        let by = |other: Option<&Missed>| Some(self.of(DEFAULT)?.ratio() / other?.ratio().max(1e-9));
        Compared { by_peer: by(self.peer()), by_best: by(self.best()) }
    }
}

/// How many times as often Guira without options misses.
struct Compared {
    by_peer: Option<f64>,
    by_best: Option<f64>,
}

fn groups(rows: &[Missed]) -> impl Iterator<Item = Group<'_>> {
    rows.chunk_by(|one, other| (one.trace, one.percent) == (other.trace, other.percent))
        .map(|rows| Group { rows })
}

/// The table in Markdown, followed by the number of rows in which Guira meets its target for
/// misses.
pub(crate) fn table(rows: &[Missed]) -> String {
    let mut columns =
        vec!["trace", "part, %", "resident, MiB", "items, memcached", "items, guira", "memcached"];
    columns.extend(VARIANTS.iter().map(|(name, _)| *name));
    columns.push("guira ÷ memcached");
    columns.push("guira ÷ best fixed");
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
    let times = |times: Option<f64>| times.map_or_else(missing, |times| format!("{times:.3}"));
    let (peer, default) = (group.peer(), group.of(DEFAULT));
    let Compared { by_peer, by_best } = group.compared();
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
    push(table, format_args!(" {} | {} |\n", times(by_peer), times(by_best)));
}

fn verdict(rows: &[Missed]) -> String {
    let compared: Vec<Compared> = groups(rows).map(|group| group.compared()).collect();
    let (by_peer, by_best): (Vec<_>, Vec<_>) =
        compared.iter().map(|compared| (compared.by_peer, compared.by_best)).unzip();
    let within = |ratios: &[Option<f64>], bound: f64| {
        ratios.iter().filter(|ratio| ratio.is_some_and(|times| times <= bound)).count()
    };
    format!(
        "Of {} rows, guira without options misses at most as often as memcached in {}, at most 0.95 times as often in {}, and \
         at most 1.01 times as often as with the best of the fixed policies beside it in {}.",
        by_peer.iter().flatten().count(),
        within(&by_peer, 1.0),
        within(&by_peer, 0.95),
        within(&by_best, 1.01)
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
            row("guira", 5, 190),
            row("s3-fifo", 5, 190),
            row("klru", 5, 180),
            row("memcached", 10, 100),
            row("guira", 10, 103),
            row("sieve", 10, 100),
        ];
        let text = table(&rows);
        let first = "| OLTP | 5 | 9.5 | 201 | 191 | 20.00 | 19.00 | – | – | 19.00 | – | 18.00 | – | – | 0.950 | 1.056 |";
        assert!(text.contains(first), "{text}");
        let verdict = "Of 2 rows, guira without options misses at most as often as memcached in 1, at most 0.95 times as \
                       often in 1, and at most 1.01 times as often as with the best of the fixed policies beside it in 0.\n";
        assert!(text.ends_with(verdict), "{text}");
    }

    #[test]
    fn without_memcached_there_is_nothing_to_divide_by() {
        let text = table(&[row("guira", 5, 204)]);
        assert!(text.contains("| – | 205 | – | 20.40 |") && text.contains("Of 0 rows"), "{text}");
    }
}

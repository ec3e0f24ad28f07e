//! The document of the counts, and the limits.

use super::work::{
    CONNECTION, DELETE, GET_FIRST, GET_HIT, GET_MISS, GET_NEW_BIT, MULTIGET, ROUTED_GET, ROUTED_SET,
    SET_EVICTING, SET_NEW, SET_OVER,
};
use super::{ENGINES, SharedWrites};
use crate::bench::columns::{header, push};

/// The operations, in the order of the rows.
const OPERATIONS: [&str; 12] = [
    GET_HIT,
    GET_NEW_BIT,
    GET_FIRST,
    GET_MISS,
    MULTIGET,
    SET_OVER,
    SET_NEW,
    SET_EVICTING,
    DELETE,
    CONNECTION,
    ROUTED_GET,
    ROUTED_SET,
];

/// A count may be above its limit by this: once a second or so a worker also does something else.
const TOLERANCE: f64 = 0.05;

/// The most lines that an operation may write to, with every engine that is not listed in [`EXCEPTIONS`].
const LIMITS: [(&str, f64); 12] = [
    (GET_HIT, 0.0),
    (GET_NEW_BIT, 1.0),
    (GET_FIRST, 2.0),
    (GET_MISS, 0.0),
    (MULTIGET, 0.0),
    (SET_OVER, 4.0),
    (SET_NEW, 8.0),
    (SET_EVICTING, 8.0),
    (DELETE, 4.0),
    (CONNECTION, 45.0),
    (ROUTED_GET, 0.0),
    (ROUTED_SET, 0.0),
];

/// Measured writes of single engines above the limits. They should become fewer.
const EXCEPTIONS: [(&str, &str, f64); 11] = [
    ("memc3", SET_EVICTING, 14.0),
    ("memc3", DELETE, 5.2),
    ("mica", GET_HIT, 2.1),
    ("mica", GET_NEW_BIT, 2.1),
    ("mica", GET_FIRST, 3.1),
    ("mica", GET_MISS, 2.1),
    ("mica", MULTIGET, 0.1),
    ("mica", SET_OVER, 4.1),
    ("mica", SET_NEW, 9.2),
    ("mica", SET_EVICTING, 11.0),
    ("mica", DELETE, 7.2),
];

fn limit(engine: &str, operation: &str) -> f64 {
    let own = EXCEPTIONS.iter().find(|(other, of, _)| *other == engine && *of == operation);
    let usual = LIMITS.iter().find(|(of, _)| *of == operation).map(|(_, limit)| *limit);
    own.map(|(_, _, limit)| *limit).or(usual).unwrap_or_default()
}

/// The counts above their limits, one line each.
#[must_use]
pub fn excesses(counted: &[SharedWrites]) -> Vec<String> {
    let is_over = |of: &&SharedWrites| of.lines_written > limit(of.engine, of.operation) + TOLERANCE;
    let line = |of: &SharedWrites| {
        let limit = limit(of.engine, of.operation);
        format!(
            "{}: {}: {:.2} lines written; the limit is {limit}",
            of.engine, of.operation, of.lines_written
        )
    };
    counted.iter().filter(is_over).map(line).collect()
}

/// The document, with a table of lines written, of stores and of lines read.
#[must_use]
pub fn document(counted: &[SharedWrites]) -> String {
    let tables = [
        ("## Lines written", table(counted, |of| of.lines_written)),
        ("## Hot lines written", table(counted, |of| of.hot_lines_written)),
        ("## Stores", table(counted, |of| of.stores)),
        ("## Lines read", table(counted, |of| of.lines_read)),
    ];
    let mut text = HEAD.to_owned();
    for (title, table) in tables {
        push(&mut text, format_args!("\n{title}\n\n{table}"));
    }
    text
}

/// A row for each operation and a column for each engine.
fn table(counted: &[SharedWrites], figure: fn(&SharedWrites) -> f64) -> String {
    let engines = ENGINES.map(|(name, _)| name).into_iter();
    let engines: Vec<&str> = engines.filter(|engine| counted.iter().any(|of| of.engine == *engine)).collect();
    let columns =
        ["operation"].into_iter().chain(engines.iter().copied()).map(str::to_owned).collect::<Vec<_>>();
    let mut table = header(&columns);
    for operation in OPERATIONS {
        let of_engine =
            |engine: &str| counted.iter().find(|of| of.engine == engine && of.operation == operation);
        let cells: Vec<String> = engines
            .iter()
            .map(|engine| of_engine(engine).map_or_else(String::new, |of| format!("{:.2}", figure(of))))
            .collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            push(&mut table, format_args!("| {operation} | {} |\n", cells.join(" | ")));
        }
    }
    table
}

const HEAD: &str = "\
# Writes to shared cache lines

<!-- Made by `cargo xtask shared-writes`. -->

On many processors a server is limited by the cache lines that several workers write to: each such
write takes the line from another processor. Here they are counted, on a machine with two
processors: a count depends neither on the machine nor on other programs. [Scaling](scaling.md) says
what follows from the counts.

A server with two workers runs under valgrind's lackey, which prints each load and store of each
thread. Both workers execute all operations on the same keys. Then one of them executes an operation
again and again, one request at a time, with keys of 16 bytes and values of 32.

- **Lines written**: different lines that one operation writes to and the other worker has touched,
  read or written. In large arrays (the Region) 64 KiB count as touched if any byte of them was.
- **Hot lines written**: of these, lines to which many of the operations write, such as a lock.
  Writes to different lines happen at the same time, writes to one line one after another.
- **Stores**: all stores to the lines written.
- **Lines read**: lines that the other worker writes to and the operation only reads.

All memory accesses of the process count, atomic or not, those of the allocator and the standard
library included. Not seen: what the kernel does, in its own memory and in the buffers of system
calls; threads that are no workers (they touch what they share with workers once a second or less,
except for the thread that commits memory ahead, once a page); waits for locks, since lackey runs
one thread at a time.
";

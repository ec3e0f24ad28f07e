//! The table at the end.

use crate::Part;
use crate::field::Field;
use std::process::ExitCode;

/// More of a failure is only where it happened.
const SHOWN: usize = 1000;

/// Bytes for a person.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Prints the counts of all operations.
pub(crate) fn counts(field: &Field, seconds: f64) {
    println!("{:<44} {:>12} {:>10}", "what", "times", "a second");
    for (what, times) in field.counts() {
        println!("{what:<44} {times:>12} {:>10.1}", times as f64 / seconds);
    }
}

/// Prints one more line of the table.
pub(crate) fn line(what: &str, value: &str) {
    println!("{what:<44} {value}");
}

/// Prints and returns the failures, with the seed and the last commands to the whole server.
pub(crate) fn verdict(part: &str, field: &Field, seed: u64, said: &[String]) -> Vec<String> {
    let failures = field.failures();
    let wrong = field.counts().get("wrong answers").copied().unwrap_or(0);
    line("wrong answers", &wrong.to_string());
    if failures.is_empty() {
        println!("{part}: passed, seed {seed}");
        return failures;
    }
    println!("{part}: FAILED, seed {seed}");
    for failure in &failures {
        println!("failure: {failure}");
    }
    println!("the last operations on the whole server:");
    for operation in field.recent() {
        println!("  {operation}");
    }
    println!("what the server said:");
    for line in said.iter().rev().take(40).rev() {
        println!("  {line}");
    }
    failures
}

/// Prints what failed in all parts once more, since a log is often cut to its last lines.
pub(crate) fn end(seed: u64, failures: &[(Part, String)]) -> ExitCode {
    if failures.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("FAILED, seed {seed}:");
    for (part, failure) in failures {
        println!("{part:?}: {}", failure.chars().take(SHOWN).collect::<String>());
    }
    ExitCode::FAILURE
}

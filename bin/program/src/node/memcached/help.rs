//! -h: what there is, in memcached's form. Other projects look for words in it.

use super::table::{DELIMITER, FLAGS, Flag, WORDS};
use guira_server::VERSION_SPOKEN;
use std::fmt::Write as _;

pub(super) const LICENSE: &str = "\
Guira is licensed under the Apache License, Version 2.0: http://www.apache.org/licenses/LICENSE-2.0
It speaks memcached's protocols and contains none of its code.
";

/// Where the description of a flag begins.
const COLUMN: usize = 26;

/// A flag as memcached writes it.
fn label(flag: &Flag) -> String {
    let value = if flag.value_name.is_empty() { String::new() } else { format!("=<{}>", flag.value_name) };
    match flag.short {
        Some(short) if flag.long == DELIMITER => format!("-{short} <{}>", flag.value_name),
        Some(short) => format!("-{short}, --{}{value}", flag.long),
        None => format!("    --{}{value}", flag.long),
    }
}

pub(super) fn text() -> String {
    let mut text = format!("memcached {VERSION_SPOKEN}\n");
    for flag in FLAGS.iter().filter(|flag| !flag.about.is_empty()) {
        // A label that reaches beyond the column is followed by one blank.
        let width = COLUMN - 1;
        let about = flag.about.replace('\n', &format!("\n{:COLUMN$}", ""));
        let _ = writeln!(text, "{:width$} {about}", label(flag));
    }
    text + &words()
}

/// The words of -o, and what is said of all that is not listed.
pub(super) fn words() -> String {
    let mut text = String::new();
    for word in WORDS.iter().filter(|word| !word.about.is_empty()) {
        let label = format!("{}:", word.name);
        let _ = writeln!(text, "   - {label:<21} {}", word.about);
    }
    text + "
Options of memcached that are not listed here are accepted, warned of and
ignored where they cannot change an answer: docs/guide/replacing-memcached.md names them all.
"
}

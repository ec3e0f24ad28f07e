//! What docs/guide/replacing-memcached.md says of options, compared with the table: neither may have one that the other has not.

use super::help;
use super::table::{DELIMITER, Effect, FLAGS, Flag, WORDS};
use std::collections::BTreeMap;

const DOCUMENT: &str = include_str!("../../../../../docs/guide/replacing-memcached.md");

/// The options in the tables under this heading, and what is said of each in the second column.
fn documented(heading: &str) -> BTreeMap<&'static str, &'static str> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let mut options = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (names, verdict) = (cells.next().expect("a cell"), cells.next().expect("two cells"));
        assert!(["same", "differs", "nothing", "refused"].contains(&verdict), "{row}");
        for name in names.split('`').skip(1).step_by(2) {
            assert_eq!(options.insert(name, verdict), None, "{name} is there twice");
        }
    }
    options
}

/// Whether the verdict on an option is that of its row.
fn agrees(verdict: &str, effect: Effect) -> bool {
    match effect {
        Effect::Nothing(_) => verdict == "nothing",
        Effect::Refused(_) => verdict == "refused",
        _ => matches!(verdict, "same" | "differs"),
    }
}

fn names(flag: &Flag) -> impl Iterator<Item = String> {
    let long = Some(flag.long).filter(|long| *long != DELIMITER).map(|long| format!("--{long}"));
    flag.short.map(|short| format!("-{short}")).into_iter().chain(long)
}

#[test]
fn every_flag_is_documented_with_what_becomes_of_it() {
    let mut documented = documented("Flags");
    for flag in FLAGS {
        for name in names(flag) {
            let verdict = documented.remove(name.as_str());
            let verdict =
                verdict.unwrap_or_else(|| panic!("docs/guide/replacing-memcached.md does not name {name}"));
            assert!(agrees(verdict, flag.effect), "{name} is documented as {verdict}");
        }
        let is_listed = help::text()
            .lines()
            .any(|line| names(flag).next().is_some_and(|name| line.trim_start().starts_with(name.as_str())));
        assert_eq!(is_listed, !matches!(flag.effect, Effect::Nothing(_)), "-h and {}", flag.long);
    }
    for (name, verdict) in documented {
        assert_eq!(verdict, "refused", "{name} is documented and does not exist");
    }
}

#[test]
fn every_option_of_o_is_documented_with_what_becomes_of_it() {
    let mut documented = documented("Options of -o");
    for word in WORDS {
        let name = word.name;
        let verdict = documented.remove(name);
        let verdict =
            verdict.unwrap_or_else(|| panic!("docs/guide/replacing-memcached.md does not name {name}"));
        assert!(agrees(verdict, word.effect), "{name} is documented as {verdict}");
    }
    assert!(documented.is_empty(), "documented and not there: {documented:?}");
}

//! What docs/drop-in.md says of options, compared with what there is: neither may know one that the other does not.

use std::collections::BTreeMap;

use clap::{Args as _, FromArgMatches as _};

use super::{Args, extended, help, without_meaning};

const DOCUMENT: &str = include_str!("../../../docs/drop-in.md");

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

fn command() -> clap::Command {
    Args::augment_args(clap::Command::new("memcached"))
}

#[test]
fn every_flag_is_documented_and_every_documented_flag_exists() {
    let documented = documented("Flags");
    let command = command();
    let mut known = Vec::new();
    for argument in command.get_arguments() {
        known.extend(argument.get_short().map(|short| format!("-{short}")));
        known.extend(argument.get_long().map(|long| format!("--{long}")));
    }
    for name in &known {
        assert!(documented.contains_key(name.as_str()), "docs/drop-in.md does not name {name}");
    }
    for (name, verdict) in documented {
        let is_known = known.iter().any(|known| known == name);
        assert!(is_known == (verdict != "refused"), "{name} is documented as {verdict}");
    }
}

#[test]
fn flags_that_change_nothing_are_those_that_are_warned_of() {
    let documented = documented("Flags");
    let words = ["memcached", "-R", "1", "-N", "1"];
    let args = Args::from_arg_matches(&command().get_matches_from(words)).unwrap();
    let mut warnings = Vec::new();
    without_meaning(&args, &mut warnings);
    let warned: Vec<&str> = warnings.iter().filter_map(|warning| warning.split(' ').next()).collect();
    assert_eq!(warned, ["-R", "-N"]);
    let short = documented.iter().filter(|(name, _)| !name.starts_with("--"));
    for (name, verdict) in short {
        assert_eq!(*verdict == "nothing", warned.contains(name), "{name} is documented as {verdict}");
        let listed = help::text().lines().any(|line| line.trim_start().starts_with(*name));
        assert!(listed || *verdict == "nothing", "-h does not list {name}");
    }
}

#[test]
fn every_option_of_o_is_documented_with_what_becomes_of_it() {
    let documented = documented("Options of -o");
    let known: BTreeMap<&str, &str> = extended::all().collect();
    for (name, effect) in &known {
        let verdict = documented.get(name).unwrap_or_else(|| panic!("docs/drop-in.md does not name {name}"));
        let said = if matches!(*verdict, "same" | "differs") { "has an effect" } else { verdict };
        assert_eq!(said, *effect, "{name} is documented as {verdict}");
    }
    for name in documented.keys() {
        assert!(known.contains_key(name), "-o {name} is documented and does not exist");
    }
}

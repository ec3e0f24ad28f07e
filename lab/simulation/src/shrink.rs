//! Makes a seed that fails simpler: without kinds of faults, and with fewer clients, as long as it fails in the same way.

use crate::found::Fault;
use crate::options::Options;
use crate::runner::{repetition, run_in_a_process};
use std::process::ExitCode;

/// More than any scenario has.
const CLIENTS_MAX: usize = 8;

/// Prints the smallest run of the seed that fails.
pub(crate) fn shrink(options: &Options) -> ExitCode {
    let scenario = options.scenario_of(options.seed);
    let fails = |options: &Options| run_in_a_process(scenario, options.seed, options).err();
    let Some(wrong) = fails(options) else {
        println!("seed {} of {} does not fail", options.seed, scenario.name());
        return ExitCode::FAILURE;
    };
    println!("seed {} of {} fails: {}", options.seed, scenario.name(), first_line(&wrong));
    let still = |options: &Options| fails(options).is_some_and(|other| kind_of(&other) == kind_of(&wrong));
    let smallest = smallest(options.clone(), still);
    println!(
        "the smallest run that fails in the same way: {}",
        repetition(scenario, options.seed, &smallest)
    );
    println!("{}", fails(&smallest).as_deref().map(first_line).unwrap_or_default());
    ExitCode::SUCCESS
}

/// Leaves out one kind of faults or one client after the other, until none can be left out.
fn smallest(mut options: Options, still_fails: impl Fn(&Options) -> bool) -> Options {
    loop {
        let before = (options.setup.without.len(), options.setup.clients);
        for kind in Fault::all() {
            let mut less = options.clone();
            if !less.setup.without.contains(&kind) {
                less.setup.without.push(kind);
                if still_fails(&less) {
                    options = less;
                }
            }
        }
        for clients in 0..options.setup.clients.unwrap_or(CLIENTS_MAX) {
            let mut less = options.clone();
            less.setup.clients = Some(clients);
            if still_fails(&less) {
                options = less;
                break;
            }
        }
        if (options.setup.without.len(), options.setup.clients) == before {
            return options;
        }
    }
}

fn first_line(wrong: &str) -> &str {
    wrong.lines().next().unwrap_or_default()
}

/// The first words, without numbers.
fn kind_of(wrong: &str) -> Vec<&str> {
    let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    first_line(wrong).split_whitespace().filter(is_word).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::parse(std::iter::empty()).expect("there are no arguments")
    }

    #[test]
    fn only_what_a_failure_needs_is_left() {
        // It needs freezes, cuts and two clients.
        let fails = |options: &Options| {
            let without = &options.setup.without;
            let needs = [Fault::Freeze, Fault::Cut];
            !needs.iter().any(|kind| without.contains(kind))
                && options.setup.clients.is_none_or(|clients| clients >= 2)
        };
        let smallest = smallest(options(), fails).setup;
        assert_eq!(smallest.clients, Some(2));
        let left: Vec<Fault> = Fault::all().filter(|kind| !smallest.without.contains(kind)).collect();
        assert_eq!(left, [Fault::Freeze, Fault::Cut]);
    }

    #[test]
    fn a_failure_of_another_kind_is_another_failure() {
        let old = kind_of("node 1 has \"x\" of row 3");
        assert_eq!(old, kind_of("node 12 has \"x\" of row 40\nmore"));
        assert_ne!(old, kind_of("router 50 panicked: no"));
    }
}

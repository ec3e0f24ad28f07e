//! What the command lines of `guira` and `guira-lab` share.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
pub mod access;
pub mod failure;
pub mod log;
#[cfg(feature = "manual")]
pub mod manual;
pub mod output;
pub mod units;
pub mod whole;

/// The program that measures and demonstrates: `guira` passes the commands of the laboratory on to it.
pub const LAB: &str = "guira-lab";

/// The version of the programs, with the commit where it is known: `0.2.0 (c0812325ab)`.
pub const VERSION: &str = env!("GUIRA_VERSION");

/// The widest line of a help text.
pub const HELP_WIDTH: usize = 100;

/// A command line whose options take negative numbers for values, so that such a number is refused for its value.
#[must_use]
pub fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|task| {
        task.mut_args(|option| {
            let is_value = !option.is_positional() && option.get_action().takes_values();
            if is_value { option.allow_negative_numbers(true) } else { option }
        })
    })
}

/// Reads a command line; prints what is wrong with it, and exits.
pub fn parse<T: clap::FromArgMatches>(command: clap::Command, words: &[std::ffi::OsString]) -> T {
    use clap::error::{ContextKind, ContextValue};
    let shown: Vec<String> = command
        .get_subcommands()
        .filter(|task| !task.is_hide_set())
        .map(|task| task.get_name().to_owned())
        .collect();
    let parsed = command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches));
    parsed.unwrap_or_else(|mut error| {
        // Commands that are not shown are not proposed either.
        if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
            let proposed: Vec<String> = names.iter().filter(|name| shown.contains(name)).cloned().collect();
            error.remove(ContextKind::SuggestedSubcommand);
            if !proposed.is_empty() {
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(proposed));
            }
        }
        error.exit()
    })
}

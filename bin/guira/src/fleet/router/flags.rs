//! The command line of a router, parsed by the rows of [`super::table`].

use super::table::{Effect, Kind, ROWS, Row};
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use guira_cli::failure::Failure;
use std::ffi::OsString;

fn argument(row: &'static Row) -> Arg {
    let argument =
        Arg::new(row.long).long(row.long).help_heading(row.section).hide(row.effect != Effect::Used);
    let argument = match row.short {
        Some(short) => argument.short(short),
        None => argument,
    };
    let argument =
        row.alias.into_iter().fold(argument, |argument, alias| argument.visible_alias(alias)).help(row.about);
    let argument = if row.default.is_empty() { argument } else { argument.default_value(row.default) };
    let whole: ValueParser = (|text: &str| text.parse::<u64>().map(|_| text.to_owned())).into();
    match row.kind {
        Kind::Switch => argument.action(ArgAction::SetTrue),
        Kind::Whole => argument.value_name("N").allow_negative_numbers(true).value_parser(whole),
        Kind::Text => argument.value_name("TEXT").allow_hyphen_values(true),
        Kind::List => argument.value_name("LIST").action(ArgAction::Append).value_delimiter(','),
        Kind::Mode => argument
            .value_name("exit|run")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("exit")
            .value_parser(["exit", "run"]),
    }
}

pub(super) fn command() -> Command {
    Command::new("guira router")
        .about("Route requests to cache servers by mcrouter's configuration")
        .infer_long_args(true)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .max_term_width(110)
        .args(ROWS.iter().map(argument))
        .after_help("Other options of mcrouter are ignored with a note if they cannot change a reply, and refused otherwise:\nsee docs/reference/router-options.md.\n\n`guira router explain CONFIG OP KEY` prints where a request goes: see `guira router explain --help`.\n`guira router replay FOLDER` delivers logged deletes: see `guira router replay --help`.")
}

/// `guira router explain`: the options that a configuration depends on, the configuration, and a request.
pub(super) fn explain_command() -> Command {
    let positional =
        |name: &'static str, help: &'static str| Arg::new(name).required_unless_present("help").help(help);
    command()
        .mut_args(|option| {
            let row = ROWS.iter().find(|row| option.get_id() == row.long);
            let is_shown = row.is_some_and(|row| OF_CONFIGURATION.contains(&row.long));
            option.hide(!is_shown)
        })
        .name("guira router explain")
        .override_usage("guira router explain [OPTIONS] <CONFIG> <OP> <KEY>")
        .about("Print where a configuration sends a request, by route handles and servers, without sending it")
        .arg(positional("CONFIG", "file:PATH, a path, or the configuration itself"))
        .arg(positional("OP", "the operation, by its name in configurations: get, set, delete, lease-get, ..."))
        .arg(positional("KEY", "the key, with its routing prefix if it has one"))
        .after_help("The children of a handle are listed in the order of use: the reply is that of the first one, unless it fails. A child marked \"not awaited\" receives the request too, but its reply is dropped. Macros have the same values as in the router.")
}

/// The options that a configuration depends on.
const OF_CONFIGURATION: [&str; 14] = [
    "route-prefix",
    "send-invalid-route-to-default",
    "service-name",
    "router-name",
    "num-proxies",
    "server-timeout-ms",
    "within-cluster-timeout-ms",
    "cross-cluster-timeout-ms",
    "cross-region-timeout-ms",
    "dns-server",
    "big-value-split-threshold",
    "big-value-batch-size",
    "big-value-hide-reply-flag",
    "help",
];

/// The options that were given, and the defaults of others.
#[derive(Debug)]
pub(super) struct Flags(ArgMatches);

impl Flags {
    /// Parses a command line, of which the first word is the program's name.
    pub(super) fn read(
        command: Command,
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        command.try_get_matches_from(words).map(Flags)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get_one::<String>(name).map(String::as_str)
    }

    pub(super) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get_many::<String>(name).into_iter().flatten().map(String::as_str)
    }

    /// A number, which has a default.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn is_given(&self, row: &Row) -> bool {
        match row.kind {
            Kind::Switch => self.has(row.long),
            _ => self.0.value_source(row.long) == Some(ValueSource::CommandLine),
        }
    }

    /// Notes about options without effect.
    pub(super) fn notes(&self) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        for row in ROWS.iter().filter(|row| self.is_given(row)) {
            match row.effect {
                Effect::Used => {}
                Effect::Nothing(why) => notes.push(format!("--{} has no effect: {why}", row.long)),
                Effect::Refused(why) => return Err(Failure::usage(format!("--{}: {why}", row.long))),
            }
        }
        Ok(notes)
    }

    /// Options in effect with their values.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let used = ROWS.iter().filter(|row| row.effect == Effect::Used);
        used.map(|row| {
            let value = match row.kind {
                Kind::Switch => u8::from(self.has(row.long)).to_string(),
                Kind::List => self.texts(row.long).collect::<Vec<_>>().join(","),
                Kind::Whole | Kind::Text | Kind::Mode => self.text(row.long).unwrap_or_default().to_owned(),
            };
            (row.long.to_owned(), value)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Flags, String> {
        let words = std::iter::once("mcrouter").chain(words.iter().copied()).map(OsString::from);
        Flags::read(command(), words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_rows_make_a_command_line() {
        command().debug_assert();
        explain_command().debug_assert();
        assert!(OF_CONFIGURATION.iter().all(|name| ROWS.iter().any(|row| row.long == *name)));
        let flags = read(&["-p", "5000,5001", "-f", "/etc/x", "--workers", "2", "-t", "20"]).unwrap();
        assert_eq!(flags.texts("port").collect::<Vec<_>>(), ["5000", "5001"]);
        assert_eq!((flags.text("config-file"), flags.text("num-proxies")), (Some("/etc/x"), Some("2")));
        assert_eq!((flags.number("server-timeout-ms"), flags.number("connection-limit")), (20, 65536));
        assert_eq!(read(&["--validate-config"]).unwrap().text("validate-config"), Some("exit"));
        assert_eq!(read(&[]).unwrap().text("validate-config"), None);
    }

    #[test]
    fn options_without_effect_are_noted_and_others_refused() {
        let flags = read(&["--thread-affinity", "--fibers-max-pool-size=10"]).unwrap();
        assert_eq!(flags.notes().unwrap().len(), 2);
        let refused = read(&["--ssl-use-ktls12"]).unwrap().notes().unwrap_err().to_string();
        assert!(refused.contains("TLS"), "{refused}");
        assert!(read(&["--no-such-option"]).unwrap_err().contains("--no-such-option"));
        assert!(read(&["-t", "soon"]).unwrap_err().contains("soon"));
    }
}

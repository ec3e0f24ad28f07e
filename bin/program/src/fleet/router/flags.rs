//! The command line of a router, parsed by the rows of [`super::table`].

use super::table::{Effect, Field, Kind, Manner, ROWS, Row};
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use guira_cli::failure::Failure;
use std::ffi::OsString;

fn argument(row: &'static Row, manner: Manner) -> Arg {
    let argument =
        Arg::new(row.long).long(row.long).help_heading(row.section).hide(row.effect != Effect::Used);
    let argument = match row.short {
        Some(short) => argument.short(short),
        None => argument,
    };
    let argument = argument.visible_aliases(row.aliases.iter().copied()).help(row.about);
    let default = row.default_of(manner);
    let argument = if default.is_empty() { argument } else { argument.default_value(default) };
    match row.kind {
        Kind::Action => argument.action(ArgAction::SetTrue),
        Kind::Switch => argument
            .value_name("0|1")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("1")
            .hide_default_value(default == OFF)
            .value_parser(ValueParser::from(switch)),
        // The value of an option without effect is not looked at.
        Kind::Whole if row.effect != Effect::Used => argument.value_name("N").allow_hyphen_values(true),
        Kind::Whole => {
            argument.value_name("N").allow_negative_numbers(true).value_parser(ValueParser::from(whole))
        }
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

const OFF: &str = "0";
const ON: &str = "1";

/// The value of a switch, as `0` or `1`.
fn switch(text: &str) -> Result<String, String> {
    match text {
        "0" | "false" => Ok(OFF.to_owned()),
        "1" | "true" => Ok(ON.to_owned()),
        _ => Err("use 0, 1, false or true".to_owned()),
    }
}

fn whole(text: &str) -> Result<String, std::num::ParseIntError> {
    text.parse::<u64>().map(|_| text.to_owned())
}

/// The name of the argument without a dash.
const FLAVOR: &str = "FLAVOR";

pub(super) fn command(manner: Manner) -> Command {
    router(manner).arg(Arg::new(FLAVOR).help("a JSON file of options, by mcrouter's names of fields"))
}

fn router(manner: Manner) -> Command {
    Command::new(match manner {
        Manner::Guira => "guira router",
        Manner::Mcrouter => "mcrouter",
    })
        .about("Route requests to cache servers by mcrouter's configuration")
        .infer_long_args(true)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .max_term_width(110)
        .args(ROWS.iter().map(|row| argument(row, manner)))
        .after_help("Other options of mcrouter are ignored with a note, or refused if they promise what the router cannot do:\nsee docs/reference/router-options.md.\n\n`guira router explain CONFIG OP KEY` prints where a request goes: see `guira router explain --help`.\n`guira router replay FOLDER` delivers logged deletes: see `guira router replay --help`.")
}

/// `guira router explain`: the options that a configuration depends on, the configuration, and a request.
pub(super) fn explain_command() -> Command {
    let positional =
        |name: &'static str, help: &'static str| Arg::new(name).required_unless_present("help").help(help);
    router(Manner::Guira)
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
const OF_CONFIGURATION: [&str; 18] = [
    "route-prefix",
    "send-invalid-route-to-default",
    "service-name",
    "router-name",
    "num-proxies",
    "config-params",
    "additional-config-params",
    "runtime-vars-file",
    "disable-shard-split-route",
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

/// Removes options that are unknown from a command line, as mcrouter does. Returns these.
pub(super) fn take_unknown(command: &Command, words: &mut Vec<OsString>) -> Vec<String> {
    let mut unknown = Vec::new();
    while let Err(error) = command.clone().try_get_matches_from(words.iter()) {
        let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { break };
        if error.kind() != ErrorKind::UnknownArgument || !take(words, name) {
            break;
        }
        unknown.push(name.clone());
    }
    unknown
}

/// Whether what is unknown was removed: the first word that is this option, alone or with a value behind `=`, or the last that is
/// this argument without a dash, since those before it may be values of options.
fn take(words: &mut Vec<OsString>, name: &str) -> bool {
    if !name.starts_with('-') {
        let place = words.iter().skip(1).rposition(|word| word == name);
        return place.map(|place| words.remove(place + 1)).is_some();
    }
    if !name.starts_with("--") {
        return name.chars().nth(1).is_some_and(|letter| take_letter(words, letter));
    }
    let is_option = |word: &OsString| {
        let rest = word.to_str().and_then(|word| word.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let place = words.iter().skip(1).position(is_option);
    place.map(|place| words.remove(place + 1)).is_some()
}

/// Whether the first short option with this letter was removed, alone or from a group. What is behind it is its value, unless all of that
/// are short options without one.
fn take_letter(words: &mut Vec<OsString>, letter: char) -> bool {
    let is_alone = |other: char| {
        let row = ROWS.iter().find(|row| row.short == Some(other));
        row.is_some_and(|row| matches!(row.kind, Kind::Switch | Kind::Action | Kind::Mode))
    };
    for place in 1..words.len() {
        let group = words[place].to_str().and_then(|word| word.strip_prefix('-'));
        let Some((before, behind)) = group.and_then(|group| group.split_once(letter)) else { continue };
        if !before.chars().all(is_alone) {
            continue;
        }
        let left = [before, if behind.chars().all(is_alone) { behind } else { "" }].concat();
        if left.is_empty() {
            words.remove(place);
        } else {
            words[place] = format!("-{left}").into();
        }
        return true;
    }
    false
}

impl Flags {
    /// Parses a command line, of which the first word is the program's name.
    pub(super) fn read(
        command: Command,
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        command.try_get_matches_from(words).map(Flags)
    }

    /// Whether a switch is on.
    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name) == Some(ON)
    }

    /// Whether `--help` or `--version` was given.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    /// The argument without a dash.
    pub(super) fn flavor(&self) -> Option<&str> {
        self.0.try_get_one::<String>(FLAVOR).ok().flatten().map(String::as_str)
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

    pub(super) fn is_given(&self, row: &Row) -> bool {
        self.0.value_source(row.long) == Some(ValueSource::CommandLine)
    }

    /// Whether an option, which takes a value, has none or one that switches it off.
    fn is_off(&self, row: &Row) -> bool {
        row.kind != Kind::Action && self.texts(row.long).all(|text| matches!(text, "" | OFF | "false"))
    }

    /// Notes about options without effect.
    pub(super) fn notes(&self) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        for row in ROWS.iter().filter(|row| self.is_given(row)) {
            match row.effect {
                Effect::Used => {}
                Effect::Nothing(why) => notes.push(format!("--{} has no effect: {why}", row.long)),
                // What it promises is not asked for.
                Effect::Refused(_) if self.is_off(row) => {}
                Effect::Refused(why) => return Err(Failure::usage(format!("--{}: {why}", row.long))),
            }
        }
        Ok(notes)
    }

    /// Options with their values in effect, by mcrouter's names of fields.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let shown = ROWS.iter().filter(|row| row.kind != Kind::Action);
        shown.map(|row| (row.field_name(), self.value_of_field(row))).collect()
    }

    fn value_of_field(&self, row: &Row) -> String {
        match (row.kind, row.field) {
            (Kind::Switch, Field::Negated(_)) => u8::from(!self.has(row.long)).to_string(),
            (Kind::List, _) => self.texts(row.long).collect::<Vec<_>>().join(","),
            _ => self.text(row.long).unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn read(words: &[&str]) -> Result<Flags, String> {
        read_as(Manner::Guira, words)
    }

    fn read_as(manner: Manner, words: &[&str]) -> Result<Flags, String> {
        let words = std::iter::once("mcrouter").chain(words.iter().copied()).map(OsString::from);
        Flags::read(command(manner), words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_rows_make_a_command_line() {
        command(Manner::Guira).debug_assert();
        command(Manner::Mcrouter).debug_assert();
        explain_command().debug_assert();
        assert!(OF_CONFIGURATION.iter().all(|name| ROWS.iter().any(|row| row.long == *name)));
        let flags = read(&["-p", "5000,5001", "-f", "/etc/x", "--workers", "2", "-t", "20"]).unwrap();
        assert_eq!(flags.texts("port").collect::<Vec<_>>(), ["5000", "5001"]);
        assert_eq!((flags.text("config-file"), flags.text("num-proxies")), (Some("/etc/x"), Some("2")));
        assert_eq!((flags.number("server-timeout-ms"), flags.number("connection-limit")), (20, 65536));
        assert_eq!(read(&["--proxy-threads=auto"]).unwrap().text("num-proxies"), Some("auto"));
        assert_eq!(read(&["--validate-config"]).unwrap().text("validate-config"), Some("exit"));
        assert_eq!(read(&[]).unwrap().text("validate-config"), None);
    }

    #[test]
    fn options_without_effect_are_noted_and_others_refused() {
        let flags = read(&["--thread-affinity", "--fibers-max-pool-size=10", "--tcp-rto-min", "-1"]).unwrap();
        assert_eq!(flags.notes().unwrap().len(), 3);
        let refused = read(&["--no-network"]).unwrap().notes().unwrap_err().to_string();
        assert!(refused.contains("NullRoute"), "{refused}");
        for off in ["--no-network=0", "--no-network=false", "--additional-ssl-service-identities="] {
            assert_eq!(read(&[off]).unwrap().notes().unwrap(), [""; 0], "{off}");
        }
        assert!(read(&["--no-such-option"]).unwrap_err().contains("--no-such-option"));
        assert!(read(&["-t", "soon"]).unwrap_err().contains("soon"));
    }

    #[test]
    fn a_switch_takes_a_value_behind_an_equals_sign() {
        for (word, expected) in [
            ("--enable-flush-cmd", true),
            ("--enable-flush-cmd=1", true),
            ("--enable-flush-cmd=true", true),
            ("--enable-flush-cmd=0", false),
            ("--enable-flush-cmd=false", false),
        ] {
            assert_eq!(read(&[word]).unwrap().has("enable-flush-cmd"), expected, "{word}");
        }
        assert!(read(&["--enable-flush-cmd=maybe"]).unwrap_err().contains("use 0, 1, false or true"));
    }

    #[test]
    fn defaults_under_the_name_mcrouter_are_its_own() {
        let of = |manner| {
            let flags = read_as(manner, &[]).unwrap();
            let text = |name| flags.text(name).map(str::to_owned);
            let misses = ["disable-miss-on-get-errors", "disable-miss-on-arith-errors"];
            (text("service-name").unwrap(), text("max-dumped-config-age"), misses.map(|name| flags.has(name)))
        };
        assert_eq!(of(Manner::Guira), ("unknown".into(), None, [false, true]));
        assert_eq!(of(Manner::Mcrouter), ("mcrouter".into(), Some("43200".into()), [true, false]));
    }

    #[test]
    fn unknown_options_are_taken_from_a_command_line() {
        let mut words: Vec<OsString> =
            ["mcrouter", "--nothing=5", "-p", "5000", "--no-such-option", "-d"].map(OsString::from).to_vec();
        let unknown = take_unknown(&command(Manner::Mcrouter), &mut words);
        assert_eq!(unknown, ["--nothing", "--no-such-option", "-d"]);
        assert_eq!(words, ["mcrouter", "-p", "5000"]);
    }

    #[test]
    fn what_is_unknown_is_taken_and_nothing_else() {
        for (given, unknown, left) in [
            ("-p 6000 --foo 5 --bar 6", "--foo --bar 6", "-p 6000 5"),
            ("-p 6 flavor 6", "6", "-p 6 flavor"),
            ("-dh -p 5000", "-d", "-h -p 5000"),
            ("-hd -p 5000", "-d", "-h -p 5000"),
            ("-f/dd -dx", "-d", "-f/dd"),
        ] {
            let mut words: Vec<OsString> =
                std::iter::once("mcrouter").chain(given.split(' ')).map(OsString::from).collect();
            assert_eq!(take_unknown(&command(Manner::Mcrouter), &mut words).join(" "), unknown, "{given}");
            assert_eq!(words[1..].join(std::ffi::OsStr::new(" ")), *left, "{given}");
        }
    }

    #[test]
    fn fields_are_shown_by_mcrouters_names() {
        let flags = read(&["-t", "77", "-a", "/x", "--disable-miss-on-get-errors"]).unwrap();
        let shown = flags.shown();
        let of = |field| shown.iter().find(|(name, _)| name == field).map(|(_, value)| &**value);
        assert_eq!((of("server_timeout_ms"), of("async_spool")), (Some("77"), Some("/x")));
        assert_eq!((of("miss_on_get_errors"), of("use_asynclog_version2")), (Some("0"), Some("0")));
        let names: HashSet<&String> = shown.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), shown.len(), "no field is shown twice");
    }

    /// Every option of mcrouter is a row, under its name, its letter and its field.
    #[test]
    fn all_options_of_mcrouter_are_known() {
        let list = include_str!("mcrouter_options.tsv").lines().filter(|line| !line.starts_with('#'));
        let mut missing = Vec::new();
        for line in list {
            let [field, long, short] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}: three columns expected")
            };
            let row = ROWS.iter().find(|row| row.names().any(|name| name == long));
            let is_known = row.is_some_and(|row| {
                let letter = row.short.map_or("-".to_owned(), String::from);
                (field == "-" || row.field_name() == field) && (short == "-" || letter == short)
            });
            if !is_known {
                missing.push(line);
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

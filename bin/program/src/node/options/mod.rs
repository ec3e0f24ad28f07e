//! The options of a server as they are given, and as they are printed. Which options there are is a table of the server's:
//! [`guira_server::OPTIONS`].

mod file;

pub(crate) use file::{ConfigError, line, to_toml};

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use guira_server::{Form, GivenOptions, OPTIONS, OptionRow, Options, OptionsError};

/// The options that were given, as text: on the command line, in a file, or in memcached's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CliOptions(GivenOptions);

/// The option of this name.
pub(crate) fn row(name: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| row.name == name)
}

impl CliOptions {
    /// These values of these options.
    pub(crate) fn of<const N: usize>(options: [(&'static str, &str); N]) -> Self {
        CliOptions(options.map(|(name, text)| (name, vec![text.to_owned()])).into())
    }

    /// These options, and those of `other` that are not among them.
    #[must_use]
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (name, texts) in other.0 {
            self.0.entry(name).or_insert(texts);
        }
        self
    }

    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Gives an option this value in place of any other.
    pub(crate) fn set(&mut self, name: &'static str, text: impl Into<String>) {
        self.0.insert(name, vec![text.into()]);
    }

    /// The value of an option, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.last().map(String::as_str)
    }

    /// Removes the options of which this is true, by name and value.
    pub(crate) fn remove_all(&mut self, is_out: impl Fn(&str, &str) -> bool) {
        self.0.retain(|name, texts| !is_out(name, texts.last().map_or("", String::as_str)));
    }

    /// What the server is started with.
    ///
    /// # Errors
    /// If values are not allowed or contradict each other.
    pub(crate) fn read(&self) -> Result<Options, OptionsError> {
        Options::read(&self.0)
    }
}

/// An option on the command line.
fn argument(row: &'static OptionRow) -> Arg {
    let default = row.default_text();
    let help = match (row.form, default.as_str()) {
        (Form::Switch, "false") => row.help(),
        (_, default) if row.help().contains('\n') => format!("{}\n[default: {default}]", row.help()),
        (_, default) => format!("{} [default: {default}]", row.help()),
    };
    let argument = Arg::new(row.name)
        .long(row.name)
        .help(help)
        .help_heading(row.section)
        .value_name(row.value_name)
        .value_parser(ValueOf(row))
        .hide_possible_values(true)
        .action(if row.is_list { ArgAction::Append } else { ArgAction::Set });
    match row.form {
        Form::Switch => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => argument,
    }
}

/// Checks a value as its option does, and gives completions the names that there are.
#[derive(Clone)]
struct ValueOf(&'static OptionRow);

impl TypedValueParser for ValueOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let row = self.0;
        let check = move |text: String| row.check(&text).map(|()| text);
        StringValueParser::new().try_map(check).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = self.0.names();
        (!names.is_empty()).then(|| Box::new(names.into_iter().map(PossibleValue::new)) as Box<_>)
    }
}

impl clap::Args for CliOptions {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CliOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = OPTIONS.iter().filter_map(|row| {
            let texts = matches.get_many::<String>(row.name)?;
            Some((row.name, texts.cloned().collect()))
        });
        Ok(CliOptions(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?.or(std::mem::take(self));
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! memcached's command line, read by the rows of [`super::table`].

use super::table::{DELIMITER, Effect, FLAGS, Flag, Rewrite, WORDS};
use crate::node::options::{CliOptions, row};
use clap::{Arg, ArgAction, ArgMatches, Command};
use guira_cli::failure::Failure;
use std::ffi::OsString;

/// The flags that may be given several times, each time with more values.
const LISTS: [&str; 2] = ["listen", "extended"];

/// Words that are no options: memcached ignores them.
const OTHERS: &str = "others";

fn argument(flag: &'static Flag) -> Arg {
    let argument = Arg::new(flag.long);
    let argument = match flag.short {
        Some(short) => argument.short(short),
        None => argument,
    };
    let argument = if flag.long == DELIMITER { argument } else { argument.long(flag.long) };
    let argument = argument.help(flag.about).hide(flag.about.is_empty());
    if !flag.effect.has_value() {
        return argument.action(ArgAction::Count);
    }
    let check = |text: &str| match flag.effect {
        Effect::Sets(option, rewrite) => rewritten(option, rewrite, text),
        Effect::Read(_, rewrite) => rewrite(text),
        _ => Ok(text.to_owned()),
    };
    // The value is the word behind the flag, whatever it begins with.
    let argument = argument.value_name(flag.value_name).allow_hyphen_values(true).value_parser(check);
    argument.action(if LISTS.contains(&flag.long) { ArgAction::Append } else { ArgAction::Set })
}

pub(super) fn command() -> Command {
    Command::new("memcached")
        .infer_long_args(true)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .override_usage("memcached [options]; see memcached -h")
        .args(FLAGS.iter().map(argument))
        .arg(Arg::new(OTHERS).hide(true).action(ArgAction::Append))
}

/// The flags that were given.
#[derive(Debug)]
pub(crate) struct Flags(ArgMatches);

impl Flags {
    /// Reads a command line, of which the first word is the program's name.
    pub(super) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        command().try_get_matches_from(words).map(Flags)
    }

    /// How often a flag without a value is given.
    pub(super) fn count(&self, flag: &str) -> u8 {
        self.0.get_count(flag)
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        self.count(flag) > 0
    }

    pub(super) fn value(&self, flag: &str) -> Option<&str> {
        self.0.get_one::<String>(flag).map(String::as_str)
    }

    pub(super) fn number(&self, flag: &str) -> Option<i32> {
        self.value(flag)?.parse().ok()
    }

    pub(super) fn values(&self, flag: &str) -> impl Iterator<Item = &str> {
        self.0.get_many::<String>(flag).into_iter().flatten().map(String::as_str)
    }

    /// The options that the flags set. Flags without effect are added to `warnings`.
    pub(super) fn options(&self, warnings: &mut Vec<String>) -> CliOptions {
        let mut options = CliOptions::default();
        for flag in FLAGS {
            match flag.effect {
                Effect::Sets(option, _) => {
                    self.value(flag.long).into_iter().for_each(|text| options.set(option, text));
                }
                Effect::SetsTo(option, text) if self.has(flag.long) => options.set(option, text),
                Effect::Nothing(why) if self.value(flag.long).is_some() => {
                    let name = flag.short.map_or(flag.long.to_owned(), |short| format!("-{short}"));
                    warnings.push(format!("{name} has no effect: {why} (docs/guide/replacing-memcached.md)"));
                }
                _ => {}
            }
        }
        options.remove_all(|_, text| text.is_empty());
        options
    }

    /// The options that -o sets. Words without effect are added to `warnings`, once each.
    pub(super) fn extended(&self, warnings: &mut Vec<String>) -> Result<CliOptions, Failure> {
        let mut options = CliOptions::default();
        let all = self.values("extended").flat_map(|list| list.split(','));
        for text in all.filter(|text| !text.is_empty()) {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let word = WORDS.iter().find(|word| word.name == name);
            let word = word.ok_or_else(|| Failure::usage(format!("illegal suboption \"{text}\" of -o")))?;
            let wrong = |problem: String| Failure::usage(format!("-o {name}: {problem}"));
            match word.effect {
                Effect::Sets(option, rewrite) => {
                    let value = value.ok_or_else(|| Failure::usage(format!("missing {name} argument")))?;
                    options.set(option, rewritten(option, rewrite, value).map_err(wrong)?);
                }
                Effect::Read(_, check) => {
                    let value = value.ok_or_else(|| Failure::usage(format!("missing {name} argument")))?;
                    check(value).map_err(wrong)?;
                }
                Effect::SetsTo(option, value) => options.set(option, value),
                Effect::Seen => {}
                Effect::Refused(why) => {
                    return Err(wrong(format!("{why} (docs/guide/replacing-memcached.md)")));
                }
                Effect::Nothing(why) => {
                    let warning =
                        format!("-o {name} has no effect: {why} (docs/guide/replacing-memcached.md)");
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                }
            }
        }
        options.remove_all(|_, text| text.is_empty());
        Ok(options)
    }
}

/// Rewrites a value for an option of ours. An empty one stands for the default.
fn rewritten(option: &str, rewrite: Rewrite, text: &str) -> Result<String, String> {
    let text = rewrite(text)?;
    match row(option) {
        Some(row) if !text.is_empty() => row.check(&text).map(|()| text),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(list: &str) -> Result<(CliOptions, Vec<String>), String> {
        let words = ["memcached", "-o", list].map(OsString::from);
        let flags = Flags::read(words).map_err(|error| error.to_string())?;
        let mut warnings = Vec::new();
        let options = flags.extended(&mut warnings).map_err(|error| error.to_string())?;
        Ok((options, warnings))
    }

    #[test]
    fn every_row_sets_an_option_that_exists() {
        let effects = FLAGS.iter().map(|flag| flag.effect).chain(WORDS.iter().map(|word| word.effect));
        for option in effects.filter_map(Effect::option) {
            assert!(row(option).is_some(), "there is no option {option}");
        }
        command().debug_assert();
    }

    #[test]
    fn options_with_an_effect_are_set_and_others_are_warned_of_once() {
        let (options, warnings) =
            extended("idle_timeout=5,hashpower=20,no_maxconns_fast,hashpower=21,modern").unwrap();
        assert_eq!((options.get("idle-timeout"), options.get("beyond-max")), (Some("5"), Some("wait")));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }

    #[test]
    fn what_memcached_takes_for_its_crawler_buffers_and_sizes_is_taken() {
        let (options, warnings) =
            extended("lru_crawler_sleep=100,lru_crawler_tocrawl=0,read_buf_mem_limit=16,track_sizes")
                .unwrap();
        assert_eq!((options.get("connection-memory"), warnings.len()), (Some("16MiB"), 3));
        assert_eq!(extended("read_buf_mem_limit=16,read_buf_mem_limit=0").unwrap().0, CliOptions::default());
    }

    #[test]
    fn bad_options_are_refused_by_name() {
        let error = |list: &str| extended(list).unwrap_err();
        assert!(error("nonsense").contains("illegal suboption \"nonsense\""));
        assert!(error("ext_path=/x:1m").contains("-o ext_path: items are kept in memory only"));
        assert!(error("modern,proxy_config=x").contains("not a proxy"));
        assert!(error("idle_timeout").contains("missing idle_timeout"));
        assert!(error("idle_timeout=x").contains("must be a number"));
        assert!(error("ssl_verify_mode=9").contains("-o ssl_verify_mode: '9' is not a verify mode"));
    }
}

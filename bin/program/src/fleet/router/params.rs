//! Options of the router that need more than a lookup.

use super::flags::Flags;
use super::table::Manner;
use guira_cli::failure::Failure;
use guira_router::{
    Detail, Dump, Failed, Failures, Keepalive, ShardSplits, StatsFilesOptions, Syntax, Variations,
};
use guira_sandbox::SystemCalls;
use std::path::PathBuf;
use std::time::Duration;

/// Parameters for macros, `NAME:VALUE` each.
pub(super) fn of_configuration(flags: &Flags) -> Result<Vec<(String, String)>, Failure> {
    let mut params = Vec::new();
    for option in ["config-params", "additional-config-params"] {
        for text in flags.texts(option).filter(|text| !text.is_empty()) {
            let Some((name, value)) = text.split_once(':') else {
                return Err(Failure::usage(format!(
                    "--{option}: '{text}' does not have the form NAME:VALUE"
                )));
            };
            params.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(params)
}

pub(super) fn system_calls(flags: &Flags) -> Result<SystemCalls, Failure> {
    let text = flags.text("system-calls").unwrap_or_default();
    text.parse().map_err(|error| Failure::usage(format!("--system-calls: '{text}' {error}")))
}

/// A path that is not empty.
pub(super) fn path(flags: &Flags, option: &str) -> Option<PathBuf> {
    flags.text(option).filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(super) fn variations(flags: &Flags) -> Variations {
    let is_ignored = flags.has("disable-shard-split-route");
    Variations {
        runtime_vars: path(flags, "runtime-vars-file"),
        shard_splits: if is_ignored { ShardSplits::Ignored } else { ShardSplits::Used },
    }
}

pub(super) fn dump(flags: &Flags) -> Option<Dump> {
    let age = flags.text("max-dumped-config-age").and_then(|text| text.parse().ok());
    Some(Dump { root: path(flags, "config-dump-root")?, age_max: age.map(Duration::from_secs) })
}

pub(super) fn failures(flags: &Flags, manner: Manner) -> Failures {
    let unless = |option: &str| if flags.has(option) { Failed::AreErrors } else { Failed::AreMisses };
    Failures {
        gets: unless("disable-miss-on-get-errors"),
        arithmetic: unless("disable-miss-on-arith-errors"),
        syntax: if manner == Manner::Mcrouter { Syntax::Mcrouter } else { Syntax::Memcached },
        detail: if flags.has("group-remote-errors") { Detail::Grouped } else { Detail::Cause },
    }
}

/// Statistics in files, if there is a folder for them.
pub(super) fn stats_files(flags: &Flags) -> Option<StatsFilesOptions> {
    let root = path(flags, "stats-root")?;
    let interval = Duration::from_millis(flags.number("stats-logging-interval"));
    let pools = path(flags, "pool-stats-config-file");
    (!interval.is_zero()).then_some(StatsFilesOptions { root, interval, pools })
}

/// The range that Linux accepts for each number of keepalive.
const KEEPALIVE_COUNT_MAX: u64 = 127;
const KEEPALIVE_SECONDS_MAX: u64 = 32767;

pub(super) fn keepalive(flags: &Flags) -> Result<Option<Keepalive>, Failure> {
    let read = |option: &str, least: u64, most: u64| match flags.number(option) {
        number if (least..=most).contains(&number) => Ok(number),
        number => Err(Failure::usage(format!("--{option} must be {least} to {most}, not {number}"))),
    };
    let seconds = |option: &str| read(option, 1, KEEPALIVE_SECONDS_MAX).map(Duration::from_secs);
    let count = read("keepalive-count", 0, KEEPALIVE_COUNT_MAX)? as u32;
    let (idle, interval) = (seconds("keepalive-idle")?, seconds("keepalive-interval")?);
    Ok((count > 0).then_some(Keepalive { count, idle, interval }))
}

/// The longest version, in bytes.
const VERSION_MAX: usize = 100;

/// The version that clients receive, as one line.
pub(super) fn version(flags: &Flags) -> Result<String, Failure> {
    let text = flags.text("reported-version").unwrap_or_default();
    let is_line = (1..=VERSION_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    if !is_line {
        return Err(Failure::usage(format!("--reported-version: use a line of 1 to {VERSION_MAX} bytes")));
    }
    Ok(text.to_owned())
}

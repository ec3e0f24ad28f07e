//! `guira router replay`: delivers deletes that a router or mcrouter logged.

use super::flags::Flags;
use super::table::Manner;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use guira_cli::failure::Failure;
use guira_cli::output;
use guira_router::{
    FileEnd, FileFate, FileReport, LeftReason, ReplayManner, ReplayOptions, ReplayReport, ReplayTakes,
    RouterOptions, replay,
};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The word behind `guira router`.
pub(super) const NAME: &str = "replay";

const NOTES: &str =
    "Each delete is sent to the server in its line. With a configuration, the router's rules apply: if
the server is no longer configured, the pool in the line (AS2.0) determines the server. A file is
removed when all its deletes are delivered. A delete may be delivered twice, which is harmless.
Files that a running router writes to are skipped, and for 15 minutes those of mcrouter.

Exit codes: 0 if all deletes were delivered, 1 if some are left or failed, 2 if the command line
is wrong.";

/// Deliver deletes that a router or mcrouter logged in a folder.
#[derive(Debug, Parser)]
#[command(name = "guira router replay", bin_name = "guira router replay", after_help = NOTES, max_term_width = 110)]
struct Args {
    /// The folder of the log: --async-dir of the router.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The router's configuration: file:PATH, a path, or the text itself.
    #[arg(long, value_name = "TEXT")]
    config: Option<String>,
    /// Route of keys without a prefix: /region/cluster/.
    #[arg(long, value_name = "TEXT", requires = "config")]
    route_prefix: Option<String>,
    /// Print the plan and exit.
    #[arg(long)]
    dry_run: bool,
    /// Also replay recent files of mcrouter, to which a running mcrouter would still write.
    #[arg(long)]
    mcrouter_has_ended: bool,
    /// Maximum deletes per second.
    #[arg(long, value_name = "N", default_value = "10000")]
    rate: NonZeroU32,
    /// Timeout of a server in milliseconds, unless the configuration sets one.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    timeout_ms: u32,
    /// Also print files without any replayed deletes.
    #[arg(long, short)]
    verbose: bool,
    /// Options of the router for its configuration and connections: macros, timeouts, TLS.
    #[arg(last = true, value_name = "OPTION OF THE ROUTER", requires = "config")]
    of_router: Vec<OsString>,
}

/// Some deletes are left.
const EX_LEFT: u8 = 1;
const EX_USAGE: u8 = 2;

#[cfg(test)]
pub(super) fn command() -> clap::Command {
    Args::command()
}

/// Runs with this command line, of which the first word is [`NAME`].
pub(super) fn main(words: &[OsString]) -> ExitCode {
    let parsed = Args::command().try_get_matches_from(words);
    let args = match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(error) => {
            // If this fails there is no place to report it.
            let _ = error.print();
            let is_help = error.kind() == ErrorKind::DisplayHelp;
            return if is_help { ExitCode::SUCCESS } else { ExitCode::from(EX_USAGE) };
        }
    };
    match run(&args) {
        Ok(report) if report.is_complete() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(EX_LEFT),
        Err(failure) => crate::report(&failure),
    }
}

fn run(args: &Args) -> Result<ReplayReport, Failure> {
    let options = ReplayOptions {
        folder: args.folder.clone(),
        routing: args.config.as_ref().map(|config| routing(args, config)).transpose()?,
        rate: args.rate,
        timeout: Duration::from_millis(u64::from(args.timeout_ms)),
        manner: if args.dry_run { ReplayManner::Pretend } else { ReplayManner::Deliver },
        takes: match args.mcrouter_has_ended {
            true => ReplayTakes::OfMcrouterToo,
            false => ReplayTakes::Finished,
        },
    };
    let mut printed = Ok(());
    let report = replay(&options, &mut |file| {
        if printed.is_ok() {
            printed = output::print(&about(file, args));
        }
    })?;
    printed.and_then(|()| output::print(&sum(&report, args)))?;
    Ok(report)
}

/// The options of a router with this configuration.
fn routing(args: &Args, config: &str) -> Result<RouterOptions, Failure> {
    let prefix = args.route_prefix.as_ref().map(|prefix| format!("--route-prefix={prefix}"));
    let words = ["guira router".to_owned(), format!("--config={config}")].into_iter().chain(prefix);
    let words = words.map(OsString::from).chain(args.of_router.iter().cloned());
    let flags = Flags::read(super::flags::command(Manner::Guira), words);
    let flags = flags.map_err(|error| Failure::usage(error.to_string()))?;
    super::options(&flags, super::Manner::Guira, super::source(&flags)?, "")
}

fn about(file: &FileReport, args: &Args) -> String {
    let is_silent = file.delivered == 0
        && file.left.is_empty()
        && file.fate == FileFate::Kept
        && file.unreadable.count + file.refused.count == 0
        && file.error.is_none()
        && file.end == FileEnd::Whole;
    if is_silent && !args.verbose {
        return String::new();
    }
    let done = if args.dry_run { "to deliver" } else { "delivered" };
    let mut text = format!("{}: {} {done}", file.name, file.delivered);
    if file.fate == FileFate::Removed {
        text.push_str(", removed");
    }
    text.push('\n');
    for left in &file.left {
        let reason = match &left.reason {
            LeftReason::Down(reason) => reason,
            LeftReason::Homeless => "neither the server nor its pool is configured",
        };
        text.push_str(&format!("  {} left for {}: {reason}\n", left.count, left.server));
    }
    if file.refused.count > 0 {
        text.push_str(&format!("  {} refused; {}\n", file.refused.count, file.refused.first));
    }
    if file.unreadable.count > 0 {
        text.push_str(&format!("  {} lines skipped; {}\n", file.unreadable.count, file.unreadable.first));
    }
    if file.end == FileEnd::Torn {
        text.push_str("  skipped the incomplete last line\n");
    }
    if let Some(error) = &file.error {
        text.push_str(&format!("  {error}\n"));
    }
    text
}

fn sum(report: &ReplayReport, args: &Args) -> String {
    let done = if args.dry_run { "to deliver" } else { "delivered" };
    let ReplayReport { files, removed, delivered, refused, unreadable, left, busy, .. } = report;
    let mut text = format!("{files} files, {removed} removed; deletes: {delivered} {done}, {left} left");
    if *refused > 0 {
        text.push_str(&format!(", {refused} refused"));
    }
    if *unreadable > 0 {
        text.push_str(&format!("; {unreadable} lines skipped"));
    }
    if *busy > 0 {
        text.push_str(&format!("; skipped {busy} files that another process may be writing or replaying"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let args = Args::try_parse_from(["replay", "/spool", "--dry-run", "--config", "file:x"]).unwrap();
        assert!(args.dry_run && args.config.as_deref() == Some("file:x"));
        let args =
            Args::try_parse_from(["replay", "/spool", "--config", "x", "--", "--ssl-verify-peers", "-t9"])
                .unwrap();
        assert_eq!(args.of_router, ["--ssl-verify-peers", "-t9"]);
        for wrong in [
            &["replay"][..],
            &["replay", "/spool", "--rate", "0"],
            &["replay", "a", "b"],
            &["replay", "a", "--", "-t9"],
        ] {
            assert!(Args::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }
}

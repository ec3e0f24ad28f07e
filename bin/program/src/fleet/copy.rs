//! `guira copy`: fills cache servers with the items of another one.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::units::{Count, Span};
use guira_client::pools::{Builder, Client, SetupError};
use guira_client::text::Endpoint;
use guira_client::tls::Trust;
use guira_copy::{Counts, Job, Lifetime, Observer, copy};
use guira_discovery::{FollowError, Following, Source};
use guira_sync::clock::Stopwatch;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a server may take to reply.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two lines of progress without a terminal.
const REPORT: Duration = Duration::from_secs(30);

const FILE: &str = "file:";

const NOTES: &str =
    "SOURCE is a node or memcached 1.6. The copy keeps keys, values, flags and expiry, and never replaces
an item of the destination: a second run copies the missing items. It reads every value again.

DESTINATION is a server, several servers separated by commas, or a router's configuration, which
determines the server of each key. Servers with TLS are written as HOST:PORT:ascii:ssl.

A value that changes in the source after it was copied stays old in the destination until it
expires: send writes and deletes to both while the copy runs, or limit the time with --ttl.

Exit codes: 0 if all items were copied or already there, 1 if some failed or the copy stopped,
2 if the command line is wrong.

Examples:
  guira copy old:11211 new:11211 --rate 20k
  guira copy old:11211 a:11211,b:11211 --prefix user: --ttl 10m
  guira copy old:11211 file:/etc/guira/router.json";

/// Arguments of `guira copy`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    /// Server that has the items, as HOST:PORT or unix:PATH.
    #[arg(value_name = "SOURCE")]
    source: Endpoint,
    /// Servers to fill: HOST:PORT,... or unix:PATH, or file:PATH of a router's configuration.
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Copy only keys that begin with this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Maximum items per second [default: no limit, over one connection]
    #[arg(long, value_name = "N")]
    rate: Option<Count>,
    /// How long copies live: keep for the remaining time of the item, or at most this time.
    #[arg(long, value_name = "keep|TIME", default_value = "keep")]
    ttl: Ttl,
    /// PEM file of the authorities for certificates of DESTINATION.
    #[arg(long, value_name = "FILE")]
    destination_tls_ca: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Connection to SOURCE")]
    access: Access,
}

/// The argument of `--ttl`.
#[derive(Clone, Copy, Debug)]
struct Ttl(Lifetime);

impl FromStr for Ttl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "keep" {
            return Ok(Ttl(Lifetime::Kept));
        }
        let Span(time) = text.parse().map_err(|error| format!("{error}, or keep"))?;
        let seconds = NonZeroU64::new(time.as_secs()).ok_or("use at least 1s, or keep")?;
        Ok(Ttl(Lifetime::AtMost(seconds)))
    }
}

impl Args {
    fn job(&self) -> Result<Job, Failure> {
        let rate = self.rate.map(|Count(rate)| {
            let rate = u32::try_from(rate).ok().and_then(NonZeroU32::new);
            rate.ok_or_else(|| Failure::usage("--rate must be at least 1 and less than 4G"))
        });
        Ok(Job {
            source: self.access.target(&self.source, TIMEOUT)?,
            destination: self.destination()?,
            prefix: self.prefix.clone().into_bytes(),
            rate: rate.transpose()?,
            lifetime: self.ttl.0,
        })
    }

    fn destination(&self) -> Result<Client, Failure> {
        let build = |builder: Builder| {
            let builder = builder.timeout(TIMEOUT).whole_keys();
            match &self.destination_tls_ca {
                Some(path) => builder.trust(Trust::Authority(path)),
                None => builder,
            }
        };
        if self.destination.starts_with(FILE) {
            let following = Following::of(Source::named(&self.destination));
            return following.client(build).map_err(|error| match error {
                FollowError::Setup(error) => refused(&error),
                error => error.into(),
            });
        }
        let servers: Vec<&str> =
            self.destination.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        Client::new(&build(Builder::servers(&servers))).map_err(|error| refused(&error))
    }
}

/// A destination that cannot be used.
fn refused(error: &SetupError) -> Failure {
    let reason = format!("DESTINATION cannot be used: {error}");
    match error {
        SetupError::Tls(_) => Failure::usage(format!("{reason}; use --destination-tls-ca")),
        SetupError::Config(_) | SetupError::NoServers => Failure::usage(reason),
        _ => Failure::new(reason),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let job = args.job()?;
    let signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::system("cannot wait for signals"))?;
    let mut progress = Progress::new(signals);
    let report = copy(&job, &mut progress);
    progress.bar.finish_and_clear();
    for reason in &report.reasons {
        let (items, key) = (reason.items, reason.example.escape_ascii());
        eprintln!("guira: {items} not copied, the first {key}: {}", reason.text);
    }
    // Without a list of keys there is nothing to count.
    if report.keys > 0 || report.error.is_none() {
        println!("{report}");
    }
    match report.error {
        Some(error) => Err(error.into()),
        None if report.counts.failed > 0 => {
            Err(Failure::new(format!("{} of {} items were not copied", report.counts.failed, report.keys)))
        }
        None => Ok(()),
    }
}

/// Progress on the terminal, or in lines on standard error.
struct Progress {
    signals: Signals,
    bar: ProgressBar,
    phase: Phase,
    reported: Stopwatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Listing,
    Copying,
}

impl Progress {
    fn new(signals: Signals) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} listing keys: {pos}") {
            bar.set_style(style);
        }
        Progress { signals, bar, phase: Phase::Listing, reported: Stopwatch::start() }
    }

    /// Prints a line now and then if there is no terminal.
    fn report(&mut self, text: impl FnOnce() -> String) {
        if self.bar.is_hidden() && self.reported.elapsed() >= REPORT {
            self.reported = Stopwatch::start();
            eprintln!("{}", text());
        }
    }
}

impl Observer for Progress {
    fn is_stopped(&mut self) -> bool {
        self.signals.pending().next().is_some()
    }

    fn listing(&mut self, keys: u64) {
        self.bar.set_position(keys);
        self.report(|| format!("listing keys: {keys}"));
    }

    fn copying(&mut self, keys: u64, counts: &Counts) {
        if self.phase == Phase::Listing {
            self.phase = Phase::Copying;
            self.bar.reset();
            self.bar.set_length(keys);
            let template = "copying {bar:40} {percent} %, {per_sec}, {eta} left; {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
        }
        self.bar.set_position(counts.done());
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{}, {} failed", HumanBytes(counts.bytes), counts.failed));
        }
        self.report(|| format!("copying: {} of {keys} keys done, {} failed", counts.done(), counts.failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_kept_or_limited() {
        let of = |text: &str| text.parse::<Ttl>().map(|ttl| ttl.0);
        assert_eq!(of("keep"), Ok(Lifetime::Kept));
        assert_eq!(of("10m"), Ok(Lifetime::AtMost(NonZeroU64::new(600).unwrap())));
        for wrong in ["0", "10ms", "forever", ""] {
            assert!(of(wrong).is_err_and(|why| why.contains("keep")), "{wrong}");
        }
    }
}

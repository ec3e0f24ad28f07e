//! `guira sim`: hit ratios of replacement policies, simulated.

use std::fs::File;
use std::path::PathBuf;
use std::thread;

use guira_load::LoadError;
use guira_load::clock::{Clock, MonotonicClock};
use guira_sim::{Choice, Means, Measure, OnMiss, Reading, Rules, Sample, Size, Stream, Sweep, Writes};
use guira_workload::trace::{Format, Trace};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::show;
use crate::units::Count;

/// Arguments of `guira sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The trace, plain or compressed with zstd.
    trace: PathBuf,
    /// How it is written; guessed from its name and first bytes when left out.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Policies, separated by commas, each as NAME[:key=value,…].
    #[arg(long, value_name = "POLICIES", default_value = "clock,exact-lru")]
    policy: String,
    /// Sizes of the cache: 5% of the keys, 4000 objects, or 64MiB.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "1%,5%,10%,25%,50%")]
    sizes: Vec<Size>,
    /// Simulate only the first requests.
    #[arg(long, value_name = "N")]
    limit: Option<Count>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Policies as they are separated by commas: what has a `=` and no `:` is a further option of the one before.
fn policies(text: &str) -> Result<Vec<Choice>, Failure> {
    let mut written: Vec<String> = Vec::new();
    for part in text.split(',') {
        match written.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => written.push(part.trim().to_owned()),
        }
    }
    let parse = |text: &String| Choice::parse(text).map_err(|error| Failure::Usage(error.to_string()));
    written.iter().map(parse).collect()
}

/// Simulates and prints what came of it.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let policies = policies(&args.policy)?;
    let path = &args.trace;
    let file = File::open(path).map_err(|source| LoadError::File { path: path.clone(), source })?;
    let trace = Trace::new(file, args.format).map_err(|error| LoadError::Trace(Box::new(error)))?;
    let limit = args.limit.map_or(u64::MAX, |Count(limit)| limit);
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit };
    let stream = Stream::read(trace, reading).map_err(|error| LoadError::Trace(Box::new(error)))?;
    let sizes: Vec<(Size, u64)> = args.sizes.iter().map(|size| (*size, size.room(&stream))).collect();
    let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    let bar = ProgressBar::new((stream.len() * sizes.len() * policies.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent} % of {human_len} requests, {per_sec}")
    {
        bar.set_style(style);
    }
    let clock = MonotonicClock::start();
    let means = Means {
        threads: thread::available_parallelism().map_or(1, usize::from),
        now_ns: &|| clock.now_ns(),
        progress: &|count| bar.inc(count),
    };
    let sweep = Sweep { stream: &stream, policies: &policies, sizes: &sizes, rules };
    let points = sweep.run(means).map_err(|error| Failure::Usage(error.to_string()))?;
    bar.finish_and_clear();
    if args.json {
        println!("{}", show::to_json(&points)?);
    } else {
        for point in points {
            println!(
                "{} {} {:.2} % {:.1} M/s",
                point.size,
                point.policy,
                100.0 * point.hit_ratio,
                point.requests_per_s / 1e6
            );
        }
    }
    Ok(())
}

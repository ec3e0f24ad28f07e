//! `guira sim`: hit ratios of replacement policies, simulated.

mod source;

use std::path::PathBuf;
use std::thread;

use clap::ValueEnum;
use guira_load::LoadError;
use guira_load::clock::{Clock, MonotonicClock};
use guira_sim::report::{compare, note_uncertainty};
use guira_sim::{
    Choice, Means, Measure, OnMiss, Point, Reading, Report, Rules, Sample, Simulated, Size, Stream, Sweep,
    Writes, plot, policies as all_policies,
};
use guira_workload::recipe;
use guira_workload::trace::Format;
use indicatif::{ProgressBar, ProgressStyle};
use source::Source;

use crate::failure::Failure;
use crate::show;
use crate::units::{Bytes, Count};
use crate::workload::{BrokenLine, formats};

/// What there is, and examples.
fn after_help() -> String {
    format!(
        "Policies:
{}  Those of the engine also take pace=REQUESTS, which are a second where the trace tells no time: 1000.

Formats of traces (zstd is recognised):
{}
Workloads: `guira sim --list` tells all with their options.

Examples:
  guira sim lab/workload/traces/cache2k-orm-busy.trace.zst --policy all
  guira sim trace.csv --curve 20 --policy clock,lirs:high=2,belady --plot misses.svg
  guira sim cluster52.0.zst --on-miss leave --sizes 64M,256M,1G --shards 1% --broken skip
  guira sim --workload zipf:keys=10m,alpha=0.99,requests=50m --shards 16k --exact
  guira sim --workload twitter-034 --sizes 5%,10%,20% --json",
        policies(),
        formats()
    )
}

/// Arguments of `guira sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// The trace, plain or compressed with zstd.
    #[arg(required_unless_present_any = ["workload", "list"])]
    trace: Option<PathBuf>,
    /// Requests that are made up instead, as NAME[:key=value,...].
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "trace")]
    workload: Option<String>,
    /// Tell which policies, workloads and formats there are, and do nothing else.
    #[arg(long, conflicts_with_all = ["trace", "workload"])]
    list: bool,
    /// How the trace is written; guessed from its first bytes when left out.
    #[arg(long, value_name = "FORMAT", conflicts_with = "workload")]
    format: Option<Format>,
    /// What a broken line of the trace leads to.
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    broken: BrokenLine,
    /// Policies, separated by commas, each as NAME[:key=value,...], or all.
    #[arg(long, value_name = "POLICIES", default_value = "clock,exact-lru,belady")]
    policy: String,
    /// Sizes of the cache, separated by commas: 5% of the keys, 4000 objects, or 64MiB.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "1%,5%,10%,25%,50%")]
    sizes: Vec<Size>,
    /// So many sizes instead, from a thousandth of the keys to all of them: a miss-ratio curve.
    #[arg(long, value_name = "N", conflicts_with = "sizes", value_parser = clap::value_parser!(u16).range(2..))]
    curve: Option<u16>,
    /// Simulate only the first requests.
    #[arg(long, value_name = "N")]
    limit: Option<Count>,
    /// What a miss leads to; workloads know it themselves.
    #[arg(long, value_name = "WHAT")]
    on_miss: Option<MissAction>,
    /// What a request that writes is.
    #[arg(long, value_name = "WHAT", default_value = "store")]
    writes: WriteMeaning,
    /// Bytes of key and value where the trace does not tell, for sizes in bytes.
    #[arg(long, value_name = "BYTES", default_value = "1000")]
    value_size: Bytes,
    /// Bytes that the cache needs for an object beside its key and value, for sizes in bytes.
    #[arg(long, value_name = "BYTES", default_value = "16")]
    overhead: Bytes,
    /// Simulate a sample of the keys: a share such as 1%, or a number such as 8k, which bounds memory.
    #[arg(long, value_name = "SAMPLE")]
    shards: Option<Sample>,
    /// Simulate all keys beside the sample, and tell how far off it is.
    #[arg(long, requires = "shards")]
    exact: bool,
    /// Threads that simulate; as many as there are processors when left out.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Draw the miss ratios into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissAction {
    /// The key is stored, as a look-aside client does.
    Fill,
    /// Nothing: the trace itself holds the sets that followed misses.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WriteMeaning {
    /// It stores, and is neither a hit nor a miss.
    Store,
    /// It asks, as one that reads: a block cache, in whose traces every request counts.
    Ask,
}

/// Parts of a sample that are simulated by themselves, to learn how uncertain it is.
const PARTS: u64 = 4;

impl Args {
    fn sizes(&self) -> Result<Vec<Size>, Failure> {
        let sizes = self.curve.map_or_else(|| self.sizes.clone(), |count| Size::curve(count.into()));
        let in_bytes = sizes.iter().filter(|size| size.is_bytes()).count();
        if in_bytes != 0 && in_bytes != sizes.len() {
            return Err(Failure::Usage("sizes must be all in bytes, or none".to_owned()));
        }
        Ok(sizes)
    }

    fn rules(&self, source: &Source, sizes: &[Size]) -> Result<Rules, Failure> {
        let bytes = |Bytes(bytes): Bytes| {
            u32::try_from(bytes)
                .map_err(|_| Failure::Usage(format!("{bytes} bytes are too many for an object")))
        };
        let on_miss = match self.on_miss {
            Some(MissAction::Fill) => OnMiss::Fill,
            Some(MissAction::Leave) => OnMiss::Leave,
            None => source.on_miss(),
        };
        let measure = if sizes.iter().any(|size| size.is_bytes()) {
            Measure::Bytes { size: bytes(self.value_size)?, overhead: bytes(self.overhead)? }
        } else {
            Measure::Objects
        };
        Ok(Rules { on_miss, measure })
    }

    fn reading(&self, sample: Sample) -> Reading {
        let writes = match self.writes {
            WriteMeaning::Store => Writes::Store,
            WriteMeaning::Ask => Writes::Ask,
        };
        Reading { writes, sample, limit: self.limit.map_or(u64::MAX, |Count(limit)| limit) }
    }

    fn source(&self) -> Result<Source, Failure> {
        match (&self.workload, &self.trace) {
            (Some(text), _) => Source::workload(text),
            (None, Some(path)) => Ok(Source::trace(path.clone(), self.format, self.broken.into())),
            (None, None) => Err(Failure::Usage("there is neither a trace nor a workload".to_owned())),
        }
    }
}

/// Policies at sizes, ready to be simulated on any stream.
struct Plan {
    policies: Vec<Choice>,
    sizes: Vec<Size>,
    rules: Rules,
    threads: usize,
}

impl Plan {
    /// Simulates all of it, with a bar that tells how far it is.
    fn run(&self, stream: &Stream) -> Result<Vec<Point>, Failure> {
        let bar = ProgressBar::new((stream.len() * self.sizes.len() * self.policies.len()) as u64);
        if let Ok(style) =
            ProgressStyle::with_template("simulating {bar:40} {percent} %, {per_sec}, {eta} left")
        {
            bar.set_style(style);
        }
        let clock = MonotonicClock::start();
        let means =
            Means { threads: self.threads, now_ns: &|| clock.now_ns(), progress: &|count| bar.inc(count) };
        let sweep = Sweep { stream, policies: &self.policies, sizes: &self.sizes, rules: self.rules };
        let points = sweep.run(means).map_err(|error| Failure::Usage(error.to_string()));
        bar.finish_and_clear();
        points
    }
}

/// Simulates and prints what came of it.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        print!("{}", list());
        return Ok(());
    }
    let source = args.source()?;
    let sizes = args.sizes()?;
    let plan = Plan {
        policies: Choice::parse_list(&args.policy).map_err(|error| Failure::Usage(error.to_string()))?,
        rules: args.rules(&source, &sizes)?,
        sizes,
        threads: args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
    };
    let sample = args.shards.unwrap_or(Sample::All);
    let read = source.read(args.reading(sample))?;
    if read.stream.is_empty() {
        return Err(Failure::Usage(format!("{}: there are no requests to simulate", source.name())));
    }
    let mut points = plan.run(&read.stream)?;
    if sample != Sample::All {
        let parts: Result<Vec<_>, _> =
            (0..PARTS).map(|index| plan.run(&read.stream.part(index, PARTS))).collect();
        note_uncertainty(&mut points, &parts?);
    }
    let exact = match args.exact {
        true => plan.run(&source.read(args.reading(Sample::All))?.stream)?,
        false => Vec::new(),
    };
    let report = Report {
        source: source.name(),
        about: read.about,
        simulated: Simulated::from(&read.stream),
        rules: plan.rules,
        errors: compare(&points, &exact),
        points,
        exact,
    };
    show(args, &report)
}

fn show(args: &Args, report: &Report) -> Result<(), Failure> {
    if args.json {
        println!("{}", show::to_json(report)?);
    } else {
        print!("{}", report.text());
    }
    let Some(path) = &args.plot else { return Ok(()) };
    let name = path.display().to_string();
    let svg = plot::miss_ratios(report).map_err(|problem| LoadError::Plot { name, problem })?;
    std::fs::write(path, svg).map_err(|source| LoadError::File { path: path.clone(), source }.into())
}

/// The policies, one a line.
fn policies() -> String {
    all_policies().map(|entry| format!("  {:<15} {}\n", entry.name, entry.about)).collect()
}

/// All policies, workloads and formats.
fn list() -> String {
    let workloads: String = recipe::list()
        .into_iter()
        .map(|(name, options, about)| format!("  {name:<15} {about} ({options})\n"))
        .collect();
    format!(
        "Policies:\n{}\nWorkloads, as NAME[:key=value,...]:\n{workloads}\nFormats of traces:\n{}",
        policies(),
        formats()
    )
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn everything_is_listed() {
        let text = list();
        for name in ["clock", "belady", "zipf", "twitter-034", "fb-page", "oracle-general"] {
            assert!(text.contains(&format!("  {name} ")), "{name} in\n{text}");
        }
    }
}

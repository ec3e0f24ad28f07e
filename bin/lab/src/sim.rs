//! `guira sim`: simulates hit ratios of eviction policies, and layouts of memory.

mod layouts;
mod recommend;

use std::path::PathBuf;
use std::thread;

use guira_load::LoadError;
use guira_load::clock::{Clock, MonotonicClock};
use guira_sim::report::{PARTS, compare, note_uncertainty};
use guira_sim::{
    Choice, Means, Point, Report, Rules, Sample, Simulated, Size, Stream, Sweep, plot,
    policies as all_policies,
};
use guira_workload::recipe;

use crate::requests::RequestArgs;
use crate::show;
use crate::workload::formats;
use guira_cli::failure::Failure;

/// Policies, layouts, formats and examples.
fn after_help() -> String {
    format!(
        "Policies:
{}  Policies of the engine also have pace=REQUESTS per second for traces without times, 1000.

Layouts:
{}
Formats of traces (plain or zstd):
{}
Workloads: see `guira sim --list`.

Examples:
  guira sim trace.csv --recommend
  guira sim keys.txt --recommend --value-size 300 --size 4GiB
  guira sim lab/workload/traces/cache2k-orm-busy.trace.zst --policy all
  guira sim trace.csv --curve 20 --policy clock,lirs:high=2,belady --plot misses.svg
  guira sim cluster52.0.zst --on-miss leave --sizes 64M,256M,1G --shards 1% --broken skip
  guira sim --workload zipf:keys=10m,alpha=0.99,requests=50m --shards 16k --exact
  guira sim --workload twitter-034 --sizes 5%,10%,20% --json
  guira sim --workload cachelib --layouts slab,slab:policy=s3-fifo,segments --sizes 64M,128M",
        policies(),
        layouts::list(),
        formats()
    )
}

/// Arguments of `guira sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    #[command(flatten)]
    requests: RequestArgs,
    /// List policies, layouts, workloads and formats, and exit.
    #[arg(long, conflicts_with_all = ["trace", "workload"])]
    list: bool,
    /// Policies to simulate, separated by commas, as NAME[:key=value,...], or `all`.
    #[arg(long, value_name = "POLICIES", default_value = "clock,exact-lru,belady")]
    policy: String,
    /// Recommend a policy and a memory size for the server, with the misses at twice and half the size. With --size, judge
    /// that size instead: 4GiB is all of a server's memory.
    #[arg(long, conflicts_with_all = ["policy", "layouts", "curve", "exact", "plot"])]
    recommend: bool,
    /// Simulate the memory of whole caches byte by byte: layouts separated by commas, as NAME[:key=value,...]. Sizes are
    /// all of a cache's memory, or shares of the bytes of all items.
    #[arg(long, value_name = "LAYOUTS", conflicts_with_all = ["policy", "shards", "exact", "plot"])]
    layouts: Option<String>,
    /// Cache sizes, separated by commas: 5% of the keys, 4000 objects, or 64MiB [default: 1%,5%,10%,25%,50%]
    #[arg(long, visible_alias = "size", value_name = "SIZES", value_delimiter = ',')]
    sizes: Vec<Size>,
    /// Simulate N sizes, from a thousandth of the keys to all of them, for a miss-ratio curve.
    #[arg(long, value_name = "N", conflicts_with = "sizes", value_parser = clap::value_parser!(u16).range(2..))]
    curve: Option<u16>,
    /// Simulate all keys too, and print the error of the sample.
    #[arg(long, requires = "shards")]
    exact: bool,
    /// Threads [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write a plot of the miss ratios to this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Default sizes, in percent of the keys.
const USUAL_SIZES: [f64; 5] = [1.0, 5.0, 10.0, 25.0, 50.0];

impl Args {
    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    }

    fn sizes(&self) -> Result<Vec<Size>, Failure> {
        let usual = || USUAL_SIZES.map(Size::Percent).to_vec();
        let listed = || if self.sizes.is_empty() { usual() } else { self.sizes.clone() };
        let sizes = self.curve.map_or_else(listed, |count| Size::curve(count.into()));
        let in_bytes = sizes.iter().filter(|size| size.is_bytes()).count();
        if in_bytes != 0 && in_bytes != sizes.len() {
            return Err(Failure::usage("--sizes must be either all in bytes, or none in bytes"));
        }
        Ok(sizes)
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
    /// Simulates the plan, with a progress bar.
    fn run(&self, stream: &Stream) -> Result<Vec<Point>, Failure> {
        let bar = show::simulating((stream.len() * self.sizes.len() * self.policies.len()) as u64);
        let clock = MonotonicClock::start();
        let means =
            Means { threads: self.threads, now_ns: &|| clock.now_ns(), progress: &|count| bar.inc(count) };
        let sweep = Sweep { stream, policies: &self.policies, sizes: &self.sizes, rules: self.rules };
        let points = sweep.run(means).map_err(|error| Failure::usage(error.to_string()));
        bar.finish_and_clear();
        points
    }
}

/// Simulates and prints the results.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        print!("{}", list());
        return Ok(());
    }
    if let Some(layouts) = &args.layouts {
        return layouts::run(args, layouts);
    }
    if args.recommend {
        return recommend::run(args);
    }
    let source = args.requests.source()?;
    let sizes = args.sizes()?;
    let plan = Plan {
        policies: Choice::parse_list(&args.policy).map_err(|error| Failure::usage(error.to_string()))?,
        rules: args.requests.rules(&source, sizes.iter().any(|size| size.is_bytes()))?,
        sizes,
        threads: args.threads(),
    };
    let sample = args.requests.sample();
    let read = source.read(args.requests.reading(sample))?;
    let mut points = plan.run(&read.stream)?;
    if sample != Sample::All {
        let parts: Result<Vec<_>, _> =
            (0..PARTS).map(|index| plan.run(&read.stream.part(index, PARTS))).collect();
        note_uncertainty(&mut points, &parts?);
    }
    let exact = match args.exact {
        true => plan.run(&source.read(args.requests.reading(Sample::All))?.stream)?,
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

/// The policies, one per line.
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
        "Policies:\n{}\nLayouts:\n{}\nWorkloads, as NAME[:key=value,...]:\n{workloads}\nFormats of traces:\n{}",
        policies(),
        layouts::list(),
        formats()
    )
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn everything_is_listed() {
        let text = list();
        for name in ["clock", "belady", "segments", "zipf", "twitter-034", "fb-page", "oracle-general"] {
            assert!(text.contains(&format!("  {name} ")), "{name} in\n{text}");
        }
    }
}

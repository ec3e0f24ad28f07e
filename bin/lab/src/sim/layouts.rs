//! `guira sim --layouts`: simulates the memory of whole caches.

use guira_sim::layout::{self, LayoutChoice, LayoutReport, LayoutSweep};
use guira_sim::{Sample, Simulated};

use super::Args;
use crate::show;
use guira_cli::failure::Failure;

/// Simulates the layouts that are listed in `layouts`, and prints the results.
pub(super) fn run(args: &Args, layouts: &str) -> Result<(), Failure> {
    let source = args.requests.source()?;
    let layouts = LayoutChoice::parse_list(layouts).map_err(|error| Failure::usage(error.to_string()))?;
    let (sizes, rules) = (args.sizes()?, args.requests.rules(&source, true)?);
    let read = source.read(args.requests.reading(Sample::All))?;
    let stream = &read.stream;
    let bar = show::simulating((stream.len() * sizes.len() * layouts.len()) as u64);
    let sweep = LayoutSweep { stream, layouts: &layouts, sizes: &sizes, rules };
    let points = sweep.run(args.threads(), &|count| bar.inc(count));
    bar.finish_and_clear();
    let (source, about, simulated) = (source.name(), read.about.clone(), Simulated::from(stream));
    let report = LayoutReport { source, about, simulated, points: points.map_err(Failure::usage)? };
    if args.json {
        println!("{}", show::to_json(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(())
}

/// The layouts, one per line.
pub(super) fn list() -> String {
    layout::layouts().map(|(name, about)| format!("  {name:<15} {about}\n")).collect()
}

//! `guira capacity`: a model of the number of nodes for a load, and of the loss of a node.

use guira_routing::hash::HashKind;
use guira_sim::fleet::{Costs, Pool, Report, simulate};
use guira_sim::{Choice, Rules, Simulated, Size, Stream};

use crate::requests::RequestArgs;
use crate::show;
use crate::workload::formats;
use guira_cli::failure::Failure;
use guira_cli::units::Count;

/// The model, the formats and examples.
fn after_help() -> String {
    format!(
        "In the model, each node is a cache with the engine's eviction policy, and the router's hash
chooses the node of a key. Leave room for queues, networks and other work of the hosts: the model
has none.

The first half of the requests fills the pool; the second half is the steady state. The loss of
the busiest node is simulated twice: with its keys rehashed to the other nodes, and with a gutter.
A trace has fewer keys than production, so give memory as a share of the keys (5%), or in bytes
for the keys of the trace.

Formats of traces (plain or zstd):
{}
Workloads: see `guira sim --list`.

Examples:
  guira capacity --workload fb-wildcard:keys=1m,requests=20m --rate 4M --nodes 4,8,16 --memory 64MiB
  guira capacity trace.zst --rate 800k --memory 2% --gutter 1 --keys-at-once 24
  guira capacity --workload fb-page:keys=200k --rate 2M --nodes 8 --copies 1,2,4 --keys-at-once 100 --memory 5%",
        formats()
    )
}

/// Arguments of `guira capacity`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    #[command(flatten)]
    requests: RequestArgs,
    /// Keys read, stored and deleted per second by all clients.
    #[arg(long, value_name = "N")]
    rate: Count,
    /// Numbers of nodes to compare.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,4,8,16", value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: Vec<u16>,
    /// Memory of each node: a share of all keys (5%), objects (4000), or bytes (64GiB).
    #[arg(long, value_name = "SIZE")]
    memory: Size,
    /// Copies of each key on different nodes, so that a request for many keys uses fewer nodes.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=100))]
    copies: Vec<u16>,
    /// Spare nodes that replace a lost one.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(0..=100))]
    gutter: u16,
    /// Keys of one request of a client.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    keys_at_once: u16,
    /// Eviction policy of the nodes: a policy of an engine, or auto.
    #[arg(long, value_name = "POLICY", default_value = "clock")]
    policy: String,
    /// Hash of the pool, by its name in a router's configuration.
    #[arg(long, value_name = "HASH", default_value = "Ch3")]
    hash: String,
    /// CPU time of a request on a node in microseconds; measure it with `guira bench` on your hosts.
    #[arg(long, value_name = "US", default_value = "6")]
    request_us: f64,
    /// Additional CPU time of each key in microseconds.
    #[arg(long, value_name = "US", default_value = "0.15")]
    key_us: f64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn pools<'a>(&self, stream: &Stream, policy: &'a Choice) -> Result<Vec<Pool<'a>>, Failure> {
        let hash = HashKind::from_name(&self.hash).map_err(usage)?;
        let value_size = self.requests.value_size()?;
        let pool = |nodes: u16, copies: u16| Pool {
            nodes: nodes.into(),
            copies: copies.into(),
            room: self.memory.room(stream),
            policy,
            hash,
            gutter: self.gutter.into(),
            keys_at_once: self.keys_at_once.into(),
            value_size,
        };
        let all =
            self.nodes.iter().flat_map(|&nodes| self.copies.iter().map(move |&copies| pool(nodes, copies)));
        Ok(all.collect())
    }
}

fn usage(error: impl ToString) -> Failure {
    Failure::usage(error.to_string())
}

/// Simulates and prints the results.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let report = report(args)?;
    if args.json {
        println!("{}", show::to_json(&report)?)
    } else {
        print!("{}", report.text())
    }
    Ok(())
}

fn report(args: &Args) -> Result<Report, Failure> {
    let is_cost = |us: f64| us.is_finite() && us >= 0.0;
    if args.rate.0 == 0 || !is_cost(args.request_us) || !is_cost(args.key_us) {
        return Err(usage("--rate must be at least 1, and --request-us and --key-us at least 0"));
    }
    let source = args.requests.source()?;
    let rules = args.requests.rules(&source, args.memory.is_bytes())?;
    let policy = Choice::parse(&args.policy).map_err(usage)?;
    let read = source.read(args.requests.reading(args.requests.sample()))?;
    let pools = args.pools(&read.stream, &policy)?;
    Ok(Report {
        source: source.name(),
        about: read.about,
        simulated: Simulated::from(&read.stream),
        rate: args.rate.0 as f64,
        keys_at_once: args.keys_at_once.into(),
        memory: args.memory.to_string(),
        costs: Costs { request_us: args.request_us, key_us: args.key_us },
        pools: simulated(&pools, &read.stream, rules)?,
    })
}

fn simulated(
    pools: &[Pool<'_>],
    stream: &Stream,
    rules: Rules,
) -> Result<Vec<guira_sim::fleet::Found>, Failure> {
    let passes: u64 = pools.iter().map(Pool::passes).sum();
    let bar = show::simulating(stream.len() as u64 * passes);
    let found = pools.iter().map(|pool| simulate(pool, stream, rules, &|count| bar.inc(count)));
    let found = found.collect::<Result<_, _>>().map_err(usage);
    bar.finish_and_clear();
    found
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Args, report};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn text(words: &str) -> Result<String, String> {
        let line = Line::try_parse_from(std::iter::once("capacity").chain(words.split(' ')));
        let args = line.map_err(|error| error.to_string())?.args;
        report(&args).map(|report| report.text()).map_err(|error| error.to_string())
    }

    const ZIPF: &str = "--workload zipf:keys=2k,alpha=0.9,requests=64k --rate 1M --memory 10%";

    #[test]
    fn there_is_a_row_for_each_pool() {
        let text = text(&format!("{ZIPF} --nodes 2,4 --copies 1,2 --keys-at-once 20")).unwrap();
        let at_work = text.split("\n\n").find(|part| part.starts_with("In operation")).unwrap();
        let rows: Vec<Vec<&str>> =
            at_work.lines().skip(2).map(|line| line.split_whitespace().take(2).collect()).collect();
        assert_eq!(rows, [["2", "1"], ["2", "2"], ["4", "1"], ["4", "2"]], "{text}");
        for word in
            ["1.0M keys a second, 20 at once; 10% a node", "rehashed", "in the gutter", "on other copies"]
        {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        for (words, wanted) in [
            ("--rate 1M --memory 10%", "neither a trace nor a workload"),
            (&format!("{ZIPF} --nodes 3 --copies 2"), "use a multiple"),
            (&format!("{ZIPF} --policy belady"), "policy of an engine"),
            (&format!("{ZIPF} --hash Crc33"), "Crc33"),
            (&format!("{ZIPF} --key-us NaN"), "at least 0"),
            (&format!("{ZIPF} --nodes 0"), "0 is not in"),
        ] {
            let error = text(words).unwrap_err();
            assert!(error.contains(wanted), "{words}: {error}");
        }
    }
}

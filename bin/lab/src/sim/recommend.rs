//! `guira sim --recommend`: recommends a policy and a memory size.

use guira_memory::MIB;
use guira_server::{Options, items_memory, least_ceiling, memory_for_items};
use guira_sim::recommend::{NoAnswer, Question, Report, SAMPLE_KEYS, Server, recommend};
use guira_sim::{Sample, Simulated, Size, Stream};

use super::Args;
use crate::show;
use guira_cli::failure::Failure;

impl Args {
    /// The size to judge, if one is given.
    fn given(&self) -> Result<Option<Size>, Failure> {
        match self.sizes[..] {
            [] => Ok(None),
            // Servers have whole MiB.
            [Size::Bytes(bytes)] => Ok(Some(Size::Bytes(bytes.next_multiple_of(MIB as u64)))),
            [size] => Ok(Some(size)),
            _ => Err(Failure::usage("--recommend needs at most one size")),
        }
    }

    /// Whether the recommendation is in bytes rather than objects.
    fn is_in_bytes(&self, stream: &Stream, given: Option<Size>) -> Result<bool, Failure> {
        let is_known = stream.has_sizes() || self.requests.has_value_size();
        match given {
            Some(Size::Bytes(_)) if !is_known => Err(Failure::usage(
                "the trace has no value lengths: set --value-size BYTES, or use a size in objects or percent of the keys"
                    .to_owned(),
            )),
            Some(size) => Ok(size.is_bytes()),
            None => Ok(is_known),
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (source, given) = (args.requests.source()?, args.given()?);
    let read = source.read(args.requests.reading(args.requests.sample_or(Sample::Keys(SAMPLE_KEYS))))?;
    let stream = &read.stream;
    let rules = args.requests.rules(&source, args.is_in_bytes(stream, given)?)?;
    let options = Options::default();
    let server = Server {
        least: least_ceiling(&options).0 as u64,
        items: &|memory| items_memory(&options, memory as usize) as u64,
        memory: &|items| memory_for_items(&options, items as usize).0 as u64,
    };
    let bar = show::simulating(0);
    let question =
        Question { stream, rules, given, server, threads: args.threads(), progress: &|count| bar.inc(count) };
    bar.set_length(question.requests());
    let answer = recommend(&question);
    bar.finish_and_clear();
    let answer = answer.map_err(|error| match error {
        NoAnswer::NoReads | NoAnswer::NothingStored => Failure::usage(format!("{}: {error}", source.name())),
        error => Failure::usage(error.to_string()),
    })?;
    let (source, about, simulated) = (source.name(), read.about.clone(), Simulated::from(stream));
    let report = Report { source, about, simulated, arguments: answer.arguments(), answer };
    if args.json {
        println!("{}", show::to_json(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(())
}

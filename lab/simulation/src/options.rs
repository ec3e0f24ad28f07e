//! The command line.

use crate::scenario::Scenario;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
    /// All take turns if none is named.
    pub(crate) scenario: Option<Scenario>,
    pub(crate) trace: Trace,
    /// How often each seed is repeated, to compare the events.
    pub(crate) again: u64,
    pub(crate) place: Place,
    /// A mistake that the programs make.
    pub(crate) planted: Option<String>,
}

/// Whether the logs of the programs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    Off,
    On,
}

/// Where the seeds run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Processes,
    /// One seed, in this process.
    Here,
    /// In processes, with each known mistake.
    WithBugs,
}

const USAGE: &str = "use --seed N, --seeds N, --scenario NAME, --again N, --trace, --plant NAME and --bugs";

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (trace, place) = (Trace::Off, Place::Processes);
        let mut options =
            Options { seed: 1, seeds: 1, scenario: None, trace, again: 0, place, planted: None };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{name} {text}: expected a number"));
            match name.as_str() {
                "--trace" => options.trace = Trace::On,
                "--bugs" => options.place = Place::WithBugs,
                "--plant" => options.planted = Some(value()?),
                "--here" => options.place = Place::Here,
                "--seed" => options.seed = number(value()?)?,
                "--seeds" => options.seeds = number(value()?)?,
                "--again" => options.again = number(value()?)?,
                "--scenario" => options.scenario = Some(Scenario::parse(&value()?)?),
                _ => return Err(format!("unknown option {name}: {USAGE}")),
            }
        }
        Ok(options)
    }
}

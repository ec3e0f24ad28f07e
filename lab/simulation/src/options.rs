//! The command line.

use crate::found::Fault;
use crate::scenario::{SCENARIOS, Scenario, Setup};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
    /// So many seeds run in any case, and are repeated; by default all.
    pub(crate) first: u64,
    /// No further seed begins when this much time has passed.
    pub(crate) limit: Option<Duration>,
    /// All take turns if none is named.
    pub(crate) scenario: Option<Scenario>,
    pub(crate) trace: Trace,
    /// How often each seed is repeated, to compare the events.
    pub(crate) again: u64,
    pub(crate) place: Place,
    /// A mistake that the programs make.
    pub(crate) planted: Option<String>,
    pub(crate) setup: Setup,
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
    /// In processes, with less and less of a seed that fails.
    Smaller,
}

const USAGE: &str = "use --seed N, --seeds N, --seconds N, --first N, --scenario NAME, --again N, --trace, --plant NAME, --bugs, --without KIND,KIND, --clients N and --shrink";

impl Options {
    pub(crate) fn scenario_of(&self, seed: u64) -> Scenario {
        self.scenario.unwrap_or(SCENARIOS[(seed % SCENARIOS.len() as u64) as usize])
    }

    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (trace, place) = (Trace::Off, Place::Processes);
        let (limit, scenario, planted, setup) = (None, None, None, Setup::default());
        let first = u64::MAX;
        let mut options =
            Options { seed: 1, seeds: 1, first, limit, scenario, trace, again: 0, place, planted, setup };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{name} {text}: expected a number"));
            match name.as_str() {
                "--trace" => options.trace = Trace::On,
                "--bugs" => options.place = Place::WithBugs,
                "--shrink" => options.place = Place::Smaller,
                "--without" => options.setup.without = Fault::parse_list(&value()?)?,
                "--clients" => options.setup.clients = Some(number(value()?)? as usize),
                "--plant" => options.planted = Some(value()?),
                "--here" => options.place = Place::Here,
                "--seed" => options.seed = number(value()?)?,
                "--seeds" => options.seeds = number(value()?)?,
                "--first" => options.first = number(value()?)?,
                "--seconds" => options.limit = Some(Duration::from_secs(number(value()?)?)),
                "--again" => options.again = number(value()?)?,
                "--scenario" => options.scenario = Some(Scenario::parse(&value()?)?),
                _ => return Err(format!("unknown option {name}: {USAGE}")),
            }
        }
        Ok(options)
    }
}

//! The command line.

use crate::scenario::Scenario;

/// The seeds and the scenario to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
    /// All take turns if none is named.
    pub(crate) scenario: Option<Scenario>,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options { seed: 1, seeds: 1, scenario: None };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{name} {value}: expected a number"));
            match name.as_str() {
                "--seed" => options.seed = number()?,
                "--seeds" => options.seeds = number()?,
                "--scenario" => options.scenario = Some(Scenario::parse(&value)?),
                _ => {
                    return Err(format!(
                        "unknown option {name}: use --seed N, --seeds N and --scenario NAME"
                    ));
                }
            }
        }
        Ok(options)
    }
}

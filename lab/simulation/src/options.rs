//! The command line.

/// What is simulated.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The first seed.
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options { seed: 1, seeds: 1 };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = value.parse().map_err(|_| format!("{name} {value}: expected a number"))?;
            match name.as_str() {
                "--seed" => options.seed = number,
                "--seeds" => options.seeds = number,
                _ => return Err(format!("unknown option {name}; known are --seed N and --seeds N")),
            }
        }
        Ok(options)
    }
}

//! The policies there are, by name.
//!
//! To add one: put it behind [`Policy`](crate::policy::Policy) in a file of `policy/`, and write its row here. A policy
//! of an engine comes the same way, through an adaptor over plain arrays (`policy/clock.rs` is one).

use guira_contract::OptionError;
use guira_roster::Spec;

use crate::policy::{Arc, Belady, Clock, Lirs, Lru, TinyLfu};
use crate::run::{self, Measure, Rules, Tally};
use crate::stream::Stream;

/// What a policy is made with.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The room of the cache.
    pub(crate) limit: u64,
    /// What will be asked for. Only a policy that knows the future looks at more than the number of keys.
    pub(crate) stream: &'a Stream,
    /// How the stream will be driven.
    pub(crate) rules: Rules,
    /// Who hears of progress.
    pub(crate) progress: &'a dyn Fn(u64),
}

impl Setup<'_> {
    fn keys(&self) -> usize {
        self.stream.keys()
    }

    /// About how many objects the room has place for.
    fn entries(&self) -> usize {
        let mean_weight = match self.rules.measure {
            Measure::Objects => 1,
            Measure::Bytes { .. } => {
                let count = self.stream.len().max(1);
                let sum = (0..self.stream.len())
                    .map(|number| u64::from(run::weight(self.stream, self.rules.measure, number)))
                    .sum::<u64>();
                (sum / count as u64).max(1)
            }
        };
        usize::try_from(self.limit / mean_weight).unwrap_or(usize::MAX).min(self.keys())
    }

    /// Drives the stream through `policy`: here the wheel is made anew for each policy, with nothing dynamic in it.
    fn run(&self, mut policy: impl crate::policy::Policy) -> Tally {
        run::run(&mut policy, self.stream, self.rules, self.progress)
    }
}

/// A row.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, and whose.
    pub about: &'static str,
    /// The options it takes.
    options: &'static [&'static str],
    run: fn(&Spec, &Setup<'_>) -> Result<Tally, OptionError>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every policy there is.
pub const POLICIES: &[Entry] = &[
    Entry {
        name: "clock",
        about: "the engine's CLOCK, from the engine's own code (MemC3)",
        options: &[],
        run: |_, setup| Ok(setup.run(Clock::new(setup.limit, setup.keys()))),
    },
    Entry {
        name: "exact-lru",
        about: "the least recently used goes, without approximation (Mattson and others 1970)",
        options: &[],
        run: |_, setup| Ok(setup.run(Lru::new(setup.limit, setup.keys()))),
    },
    Entry {
        name: "arc",
        about: "two lists that learn from ghosts how long to be (Megiddo and Modha 2003)",
        options: &[],
        run: |_, setup| Ok(setup.run(Arc::new(setup.limit, setup.keys()))),
    },
    Entry {
        name: "lirs",
        about: "what is read again soon stays; high=PERCENT of the room for the rest, 1 (Jiang and Zhang 2002)",
        options: &["high"],
        run: |spec, setup| {
            let high = spec.number("high", 1..=50)?.unwrap_or(1);
            Ok(setup.run(Lirs::new(setup.limit, setup.keys(), high)))
        },
    },
    Entry {
        name: "w-tinylfu",
        about: "admission by frequency behind an LRU window=PERCENT, 1 (Einziger and others 2017)",
        options: &["window"],
        run: |spec, setup| {
            let window = spec.number("window", 1..=99)?.unwrap_or(1);
            Ok(setup.run(TinyLfu::new(setup.limit, setup.keys(), setup.entries(), window)))
        },
    },
    Entry {
        name: "belady",
        about: "the optimum, which knows the future: what is read again last goes (Belady 1966)",
        options: &[],
        run: |_, setup| {
            let stream = setup.stream;
            let policy = Belady::new(setup.limit, setup.keys(), &stream.ids, stream.next_reads());
            Ok(setup.run(policy))
        },
    },
];

/// A policy that was chosen, with its options.
#[derive(Debug, Clone)]
pub struct Choice {
    entry: &'static Entry,
    spec: Spec,
}

impl Choice {
    /// The policy written as `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// If there is no such policy or option. The error lists what there is.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let spec = Spec::parse(text)?;
        let Some(entry) = POLICIES.iter().find(|entry| entry.name == spec.name) else {
            let known: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
            return Err(OptionError::Unknown { what: "policy", name: spec.name, known: known.join(", ") });
        };
        spec.allow(entry.options)?;
        Ok(Self { entry, spec })
    }

    /// Policies written one after another with commas: what has a `=` and no `:` is a further option of the one before.
    /// `all` is every policy there is.
    ///
    /// # Errors
    /// As for [`Choice::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, OptionError> {
        if text == "all" {
            return POLICIES.iter().map(|entry| Self::parse(entry.name)).collect();
        }
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
        written.iter().map(|text| Self::parse(text)).collect()
    }

    /// How it was written.
    #[must_use]
    pub fn name(&self) -> String {
        self.spec.to_string()
    }

    /// Simulates it.
    pub(crate) fn run(&self, setup: &Setup<'_>) -> Result<Tally, OptionError> {
        (self.entry.run)(&self.spec, setup)
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, POLICIES};

    #[test]
    fn names_are_unique_and_each_can_be_chosen() {
        for (index, entry) in POLICIES.iter().enumerate() {
            assert!(POLICIES[..index].iter().all(|other| other.name != entry.name), "{}", entry.name);
            assert_eq!(Choice::parse(entry.name).unwrap().name(), entry.name);
        }
    }

    #[test]
    fn a_list_has_commas_between_policies_and_between_options() {
        let names =
            |text| -> Vec<String> { Choice::parse_list(text).unwrap().iter().map(Choice::name).collect() };
        assert_eq!(names("clock,lirs:high=2,arc"), ["clock", "lirs:high=2", "arc"]);
        assert_eq!(names("lirs:high=3,high=2, arc"), ["lirs:high=3,high=2", "arc"]);
        assert_eq!(names("all").len(), POLICIES.len());
        assert!(Choice::parse_list("clock,mru").is_err());
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_there_is() {
        let error = |text| Choice::parse(text).unwrap_err().to_string();
        assert!(error("mru").contains("there are: clock, exact-lru"), "{}", error("mru"));
        assert!(error("clock:bits=2").contains("unknown option"));
    }
}

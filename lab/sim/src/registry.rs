//! The policies there are, by name.
//!
//! To add one: put it behind [`Policy`](crate::policy::Policy) in a file of `policy/`, and write its row here. A policy
//! of the engine comes from the engine's own table: `policy/engine.rs` puts any of them behind the seam.

use guira_contract::OptionError;
use guira_roster::{AUTO, Spec};

use guira_slab::Policy;

use crate::policy::{Arc, Auto, Belady, BucketClock, Engine, Gdsf, Lirs, Lru, PACE, TinyLfu, Window, Worth};
use crate::run::{self, Counters, Measure, Rules};
use crate::stream::Stream;

/// What a policy is made with.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) limit: u64,
    /// What will be asked for. Only a policy that knows the future looks at more than the number of keys.
    pub(crate) stream: &'a Stream,
    /// How the stream will be driven.
    pub(crate) rules: Rules,
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

    /// Drives the stream through `policy`. Each policy of the laboratory has a loop of its own; those of the engine share one.
    fn run(&self, mut policy: impl crate::policy::Policy) -> Counters {
        run::run(&mut policy, self.stream, self.rules, self.progress)
    }
}

/// What one of several caches is, each of which has some of the keys of a stream.
#[derive(Clone, Copy)]
pub(crate) struct NodeSetup<'a> {
    pub(crate) limit: u64,
    pub(crate) measure: Measure,
    pub(crate) stream: &'a Stream,
    /// How many keys it has, which it numbers itself.
    pub(crate) keys: usize,
}

#[derive(Clone, Copy)]
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, and whose.
    pub about: &'static str,
    made: Made,
}

#[derive(Clone, Copy)]
enum Made {
    /// The engine's, which knows its options.
    InEngine,
    /// The engine's own choice among these.
    Auto,
    /// Here, with these options.
    Here(&'static [&'static str], fn(&Spec, &Setup<'_>) -> Result<Counters, OptionError>),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every policy there is: those of the engine, and those that are only here.
pub fn policies() -> impl Iterator<Item = Entry> {
    let of_engine =
        Policy::all().map(|(policy, about)| Entry { name: policy.name(), about, made: Made::InEngine });
    of_engine.chain(HERE.iter().copied())
}

const HERE: &[Entry] = &[
    Entry {
        name: AUTO,
        about: "chooses among the engine's policies by simulating a sample of the requests; first=NAME, clock",
        made: Made::Auto,
    },
    Entry {
        name: "bucket-clock",
        about: "CLOCK of the engine fleec, with bits=NUMBER, 2, per bucket (FLeeC); a new item raises the value of its bucket \
                to new=NUMBER, 1",
        made: Made::Here(&["bits", "new"], |spec, setup| {
            let bits = spec.number("bits", 1..=8)?.unwrap_or(2) as u32;
            let new = spec.number("new", 0..=255)?.unwrap_or(1) as u8;
            Ok(setup.run(BucketClock::new(setup.limit, setup.keys(), bits, new)))
        }),
    },
    Entry {
        name: "exact-lru",
        about: "evicts the least recently used item, without approximation (Mattson and others 1970)",
        made: Made::Here(&[], |_, setup| Ok(setup.run(Lru::new(setup.limit, setup.keys())))),
    },
    Entry {
        name: "arc",
        about: "two LRU lists whose lengths adapt to hits in ghost lists (Megiddo and Modha 2003)",
        made: Made::Here(&[], |_, setup| Ok(setup.run(Arc::new(setup.limit, setup.keys())))),
    },
    Entry {
        name: "lirs",
        about: "keeps items with short reuse distances; high=PERCENT of the cache for the others, 1 (Jiang and Zhang 2002)",
        made: Made::Here(&["high"], |spec, setup| {
            let high = spec.number("high", 1..=50)?.unwrap_or(1);
            Ok(setup.run(Lirs::new(setup.limit, setup.keys(), high)))
        }),
    },
    Entry {
        name: "gdsf",
        about: "keeps items with many uses per byte, and so the most hits; worth=bytes, for the most bytes that hit (Cherkasova 1998)",
        made: Made::Here(&["worth"], |spec, setup| {
            let worth = match spec.value("worth") {
                None | Some("objects") => Worth::Objects,
                Some("bytes") => Worth::Bytes,
                Some(value) => return Err(spec.not("worth", value, "objects or bytes")),
            };
            Ok(setup.run(Gdsf::new(setup.limit, setup.keys(), worth)))
        }),
    },
    Entry {
        name: "w-tinylfu",
        about: "admits items by frequency after an LRU window=PERCENT, by default adaptive (Einziger and others 2017, 2018)",
        made: Made::Here(&["window"], |spec, setup| {
            let window = spec.number("window", 1..=99)?.map_or(Window::Adaptive, Window::Percent);
            Ok(setup.run(TinyLfu::new(setup.limit, setup.keys(), setup.entries(), window)))
        }),
    },
    Entry {
        name: "belady",
        about: "the optimum with knowledge of the future: evicts the item whose next read is latest (Belady 1966)",
        made: Made::Here(&[], |_, setup| {
            let stream = setup.stream;
            let policy = Belady::new(setup.limit, setup.keys(), &stream.ids, stream.next_reads());
            Ok(setup.run(policy))
        }),
    },
];

/// What the simulator wants to know of a policy of the engine: how many requests are a second where the trace tells no time.
const PACE_OPTION: &str = "pace";

/// Requests of `stream` in a second, if it tells no time: in a sample there are fewer.
fn pace(spec: &Spec, stream: &Stream) -> Result<u64, OptionError> {
    let pace = spec.number(PACE_OPTION, 1..=u64::MAX)?.unwrap_or(PACE);
    Ok(((pace as f64 * stream.rate()) as u64).max(1))
}

/// What `auto` begins with.
fn read_first(spec: &Spec) -> Result<Policy, OptionError> {
    spec.allow(&["first", PACE_OPTION])?;
    spec.value("first").map_or_else(|| Ok(Policy::default()), |name| Policy::read(&Spec::parse(name)?))
}

/// A policy of the engine as it was written.
fn read_engine_policy(spec: &Spec) -> Result<Policy, OptionError> {
    spec.number(PACE_OPTION, 1..=u64::MAX)?;
    let options = spec.options.iter().filter(|(name, _)| name != PACE_OPTION).cloned().collect();
    Policy::read(&Spec { name: spec.name.clone(), options })
}

/// What is written one after another with commas, each by itself: what has a `=` and no `:` is a further option of the one before.
pub(crate) fn split_list(text: &str) -> Vec<String> {
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
    written
}

/// A policy that was chosen, with its options.
#[derive(Debug, Clone)]
pub struct Choice {
    entry: Entry,
    spec: Spec,
}

impl Choice {
    /// The policy written as `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// If there is no such policy or option. The error lists what there is.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let spec = Spec::parse(text)?;
        let Some(entry) = policies().find(|entry| entry.name == spec.name) else {
            let known: Vec<&str> = policies().map(|entry| entry.name).collect();
            return Err(OptionError::Unknown { what: "policy", name: spec.name, known: known.join(", ") });
        };
        match entry.made {
            Made::InEngine => read_engine_policy(&spec).map(|_| ())?,
            Made::Auto => read_first(&spec).map(|_| ())?,
            Made::Here(options, _) => spec.allow(options)?,
        }
        Ok(Self { entry, spec })
    }

    /// Policies written one after another with commas, where what has a `=` and no `:` is a further option of the one before.
    /// `all` is every policy there is.
    ///
    /// # Errors
    /// As for [`Choice::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, OptionError> {
        if text == "all" {
            return policies().map(|entry| Self::parse(entry.name)).collect();
        }
        split_list(text).iter().map(|text| Self::parse(text)).collect()
    }

    #[must_use]
    pub fn name(&self) -> String {
        self.spec.to_string()
    }

    /// What it notes of each item, in bytes, if it is one policy of the engine: beside the items in the same memory.
    pub(crate) fn notes(&self) -> u32 {
        match self.entry.made {
            Made::InEngine => read_engine_policy(&self.spec).map_or(0, Policy::item_bytes),
            Made::Auto | Made::Here(..) => 0,
        }
    }

    /// A cache of it that is one of several, each of which has some of the keys of the stream. Only an engine has nodes.
    pub(crate) fn node<'a>(
        &self,
        node: NodeSetup<'a>,
    ) -> Result<Box<dyn crate::policy::Policy + 'a>, OptionError> {
        let NodeSetup { limit, measure, stream, keys } = node;
        match self.entry.made {
            Made::InEngine => {
                let (policy, pace) = (read_engine_policy(&self.spec)?, pace(&self.spec, stream)?);
                Ok(Box::new(Engine::of(policy.miniature(0, limit, keys, 0), stream, pace)))
            }
            Made::Auto => {
                let (first, pace) = (read_first(&self.spec)?, pace(&self.spec, stream)?);
                Ok(Box::new(Auto::new(first, (limit, measure), (stream, keys), pace)))
            }
            Made::Here(..) => {
                let of_engine = Policy::all().map(|(policy, _)| policy.name());
                let known: Vec<&str> = std::iter::once(AUTO).chain(of_engine).collect();
                let name = self.entry.name.to_owned();
                Err(OptionError::Unknown { what: "policy of an engine", name, known: known.join(", ") })
            }
        }
    }

    pub(crate) fn run(&self, setup: &Setup<'_>) -> Result<Counters, OptionError> {
        match self.entry.made {
            Made::InEngine => {
                let pace = pace(&self.spec, setup.stream)?;
                let policy = read_engine_policy(&self.spec)?;
                let cache = policy.miniature(0, setup.limit, setup.keys(), 0);
                Ok(setup.run(Engine::of(cache, setup.stream, pace)))
            }
            Made::Auto => {
                let (first, pace) = (read_first(&self.spec)?, pace(&self.spec, setup.stream)?);
                let of_all = (setup.stream, setup.keys());
                Ok(setup.run(Auto::new(first, (setup.limit, setup.rules.measure), of_all, pace)))
            }
            Made::Here(_, run) => run(&self.spec, setup),
        }
    }
}

#[cfg(test)]
mod tests {
    use guira_workload::OnMiss;
    use guira_workload::trace::Trace;

    use super::{Choice, Setup, policies};
    use crate::run::{Measure, Rules};
    use crate::sample::Sample;
    use crate::stream::{Reading, Stream, Writes};

    #[test]
    fn names_are_unique_and_each_can_be_chosen() {
        for (index, entry) in policies().enumerate() {
            assert!(policies().take(index).all(|other| other.name != entry.name), "{}", entry.name);
            assert_eq!(Choice::parse(entry.name).unwrap().name(), entry.name);
        }
    }

    #[test]
    fn a_list_has_commas_between_policies_and_between_options() {
        let names =
            |text| -> Vec<String> { Choice::parse_list(text).unwrap().iter().map(Choice::name).collect() };
        assert_eq!(names("clock,lirs:high=2,arc"), ["clock", "lirs:high=2", "arc"]);
        assert_eq!(names("lirs:high=3,high=2, arc"), ["lirs:high=3,high=2", "arc"]);
        assert_eq!(names("all").len(), policies().count());
        assert!(Choice::parse_list("clock,mru").is_err());
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_there_is() {
        let error = |text| Choice::parse(text).unwrap_err().to_string();
        assert!(error("mru").contains("use one of: clock, fifo"), "{}", error("mru"));
        assert!(error("clock:bit=2").contains("unknown option"));
    }

    #[test]
    fn options_are_checked_by_whoever_has_them() {
        let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
        let stream = Stream::read(Trace::new(&b"a\nb\na\n"[..], None).unwrap(), reading).unwrap();
        let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
        let setup = Setup { limit: 2, stream: &stream, rules, progress: &|_| () };
        let run = |text: &str| Choice::parse(text).unwrap().run(&setup);
        for text in [
            "klru:samples=3,priority=hyperbolic",
            "lazy-lru:interval=0,tail_reclaim=on,pace=5",
            "seg-lru:hot_pct=30,warm_pct=30,temp_ttl=61",
            "s3-fifo:small_pct=25",
        ] {
            assert_eq!(run(text).unwrap().hits, 1, "{text}");
        }
        let error = |text| Choice::parse(text).unwrap_err().to_string();
        assert!(error("klru:priority=size").contains("recency, frequency or hyperbolic"));
        assert!(
            error("klru:samples=33").contains("1 to 32") && error("s3-fifo:small_pct=0").contains("1 to 99")
        );
        assert!(run("lirs:high=99").unwrap_err().to_string().contains("1 to 50"));
    }
}

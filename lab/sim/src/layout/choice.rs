//! The layouts there are, by name.

use guira_contract::{OptionError, Spec};

use super::drive::{Outcome, drive};
use super::segments::{self, Segments};
use super::slab::{self, Slab};
use crate::registry::split_list;
use crate::run::{Measure, Rules};
use crate::stream::Stream;

/// Every layout: its name, and what it is.
pub fn layouts() -> impl Iterator<Item = (&'static str, &'static str)> {
    LAYOUTS.into_iter()
}

const SLAB: &str = "slab";
const SEGMENTS: &str = "segments";

const LAYOUTS: [(&str, &str); 2] = [
    (
        SLAB,
        "the engine memc3: pages of chunks, with policy=NAME, clock, and the options of the policy, or policy=auto; divide=hits, \
         for the most hits, as servers from 10 MiB, or divide=age, for equal ages in all classes",
    ),
    (
        SEGMENTS,
        "a log of segments (Segcache, S3-FIFO): segment_kib=NUMBER, a 256th of memory; small_pct=PERCENT for new items, \
         10; merge=NUMBER segments at a time, 4, keeping keep_pct=PERCENT, 25; rank=density or frequency",
    ),
];

/// A layout that was chosen, with its options.
#[derive(Debug, Clone)]
pub struct LayoutChoice {
    spec: Spec,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Slab(slab::Options),
    Segments(segments::Options),
}

impl LayoutChoice {
    /// The layout written as `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// If there is no such layout or option. The error lists what there is.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let spec = Spec::parse(text)?;
        let kind = match spec.name.as_str() {
            SLAB => Kind::Slab(slab::Options::read(&spec)?),
            SEGMENTS => {
                spec.allow(segments::Options::KEYS)?;
                Kind::Segments(segments::Options::read(&spec)?)
            }
            _ => {
                let known: Vec<&str> = layouts().map(|(name, _)| name).collect();
                return Err(OptionError::Unknown {
                    what: "layout",
                    name: spec.name,
                    known: known.join(", "),
                });
            }
        };
        Ok(Self { spec, kind })
    }

    /// Layouts written one after another with commas, as policies are.
    ///
    /// # Errors
    /// As for [`LayoutChoice::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, OptionError> {
        split_list(text).iter().map(|text| Self::parse(text)).collect()
    }

    #[must_use]
    pub fn name(&self) -> String {
        self.spec.to_string()
    }

    /// Simulates it with `memory` bytes.
    pub(super) fn run(
        &self,
        memory: u64,
        (stream, rules): (&Stream, Rules),
        progress: &dyn Fn(u64),
    ) -> Result<Outcome, String> {
        let size = match rules.measure {
            Measure::Bytes { size, .. } => size,
            Measure::Objects => 1,
        };
        let rules = (rules.on_miss, size);
        let too_little = || format!("{memory} bytes are too little for {}", self.name());
        match self.kind {
            Kind::Slab(options) => {
                let slab = Slab::open(memory, stream.keys(), options);
                let mut slab = slab.map_err(|error| format!("{}: {error}", self.name()))?;
                Ok(drive(&mut slab, stream, rules, progress))
            }
            Kind::Segments(options) => {
                let mut segments = Segments::open(memory, stream.keys(), options).ok_or_else(too_little)?;
                Ok(drive(&mut segments, stream, rules, progress))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LayoutChoice;

    #[test]
    fn a_list_names_layouts_with_options_and_what_is_unknown_is_refused_with_what_there_is() {
        let text = "slab:policy=s3-fifo,small_pct=25,segments,segments:merge=8,keep_pct=50";
        let names: Vec<String> =
            LayoutChoice::parse_list(text).unwrap().iter().map(LayoutChoice::name).collect();
        assert_eq!(names, ["slab:policy=s3-fifo,small_pct=25", "segments", "segments:merge=8,keep_pct=50"]);
        let error = |text| LayoutChoice::parse(text).unwrap_err().to_string();
        assert!(error("log").contains("slab, segments"));
        assert!(error("slab:policy=arc").contains("clock, fifo"));
        assert!(error("slab:small_pct=10").contains("unknown option"));
        assert!(error("segments:policy=lru").contains("keep_pct"));
        assert!(error("segments:keep_pct=91").contains("1 to 90"));
        assert!(error("segments:rank=age").contains("density or frequency"));
    }
}

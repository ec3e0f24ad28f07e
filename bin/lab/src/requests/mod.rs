//! The requests that are simulated: a trace or a workload, and how it is read.

mod source;

use std::path::PathBuf;

use clap::ValueEnum;
use guira_sim::{Measure, OnMiss, Reading, Rules, Sample, Writes};
use guira_workload::trace::Format;
pub(crate) use source::Source;

use crate::workload::BrokenLine;
use guira_cli::failure::Failure;
use guira_cli::units::{Bytes, Count};

/// Which requests, and what they mean.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// The trace, plain or compressed with zstd.
    trace: Option<PathBuf>,
    /// Requests that are made up instead, as NAME[:key=value,...].
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "trace")]
    workload: Option<String>,
    /// How the trace is written; guessed from its first bytes when left out.
    #[arg(long, value_name = "FORMAT", conflicts_with = "workload")]
    format: Option<Format>,
    /// What a broken line of the trace leads to.
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    broken: BrokenLine,
    /// Simulate only the first requests.
    #[arg(long, value_name = "N")]
    limit: Option<Count>,
    /// What a miss leads to; workloads know it themselves.
    #[arg(long, value_name = "WHAT")]
    on_miss: Option<MissAction>,
    /// What a request that writes is.
    #[arg(long, value_name = "WHAT", default_value = "store")]
    writes: WriteMeaning,
    /// Bytes of key and value where the trace does not tell, for sizes in bytes.
    /// [default: 1000]
    #[arg(long, value_name = "BYTES")]
    value_size: Option<Bytes>,
    /// Bytes that the cache needs for an object beside its key and value, for sizes in bytes.
    #[arg(long, value_name = "BYTES", default_value = "16")]
    overhead: Bytes,
    /// Simulate a sample of the keys: a share such as 1%, or a number such as 8k, which bounds memory.
    #[arg(long, value_name = "SAMPLE")]
    shards: Option<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissAction {
    /// The key is stored, as a look-aside client does.
    Fill,
    /// Nothing: the trace itself holds the sets that followed misses.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WriteMeaning {
    /// It stores, and is neither a hit nor a miss.
    Store,
    /// It asks, as one that reads: a block cache, in whose traces every request counts.
    Ask,
}

/// Key and value where nobody tells.
const VALUE_SIZE: Bytes = Bytes(1000);

/// Bytes of an object.
fn length(Bytes(bytes): Bytes) -> Result<u32, Failure> {
    u32::try_from(bytes).map_err(|_| Failure::usage(format!("{bytes} bytes are too many for an object")))
}

impl RequestArgs {
    /// Which keys are taken.
    pub(crate) fn sample(&self) -> Sample {
        self.sample_or(Sample::All)
    }

    /// The same, where something else than all is usual.
    pub(crate) fn sample_or(&self, usual: Sample) -> Sample {
        self.shards.unwrap_or(usual)
    }

    /// Bytes of key and value where the trace does not tell.
    pub(crate) fn value_size(&self) -> Result<u32, Failure> {
        length(self.value_size.unwrap_or(VALUE_SIZE))
    }

    /// Whether it was told how long values are.
    pub(crate) const fn tells_value_size(&self) -> bool {
        self.value_size.is_some()
    }

    /// How they are driven through a cache whose room is in bytes, or in objects.
    pub(crate) fn rules(&self, source: &Source, in_bytes: bool) -> Result<Rules, Failure> {
        let on_miss = match self.on_miss {
            Some(MissAction::Fill) => OnMiss::Fill,
            Some(MissAction::Leave) => OnMiss::Leave,
            None => source.on_miss(),
        };
        let measure = if in_bytes {
            Measure::Bytes { size: self.value_size()?, overhead: length(self.overhead)? }
        } else {
            Measure::Objects
        };
        Ok(Rules { on_miss, measure })
    }

    pub(crate) fn reading(&self, sample: Sample) -> Reading {
        let writes = match self.writes {
            WriteMeaning::Store => Writes::Store,
            WriteMeaning::Ask => Writes::Ask,
        };
        Reading { writes, sample, limit: self.limit.map_or(u64::MAX, |Count(limit)| limit) }
    }

    pub(crate) fn source(&self) -> Result<Source, Failure> {
        match (&self.workload, &self.trace) {
            (Some(text), _) => Source::workload(text),
            (None, Some(path)) => Ok(Source::trace(path.clone(), self.format, self.broken.into())),
            (None, None) => Err(Failure::usage(
                "there is neither a trace nor a workload: give <TRACE>, or --workload".to_owned(),
            )),
        }
    }
}

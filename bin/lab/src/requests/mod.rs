//! The simulated requests: a trace or a workload, and its options.

mod source;

use std::path::PathBuf;

use clap::ValueEnum;
use guira_sim::{Measure, OnMiss, Reading, Rules, Sample, Writes};
use guira_workload::trace::Format;
pub(crate) use source::Source;

use crate::workload::BrokenLine;
use guira_cli::failure::Failure;
use guira_cli::units::{Bytes, Count};

/// Options of the requests.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Trace file, plain or compressed with zstd.
    trace: Option<PathBuf>,
    /// Synthetic workload, as NAME[:key=value,...].
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "trace")]
    workload: Option<String>,
    /// Format of the trace [default: detected from its first bytes]
    #[arg(long, value_name = "FORMAT", conflicts_with = "workload")]
    format: Option<Format>,
    /// Action for an invalid line of the trace.
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    broken: BrokenLine,
    /// Simulate only the first N requests.
    #[arg(long, value_name = "N")]
    limit: Option<Count>,
    /// Action after a miss [default: fill for traces, that of the workload otherwise]
    #[arg(long, value_name = "WHAT")]
    on_miss: Option<MissAction>,
    /// Meaning of a write.
    #[arg(long, value_name = "WHAT", default_value = "store")]
    writes: WriteMeaning,
    /// Bytes of key and value if the trace has none, for sizes in bytes [default: 1000]
    #[arg(long, value_name = "BYTES")]
    value_size: Option<Bytes>,
    /// Bytes of an object in addition to its key and value, for sizes in bytes.
    #[arg(long, value_name = "BYTES", default_value = "16")]
    overhead: Bytes,
    /// Simulate a sample of the keys: a share such as 1%, or a number such as 8k.
    #[arg(long, value_name = "SAMPLE")]
    shards: Option<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissAction {
    /// Store the key, as a look-aside client does.
    Fill,
    /// Do nothing: the trace has the sets that followed misses.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WriteMeaning {
    /// A store, neither a hit nor a miss.
    Store,
    /// A read that hits or misses, for traces of block caches.
    Ask,
}

/// The default of --value-size.
const VALUE_SIZE: Bytes = Bytes(1000);

/// Bytes of an object.
fn length(Bytes(bytes): Bytes) -> Result<u32, Failure> {
    u32::try_from(bytes).map_err(|_| Failure::usage(format!("{bytes} bytes are too many for an object")))
}

impl RequestArgs {
    /// The sample of the keys.
    pub(crate) fn sample(&self) -> Sample {
        self.sample_or(Sample::All)
    }

    /// The sample of the keys, with another default.
    pub(crate) fn sample_or(&self, usual: Sample) -> Sample {
        self.shards.unwrap_or(usual)
    }

    /// Bytes of key and value if the trace has none.
    pub(crate) fn value_size(&self) -> Result<u32, Failure> {
        length(self.value_size.unwrap_or(VALUE_SIZE))
    }

    /// Whether --value-size is set.
    pub(crate) const fn has_value_size(&self) -> bool {
        self.value_size.is_some()
    }

    /// The rules of a cache whose size is in bytes, or in objects.
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
                "neither a trace nor a workload is given: use <TRACE> or --workload".to_owned(),
            )),
        }
    }
}

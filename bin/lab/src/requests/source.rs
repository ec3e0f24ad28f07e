//! Sources of simulated requests: a file or a generator.

use std::fs::File;
use std::path::PathBuf;

use guira_load::LoadError;
use guira_sim::{OnMiss, Reading, Stream};
use guira_workload::Recipe;
use guira_workload::trace::{Broken, Format, Request, Trace};
use indicatif::{ProgressBar, ProgressStyle};

use crate::show;
use crate::workload;
use guira_cli::failure::Failure;

pub(crate) enum Source {
    Trace { path: PathBuf, format: Option<Format>, broken: Broken },
    Workload(Box<Recipe>),
}

pub(crate) struct Read {
    pub(crate) stream: Stream,
    pub(crate) about: String,
}

impl Source {
    pub(super) const fn trace(path: PathBuf, format: Option<Format>, broken: Broken) -> Self {
        Self::Trace { path, format, broken }
    }

    pub(super) fn workload(text: &str) -> Result<Self, Failure> {
        Ok(Self::Workload(Box::new(workload::recipe(text)?)))
    }

    /// The file's name, or the workload as it was written.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Trace { path, .. } => {
                path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            }
            Self::Workload(recipe) => recipe.name.clone(),
        }
    }

    /// The default action after a miss.
    pub(super) fn on_miss(&self) -> OnMiss {
        match self {
            Self::Trace { .. } => OnMiss::Fill,
            Self::Workload(recipe) => recipe.model.on_miss,
        }
    }

    /// Reads the requests, at least one; reports invalid ones that were skipped.
    pub(crate) fn read(&self, reading: Reading) -> Result<Read, Failure> {
        match self {
            Self::Workload(recipe) => {
                let Ok(stream) = Stream::read(Watched::new(recipe.requests()), reading);
                self.not_empty(Read { stream, about: recipe.about.clone() })
            }
            Self::Trace { path, format, broken } => {
                let fail = |error| LoadError::Trace(Box::new(error));
                let file =
                    File::open(path).map_err(|source| LoadError::File { path: path.clone(), source })?;
                let mut trace = Trace::new(file, *format).map_err(fail)?.on_broken(*broken);
                let stream = Stream::read(Watched::new(&mut trace), reading).map_err(fail)?;
                if let (skipped, Some(first)) = trace.skipped() {
                    show::skipped(skipped, first);
                }
                self.not_empty(Read { stream, about: format!("a trace written as {}", trace.format()) })
            }
        }
    }

    fn not_empty(&self, read: Read) -> Result<Read, Failure> {
        if read.stream.is_empty() {
            return Err(Failure::usage(format!("{}: no requests to simulate", self.name())));
        }
        Ok(read)
    }
}

/// Requests between two updates of the bar.
const STEP: u64 = 1 << 16;

/// Requests, with a progress bar.
struct Watched<I> {
    requests: I,
    bar: ProgressBar,
    count: u64,
}

impl<I> Watched<I> {
    fn new(requests: I) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} reading {human_pos} requests, {per_sec}") {
            bar.set_style(style);
        }
        Self { requests, bar, count: 0 }
    }
}

impl<E, I: Iterator<Item = Result<Request, E>>> Iterator for Watched<I> {
    type Item = Result<Request, E>;

    fn next(&mut self) -> Option<Self::Item> {
        self.count += 1;
        if self.count.is_multiple_of(STEP) {
            self.bar.inc(STEP);
        }
        self.requests.next()
    }
}

impl<I> Drop for Watched<I> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

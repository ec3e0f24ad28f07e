//! `stats latency`: how long requests take, since the start of the node.

use super::{Sink, parts};
use crate::printable::printable;

/// Series that are kept; Guira has nine.
const SERIES_MAX: usize = 64;

/// What is told of a series.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Series {
    /// A command, `queue` or `round`.
    pub(crate) name: String,
    pub(crate) samples: Option<f64>,
    pub(crate) mean_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
}

/// All series, in the order of the answer.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Latencies(Vec<Series>);

impl Latencies {
    pub(crate) fn series(&self) -> &[Series] {
        &self.0
    }

    /// The series of this name.
    pub(crate) fn of(&self, name: &str) -> Option<&Series> {
        self.0.iter().find(|series| series.name == name)
    }

    fn entry(&mut self, name: &str) -> Option<&mut Series> {
        let name = printable(name.as_bytes());
        if self.of(&name).is_none() && self.0.len() < SERIES_MAX {
            self.0.push(Series { name: name.clone(), ..Series::default() });
        }
        self.0.iter_mut().find(|series| series.name == name)
    }
}

impl Sink for Latencies {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        let value = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let Some(value) = value.filter(|value: &f64| value.is_finite()) else { return };
        let Some([series, what]) = parts(name) else { return };
        let Some(series) = self.entry(series) else { return };
        let field = match what {
            "samples" => &mut series.samples,
            "mean_us" => &mut series.mean_us,
            "p50_us" => &mut series.p50_us,
            "p99_us" => &mut series.p99_us,
            "p999_us" => &mut series.p999_us,
            _ => return,
        };
        *field = Some(value);
    }
}

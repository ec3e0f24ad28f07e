//! A figure: the mean of several runs, and how far they lie apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The mean of several runs with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) mean: f64,
    /// The standard deviation of the runs (of the sample: n - 1); 0 for one run.
    pub(crate) spread: f64,
    pub(crate) runs: u32,
}

impl Figure {
    pub(crate) fn of(runs: &[f64]) -> Self {
        let count = runs.len().max(1) as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
        let spread = if runs.len() < 2 { 0.0 } else { (squares / (count - 1.0)).sqrt() };
        Self { mean, spread, runs: u32::try_from(runs.len()).unwrap_or(u32::MAX) }
    }

    /// The figure of `count` runs; each gets its number.
    pub(crate) fn measure<E>(count: u32, mut run: impl FnMut(u32) -> Result<f64, E>) -> Result<Self, E> {
        let runs = (0..count).map(&mut run).collect::<Result<Vec<f64>, E>>()?;
        Ok(Self::of(&runs))
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, spread: self.spread * factor.abs(), ..self }
    }
}

/// Three significant digits of the mean, and as many decimals of the spread: `4.31 ± 0.05`.
impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = if self.mean == 0.0 { 0.0 } else { self.mean.abs().log10().floor() };
        let decimals = out.precision().unwrap_or((2.0 - magnitude).clamp(0.0, 6.0) as usize);
        write!(out, "{:.decimals$}", self.mean)?;
        if self.runs > 1 {
            write!(out, " ± {:.decimals$}", self.spread)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Figure;

    #[test]
    fn a_figure_is_mean_and_standard_deviation() {
        let figure = Figure::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert!((figure.mean - 5.0).abs() < 1e-12 && (figure.spread - 2.138).abs() < 1e-3);
        assert_eq!(figure.runs, 8);
        assert_eq!(Figure::of(&[3.0]), Figure { mean: 3.0, spread: 0.0, runs: 1 });
    }

    #[test]
    fn a_figure_has_three_digits() {
        assert_eq!(Figure { mean: 4.3123, spread: 0.05, runs: 10 }.to_string(), "4.31 ± 0.05");
        assert_eq!(Figure { mean: 1234.5, spread: 3.2, runs: 10 }.to_string(), "1234 ± 3");
        assert_eq!(format!("{:.1}", Figure { mean: 63.66, spread: 0.04, runs: 2 }), "63.7 ± 0.0");
        assert_eq!(Figure::of(&[0.0123]).to_string(), "0.0123");
    }

    #[test]
    fn a_run_that_fails_fails_the_figure() {
        assert_eq!(Figure::measure(3, |run| if run == 2 { Err("no") } else { Ok(1.0) }), Err("no"));
        assert_eq!(Figure::measure::<()>(4, |run| Ok(run.into())).map(|figure| figure.mean), Ok(1.5));
    }
}

//! What a simulation found, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use crate::run::Rules;
use crate::size::Size;
use crate::stream::Stream;
use crate::sweep::Point;

/// What was simulated, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub source: String,
    /// How it is written, or what it is made from and what was assumed.
    pub about: String,
    pub simulated: Simulated,
    pub rules: Rules,
    /// Every policy at every size.
    pub points: Vec<Point>,
    /// The same with all keys, where those above are a sample.
    pub exact: Vec<Point>,
    /// How far the sample is from it.
    pub errors: Vec<SampleError>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Simulated {
    pub requests: usize,
    /// Different keys that they ask for.
    pub keys: usize,
    /// The share of all keys that this is.
    pub rate: f64,
}

impl From<&Stream> for Simulated {
    fn from(stream: &Stream) -> Self {
        Self { requests: stream.len(), keys: stream.keys(), rate: stream.rate() }
    }
}

/// How far a policy's hit ratios in a sample are from those with all keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleError {
    pub policy: String,
    /// The mean over sizes, without signs.
    pub mean: f64,
    pub max: f64,
}

/// Compares a sample with all keys: `points` and `exact` are the same policies and sizes.
#[must_use]
pub fn compare(points: &[Point], exact: &[Point]) -> Vec<SampleError> {
    let one = |policy: &str| {
        let both = points.iter().zip(exact).filter(|(point, _)| point.policy == policy);
        let errors: Vec<f64> = both.map(|(point, exact)| (point.hit_ratio - exact.hit_ratio).abs()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        SampleError { policy: policy.to_owned(), mean, max: errors.iter().copied().fold(0.0, f64::max) }
    };
    if exact.is_empty() { Vec::new() } else { policies(points).into_iter().map(one).collect() }
}

/// Parts of a sample that are simulated by themselves, to learn how uncertain it is.
pub const PARTS: u64 = 4;

/// Notes for each point how uncertain it is: the standard error that follows from how much the parts of the sample
/// differ, each of which was simulated by itself.
pub fn note_uncertainty(points: &mut [Point], parts: &[Vec<Point>]) {
    for (index, point) in points.iter_mut().enumerate() {
        let ratios: Vec<f64> =
            parts.iter().filter_map(|part| part.get(index)).map(|part| part.hit_ratio).collect();
        if let Some(error) = standard_error(&ratios) {
            point.uncertainty = Some(error);
        }
    }
}

/// The standard error of the mean of some ratios; `None` of fewer than two.
pub(crate) fn standard_error(ratios: &[f64]) -> Option<f64> {
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (ratios.len() > 1).then(|| (variance / count).sqrt())
}

/// The policies, in the order in which they appear.
pub(crate) fn policies(points: &[Point]) -> Vec<&str> {
    let mut policies: Vec<&str> = Vec::new();
    for point in points {
        if !policies.contains(&point.policy.as_str()) {
            policies.push(&point.policy);
        }
    }
    policies
}

impl Report {
    /// A table with a row for each size and a column for each policy, and what else there is to say.
    #[must_use]
    pub fn text(&self) -> String {
        let Simulated { requests, keys, rate } = self.simulated;
        let mut text = format!("{}: {}\n", self.source, self.about);
        let sampled = if rate < 1.0 { format!(", a sample of {:.3} %", 100.0 * rate) } else { String::new() };
        let _infallible =
            writeln!(text, "{} requests for {} keys{sampled}", grouped(requests), grouped(keys));
        text.push('\n');
        text.push_str(&table("hit ratio, %", &self.points, rate));
        if !self.exact.is_empty() {
            text.push('\n');
            text.push_str(&table("all keys", &self.exact, 1.0));
        }
        for SampleError { policy, mean, max } in &self.errors {
            let (mean, max) = (100.0 * mean, 100.0 * max);
            let _infallible = writeln!(
                text,
                "{policy}: the sample is off by {mean:.2} points on average, {max:.2} at most"
            );
        }
        let speeds: Vec<String> =
            policies(&self.points).into_iter().map(|policy| self.speed(policy)).collect();
        let _infallible = writeln!(text, "\nM requests/s and core: {}", speeds.join(", "));
        text
    }

    /// The median over sizes of how fast a policy was simulated.
    fn speed(&self, policy: &str) -> String {
        let of_policy = self.points.iter().filter(|point| point.policy == policy);
        let mut speeds: Vec<f64> = of_policy.map(|point| point.requests_per_s / 1e6).collect();
        speeds.sort_unstable_by(f64::total_cmp);
        format!("{policy} {:.1}", speeds.get(speeds.len() / 2).copied().unwrap_or(0.0))
    }
}

fn table(title: &str, points: &[Point], rate: f64) -> String {
    let policies = policies(points);
    let mut rows = vec![[vec![title.to_owned(), "room".to_owned()], cells(&policies)].concat()];
    for of_size in points.chunks(policies.len().max(1)) {
        let first = of_size.first().map(|point| {
            let room = match point.size {
                Size::Percent(_) => (point.room as f64 / rate).round() as usize,
                Size::Objects(count) | Size::Bytes(count) => count as usize,
            };
            [point.size.to_string(), grouped(room)].to_vec()
        });
        let ratios = of_size.iter().map(|point| match point.uncertainty {
            None => format!("{:.2}", 100.0 * point.hit_ratio),
            Some(uncertainty) => format!("{:.2} ±{:.2}", 100.0 * point.hit_ratio, 100.0 * uncertainty),
        });
        rows.push(first.into_iter().flatten().chain(ratios).collect());
    }
    aligned(&rows)
}

pub(crate) fn grid(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    aligned(&[vec![cells(head)], rows.into_iter().collect()].concat())
}

/// Rows in columns, each as wide as its widest cell.
fn aligned(rows: &[Vec<String>]) -> String {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

fn cells(policies: &[&str]) -> Vec<String> {
    policies.iter().map(|policy| (*policy).to_owned()).collect()
}

/// A number with its digits in threes.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use guira_workload::OnMiss;

    use super::{Report, SampleError, Simulated, compare, grouped, note_uncertainty};
    use crate::run::{Counters, Measure, Rules};
    use crate::size::Size;
    use crate::sweep::Point;

    fn point(policy: &str, percent: f64, hit_ratio: f64) -> Point {
        Point {
            policy: policy.to_owned(),
            size: Size::Percent(percent),
            room: 10,
            counters: Counters::default(),
            hit_ratio,
            uncertainty: None,
            requests_per_s: 2e6,
        }
    }

    #[test]
    fn the_error_of_a_sample_is_that_of_each_policy() {
        let points =
            [point("a", 1.0, 0.5), point("b", 1.0, 0.5), point("a", 2.0, 0.75), point("b", 2.0, 0.5)];
        let exact =
            [point("a", 1.0, 0.25), point("b", 1.0, 0.5), point("a", 2.0, 0.75), point("b", 2.0, 0.5)];
        let error = |policy: &str, mean, max| SampleError { policy: policy.to_owned(), mean, max };
        assert_eq!(compare(&points, &exact), [error("a", 0.125, 0.25), error("b", 0.0, 0.0)]);
        assert_eq!(compare(&points, &[]), []);
    }

    #[test]
    fn parts_that_differ_make_a_point_uncertain() {
        let mut points = [point("a", 1.0, 0.5)];
        note_uncertainty(&mut points, &[vec![point("a", 1.0, 0.25)], vec![point("a", 1.0, 0.75)]]);
        assert!((points[0].uncertainty.unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn the_text_has_a_row_for_each_size_and_a_column_for_each_policy() {
        let mut points =
            vec![point("a", 1.0, 0.5), point("b", 1.0, 0.25), point("a", 2.0, 0.75), point("b", 2.0, 1.0)];
        points[3].uncertainty = Some(0.001);
        let simulated = Simulated { requests: 1_234_567, keys: 1000, rate: 0.01 };
        let (source, about) = ("t".to_owned(), "text".to_owned());
        let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
        let report =
            Report { source, about, simulated, rules, points, exact: Vec::new(), errors: Vec::new() };
        let text = report.text();
        assert!(
            text.starts_with("t: text\n1,234,567 requests for 1,000 keys, a sample of 1.000 %\n"),
            "{text}"
        );
        assert!(text.contains("hit ratio, %   room      a             b\n"), "{text}");
        assert!(text.contains("          2%  1,000  75.00  100.00 ±0.10\n"), "{text}");
        assert!(text.contains("core: a 2.0, b 2.0"), "{text}");
    }

    #[test]
    fn digits_go_in_threes() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

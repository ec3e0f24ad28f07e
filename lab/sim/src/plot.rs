//! Miss-ratio curves as an SVG plot.

use guira_harness::plot::{Axis, Chart, Dot, Line, Marks, Steps};

use crate::report::{Report, policies};
use crate::sweep::Point;

/// Draws a line for each policy: the share of reads that miss against the room of the cache. Where all keys were
/// simulated beside a sample, they make the line and the sample the points on it.
///
/// # Errors
/// When there is nothing to draw.
pub fn miss_ratios(report: &Report) -> Result<String, String> {
    let sample = curve_of(&report.points, report.simulated.rate);
    let line = |(policy, points): &(&str, Vec<Dot>)| {
        let of_sample = sample.iter().find(|(name, _)| name == policy);
        let marks = of_sample.map_or(Marks::None, |(_, dots)| Marks::Others(dots.clone()));
        Line { marks, ..Line::new(policy, points.clone()) }
    };
    let lines = if report.exact.is_empty() { &sample } else { &curve_of(&report.exact, 1.0) };
    let is_bytes = report.points.first().is_some_and(|point| point.size.is_bytes());
    let chart = Chart {
        name: "the curve".to_owned(),
        title: format!("Miss ratio: {}", report.source),
        x: Axis::new(if is_bytes { "bytes" } else { "objects" }, Steps::Logarithmic),
        y: Axis::new("", Steps::Linear),
        lines: lines.iter().map(line).collect(),
    };
    chart.draw().map_err(|error| error.to_string())
}

/// Room and miss ratio of each policy, by room.
fn curve_of(points: &[Point], rate: f64) -> Vec<(&str, Vec<Dot>)> {
    let one = |policy| {
        let of_policy = points.iter().filter(|point| point.policy == policy);
        let mut curve: Vec<Dot> =
            of_policy.map(|point| Dot::new(point.room as f64 / rate, 1.0 - point.hit_ratio)).collect();
        curve.sort_unstable_by(|a, b| a.x.total_cmp(&b.x));
        (policy, curve)
    };
    policies(points).into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use guira_workload::OnMiss;

    use super::miss_ratios;
    use crate::report::{Report, Simulated};
    use crate::run::{Counters, Measure, Rules};
    use crate::size::Size;
    use crate::sweep::Point;

    fn report(rooms: &[u64]) -> Report {
        let point = |policy: &str, room: u64| Point {
            policy: policy.to_owned(),
            size: Size::Objects(room),
            room,
            counters: Counters::default(),
            hit_ratio: 0.5,
            uncertainty: None,
            requests_per_s: 1.0,
        };
        Report {
            source: "a trace".to_owned(),
            about: String::new(),
            simulated: Simulated { requests: 1, keys: 1, rate: 1.0 },
            rules: Rules { on_miss: OnMiss::Fill, measure: Measure::Objects },
            points: rooms.iter().flat_map(|&room| [point("clock", room), point("arc", room)]).collect(),
            exact: Vec::new(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn a_plot_has_a_line_for_each_policy_and_says_which() {
        let svg = miss_ratios(&report(&[10, 100, 1000])).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("Miss ratio: a trace") && svg.contains("objects"));
        assert!(svg.contains("clock") && svg.contains("arc") && svg.matches("<circle").count() == 6);
        assert!(miss_ratios(&report(&[5])).is_ok(), "one size is enough");
    }

    #[test]
    fn nothing_makes_no_plot() {
        assert!(miss_ratios(&report(&[])).unwrap_err().contains("no point"));
    }
}

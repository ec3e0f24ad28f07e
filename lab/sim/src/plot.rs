//! Miss-ratio curves as an SVG plot.

use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor,
    SVGBackend, SeriesLabelPosition, WHITE,
};

use crate::report::{Report, policies};
use crate::sweep::Point;

const SIZE: (u32, u32) = (960, 540);
const FONT: (&str, u32) = ("sans-serif", 16);

/// Colours that the colour-blind tell apart (Okabe and Ito), and grey and black when they are used up.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 150, 150),
    RGBColor(120, 90, 40),
];

/// Draws a line for each policy: the share of reads that miss against the room of the cache. Where all keys were
/// simulated beside a sample, they make the line and the sample the points on it.
///
/// # Errors
/// When there is nothing to draw.
pub fn miss_ratios(report: &Report) -> Result<String, String> {
    let mut svg = String::new();
    draw(report, &mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw(report: &Report, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let rate = report.simulated.rate;
    let sample = curve_of(&report.points, rate);
    let lines = if report.exact.is_empty() { &sample } else { &curve_of(&report.exact, 1.0) };
    let rooms = || lines.iter().chain(&sample).flat_map(|(_, curve)| curve.iter().map(|point| point.0));
    let (least, most) = (rooms().fold(f64::INFINITY, f64::min), rooms().fold(0.0, f64::max));
    if !least.is_finite() || least <= 0.0 {
        return Err("there is no point to draw".into());
    }
    let misses = lines.iter().flat_map(|(_, curve)| curve.iter().map(|point| point.1));
    let top = (misses.fold(0.0, f64::max) * 1.05).clamp(0.01, 1.0);
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Miss ratio: {}", report.source), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d((least..most.max(least * 1.01)).log_scale(), 0.0..top)?;
    let is_bytes = report.points.first().is_some_and(|point| point.size.is_bytes());
    chart
        .configure_mesh()
        .x_desc(if is_bytes { "bytes" } else { "objects" })
        .x_label_formatter(&|room| short(*room))
        .y_label_formatter(&|ratio| format!("{ratio:.2}"))
        .label_style(FONT)
        .draw()?;
    for ((policy, curve), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.iter().copied(), style))?
            .label(*policy)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
    }
    for ((_, curve), colour) in sample.iter().zip(COLOURS.iter().cycle()) {
        chart.draw_series(curve.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()?;
    area.present()?;
    Ok(())
}

/// Room and miss ratio of each policy, by room.
fn curve_of(points: &[Point], rate: f64) -> Vec<(&str, Vec<(f64, f64)>)> {
    let one = |policy| {
        let of_policy = points.iter().filter(|point| point.policy == policy);
        let mut curve: Vec<(f64, f64)> =
            of_policy.map(|point| (point.room as f64 / rate, 1.0 - point.hit_ratio)).collect();
        curve.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        (policy, curve)
    };
    policies(points).into_iter().map(one).collect()
}

/// A number in thousands, millions or billions.
fn short(number: f64) -> String {
    match number {
        _ if number >= 1e9 => format!("{:.3}G", number / 1e9),
        _ if number >= 1e6 => format!("{:.3}M", number / 1e6),
        _ if number >= 1e3 => format!("{:.3}k", number / 1e3),
        _ => return format!("{number:.0}"),
    }
    .replace(".000", "")
}

#[cfg(test)]
mod tests {
    use guira_workload::OnMiss;

    use super::{miss_ratios, short};
    use crate::report::{Report, Simulated};
    use crate::run::{Measure, Rules, Tally};
    use crate::size::Size;
    use crate::sweep::Point;

    fn report(rooms: &[u64]) -> Report {
        let point = |policy: &str, room: u64| Point {
            policy: policy.to_owned(),
            size: Size::Objects(room),
            room,
            tally: Tally::default(),
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

    #[test]
    fn numbers_are_short() {
        assert_eq!([5.0, 1000.0, 2.5e6].map(short), ["5", "1k", "2.500M"]);
    }
}

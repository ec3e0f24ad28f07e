//! Charts as SVG.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor,
    SVGBackend, SeriesLabelPosition, WHITE,
};

use crate::experiment::Failure;
use crate::outcome::{Axis, Chart, Dot, Steps};

const SIZE: (u32, u32) = (860, 480);
const FONT: (&str, u32) = ("sans-serif", 15);

/// Colours that the colour-blind tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 150, 150),
];

/// Draws a chart.
///
/// # Errors
/// When it has no point.
pub(crate) fn draw(chart: &Chart) -> Result<String, Failure> {
    let dots = || chart.lines.iter().flat_map(|line| &line.points);
    let (x_least, x_most) = ends(&chart.x, dots().map(|dot| (dot.x, dot.x)));
    let (y_least, y_most) = ends(&chart.y, dots().map(|dot| (dot.y - dot.spread, dot.y + dot.spread)));
    if !(x_least < x_most && y_least < y_most) {
        return Err(Failure::Chart(format!("{} has no points", chart.name)));
    }
    let mut svg = String::new();
    let drawn = match (chart.x.steps, chart.y.steps) {
        (Steps::Linear, Steps::Linear) => fill(&mut svg, chart, x_least..x_most, y_least..y_most),
        (Steps::Logarithmic, Steps::Linear) => {
            fill(&mut svg, chart, (x_least..x_most).log_scale(), y_least..y_most)
        }
        (Steps::Linear, Steps::Logarithmic) => {
            fill(&mut svg, chart, x_least..x_most, (y_least..y_most).log_scale())
        }
        (Steps::Logarithmic, Steps::Logarithmic) => {
            fill(&mut svg, chart, (x_least..x_most).log_scale(), (y_least..y_most).log_scale())
        }
    };
    drawn.map_err(|error| Failure::Chart(error.to_string()))?;
    Ok(svg)
}

/// From where to where an axis goes: a linear one from 0.
fn ends(axis: &Axis, values: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), (low, high)| {
        let low = if low > 0.0 { low } else { high };
        (least.min(low), most.max(high))
    });
    match axis.steps {
        Steps::Linear => (0.0, most * 1.05),
        Steps::Logarithmic => (least, most.max(least * 1.01)),
    }
}

fn fill<X, Y>(svg: &mut String, chart: &Chart, x: X, y: Y) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut on = ChartBuilder::on(&area)
        .caption(&chart.title, ("sans-serif", 19))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    on.configure_mesh()
        .x_desc(&chart.x.about)
        .y_desc(&chart.y.about)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style(FONT)
        .draw()?;
    for (line, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        on.draw_series(LineSeries::new(line.points.iter().map(|dot| (dot.x, dot.y)), style))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
        on.draw_series(line.points.iter().map(|dot| Circle::new((dot.x, dot.y), 3, colour.filled())))?;
        let bars = line.points.iter().filter(|dot| dot.spread > 0.0);
        on.draw_series(bars.map(|&Dot { x, y, spread }| {
            PathElement::new([(x, y - spread), (x, y + spread)], colour.stroke_width(1))
        }))?;
    }
    on.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()?;
    area.present()?;
    Ok(())
}

/// A number in thousands, millions or billions.
fn short(number: f64) -> String {
    let (number, unit) = match number.abs() {
        size if size >= 1e9 => (number / 1e9, "G"),
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e4 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let text = format!("{number:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::{draw, short};
    use crate::outcome::{Axis, Chart, Dot, Line, Steps};

    fn chart(x: Steps, points: Vec<Dot>) -> Chart {
        Chart {
            name: "lookups".to_owned(),
            title: "Lookups".to_owned(),
            x: Axis { about: "threads".to_owned(), steps: x },
            y: Axis { about: "million a second".to_owned(), steps: Steps::Linear },
            lines: vec![Line { name: "cuckoo".to_owned(), points }],
        }
    }

    #[test]
    fn a_chart_has_its_lines_and_the_spread_of_points() {
        for steps in [Steps::Linear, Steps::Logarithmic] {
            let dots = vec![Dot { x: 1.0, y: 2.0, spread: 0.5 }, Dot { x: 2.0, y: 3.0, spread: 0.0 }];
            let svg = draw(&chart(steps, dots)).unwrap();
            assert!(svg.contains("Lookups") && svg.contains("cuckoo") && svg.contains("threads"));
            assert_eq!(svg.matches("<circle").count(), 2);
        }
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        assert!(draw(&chart(Steps::Linear, Vec::new())).unwrap_err().to_string().contains("no points"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.25, 96.0, 1500.0, 25e3, 2.5e6].map(short),
            ["0", "0.25", "96", "1500", "25k", "2.5M"]
        );
    }
}

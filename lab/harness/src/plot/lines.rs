//! Lines over two axes.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, SVGBackend,
    SeriesLabelPosition, WHITE,
};
use serde::{Deserialize, Serialize};

use super::{CAPTION, FONT, MARGIN, PlotError, SIZE, Steps, colour, short};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Chart {
    /// The name of its file, without `.svg`.
    pub name: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub about: String,
    pub steps: Steps,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub points: Vec<Dot>,
    /// The index of its colour; that of its place among the lines if there is none.
    #[serde(skip)]
    pub colour: Option<usize>,
    #[serde(skip)]
    pub marks: Marks,
}

/// What is marked on a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Marks {
    #[default]
    Points,
    /// Nothing.
    None,
    /// Other points, which belong to it.
    Others(Vec<Dot>),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// Half the length of the bar through it: the spread of its runs.
    pub spread: f64,
}

impl Dot {
    /// A point without a spread.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, spread: 0.0 }
    }
}

impl Line {
    /// A line with its points marked.
    pub fn new(name: &str, points: Vec<Dot>) -> Self {
        Self { name: name.to_owned(), points, colour: None, marks: Marks::Points }
    }

    fn marked(&self) -> &[Dot] {
        match &self.marks {
            Marks::Points => &self.points,
            Marks::None => &[],
            Marks::Others(dots) => dots,
        }
    }

    fn falls(&self) -> bool {
        matches!((self.points.first(), self.points.last()), (Some(first), Some(last)) if first.y > last.y)
    }
}

impl Axis {
    pub fn new(about: &str, steps: Steps) -> Self {
        Self { about: about.to_owned(), steps }
    }

    /// From where to where it goes, of the lowest and highest ends of all points: a linear one from 0.
    fn ends(&self, values: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), (low, high)| {
            let low = if low > 0.0 { low } else { high };
            (least.min(low), most.max(high))
        });
        match self.steps {
            Steps::Linear if most == 0.0 => (0.0, 0.01),
            Steps::Linear => (0.0, most * 1.05),
            Steps::Logarithmic => (least, most.max(least * 1.01)),
        }
    }
}

impl Chart {
    /// Draws it as SVG.
    ///
    /// # Errors
    /// When it has no point.
    pub fn draw(&self) -> Result<String, PlotError> {
        let dots = || self.lines.iter().flat_map(|line| line.points.iter().chain(line.marked()));
        let (x_least, x_most) = self.x.ends(dots().map(|dot| (dot.x, dot.x)));
        let (y_least, y_most) = self.y.ends(dots().map(|dot| (dot.y - dot.spread, dot.y + dot.spread)));
        if !(x_least < x_most && y_least < y_most) {
            return Err(PlotError(format!("{} has no points", self.name)));
        }
        let (x, y) = (x_least..x_most, y_least..y_most);
        let mut svg = String::new();
        match (self.x.steps, self.y.steps) {
            (Steps::Linear, Steps::Linear) => self.fill(&mut svg, x, y),
            (Steps::Logarithmic, Steps::Linear) => self.fill(&mut svg, x.log_scale(), y),
            (Steps::Linear, Steps::Logarithmic) => self.fill(&mut svg, x, y.log_scale()),
            (Steps::Logarithmic, Steps::Logarithmic) => self.fill(&mut svg, x.log_scale(), y.log_scale()),
        }?;
        Ok(svg)
    }

    fn fill<X, Y>(&self, svg: &mut String, x: X, y: Y) -> Result<(), Box<dyn std::error::Error>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
        Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut on = ChartBuilder::on(&area)
            .caption(&self.title, CAPTION)
            .margin(MARGIN)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        on.configure_mesh()
            .x_desc(&self.x.about)
            .y_desc(&self.y.about)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .label_style(FONT)
            .draw()?;
        for (index, line) in self.lines.iter().enumerate() {
            let colour = colour(line.colour.unwrap_or(index));
            let style = colour.stroke_width(2);
            on.draw_series(LineSeries::new(line.points.iter().map(|dot| (dot.x, dot.y)), style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
            on.draw_series(line.marked().iter().map(|dot| Circle::new((dot.x, dot.y), 3, colour.filled())))?;
            let bars = line.marked().iter().filter(|dot| dot.spread > 0.0);
            on.draw_series(bars.map(|&Dot { x, y, spread }| {
                PathElement::new([(x, y - spread), (x, y + spread)], colour.stroke_width(1))
            }))?;
        }
        // Where the lines are low.
        let falls = self.lines.first().is_some_and(Line::falls);
        let place = if falls { SeriesLabelPosition::UpperRight } else { SeriesLabelPosition::UpperLeft };
        on.configure_series_labels()
            .position(place)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()?;
        Ok(area.present()?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, Chart, Dot, Line, Marks, Steps};

    fn chart(x: Steps, points: Vec<Dot>) -> Chart {
        Chart {
            name: "lookups".to_owned(),
            title: "Lookups".to_owned(),
            x: Axis::new("threads", x),
            y: Axis::new("million a second", Steps::Linear),
            lines: vec![Line::new("cuckoo", points)],
        }
    }

    #[test]
    fn a_chart_has_its_lines_and_the_spread_of_points() {
        for steps in [Steps::Linear, Steps::Logarithmic] {
            let mut chart = chart(steps, vec![Dot { x: 1.0, y: 2.0, spread: 0.5 }, Dot::new(2.0, 3.0)]);
            let svg = chart.draw().unwrap();
            assert!(svg.contains("Lookups") && svg.contains("cuckoo") && svg.contains("threads"));
            assert_eq!(svg.matches("<circle").count(), 2);
            chart.lines[0].marks = Marks::Others(vec![Dot::new(1.5, 3.5)]);
            assert_eq!(chart.draw().unwrap().matches("<circle").count(), 1);
        }
    }

    #[test]
    fn one_point_or_nothing_but_zeroes_make_a_chart() {
        chart(Steps::Logarithmic, vec![Dot::new(5.0, 0.5)]).draw().unwrap();
        chart(Steps::Linear, vec![Dot::new(1.0, 0.0), Dot::new(2.0, 0.0)]).draw().unwrap();
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        assert!(chart(Steps::Linear, Vec::new()).draw().unwrap_err().to_string().contains("no points"));
    }
}

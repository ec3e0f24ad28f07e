//! The bench's results as SVG plots.

use std::path::Path;

use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor, Rectangle,
    SVGBackend, SeriesLabelPosition, WHITE,
};

use super::memory::Held;
use super::open_loop::Latencies;
use super::table::significant;
use super::{LoadResult, Results};
use crate::error::LoadError;
use crate::server::{FLOOR, GUIRA};

const SIZE: (u32, u32) = (960, 480);
const FONT: (&str, u32) = ("sans-serif", 16);

/// Colours of the servers beside Guira and the floor, told apart by the colour-blind (Okabe and Ito).
const PEERS: [RGBColor; 4] =
    [RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(230, 159, 0)];

/// The colour of a server that is the `place`-th beside Guira and the floor.
fn colour(server: &str, place: usize) -> RGBColor {
    match server {
        GUIRA => RGBColor(0, 114, 178),
        FLOOR => RGBColor(150, 150, 150),
        _ => PEERS[place % PEERS.len()],
    }
}

/// Draws a plot of everything that was measured into `dir`; returns the names of the files.
///
/// # Errors
/// When a plot cannot be drawn or written.
pub fn draw(results: &Results, dir: &Path) -> Result<Vec<&'static str>, LoadError> {
    let mut drawn = Vec::new();
    let mut one = |name: &'static str, bars: Option<Bars>| -> Result<(), LoadError> {
        if let Some(bars) = bars.filter(|bars| !bars.groups.is_empty()) {
            bars.draw(&dir.join(name))
                .map_err(|problem| LoadError::Plot { name: name.to_owned(), problem })?;
            drawn.push(name);
        }
        Ok(())
    };
    one("loads.svg", Some(load_bars(&results.loads)))?;
    one("memory.svg", Some(memory_bars("Resident bytes for each item", &results.memory)))?;
    one("items.svg", Some(memory_bars("Resident bytes for each item at equal size", &results.equal)))?;
    if !results.open.is_empty() {
        let name = "latency.svg";
        draw_latencies(&results.open, &dir.join(name))
            .map_err(|problem| LoadError::Plot { name: name.to_owned(), problem })?;
        drawn.push(name);
    }
    Ok(drawn)
}

/// Groups of bars.
struct Bars {
    title: &'static str,
    /// Whether the axis is logarithmic: figures that differ a hundredfold are not seen otherwise.
    scale: Axis,
    /// A label, and a bar for each server.
    groups: Vec<(String, Vec<(String, f64)>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Linear,
    Logarithmic,
}

fn load_bars(loads: &[LoadResult]) -> Bars {
    let group = |load: &LoadResult| {
        let bars = load.series.iter().map(|series| (series.server.clone(), series.median() / 1e6)).collect();
        (load.spec.name.to_owned(), bars)
    };
    Bars {
        title: "Millions of operations per second of server processor time",
        scale: Axis::Logarithmic,
        groups: loads.iter().map(group).collect(),
    }
}

fn memory_bars(title: &'static str, held: &[Held]) -> Bars {
    let mut groups: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    for one in held {
        let bar = (one.server.clone(), one.bytes_per_item);
        match groups.iter_mut().find(|(case, _)| *case == one.case) {
            Some((_, bars)) => bars.push(bar),
            None => groups.push((one.case.clone(), vec![bar])),
        }
    }
    Bars { title, scale: Axis::Linear, groups }
}

impl Bars {
    fn draw(&self, path: &Path) -> Result<(), String> {
        let figures = || self.groups.iter().flat_map(|(_, bars)| bars.iter().map(|bar| bar.1));
        let highest = figures().fold(0.0, f64::max).max(1e-9);
        let lowest = figures().filter(|&figure| figure > 0.0).fold(f64::INFINITY, f64::min).min(highest);
        // A logarithmic axis is drawn by hand on a linear one: bars need a foot, and there is no zero.
        let (foot, height): (f64, Box<dyn Fn(f64) -> f64>) = match self.scale {
            Axis::Linear => (0.0, Box::new(|figure| figure)),
            Axis::Logarithmic => ((lowest / 2.0).log10(), Box::new(|figure: f64| figure.max(1e-9).log10())),
        };
        let top = match self.scale {
            Axis::Linear => highest * 1.25,
            Axis::Logarithmic => highest.log10() + 0.3,
        };
        let text = |error: &dyn std::error::Error| error.to_string();
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| text(&error))?;
        let groups = self.groups.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..groups, foot..top)
            .map_err(|error| text(&error))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * self.groups.len() + 1)
            .x_label_formatter(&|x| self.label_at(*x))
            .y_label_formatter(&|y| self.figure_at(*y))
            .label_style(FONT)
            .draw()
            .map_err(|error| text(&error))?;
        let peers = self.servers().into_iter().filter(|&server| server != GUIRA && server != FLOOR);
        let peers: Vec<&str> = peers.collect();
        for server in self.servers() {
            let place = peers.iter().position(|&peer| peer == server).unwrap_or(0);
            let colour = colour(server, place);
            let bars = self.bars_of(server, foot, &height);
            chart
                .draw_series(bars.into_iter().map(|corners| Rectangle::new(corners, colour.filled())))
                .map_err(|error| text(&error))?
                .label(server)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()
            .map_err(|error| text(&error))?;
        area.present().map_err(|error| text(&error))
    }

    fn servers(&self) -> Vec<&str> {
        let mut servers = Vec::new();
        for (server, _) in self.groups.iter().flat_map(|(_, bars)| bars) {
            if !servers.contains(&server.as_str()) {
                servers.push(server.as_str());
            }
        }
        servers
    }

    fn bars_of(&self, server: &str, foot: f64, height: &dyn Fn(f64) -> f64) -> Vec<[(f64, f64); 2]> {
        let width = 0.8 / self.servers().len().max(1) as f64;
        let place = self.servers().iter().position(|&other| other == server).unwrap_or(0) as f64;
        self.groups
            .iter()
            .enumerate()
            .filter_map(|(index, (_, bars))| {
                let figure = bars.iter().find(|bar| bar.0 == server)?.1;
                let left = index as f64 + 0.1 + place * width;
                Some([(left, foot), (left + width * 0.92, height(figure).max(foot))])
            })
            .collect()
    }

    /// A group's label stands under its middle.
    fn label_at(&self, x: f64) -> String {
        let is_middle = (x.fract() - 0.5).abs() < 0.01;
        self.groups.get(x as usize).filter(|_| is_middle).map(|(label, _)| label.clone()).unwrap_or_default()
    }

    fn figure_at(&self, y: f64) -> String {
        match self.scale {
            Axis::Linear => format!("{y:.0}"),
            Axis::Logarithmic => significant(10_f64.powf(y), 2),
        }
    }
}

/// Latency against the share of requests that were slower, both logarithmic.
fn draw_latencies(latencies: &[Latencies], path: &Path) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let points = || latencies.iter().flat_map(|one| one.curve.iter());
    let longest = points().map(|point| point.latency_us).fold(1.0, f64::max) * 1.3;
    let shortest =
        points().map(|point| point.latency_us).fold(f64::INFINITY, f64::min).max(1.0).min(longest / 2.0);
    let rarest = points().map(|point| 1.0 / (1.0 - point.quantile)).fold(10.0, f64::max);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| text(&error))?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Open loop: latency in µs that one request in N exceeds", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((1.0..rarest).log_scale(), (shortest..longest).log_scale())
        .map_err(|error| text(&error))?;
    chart
        .configure_mesh()
        .x_desc("N")
        .x_label_formatter(&|n| format!("{n:.0}"))
        .y_label_formatter(&|us| format!("{us:.0}"))
        .label_style(FONT)
        .draw()
        .map_err(|error| text(&error))?;
    let peers: Vec<&str> =
        latencies.iter().map(|one| one.server.as_str()).filter(|&name| name != GUIRA).collect();
    for one in latencies {
        let line = one.curve.iter().map(|point| (1.0 / (1.0 - point.quantile), point.latency_us));
        let place = peers.iter().position(|&peer| peer == one.server).unwrap_or(0);
        let style = colour(&one.server, place).stroke_width(2);
        chart
            .draw_series(LineSeries::new(line, style))
            .map_err(|error| text(&error))?
            .label(one.server.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()
        .map_err(|error| text(&error))?;
    area.present().map_err(|error| text(&error))
}

#[cfg(test)]
mod tests {
    use super::{Axis, Bars};

    #[test]
    fn bars_of_a_group_stand_beside_each_other_and_labels_under_its_middle() {
        let bars = Bars {
            title: "t",
            scale: Axis::Linear,
            groups: vec![
                ("a".to_owned(), vec![("guira".to_owned(), 2.0), ("floor".to_owned(), 4.0)]),
                ("b".to_owned(), vec![("floor".to_owned(), 1.0)]),
            ],
        };
        let none = |figure: f64| figure;
        assert_eq!(bars.bars_of("guira", 0.0, &none).len(), 1);
        let floor = bars.bars_of("floor", 0.0, &none);
        assert!(floor[0][0].0 > bars.bars_of("guira", 0.0, &none)[0][1].0, "the bars do not overlap");
        assert_eq!(
            (bars.label_at(0.5).as_str(), bars.label_at(1.5).as_str(), bars.label_at(1.0).as_str()),
            ("a", "b", "")
        );
    }

    #[test]
    fn a_plot_is_an_svg_with_its_labels() {
        let path = std::env::temp_dir().join(format!("guira-plot-{}.svg", std::process::id()));
        let bars = Bars {
            title: "Figures",
            scale: Axis::Logarithmic,
            groups: vec![("get1".to_owned(), vec![("guira".to_owned(), 0.2), ("floor".to_owned(), 15.0)])],
        };
        bars.draw(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            svg.starts_with("<svg")
                && svg.contains("Figures")
                && svg.contains("get1")
                && svg.contains("guira")
        );
    }
}

//! Groups of bars, one bar of a group for each series.

use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, Rectangle, SVGBackend, SeriesLabelPosition, WHITE,
};

use super::{CAPTION, FONT, MARGIN, PlotError, SIZE, Steps, colour};

#[derive(Debug, Clone)]
pub struct Bars {
    pub title: &'static str,
    /// A logarithmic axis shows figures that differ a hundredfold.
    pub steps: Steps,
    /// The series in the order of the bars of a group, with the index of their colour.
    pub series: Vec<(String, usize)>,
    /// A label, and the figures of some series by name.
    pub groups: Vec<(String, Vec<(String, f64)>)>,
}

impl Bars {
    /// Draws them as SVG.
    ///
    /// # Errors
    /// When the library fails.
    pub fn draw(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.fill(&mut svg)?;
        Ok(svg)
    }

    fn fill(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let figures = || self.groups.iter().flat_map(|(_, bars)| bars.iter().map(|bar| bar.1));
        let highest = figures().fold(0.0, f64::max).max(1e-9);
        let lowest = figures().filter(|&figure| figure > 0.0).fold(f64::INFINITY, f64::min).min(highest);
        // A logarithmic axis is drawn by hand on a linear one: bars need a foot, and there is no zero.
        let (foot, top) = match self.steps {
            Steps::Linear => (0.0, highest * 1.25),
            Steps::Logarithmic => ((lowest / 2.0).log10(), highest.log10() + 0.3),
        };
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, CAPTION)
            .margin(MARGIN)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..self.groups.len() as f64, foot..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * self.groups.len() + 1)
            .x_label_formatter(&|x| self.label_at(*x))
            .y_label_formatter(&|y| self.figure_at(*y))
            .label_style(FONT)
            .draw()?;
        for (place, (name, index)) in self.series.iter().enumerate() {
            let colour = colour(*index);
            let bars = self.bars_of(place, foot);
            chart
                .draw_series(bars.into_iter().map(|corners| Rectangle::new(corners, colour.filled())))?
                .label(name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()?;
        Ok(area.present()?)
    }

    /// Two corners of each bar of the series at `place`.
    fn bars_of(&self, place: usize, foot: f64) -> Vec<[(f64, f64); 2]> {
        let width = 0.8 / self.series.len().max(1) as f64;
        let height = |figure: f64| match self.steps {
            Steps::Linear => figure,
            Steps::Logarithmic => figure.max(1e-9).log10(),
        };
        self.groups
            .iter()
            .enumerate()
            .filter_map(|(index, (_, bars))| {
                let figure = bars.iter().find(|bar| bar.0 == self.series[place].0)?.1;
                let left = index as f64 + 0.1 + place as f64 * width;
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
        match self.steps {
            Steps::Linear => format!("{y:.0}"),
            Steps::Logarithmic => {
                let figure = 10_f64.powf(y);
                let decimals = (1.0 - figure.log10().floor()).clamp(0.0, 6.0) as usize;
                format!("{figure:.decimals$}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bars, Steps};

    fn bars(steps: Steps, groups: &[(&str, &[(&str, f64)])]) -> Bars {
        let figures = |bars: &[(&str, f64)]| bars.iter().map(|(name, y)| ((*name).to_owned(), *y)).collect();
        Bars {
            title: "Figures",
            steps,
            series: vec![("guira".to_owned(), 0), ("floor".to_owned(), super::super::GREY)],
            groups: groups.iter().map(|(label, bars)| ((*label).to_owned(), figures(bars))).collect(),
        }
    }

    #[test]
    fn bars_of_a_group_stand_beside_each_other_and_labels_under_its_middle() {
        let bars = bars(Steps::Linear, &[("a", &[("guira", 2.0), ("floor", 4.0)]), ("b", &[("floor", 1.0)])]);
        let guira = bars.bars_of(0, 0.0);
        assert_eq!((guira.len(), bars.bars_of(1, 0.0).len()), (1, 2));
        assert!(bars.bars_of(1, 0.0)[0][0].0 > guira[0][1].0, "the bars do not overlap");
        assert_eq!([0.5, 1.5, 1.0].map(|x| bars.label_at(x)), ["a", "b", ""]);
    }

    #[test]
    fn a_plot_is_an_svg_with_its_labels() {
        let bars = bars(Steps::Logarithmic, &[("get1", &[("guira", 0.2), ("floor", 15.0)])]);
        let svg = bars.draw().unwrap();
        assert!(svg.starts_with("<svg"));
        for text in ["Figures", "get1", "guira"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!((bars.figure_at(1.0), bars.figure_at(-0.7)), ("10".to_owned(), "0.20".to_owned()));
    }
}

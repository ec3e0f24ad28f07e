//! Figures as SVG: lines over two axes, and groups of bars.

mod bars;
mod lines;

pub use bars::Bars;
pub use lines::{Axis, Chart, Dot, Line, Marks};

use plotters::prelude::RGBColor;
use serde::{Deserialize, Serialize};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlotError(String);

impl From<Box<dyn std::error::Error>> for PlotError {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        Self(error.to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Steps {
    /// From 0.
    Linear,
    /// All values are above 0.
    Logarithmic,
}

const SIZE: (u32, u32) = (960, 480);
const FONT: (&str, u32) = ("sans-serif", 15);
const CAPTION: (&str, u32) = ("sans-serif", 19);
const MARGIN: u32 = 12;

/// Colours that the colour-blind tell apart (Okabe and Ito), then grey and brown.
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

/// The index of grey among the colours.
pub const GREY: usize = 7;

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
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
    use super::short;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.25, 96.0, 1500.0, 25e3, 2.5e6].map(short),
            ["0", "0.25", "96", "1500", "25k", "2.5M"]
        );
    }
}

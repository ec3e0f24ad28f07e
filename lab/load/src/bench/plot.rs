//! The bench's results as SVG plots.

use std::fs;
use std::path::Path;

use guira_harness::plot::{Axis, Bars, Chart, Dot, GREY, Line, Marks, PlotError, Steps};

use super::memory::Held;
use super::open_loop::Latencies;
use super::{LoadResult, Results};
use crate::error::LoadError;
use crate::server::{FLOOR, GUIRA};

/// The colour of each server, by name. Guira's and the floor's are the same in all plots.
fn colours<'a>(servers: impl Iterator<Item = &'a str>) -> Vec<(String, usize)> {
    let mut coloured: Vec<(String, usize)> = Vec::new();
    let mut peers = 0;
    for server in servers {
        if coloured.iter().any(|(known, _)| known == server) {
            continue;
        }
        let colour = match server {
            GUIRA => 0,
            FLOOR => GREY,
            _ => {
                peers += 1;
                1 + (peers - 1) % (GREY - 2)
            }
        };
        coloured.push((server.to_owned(), colour));
    }
    coloured
}

/// Draws a plot of everything that was measured into `dir`; returns the names of the files.
///
/// # Errors
/// When a plot cannot be drawn or written.
pub fn draw(results: &Results, dir: &Path) -> Result<Vec<&'static str>, LoadError> {
    let mut drawn = Vec::new();
    let mut file = |name: &'static str, svg: Result<String, PlotError>| {
        let written = svg
            .map_err(|error| error.to_string())
            .and_then(|svg| fs::write(dir.join(name), svg).map_err(|error| error.to_string()));
        drawn.push(name);
        written.map_err(|problem| LoadError::Plot { name: name.to_owned(), problem })
    };
    for (name, bars) in [
        ("loads.svg", load_bars(&results.loads)),
        ("memory.svg", memory_bars("Resident bytes for each item", &results.memory)),
        ("items.svg", memory_bars("Resident bytes for each item at equal size", &results.equal)),
    ] {
        if !bars.groups.is_empty() {
            file(name, bars.draw())?;
        }
    }
    if !results.open.is_empty() {
        file("latency.svg", latencies(&results.open).draw())?;
    }
    Ok(drawn)
}

fn bars(title: &'static str, steps: Steps, groups: Vec<(String, Vec<(String, f64)>)>) -> Bars {
    let servers = groups.iter().flat_map(|(_, bars)| bars.iter().map(|(server, _)| server.as_str()));
    Bars { title, steps, series: colours(servers), groups }
}

fn load_bars(loads: &[LoadResult]) -> Bars {
    let group = |load: &LoadResult| {
        let bars = load.series.iter().map(|series| (series.server.clone(), series.median() / 1e6)).collect();
        (load.spec.name.to_owned(), bars)
    };
    let title = "Millions of operations per second of server processor time";
    bars(title, Steps::Logarithmic, loads.iter().map(group).collect())
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
    bars(title, Steps::Linear, groups)
}

/// Latency against the share of requests that were slower, both logarithmic.
fn latencies(latencies: &[Latencies]) -> Chart {
    let colours = colours(latencies.iter().map(|one| one.server.as_str()));
    let line = |(one, (_, colour)): (&Latencies, &(String, usize))| {
        let dot = |point: &super::open_loop::Point| {
            Dot::new(1.0 / (1.0 - point.quantile), point.latency_us.max(1.0))
        };
        let points = one.curve.iter().map(dot).collect();
        Line { colour: Some(*colour), marks: Marks::None, ..Line::new(&one.server, points) }
    };
    Chart {
        name: "latency".to_owned(),
        title: "Open loop: latency in µs that one request in N exceeds".to_owned(),
        x: Axis::new("N", Steps::Logarithmic),
        y: Axis::new("µs", Steps::Logarithmic),
        lines: latencies.iter().zip(&colours).map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{FLOOR, GREY, GUIRA, colours};

    #[test]
    fn a_server_has_one_colour_whatever_is_beside_it() {
        let of = |servers: &[&str]| colours(servers.iter().copied()).into_iter().map(|(_, colour)| colour);
        assert_eq!(
            of(&[FLOOR, "memcached", GUIRA, "memcached", "other"]).collect::<Vec<_>>(),
            [GREY, 1, 0, 2]
        );
    }
}

//! The text that Prometheus reads: OpenMetrics 1.0, and the older form for those who do not ask for it.
//!
//! A metric is a *family*: its name, meaning and type, and a sample for each set of labels. The names follow from the rows of all
//! counters and gauges ([`metric_name`]), or are declared as a [`Family`].

use guira_sync::histogram::Histogram;
use guira_sync::metrics::{Kind, Metric, Unit};
use std::collections::HashMap;
use std::fmt::{self, Display, Write as _};

/// Which of the two forms is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    OpenMetrics,
    Classic,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What the metric of a row is called: `name`, or `name{label=value,…}`. `None` if its value is no number.
///
/// The name that the row says, if it says one; otherwise that of the row behind `prefix`, with its unit at the end. A counter's ends in `_total`.
pub fn metric_name(metric: &Metric, prefix: &str) -> Option<String> {
    if let Some(exported) = metric.exported {
        return Some(exported.to_owned());
    }
    let (stem, unit) = match metric.unit {
        Unit::Text => return None,
        Unit::Count | Unit::Flag => (metric.name, ""),
        Unit::Bytes if metric.name.contains("bytes") => (metric.name, ""),
        Unit::Bytes => (metric.name, "_bytes"),
        Unit::Seconds => (metric.name, "_seconds"),
        Unit::Microseconds => (metric.name.trim_end_matches("_us"), "_seconds"),
    };
    let total = if metric.kind == Kind::Counter { "_total" } else { "" };
    Some(format!("{prefix}{stem}{unit}{total}"))
}

/// A family that no row has: what it is called and means.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    /// The labels that its samples have.
    pub labels: &'static [&'static str],
    /// Its meaning, as one sentence or two.
    pub meaning: &'static str,
    /// Its type, as OpenMetrics calls it.
    pub kind: &'static str,
}

impl Family {
    /// That of a row of counters, with these labels.
    pub fn counter(row: &Metric, labels: &'static [&'static str]) -> Self {
        Family { name: row.exported.unwrap_or(row.name), labels, meaning: row.meaning, kind: "counter" }
    }
}

/// Makes a constant for each family, and the list of all, whose name and visibility come first:
///
/// ```
/// guira_web::families! {
///     ALL;
///     UP = "example_up" [], "gauge", "1: it answers.";
///     DELETES = "example_deletes_total" ["target"], "counter", "Deletes acknowledged by the target.";
/// }
/// assert_eq!(ALL[1].name, DELETES.name);
/// ```
#[macro_export]
macro_rules! families {
    ($(#[$about:meta])* $visible:vis $ALL:ident;
     $($NAME:ident = $name:literal [$($label:literal),*], $kind:literal, $meaning:literal;)*) => {
        $(const $NAME: $crate::Family =
            $crate::Family { name: $name, labels: &[$($label),*], meaning: $meaning, kind: $kind };)*
        $(#[$about])*
        $visible const $ALL: &[$crate::Family] = &[$($NAME),*];
    };
}

/// Families, in the order in which they were first named.
#[derive(Debug, Default)]
pub struct Exposition {
    families: Vec<Samples>,
    places: HashMap<String, usize>,
}

#[derive(Debug)]
struct Samples {
    name: String,
    help: String,
    kind: &'static str,
    samples: String,
}

/// Labels, each with its value.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    fn family(&mut self, name: &str, help: &str, kind: &'static str) -> &mut Samples {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                let family =
                    Samples { name: name.to_owned(), help: help.to_owned(), kind, samples: String::new() };
                self.families.push(family);
                self.places.insert(name.to_owned(), self.families.len() - 1);
                self.families.len() - 1
            }
        };
        &mut self.families[place]
    }

    /// Adds a sample: of a counter, if the name ends in `_total`, and of a gauge otherwise.
    pub fn add(&mut self, name: &str, help: &str, labels: Labels<'_>, value: impl Display) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let samples = &mut self.family(name, help, kind).samples;
        let _ = writeln!(samples, "{name}{} {value}", Braces(labels));
    }

    /// Adds a sample of a family, whose labels have these values.
    pub fn sample(&mut self, family: Family, values: &[&str], value: impl Display) {
        let labels: Vec<(&str, &str)> = family.labels.iter().copied().zip(values.iter().copied()).collect();
        self.add(family.name, family.meaning, &labels, value);
    }

    /// Adds the value of a row by its name, `name` or `name{label=value,…}`, with these labels before those of the name.
    pub fn row(&mut self, metric: &Metric, name: &str, help: &str, labels: Labels<'_>, value: &str) {
        let (name, own) = name.split_once('{').unwrap_or((name, "}"));
        let own = own.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain(own).collect();
        match metric.unit {
            // Text is a label.
            Unit::Text => self.add(name, help, &[(metric.name, value)], 1),
            Unit::Microseconds => {
                self.add(name, help, &labels, value.parse::<f64>().unwrap_or(0.0) / 1e6);
            }
            _ => self.add(name, help, &labels, value),
        }
    }

    /// Adds a histogram of times, which are in seconds here.
    pub fn histogram(&mut self, name: &str, help: &str, labels: Labels<'_>, histogram: &Histogram) {
        let samples = &mut self.family(name, help, "histogram").samples;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut bucket = |bound: &str, below: u64| {
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound)]).collect();
            let _ = writeln!(samples, "{name}_bucket{} {below}", Braces(&labels));
        };
        for (bound, below) in histogram.octaves() {
            bucket(&seconds(bound).to_string(), below);
        }
        let count = histogram.count();
        bucket("+Inf", count);
        let _ = writeln!(samples, "{name}_sum{} {}", Braces(labels), seconds(histogram.sum_ns()));
        let _ = writeln!(samples, "{name}_count{} {count}", Braces(labels));
    }

    pub fn text(&self, form: Form) -> String {
        let lengths =
            self.families.iter().map(|it| it.samples.len() + 2 * it.name.len() + it.help.len() + 32);
        let mut text = String::with_capacity(lengths.sum());
        for Samples { name, help, kind, samples } in &self.families {
            // In OpenMetrics a counter's family is called without the end that its samples have.
            let name = match form {
                Form::OpenMetrics if *kind == "counter" => name.trim_end_matches("_total"),
                _ => name,
            };
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n{samples}", Escaped(help));
        }
        if form == Form::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

struct Braces<'a>(Labels<'a>);

impl Display for Braces<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (label, value)) in self.0.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            write!(formatter, "{before}{label}=\"{}\"", Escaped(value))?;
        }
        if self.0.is_empty() { Ok(()) } else { formatter.write_char('}') }
    }
}

/// Text within which a quote, a backslash and a line end are written as two characters.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => formatter.write_str("\\\\"),
            '"' => formatter.write_str("\\\""),
            '\n' => formatter.write_str("\\n"),
            other => formatter.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &'static str, unit: Unit, kind: Kind, exported: Option<&'static str>) -> Metric {
        Metric { name, unit, kind, meaning: "What it is.", exported }
    }

    #[test]
    fn names_are_made_of_rows() {
        let named = |name, unit, kind| metric_name(&metric(name, unit, kind, None), "guira_");
        assert_eq!(named("conn_yields", Unit::Count, Kind::Counter).unwrap(), "guira_conn_yields_total");
        assert_eq!(named("memory_used", Unit::Bytes, Kind::Gauge).unwrap(), "guira_memory_used_bytes");
        assert_eq!(named("hash_bytes", Unit::Bytes, Kind::Gauge).unwrap(), "guira_hash_bytes");
        let waited = named("time_in_listen_disabled_us", Unit::Microseconds, Kind::Counter);
        assert_eq!(waited.unwrap(), "guira_time_in_listen_disabled_seconds_total");
        assert_eq!(named("libevent", Unit::Text, Kind::Gauge), None);
        let exported = metric("get_hits", Unit::Count, Kind::Counter, Some("commands_total{status=hit}"));
        assert_eq!(metric_name(&exported, "guira_").unwrap(), "commands_total{status=hit}");
    }

    #[test]
    fn the_two_forms_differ_in_the_names_of_counters_and_in_the_end() {
        let mut exposition = Exposition::default();
        let hits =
            metric("get_hits", Unit::Count, Kind::Counter, Some("memcached_commands_total{status=hit}"));
        let name = metric_name(&hits, "guira_").unwrap();
        exposition.row(&hits, &name, "Commands.", &[("slab", "1")], "7");
        exposition.add("guira_x", "A \"quoted\"\nline.", &[("path", "C:\\\"\n")], 1.5);
        exposition.row(&hits, &name, "Commands.", &[("slab", "2")], "8");
        let waited = metric("wait_us", Unit::Microseconds, Kind::Counter, None);
        exposition.row(&waited, "guira_wait_seconds_total", waited.meaning, &[], "1500000");
        let expected = "# HELP memcached_commands Commands.\n# TYPE memcached_commands counter\n\
             memcached_commands_total{slab=\"1\",status=\"hit\"} 7\nmemcached_commands_total{slab=\"2\",status=\"hit\"} 8\n\
             # HELP guira_x A \\\"quoted\\\"\\nline.\n# TYPE guira_x gauge\nguira_x{path=\"C:\\\\\\\"\\n\"} 1.5\n\
             # HELP guira_wait_seconds What it is.\n# TYPE guira_wait_seconds counter\nguira_wait_seconds_total 1.5\n# EOF\n";
        assert_eq!(exposition.text(Form::OpenMetrics), expected);
        let classic = exposition.text(Form::Classic);
        assert!(
            classic.contains("# TYPE memcached_commands_total counter\n") && !classic.contains("EOF"),
            "{classic}"
        );
    }
}

//! A strict reader of OpenMetrics 1.0 and of the older text form of Prometheus: what a scraper could stumble over is an error.

use std::collections::{BTreeMap, BTreeSet};

/// Labels with their values, by name.
pub type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape {
    pub types: BTreeMap<String, String>,
    pub samples: BTreeMap<(String, Labels), f64>,
}

/// Which of the two forms is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text form 0.0.4.
    Classic,
}

impl Scrape {
    /// Reads a text in this form.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn read(text: &str, form: Form) -> Result<Self, String> {
        let text = match form {
            Form::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("it does not end in # EOF")?,
            Form::Classic => text,
        };
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let mut reader =
            Reader { scrape: Scrape::default(), helped: BTreeSet::new(), family: String::new(), form };
        text.lines().try_for_each(|line| reader.line(line).map_err(|why| format!("{why}: {line}")))?;
        reader.scrape.check_histograms()?;
        Ok(reader.scrape)
    }

    /// The value of the sample with this name and these labels.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Labels =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let key = (name.to_owned(), labels);
        *self.samples.get(&key).unwrap_or_else(|| panic!("no sample {key:?}"))
    }

    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Labels, f64)> {
        self.samples
            .iter()
            .filter(move |((other, _), _)| other == name)
            .map(|((_, labels), value)| (labels, *value))
    }

    /// Buckets grow, and the last of them is the count.
    fn check_histograms(&self) -> Result<(), String> {
        for family in self.types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
            let mut series = BTreeMap::<Labels, Vec<(f64, f64)>>::new();
            for (labels, value) in self.named(&format!("{family}_bucket")) {
                let mut labels = labels.clone();
                let bound = labels.remove("le").ok_or_else(|| format!("{family}: a bucket without le"))?;
                let bound = bound.parse().map_err(|_| format!("{family}: le is {bound}"))?;
                series.entry(labels).or_default().push((bound, value));
            }
            for (labels, mut buckets) in series {
                buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
                let count = self.samples.get(&(format!("{family}_count"), labels.clone()));
                let is_growing = buckets.windows(2).all(|two| two[0].1 <= two[1].1);
                if !is_growing || buckets.last().copied() != count.map(|count| (f64::INFINITY, *count)) {
                    return Err(format!("{family} {labels:?}: {buckets:?} and the count {count:?}"));
                }
                if !self.samples.contains_key(&(format!("{family}_sum"), labels)) {
                    return Err(format!("{family} has no sum"));
                }
            }
        }
        Ok(())
    }
}

struct Reader {
    scrape: Scrape,
    helped: BTreeSet<String>,
    family: String,
    form: Form,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, _) = rest.split_once(' ').ok_or("no text")?;
            return if self.helped.insert(name.to_owned()) {
                Ok(())
            } else {
                Err("a second HELP".to_owned())
            };
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("no type")?;
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return Err("an unknown type".to_owned());
            }
            self.family = name.to_owned();
            let is_second = self.scrape.types.insert(name.to_owned(), kind.to_owned()).is_some();
            return if is_second { Err("a second TYPE".to_owned()) } else { Ok(()) };
        }
        let (name, labels, value) = sample(line)?;
        if !self.belongs(&name) {
            return Err(format!("it is not of the family {}, whose samples come here", self.family));
        }
        match self.scrape.samples.insert((name, labels), value) {
            Some(_) => Err("a second sample of the same labels".to_owned()),
            None => Ok(()),
        }
    }

    /// Whether a sample has a name that fits its family.
    fn belongs(&self, name: &str) -> bool {
        let ends: &[&str] = match (self.scrape.types.get(&self.family).map(String::as_str), self.form) {
            (Some("counter"), Form::OpenMetrics) => &["_total"],
            (Some("histogram"), _) => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        name.strip_prefix(self.family.as_str()).is_some_and(|end| ends.contains(&end))
    }
}

/// Reads `name{label="value",…} value`.
fn sample(line: &str) -> Result<(String, Labels, f64), String> {
    let is_name = |name: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
    };
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            let (value, after) = quoted(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return Err("a label that is none, or comes twice".to_owned());
            }
            match (after.strip_prefix(','), after.strip_prefix('}')) {
                (Some(next), _) => rest = next,
                (None, Some(end)) => {
                    rest = end;
                    break;
                }
                (None, None) => return Err("labels without an end".to_owned()),
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no value")?;
    let value: f64 = value.parse().map_err(|_| "the value is no number")?;
    if is_name(name) && value.is_finite() {
        Ok((name.to_owned(), labels, value))
    } else {
        Err("no name".to_owned())
    }
}

/// Reads the rest of a quoted text; returns what comes after it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                _ => return Err("an unknown escape".to_owned()),
            },
            other => value.push(other),
        }
    }
    Err("a quote without an end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scraper_would_stumble_over_is_an_error() {
        let good =
            "# HELP a A.\n# TYPE a counter\na_total{x=\"1\",y=\"\\\"\\n\"} 2\n# TYPE b gauge\nb 1.5\n# EOF\n";
        let scrape = Scrape::read(good, Form::OpenMetrics).unwrap();
        assert_eq!(scrape.value("a_total", &[("x", "1"), ("y", "\"\n")]), 2.0);
        for bad in [
            "# TYPE a counter\na_total 1\n",
            "# TYPE a counter\na 1\n# EOF\n",
            "a 1\n# EOF\n",
            "# TYPE a gauge\na 1\na 2\n# EOF\n",
            "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na{x=\"1\"} 1\n# EOF\n",
            "# TYPE a gauge\na 1\n# TYPE a gauge\n# EOF\n",
            "# TYPE a gauge\na{x=1} 1\n# EOF\n",
            "# TYPE a gauge\na NaN\n# EOF\n",
            "# TYPE a histogram\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n# EOF\n",
            "# TYPE a histogram\na_bucket{le=\"1.0\"} 1\na_bucket{le=\"+Inf\"} 1\na_count 1\n# EOF\n",
        ] {
            assert!(Scrape::read(bad, Form::OpenMetrics).is_err(), "{bad}");
        }
        let classic = "# TYPE a_total counter\na_total 1\n";
        assert!(Scrape::read(classic, Form::Classic).is_ok());
    }
}

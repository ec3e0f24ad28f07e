//! Numbers with units on the command line.

use std::str::FromStr;
use std::time::Duration;

/// A number of bytes; `K`, `M`, `G`, `T` and `KiB`… are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A count; `k`, `M`, `G` are powers of 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

/// A span of time with a unit: `250ms`, `2s`, `5m`; seconds without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// Lengths: one, or a range `16-250`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    pub min: u32,
    pub max: u32,
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text)?;
        let unit = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
        let shift = match unit {
            "" => 0,
            "K" | "k" => 10,
            "M" | "m" => 20,
            "G" | "g" => 30,
            "T" | "t" => 40,
            _ => return Err(format!("{text:?} has no unit of size: use K, M, G or T (KiB, MiB, GiB, TiB)")),
        };
        scaled(number, (1_u64 << shift) as f64, text).map(Self)
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text)?;
        let factor = match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" | "m" => 1e6,
            "G" | "g" => 1e9,
            _ => return Err(format!("{text:?} has no unit of count: use k, M or G")),
        };
        scaled(number, factor, text).map(Self)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text)?;
        let seconds = match unit {
            "" | "s" => number,
            "ms" => number / 1e3,
            "m" | "min" => number * 60.0,
            _ => return Err(format!("{text:?} has no unit of time: use ms, s or m")),
        };
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|error| format!("{text:?}: {error}"))
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let len = |part: &str| -> Result<u32, String> {
            let Bytes(bytes) = part.parse()?;
            u32::try_from(bytes).map_err(|_| format!("{part:?} is too long"))
        };
        let (min, max) = match text.split_once('-') {
            Some((min, max)) => (len(min)?, len(max)?),
            None => (len(text)?, len(text)?),
        };
        if min > max {
            return Err(format!("{text:?}: the smaller length comes first"));
        }
        Ok(Self { min, max })
    }
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    Ok((number, &text[end..]))
}

fn scaled(number: f64, factor: f64, text: &str) -> Result<u64, String> {
    let result = number * factor;
    if result < 9e18 { Ok(result as u64) } else { Err(format!("{text:?} is too large")) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bytes, Count, Lengths, Span};

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in
            [("64", 64), ("1K", 1024), ("1.5MiB", 3 << 19), ("2GB", 2 << 30), ("1T", 1 << 40)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert!("12Q".parse::<Bytes>().unwrap_err().contains("KiB"));
        assert!("x".parse::<Bytes>().is_err());
        assert!("99999999T".parse::<Bytes>().is_err());
    }

    #[test]
    fn counts_are_powers_of_1000() {
        assert_eq!("25M".parse(), Ok(Count(25_000_000)));
        assert_eq!("100".parse(), Ok(Count(100)));
    }

    #[test]
    fn times_have_units() {
        assert_eq!("250ms".parse(), Ok(Span(Duration::from_millis(250))));
        assert_eq!("2".parse(), Ok(Span(Duration::from_secs(2))));
        assert_eq!("1m".parse(), Ok(Span(Duration::from_secs(60))));
        assert!("1h".parse::<Span>().is_err());
    }

    #[test]
    fn lengths_are_one_or_a_range() {
        assert_eq!("32".parse(), Ok(Lengths { min: 32, max: 32 }));
        assert_eq!("16-1K".parse(), Ok(Lengths { min: 16, max: 1024 }));
        assert!("20-10".parse::<Lengths>().is_err());
    }
}

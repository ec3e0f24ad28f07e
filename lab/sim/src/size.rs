//! Sizes of caches, as they are written: `5%` of the keys, `4000` objects, `64MiB`.

use std::fmt;
use std::str::FromStr;

use guira_workload::units::{factor, split};
use serde::{Serialize, Serializer};

use crate::stream::Stream;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// A share of all keys, in percent.
    Percent(f64),
    Objects(u64),
    Bytes(u64),
}

impl Size {
    /// Whether it is measured in bytes.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes(_))
    }

    /// `count` shares of the keys from a thousandth to all, evenly spread on a logarithmic scale: for a curve.
    #[must_use]
    pub fn curve(count: usize) -> Vec<Self> {
        let steps = count.saturating_sub(1).max(1) as f64;
        let percent = |index: usize| 0.1 * 1000_f64.powf(index as f64 / steps);
        (0..count).map(|index| Self::Percent((percent(index) * 1e3).round() / 1e3)).collect()
    }

    /// The room of a cache for the requests of `stream`: whole objects, and at least one. For a sample of the keys it is
    /// smaller by as much.
    #[must_use]
    pub fn room(self, stream: &Stream) -> u64 {
        let room = match self {
            Self::Percent(percent) => stream.keys() as f64 * percent / 100.0,
            Self::Objects(count) | Self::Bytes(count) => count as f64 * stream.rate(),
        };
        (room as u64).max(1)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size: use 5% (of the keys), 4000 (objects) or 64MiB");
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let whole = |factor: f64| {
            let scaled = number * factor;
            if (1.0..9e18).contains(&scaled) { Ok(scaled as u64) } else { Err(wrong()) }
        };
        match unit {
            "%" if number > 0.0 && number <= 100.0 => Ok(Self::Percent(number)),
            "" if number.fract() == 0.0 => whole(1.0).map(Self::Objects),
            "" => Err(wrong()),
            _ => {
                let prefix = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
                whole(factor(prefix, 1024.0).ok_or_else(wrong)?).map(Self::Bytes)
            }
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(out, "{percent}%"),
            Self::Objects(count) => write!(out, "{count}"),
            Self::Bytes(bytes) => {
                let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
                match units.iter().find(|(unit, _)| bytes % unit == 0) {
                    Some((unit, name)) => write!(out, "{}{name}", bytes / unit),
                    None => write!(out, "{bytes}B"),
                }
            }
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use guira_workload::trace::Request;

    use super::Size;
    use crate::sample::Sample;
    use crate::stream::{Reading, Stream, Writes};

    #[test]
    fn sizes_are_read_and_written_the_same() {
        for (text, size) in [
            ("5%", Size::Percent(5.0)),
            ("0.5%", Size::Percent(0.5)),
            ("4000", Size::Objects(4000)),
            ("64MiB", Size::Bytes(64 << 20)),
            ("1000B", Size::Bytes(1000)),
        ] {
            assert_eq!(text.parse(), Ok(size), "{text}");
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("1.5K".parse(), Ok(Size::Bytes(1536)));
        for wrong in ["", "%", "0%", "101%", "0", "1.5", "64Q", "-1", "99999999999G"] {
            assert!(wrong.parse::<Size>().unwrap_err().contains("64MiB"), "{wrong}");
        }
    }

    #[test]
    fn a_curve_goes_from_a_thousandth_to_all() {
        let percent = [0.1, 1.0, 10.0, 100.0].map(Size::Percent);
        assert_eq!(Size::curve(4), percent);
        assert_eq!(Size::curve(1), [Size::Percent(0.1)]);
    }

    #[test]
    fn a_share_is_whole_objects_and_never_nothing() {
        let stream = |keys: u64, sample| {
            let requests = (0..keys).map(|key| Ok::<_, Infallible>(Request::number(key)));
            let Ok(stream) =
                Stream::read(requests, Reading { writes: Writes::Store, sample, limit: u64::MAX });
            stream
        };
        let all = stream(20_484, Sample::All);
        assert_eq!((Size::Percent(1.0).room(&all), Size::Objects(300).room(&all)), (204, 300));
        assert_eq!(Size::Percent(1.0).room(&stream(10, Sample::All)), 1);
        let sample = stream(20_484, Sample::Keys(2048));
        assert_eq!(Size::Percent(1.0).room(&sample), 20);
        assert!((90..111).contains(&Size::Objects(1000).room(&sample)));
    }
}

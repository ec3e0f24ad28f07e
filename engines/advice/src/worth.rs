//! What a hit is worth to those who run the server.

use std::fmt;
use std::str::FromStr;

/// What the advisor aims at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worth {
    /// Few reads that miss: each hit is worth the same.
    #[default]
    Objects,
    /// Few bytes that are missed: a hit is worth the bytes of its item.
    Bytes,
}

impl Worth {
    pub const NAMES: [&'static str; 2] = ["objects", "bytes"];

    /// The worth of a hit of an item of `bytes`, relative to one of the `usual` length.
    pub(crate) fn of(self, bytes: f64, usual: f64) -> f64 {
        match self {
            Worth::Objects => 1.0,
            Worth::Bytes => bytes / usual.max(1.0),
        }
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for Worth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Worth::Objects, Worth::Bytes].into_iter().find(|worth| worth.to_string() == text);
        found.ok_or_else(|| format!("must be {}, not {text}", Self::NAMES.join(" or ")))
    }
}

#[cfg(test)]
mod tests {
    use super::Worth;

    #[test]
    fn a_worth_is_read_as_it_is_written_and_bytes_count_by_length() {
        for name in Worth::NAMES {
            assert_eq!(name.parse::<Worth>().unwrap().to_string(), name);
        }
        assert_eq!("hits".parse::<Worth>().unwrap_err(), "must be objects or bytes, not hits");
        assert_eq!((Worth::Objects.of(300.0, 100.0), Worth::Bytes.of(300.0, 100.0)), (1.0, 3.0));
    }
}

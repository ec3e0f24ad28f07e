//! Where a Region that lasts is kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The file of a Region that lasts: given as a path, or as a name, which stands for a file in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPlace(PathBuf);

/// Why a text names no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a region is named by a path with a '/', or by up to 100 letters, digits, '.', '_' and '-'")]
pub struct NoPlace;

/// Names stand for files here, which are gone when the machine restarts but not when the server does.
const SHARED_MEMORY: &str = "/dev/shm/guira-";

/// The longest name.
const NAME_MAX: usize = 100;

impl RegionPlace {
    /// The file at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        RegionPlace(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for RegionPlace {
    type Err = NoPlace;

    /// A text with a slash is a path, any other a name.
    fn from_str(text: &str) -> Result<Self, NoPlace> {
        if text.contains('/') {
            return Ok(RegionPlace(text.into()));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > NAME_MAX || !text.bytes().all(is_plain) {
            return Err(NoPlace);
        }
        Ok(RegionPlace(format!("{SHARED_MEMORY}{text}").into()))
    }
}

impl fmt::Display for RegionPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lies_in_shared_memory_and_a_path_where_it_says() {
        let path = |text: &str| text.parse::<RegionPlace>().map(|place| place.to_string());
        assert_eq!(path("main").unwrap(), "/dev/shm/guira-main");
        assert_eq!(path("./main").unwrap(), "./main");
        assert_eq!(path("/mnt/cache/one").unwrap(), "/mnt/cache/one");
        for wrong in ["", "two words", "a\n", "é", &"x".repeat(101)] {
            assert!(path(wrong).is_err(), "{wrong:?}");
        }
    }
}

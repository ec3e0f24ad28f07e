//! The location of a Region's file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The file of a persistent Region, given as a path, or as a name, which stands for a file in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPlace(PathBuf);

/// The text is not a valid path or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a region is named by a path with a '/', or by up to 100 letters, digits, '.', '_' and '-'")]
pub struct NoPlace;

/// Names stand for files here, which survive a restart of the server but not one of the machine.
const SHARED_MEMORY: &str = "/dev/shm/guira-";

const NAME_MAX: usize = 100;

impl RegionPlace {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        RegionPlace(path.into())
    }

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

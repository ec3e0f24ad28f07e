//! The location of a Region's file.

use crate::lasting::HandedRegion;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The file of a persistent Region, given as a path, or as a name, which stands for a file in shared memory.
#[derive(Clone, Debug)]
pub struct RegionPlace {
    path: PathBuf,
    /// The file, if it is not to be opened, since another server has handed it over.
    handed: Option<Arc<HandedRegion>>,
}

/// Places are the same if their paths are.
impl PartialEq for RegionPlace {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for RegionPlace {}

/// The text is not a valid path or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a region's name must be a path with a '/', or up to 100 letters, digits, '.', '_' and '-'")]
pub struct NoPlace;

/// Names stand for files here, which survive a restart of the server but not one of the machine.
const SHARED_MEMORY: &str = "/dev/shm/guira-";

const NAME_MAX: usize = 100;

impl RegionPlace {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        RegionPlace { path: path.into(), handed: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same place, with the Region that was handed over there.
    #[must_use]
    pub fn with(&self, handed: Arc<HandedRegion>) -> Self {
        RegionPlace { handed: Some(handed), ..self.clone() }
    }

    /// Whether the Region there was handed over.
    pub fn is_handed(&self) -> bool {
        self.handed.is_some()
    }

    pub(crate) fn handed(&self) -> Option<&Arc<HandedRegion>> {
        self.handed.as_ref()
    }
}

impl FromStr for RegionPlace {
    type Err = NoPlace;

    /// A text with a slash is a path, any other a name.
    fn from_str(text: &str) -> Result<Self, NoPlace> {
        if text.contains('/') {
            return Ok(RegionPlace::at(text));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > NAME_MAX || !text.bytes().all(is_plain) {
            return Err(NoPlace);
        }
        Ok(RegionPlace::at(format!("{SHARED_MEMORY}{text}")))
    }
}

impl fmt::Display for RegionPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(formatter)
    }
}

#[cfg(not(miri))]
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

//! Which database is read.

/// The database that a fill reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The one of this region.
    Nearest,
    /// The one that takes writes, since a write of this region may not have come back to the nearest yet.
    Master,
}

/// A key to be read from a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted<'k> {
    /// The key.
    pub key: &'k str,
    /// Where to read.
    pub database: Database,
}

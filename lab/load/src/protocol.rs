//! Protocols, and the commands that a load uses.

/// How requests are spelled and replies read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    #[default]
    Text,
    /// memcached's packets with headers of 24 bytes.
    Binary,
}

/// The commands that a reply can belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A get of one or several keys.
    Get,
    Set,
    /// A set that follows a miss.
    Fill,
    Delete,
}

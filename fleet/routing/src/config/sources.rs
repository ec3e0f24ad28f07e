//! Sources of imported texts.

/// Provides the texts of imports: the router reads files, tests have a map.
pub trait Sources {
    /// Returns the text with this name, as written in the configuration, such as
    /// `file:/etc/guira/pools.json`; or why there is none. With [`super::SRV`] in front it is the
    /// name of an SRV record, whose text is an array of servers.
    fn read(&self, name: &str) -> Result<String, String>;
}

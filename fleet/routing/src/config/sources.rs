//! Where configurations import texts from.

/// Where the text of imports comes from: the router reads files, tests have a map.
pub trait Sources {
    /// The text with this name, as it is written in the configuration, such as `file:/etc/guira/pools.json`; or why there is none. With
    /// [`super::SRV`] in front it is the name of an SRV record, whose text is an array of servers.
    fn read(&self, name: &str) -> Result<String, String>;
}

//! A log with a name, for tests.

use guira_routing::config::{Globals, load};
use guira_routing::{Destinations, LogName, Settings, build};
use std::time::Duration;

/// The servers `a:1` and `b:2` of a pool, and the log that it has.
pub(crate) fn log_of_a_pool() -> (Destinations, LogName) {
    let text = r#"{"pools": {"P": {"servers": ["a:1", "b:2"]}}, "route": "PoolRoute|P"}"#;
    let sources = crate::config::Texts::default();
    let loaded = load("test", text, &sources, &Globals::new()).unwrap();
    let settings = Settings::plain("/././", Duration::from_secs(1));
    let mut destinations = Destinations::default();
    build(&loaded.json, &sources, &settings, &mut destinations).unwrap();
    let log = destinations.log_named("P").unwrap();
    (destinations, log)
}

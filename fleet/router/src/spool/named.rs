//! A delete log with its name, for tests.

use super::counts::LogCounts;
use super::entry::{Author, Entry, LogVersion};
use super::pending::LogAccess;
use super::writer::{Order, Written};
use guira_routing::config::{Globals, load};
use guira_routing::{Destinations, LogName, Settings, build};
use guira_sync::channel::channel;
use std::sync::Arc;
use std::time::Duration;

/// The servers `a:1` and `b:2` of a pool, and the log of that pool.
pub(crate) fn log_of_a_pool() -> (Destinations, LogName) {
    let mut destinations = Destinations::default();
    build_pool(r#""a:1", "b:2""#, &mut destinations);
    let log = destinations.log_named("P").unwrap();
    (destinations, log)
}

/// Replaces the pool's servers by `c:3`, and releases the earlier ones.
pub(crate) fn another_pool(mut destinations: Destinations) -> Destinations {
    destinations.release();
    build_pool(r#""c:3""#, &mut destinations);
    destinations
}

fn build_pool(servers: &str, destinations: &mut Destinations) {
    let text = format!(r#"{{"pools": {{"P": {{"servers": [{servers}]}}}}, "route": "PoolRoute|P"}}"#);
    let sources = crate::config::Texts::default();
    let loaded = load("test", &text, &sources, &Globals::new()).unwrap();
    let settings = Settings::plain("/././", Duration::from_secs(1));
    build(&loaded.json, &sources, &settings, destinations).unwrap();
}

/// The access of a worker to the log; and a function that returns the deletes logged since its last
/// call, as server and key, and confirms that they are written.
pub(crate) fn log_to_a_channel() -> (LogAccess, impl FnMut() -> Vec<String>) {
    let (orders, receiver) = channel();
    let author = Author { service: "s".into(), router: "r".into(), region: "g".into() };
    let counts = Arc::<LogCounts>::default();
    let access = LogAccess { version: LogVersion::Two, author, orders, counts };
    let logged = move || {
        let mut all = Vec::new();
        for order in receiver.try_iter() {
            let Order::Write(batch) = order else { continue };
            for line in batch.lines.split_inclusive(|byte| *byte == b'\n') {
                let entry = Entry::read(line).unwrap();
                all.push(format!("{} {}", entry.server, String::from_utf8_lossy(&entry.delete.key)));
            }
            batch.to.send(Written::Yes);
        }
        all
    };
    (access, logged)
}

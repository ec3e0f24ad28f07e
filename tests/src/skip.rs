//! Tests that do not apply to the server under test say so in one line and end.

use std::io::Write;

/// Tells, past the capture of the test runner, that this test was left out.
pub fn say(why: &str) {
    let thread = std::thread::current();
    // The test runner names each thread by its test. Not a print macro: those of a test that passes are swallowed.
    let _ = writeln!(std::io::stderr(), "skipped {}: {why}", thread.name().unwrap_or("a test"));
}

/// Ends the test when the server is a memcached older than 1.6.45, whose behaviour differs as `reason` says.
#[macro_export]
macro_rules! newer_than_peer {
    ($server:expr, $reason:literal) => {
        if let Some(version) = $server.older_than_the_law() {
            $crate::skip::say(&format!("memcached {version}: {}", $reason));
            return;
        }
    };
}

/// Ends the test when the server is a memcached, which breaks its own protocol as `reason` says.
#[macro_export]
macro_rules! upstream_flaw {
    ($server:expr, $reason:literal) => {
        if let $crate::server::Subject::Memcached(version) = $server.subject() {
            $crate::skip::say(&format!("memcached {version}: {}", $reason));
            return;
        }
    };
}

//! What the programs of a run log, and what the scenario does to them, with the world's time.

use guira_world::net::host_of;
use guira_world::scheduler::current_process;
use guira_world::time;
use std::fmt;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

#[derive(Debug)]
struct WorldTime;

impl FormatTime for WorldTime {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        write!(out, "{:12.6} {}", time::now().as_secs_f64(), host_of(current_process()))
    }
}

/// Prints all events from now on.
pub(crate) fn start() {
    let lines = tracing_subscriber::fmt().with_timer(WorldTime).with_ansi(false).with_target(false);
    lines.with_max_level(tracing::Level::TRACE).with_writer(std::io::stderr).init();
}

//! Asking a node.

use guira_client::text::{Connection, StatsReply, TextError};
use guira_sync::clock::Stopwatch;

use crate::reading::{Group, Reading};

/// Requests `groups`, one after the other. Groups that the server does not support are noted in the
/// reading.
pub(crate) fn read_stats(
    connection: &mut Connection,
    groups: &[Group],
    clock: Stopwatch,
) -> Result<Reading, TextError> {
    let mut reading = Reading::new(clock.elapsed());
    for group in groups {
        let answer = connection.stats(group.word(), |name, value| reading.line(*group, name, value))?;
        match answer {
            StatsReply::Sent => reading.received(*group),
            StatsReply::Refused(words) => reading.refused(*group, &words),
        }
    }
    Ok(reading)
}

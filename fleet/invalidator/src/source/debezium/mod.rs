//! Receives Debezium's change events from a sender, as lines of JSON.
//!
//! There is no log that could be read again: the sender keeps each line until it is acknowledged,
//! and sends unacknowledged lines again on its next connection. Whenever all targets have
//! acknowledged more, the sender receives a line with the number of acknowledged lines of its
//! connection.
//!
//! | file | contents |
//! |---|---|
//! | sender.rs | the connection of a sender |
//! | lines.rs | splits bytes into lines |
//! | acknowledged.rs | the number of acknowledged lines |
//! | event.rs | the changes in an event |
//! | json.rs | a lenient reader of JSON |

mod acknowledged;
mod event;
mod json;
mod lines;
mod sender;
#[cfg(test)]
mod tests;

use super::{Changes, SourceError, Tail};
pub(crate) use acknowledged::Acknowledged;
use guira_client::text::{Endpoint, Listener};
use sender::{READ_WAIT, Sender};
use serde::Deserialize;
use std::time::Duration;

/// A sender that has sent no whole change event for this time is disconnected when another one
/// connects. Nothing is lost: it sends its unacknowledged lines again.
const USELESS_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) listen: Endpoint,
    pub(crate) acknowledged: Acknowledged,
    pub(crate) rules: Rules,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) on_bad_line: OnBadLine,
    /// The longest time without a change event while another sender waits.
    useless_max: Duration,
}

impl Rules {
    pub(crate) fn new(on_bad_line: OnBadLine) -> Self {
        Rules { on_bad_line, useless_max: USELESS_MAX }
    }
}

/// The reaction to a line that is not a change event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnBadLine {
    /// The line is counted, logged and acknowledged, so that it does not block the lines behind it.
    #[default]
    Skip,
    /// The process ends with an error, and the line is not acknowledged.
    Stop,
}

/// Serves one sender after the other until the invalidator stops.
pub(crate) fn run<C: Changes>(options: &Options, tail: Tail<C>) -> Result<(), SourceError> {
    let listener = Listener::bind(&options.listen).map_err(|error| {
        SourceError::Unsuitable(format!("it cannot be listened at {}: {error}", options.listen))
    })?;
    let (stop, counts, mut connection) = (tail.stop.clone(), tail.counts.clone(), 0);
    let open = |_: Option<&str>| {
        let socket = listener.accept(&stop, READ_WAIT)??;
        connection += 1;
        let acknowledged = options.acknowledged.clone();
        Ok(Sender::new(socket, connection, &listener, acknowledged, options.rules, counts.clone()))
    };
    tail.run(Some(String::new()), open, |_| Ok(()))
}

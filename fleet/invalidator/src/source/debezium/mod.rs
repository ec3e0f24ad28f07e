//! Change events of Debezium, which somebody sends as lines of JSON.
//!
//! There is no log that could be read again from a position: who sends keeps what is not acknowledged, and sends it once more on the next connection. Whenever all targets have acknowledged
//! more, the sender is told how many lines of its connection that are, in a line of its own.
//!
//! | file | what it knows |
//! |---|---|
//! | sender.rs | connections |
//! | lines.rs | where lines end |
//! | acknowledged.rs | how far a sender may forget |
//! | event.rs | what an event says |
//! | json.rs | JSON as it stands in a line |

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

/// A sender that has sent no whole change event for so long is left when another one comes: what it has not been told of comes again anyway.
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
    /// How long it may send nothing of use while another one waits.
    useless_max: Duration,
}

impl Rules {
    pub(crate) fn new(on_bad_line: OnBadLine) -> Self {
        Rules { on_bad_line, useless_max: USELESS_MAX }
    }
}

/// What is done about a line that is no change event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnBadLine {
    /// It is counted, logged and acknowledged: one line does not hold up all that follow.
    #[default]
    Skip,
    /// The process ends with an error, and the line is not acknowledged.
    Stop,
}

/// Takes one sender after the other until it is stopped.
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

//! Change events of Debezium, which somebody sends as lines of JSON.
//!
//! There is no log that could be read again from a position: who sends keeps what is not acknowledged, and sends it once more on the next connection. Whenever all targets have acknowledged
//! more, the sender is told how many lines of its connection that are, in a line of its own.
//!
//! | file | what it knows |
//! |---|---|
//! | lines.rs | connections and their lines |
//! | event.rs | what an event says |

mod event;
mod lines;

use super::{Changes, SourceError, Tail};
use guira_client::text::Endpoint;
use guira_databases::{Listener, Socket};
use lines::Lines;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Where senders come to.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) listen: Endpoint,
    pub(crate) acknowledged: Acknowledged,
}

/// Lines of a connection, as `3-1500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    connection: u64,
    lines: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.connection, self.lines)
    }
}

/// The connection whose sender is told what is acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acknowledged(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// LOCK: invalidator_sender. Leaf.
    sender: Mutex<Option<Sender>>,
}

#[derive(Debug)]
struct Sender {
    connection: u64,
    socket: Arc<Socket>,
}

impl Acknowledged {
    /// All targets have acknowledged what is before `position`. A sender that does not read that is left.
    pub(crate) fn set(&self, position: &str) {
        let Some((connection, lines)) = position.split_once('-') else { return };
        let mut current = self.0.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let told = match &*current {
            Some(sender) if sender.connection.to_string() == connection => {
                (&*sender.socket).write_all(format!("{lines}\n").as_bytes())
            }
            // It was of a sender that is gone, and comes again.
            _ => return,
        };
        if let Err(error) = told {
            tracing::warn!("the sender does not take what is acknowledged, and is left: {error}");
            *current = None;
        }
    }

    fn begin(&self, connection: u64, socket: &Arc<Socket>) {
        let sender = Sender { connection, socket: socket.clone() };
        *self.0.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }
}

/// Takes one sender after the other until it is told to stop.
pub(crate) fn run<C: Changes>(options: &Options, tail: Tail<C>) -> Result<(), SourceError> {
    let listener = Listener::bind(&options.listen).map_err(|error| {
        SourceError::Unsuitable(format!("it cannot be listened at {}: {error}", options.listen))
    })?;
    let (stop, mut connection) = (tail.stop.clone(), 0);
    let open = |_: Option<&str>| {
        let socket = Arc::new(listener.accept(&stop)?);
        connection += 1;
        options.acknowledged.begin(connection, &socket);
        Ok(Lines::new(socket, connection))
    };
    tail.run(Some(String::new()), open, |_| Ok(()))
}

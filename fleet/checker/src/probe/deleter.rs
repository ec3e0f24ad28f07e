//! Carries out deletes.

use std::time::Duration;

use guira_client::text::{Connection, Target, TextError};
use guira_protocol::client::{self, Reply};
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;

/// How long a server is left alone that has failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Connections by which deletes are sent.
#[derive(Debug)]
pub(crate) struct Deleter {
    servers: Vec<Server>,
    clock: Stopwatch,
    /// Deletes that a server did not confirm.
    pub(crate) failed: u64,
}

#[derive(Debug)]
struct Server {
    target: Target,
    connection: Option<Connection>,
    failed_at: Option<Duration>,
}

impl Deleter {
    /// Deletes on each of `targets`.
    pub(crate) fn new(targets: &[Target]) -> Self {
        let server = |target: &Target| Server { target: target.clone(), connection: None, failed_at: None };
        Self { servers: targets.iter().map(server).collect(), clock: Stopwatch::start(), failed: 0 }
    }

    /// Deletes a key everywhere, one server after the other.
    pub(crate) fn delete(&mut self, key: &[u8]) {
        let now = self.clock.elapsed();
        for server in &mut self.servers {
            if server.failed_at.is_some_and(|at| now < at + PAUSE) {
                self.failed += 1;
                continue;
            }
            let is_done = server.delete(key);
            if is_done.is_err() {
                server.connection = None;
                server.failed_at = Some(self.clock.elapsed());
            }
            self.failed += u64::from(!is_done.unwrap_or(false));
        }
    }
}

impl Server {
    /// Whether the server has confirmed the delete.
    fn delete(&mut self, key: &[u8]) -> Result<bool, TextError> {
        let open = match &mut self.connection {
            Some(open) => open,
            none => none.insert(Connection::open(&self.target)?),
        };
        let mut request = Vec::new();
        client::delete(key, 0, &mut request);
        open.send(&request)?;
        Ok(matches!(open.reply()?, Reply::Line(reply::DELETED | reply::NOT_FOUND)))
    }
}

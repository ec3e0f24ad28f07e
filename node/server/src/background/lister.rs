//! Starts the thread that lists all items to a client.

use super::listing::Listing;
use super::walker::{BeginWalk, WalkParts, begin_walk};
use super::{BackgroundTasks, DetachedConnection};
use guira_contract::Engine;
use guira_serving::Host;
use guira_sync::clock::CoarseClock;
use guira_sync::lock::Mutex;
use std::fmt;
use std::sync::Arc;

pub(crate) struct Lister {
    begin_walk: BeginWalk,
    parts: WalkParts,
}

impl fmt::Debug for Lister {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lister").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Lister {
    pub(crate) fn new<E: Engine>(
        engine: E,
        host: Arc<Host>,
        clock: CoarseClock,
        tasks: Arc<BackgroundTasks>,
    ) -> Self {
        Lister { begin_walk: begin_walk(engine), parts: WalkParts { host, clock, tasks } }
    }

    /// Lists all items to a client, whose connection returns to its worker afterwards.
    ///
    /// # Errors
    /// The connection, with the reply that has the reason.
    pub(crate) fn list(
        &self,
        listing: Listing,
        detached: DetachedConnection,
    ) -> Result<(), (DetachedConnection, &'static str)> {
        let Some(walk) = (self.begin_walk)() else {
            self.parts.tasks.want_walk();
            return Err((detached, "BUSY currently processing crawler request"));
        };
        let parts = self.parts.clone();
        // Left where it can be taken back: with the closure its descriptor would be closed while the connection is still
        // registered, and the next connection may get the same.
        let handed_over = Arc::new(Mutex::new(Some(detached)));
        let taken = handed_over.clone();
        let take = |detached: &Mutex<Option<DetachedConnection>>| detached.lock().take();
        let thread = guira_sync::thread::Builder::new().name("lister".to_owned());
        self.parts.tasks.begin();
        let run = move || {
            if let Some(detached) = take(&taken) {
                walk(listing, detached, &parts);
            }
            parts.tasks.end();
        };
        let Err(error) = thread.spawn(run) else {
            return Ok(());
        };
        // Operator: Raise the limit of threads (`TasksMax=`).
        tracing::error!(%error, "cannot start the thread that lists items");
        self.parts.tasks.end();
        take(&handed_over).map_or(Ok(()), |detached| Err((detached, "SERVER_ERROR out of memory")))
    }
}

//! The thread that goes through all items for one client.

use super::listing::{ListWriter, Listing};
use super::{BackgroundTasks, DetachedConnection, Waited, send_down_to, send_some};
use guira_contract::{Engine, Session, Walked};
use guira_serving::{CloseReason, Host};
use guira_sync::clock::{CoarseClock, Stopwatch};
use std::sync::Arc;
use std::time::Duration;

/// Bytes collected before they are sent. As many may wait for the client without a thread that waits with them.
const CHUNK: usize = 64 << 10;
/// How long a walk waits for the thread that has to do something first.
const PAUSE: Duration = Duration::from_millis(2);
/// Workers come first …
const NICENESS: i32 = 19;
/// … but the system lets a running thread continue for a millisecond or more, at any priority: the walk yields its processor this often.
const STRETCH: Duration = Duration::from_micros(100);

/// The parts of the server that a walk uses.
#[derive(Clone, Debug)]
pub(super) struct WalkParts {
    pub(super) host: Arc<Host>,
    pub(super) clock: CoarseClock,
    pub(super) tasks: Arc<BackgroundTasks>,
}

/// Lists all items to a client. To be called on a thread of its own.
pub(super) type Walk = Box<dyn FnOnce(Listing, DetachedConnection, &WalkParts) + Send>;

/// Begins a walk over all items in a session of its own, unless one is running.
pub(super) type BeginWalk = Box<dyn Fn() -> Option<Walk> + Send + Sync>;

/// Walks over the items of `engine`.
pub(super) fn begin_walk<E: Engine>(engine: E) -> BeginWalk {
    Box::new(move || {
        let mut session = engine.session();
        let begun = session.begin_walk()?;
        let run: Walk =
            Box::new(move |listing, detached, parts| walk(session, begun, listing, detached, parts));
        Some(run)
    })
}

/// Lists all items to a client, whose connection goes back to its worker afterwards; or is dropped, if something fails.
fn walk<S: Session>(
    mut session: S,
    mut walk: S::Walk,
    listing: Listing,
    mut detached: DetachedConnection,
    parts: &WalkParts,
) {
    let WalkParts { host, clock, tasks } = parts;
    // If this fails, the walk runs at the usual priority.
    let _ = rustix::process::nice(NICENESS);
    let mut writer = ListWriter::new(listing, clock);
    let mut out = Vec::with_capacity(CHUNK + 512);
    writer.begin(&mut out);
    let mut waited = Waited::default();
    tasks.walk_begins();
    let mut stretch = Stopwatch::start();
    loop {
        let walked = session.walk(&mut walk, clock.now(), &mut |item| writer.item(&item, &mut out));
        session.quiesce();
        match walked {
            Walked::More => {}
            Walked::Waiting => {
                session.offline();
                guira_sync::thread::park_timeout(PAUSE);
                session.online();
            }
            Walked::Done => writer.end(&mut out),
            Walked::Overrun => {
                // Operator: Read the list faster; a list of all items cannot wait for a slow client.
                tracing::warn!("stopped listing items to a client that reads too slowly");
                return host.gone(&detached.arrival.facts, CloseReason::Error);
            }
        }
        if walked == Walked::Done {
            break;
        }
        if out.len() >= CHUNK {
            session.offline();
            let sent =
                send_down_to(CHUNK, &mut detached.arrival.stream, &mut out, &mut waited, (host, tasks));
            session.online();
            if sent.is_err() {
                return host.gone(&detached.arrival.facts, CloseReason::Error);
            }
        }
        if host.is_stopping() {
            return host.gone(&detached.arrival.facts, CloseReason::Error);
        }
        if stretch.elapsed() >= STRETCH {
            session.offline();
            guira_sync::thread::yield_now();
            session.online();
            stretch = Stopwatch::start();
        }
    }
    // The next walk may begin. What the client does not take at once its worker sends, so that no thread waits for it.
    drop((walk, session));
    match send_some(&mut detached.arrival.stream, &out) {
        Ok(sent) => {
            tasks.add_bytes_sent(sent);
            out.drain(..sent);
            detached.arrival.output = out;
        }
        Err(_) => return host.gone(&detached.arrival.facts, CloseReason::Error),
    }
    host.mailboxes[detached.home].send(detached.arrival);
}

//! The thread that goes through all items for one client.

use super::listing::{ListWriter, Listing};
use super::{Guest, send_all};
use crate::shared::Shared;
use crate::watch::CloseReason;
use guira_contract::{Session, Walked};
use std::sync::Arc;
use std::time::Duration;

/// Bytes collected before they are sent.
const CHUNK: usize = 64 << 10;
/// How long a walk waits for whoever has to do something first.
const PAUSE: Duration = Duration::from_millis(2);
/// Workers come first.
const NICENESS: i32 = 19;

/// Lists all items to a guest, who goes home afterwards; or is dropped, if something fails.
pub(crate) fn walk<S: Session>(
    mut session: S,
    walk: S::Walk,
    listing: Listing,
    mut guest: Guest,
    shared: &Arc<Shared>,
) {
    // It is a wish: the walk goes on at any priority.
    let _ = rustix::process::nice(NICENESS);
    let mut writer = ListWriter::new(listing, &shared.clock);
    let mut out = Vec::with_capacity(CHUNK + 512);
    writer.begin(&mut out);
    let mut walk = Some(walk);
    let stops = || shared.is_stopping();
    while let Some(current) = &mut walk {
        let walked = session.walk(current, shared.clock.now(), &mut |item| writer.item(&item, &mut out));
        session.quiesce();
        match walked {
            Walked::More => {}
            Walked::Waiting => {
                session.offline();
                std::thread::park_timeout(PAUSE);
                session.online();
            }
            Walked::Done => writer.end(&mut out),
            Walked::Overrun => {
                tracing::warn!("a client was too slow to be listed all items while so many were stored");
                return shared.gone(&guest.arrival.facts, CloseReason::Error);
            }
        }
        if walked == Walked::Done {
            // The next may begin before the client has taken everything.
            walk = None;
        }
        if out.len() >= CHUNK || walk.is_none() {
            session.offline();
            let sent = send_all(&mut guest.arrival.stream, &out, stops);
            session.online();
            shared.bytes_sent(out.len());
            out.clear();
            if sent.is_err() {
                return shared.gone(&guest.arrival.facts, CloseReason::Error);
            }
        }
        if shared.is_stopping() {
            return shared.gone(&guest.arrival.facts, CloseReason::Error);
        }
    }
    shared.mailboxes[guest.home].send(guest.arrival);
}

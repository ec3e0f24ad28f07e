//! Errands: what a client asks for that takes long, such as a list of all keys. Its connection leaves its worker, is served by a
//! thread of its own, and comes back afterwards. Workers do not wait for it.

mod listing;
mod walker;

pub(crate) use listing::{ClassFilter, Listing, push_encoded};
pub(crate) use walker::walk;

use crate::acceptor::Arrival;
use crate::watch::LogKinds;
use guira_transport::{Progress, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::Duration;

/// What a client asks for that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To see all items, in some form.
    List(Listing),
    /// To be told of what happens.
    Watch(LogKinds),
}

impl Errand {
    /// Its name, if other requests may not come before it in one piece of input, as in memcached.
    pub(crate) fn comes_first(&self) -> Option<&'static str> {
        match self {
            Errand::List(Listing::Meta(_)) => Some("metadump"),
            Errand::List(Listing::MetaGet(_)) => Some("mgdump"),
            Errand::Watch(_) => Some("watch"),
            Errand::List(Listing::Sizes | Listing::Cachedump { .. }) => None,
        }
    }
}

/// A connection on an errand.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) arrival: Arrival,
    /// The worker that it comes back to.
    pub(crate) home: usize,
}

/// How long a client may take nothing of what it asked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a thread that waits for a client looks whether the server stops.
const LOOK: Duration = Duration::from_millis(200);

/// Sends everything, waiting for the client where that is needed.
///
/// # Errors
/// If the client is gone, has taken nothing for too long, or the server `stops`.
pub(crate) fn send_all(stream: &mut Stream, mut bytes: &[u8], stops: impl Fn() -> bool) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        let progress = if bytes.is_empty() { stream.flush()? } else { stream.write(bytes)? };
        match progress {
            Progress::Moved(_) if bytes.is_empty() => return Ok(()),
            Progress::Moved(count) => {
                bytes = &bytes[count..];
                waited = Duration::ZERO;
            }
            Progress::Ended => return Err(io::ErrorKind::BrokenPipe.into()),
            Progress::Blocked => {
                if stops() || waited >= PATIENCE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                waited += LOOK;
                wait_for_room(stream)?;
            }
        }
    }
}

fn wait_for_room(stream: &Stream) -> io::Result<()> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

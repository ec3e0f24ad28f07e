//! Deletes of all items whose keys begin with a prefix. The engine does it as a whole; here is what a session has to do with it.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::meta_reply;
use guira_contract::{FlushBusy, Pace, Session};
use guira_protocol::{MetaGet, ReplyBuffer};
use guira_sync::clock::Seconds;
use std::thread;
use std::time::Duration;

/// Steps of the crawler that a request does for itself when too many prefixes are being deleted: enough for some ten thousand items, and some milliseconds of work.
const CRAWLED_AT_ONCE: usize = 512;

/// The crawler starts when every thread has seen the flush, and one that the kernel has suspended in the middle of a batch may take a while. So long a request
/// waits before it looks again …
const PAUSE: Duration = Duration::from_millis(1);
/// … and so often all requests of a worker do in a second: others wait meanwhile.
const PAUSES_A_SECOND: usize = 100;

/// How often requests of a worker have waited for other threads.
#[derive(Debug, Default)]
pub(crate) struct FlushWaits {
    second: Seconds,
    pauses: usize,
}

impl FlushWaits {
    /// Whether there may be another pause.
    fn take(&mut self, now: Seconds) -> bool {
        if self.second != now {
            *self = FlushWaits { second: now, pauses: 0 };
        }
        self.pauses += 1;
        self.pauses <= PAUSES_A_SECOND
    }
}

impl<S: Session> Executor<S> {
    /// Has `flush` delete what begins with one of `prefixes`. If too many others are being deleted it crawls for a moment and tries again; if there is nothing to
    /// crawl it waits for the other threads, a tenth of a second at most for all requests of a worker in a second.
    ///
    /// # Errors
    /// If that was not enough.
    pub fn flush_prefixes(
        &mut self,
        prefixes: &[&[u8]],
        flush: impl Fn(&[&[u8]]) -> Result<(), FlushBusy>,
    ) -> Result<(), FlushBusy> {
        let mut flushed = flush(prefixes);
        while flushed.is_err() {
            self.session.quiesce();
            let crawled = self.session.maintain(self.now, Pace::Idle, CRAWLED_AT_ONCE);
            flushed = flush(prefixes);
            if flushed.is_ok() || crawled >= CRAWLED_AT_ONCE || !self.flush_waits.take(self.now) {
                break;
            }
            // Others may need what the session holds.
            self.session.offline();
            thread::sleep(PAUSE);
            self.session.online();
        }
        if flushed.is_ok() {
            self.counters.add(CommandCount::CmdFlushPrefix, prefixes.len() as u64);
        }
        flushed
    }
}

/// Writes the reply to md with G.
pub fn reply_to_meta_prefix(md: &MetaGet<'_>, outcome: Result<(), String>, buffer: &mut ReplyBuffer) {
    match outcome {
        Ok(()) if md.flags.quiet() => {}
        Ok(()) => meta_reply::status(buffer, "HD", &md.key, &md.flags),
        Err(text) => buffer.line(&text),
    }
}

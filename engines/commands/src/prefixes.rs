//! Deletes of all items whose keys begin with a prefix. The engine does it as a whole; here is what a session has to do with it.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::meta_reply;
use guira_contract::{FlushBusy, Pace, Session};
use guira_protocol::{MetaGet, ReplyBuffer};

/// Steps of the crawler that a request does for itself when too many prefixes are being deleted: enough for some ten thousand items, and some milliseconds of work.
const CRAWLED_AT_ONCE: usize = 512;

impl<S: Session> Executor<S> {
    /// Has `flush` delete what begins with one of `prefixes`. If too many others are being deleted it crawls for a moment and tries once more.
    ///
    /// # Errors
    /// If that was not enough.
    pub fn flush_prefixes(
        &mut self,
        prefixes: &[&[u8]],
        flush: impl Fn(&[&[u8]]) -> Result<(), FlushBusy>,
    ) -> Result<(), FlushBusy> {
        let flushed = flush(prefixes).or_else(|FlushBusy| {
            self.session.quiesce();
            self.session.maintain(self.now, Pace::Idle, CRAWLED_AT_ONCE);
            flush(prefixes)
        });
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

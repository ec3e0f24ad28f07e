//! Deletes of all items whose keys begin with a prefix. The engine does it as a whole; here is what a session has to do with it.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::meta_reply;
use guira_contract::{FlushBusy, Pace, Session};
use guira_protocol::{MetaGet, ReplyBuffer};
use guira_sync::clock::Stopwatch;
use std::time::Duration;

impl<S: Session> Executor<S> {
    /// Has `flush` delete what begins with one of `prefixes`.
    ///
    /// # Errors
    /// If too many others are being deleted: [`Executor::crawl_for`] helps.
    pub fn flush_prefixes(
        &mut self,
        prefixes: &[&[u8]],
        flush: impl Fn(&[&[u8]]) -> Result<(), FlushBusy>,
    ) -> Result<(), FlushBusy> {
        let flushed = flush(prefixes);
        if flushed.is_ok() {
            self.counters.add(CommandCount::CmdFlushPrefix, prefixes.len() as u64);
        }
        flushed
    }

    /// Gives the crawler a turn that ends with the step in which `time` has passed. Returns how
    /// long it took; `None` if there was nothing to do.
    pub fn crawl_for(&mut self, time: Duration) -> Option<Duration> {
        let since = Stopwatch::start();
        let mut took = None;
        while took < Some(time) && self.crawl_once() {
            took = Some(since.elapsed());
        }
        took
    }

    fn crawl_once(&mut self) -> bool {
        self.session.quiesce();
        self.session.maintain(self.now, Pace::Crawl, 1) > 0
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

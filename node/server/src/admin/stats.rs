//! `stats` and its sub-commands. The lines of each are in a file of their own.

use super::Admin;
use super::latencies::Detail;
use super::text::Lines;
use crate::background::{BackgroundTask, LAST_DUMPED, Listing};
use guira_contract::Switch;
use guira_protocol::{ReplyBuffer, exact_u32};
use guira_sync::clock::Seconds;

impl Admin {
    /// Answers `stats` with these arguments, or returns the task that answers it.
    pub(crate) fn stats(
        &self,
        now: Seconds,
        arguments: &[u8],
        reply: &mut ReplyBuffer,
    ) -> Option<BackgroundTask> {
        let text = String::from_utf8_lossy(arguments);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        self.stats_of(now, &words, reply)
    }

    fn stats_of(&self, now: Seconds, words: &[&str], reply: &mut ReplyBuffer) -> Option<BackgroundTask> {
        let dump = !self.options.disable_dumping;
        if !self.options.profile.shows(words) {
            return refuse(reply, "ERROR");
        }
        let mut out = Lines(reply);
        match words {
            [] => self.general(&mut out),
            ["settings", ..] => self.show_settings(&mut out),
            ["items", ..] => self.items(&mut out),
            ["slabs", ..] => self.slabs(&mut out),
            ["mrc", ..] => match &self.observers.advisor {
                Some(advisor) => self.advise(advisor, &mut out),
                None => return refuse(reply, "CLIENT_ERROR stats mrc not allowed"),
            },
            ["bursts", ..] => self.bursts(&mut out),
            ["latency", "buckets", ..] => self.latencies(Detail::Buckets, &mut out),
            ["latency", ..] => self.latencies(Detail::Quantiles, &mut out),
            ["topkeys", which @ ..] => {
                if let Err(line) = self.top_keys(now, which, &mut out) {
                    return refuse(reply, &line);
                }
            }
            ["conns", ..] => self.host.registry.report(now, |name, value| out.stat(name, value)),
            ["detail", ..] if !dump => return refuse(reply, "CLIENT_ERROR stats detail not allowed"),
            ["detail", "on", ..] => {
                self.observers.prefixes.switch(Switch::On);
                return refuse(reply, "OK");
            }
            ["detail", "off", ..] => {
                self.observers.prefixes.switch(Switch::Off);
                return refuse(reply, "OK");
            }
            ["detail", "dump", ..] => {
                reply.put(&self.observers.prefixes.dump());
                return None;
            }
            ["detail", ..] => return refuse(reply, "CLIENT_ERROR usage: stats detail on|off|dump"),
            ["sizes", ..] => return Some(BackgroundTask::List(Listing::Sizes)),
            ["cachedump", ..] if !dump => return refuse(reply, "CLIENT_ERROR stats cachedump not allowed"),
            ["cachedump", class, limit, ..] => {
                let number = |word: &str| exact_u32(word.as_bytes());
                let (Some(class), Some(limit)) = (number(class), number(limit)) else {
                    return refuse(reply, "CLIENT_ERROR bad command line format");
                };
                let Some(class) = u8::try_from(class).ok().filter(|class| *class <= LAST_DUMPED) else {
                    return refuse(reply, "CLIENT_ERROR Illegal slab id");
                };
                return Some(BackgroundTask::List(Listing::Cachedump { class, limit }));
            }
            ["cachedump", ..] => return refuse(reply, "CLIENT_ERROR bad command line"),
            ["reset", ..] => {
                self.reset();
                return refuse(reply, "RESET");
            }
            _ => return refuse(reply, "ERROR"),
        }
        reply.line("END");
        None
    }
}

/// Replies with one line.
fn refuse(reply: &mut ReplyBuffer, line: &str) -> Option<BackgroundTask> {
    reply.line(line);
    None
}

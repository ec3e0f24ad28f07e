//! Commands about the server: `slabs`, `lru`, `lru_crawler`, `cache_memlimit`, `shutdown` and their like.

use super::Admin;
use crate::background::{BackgroundTask, ClassFilter, Listing};
use crate::memory_split::{MemorySplit, memory_for};
use crate::size::Size;
use crate::watch::LogKinds;
use guira_contract::{Reassign, ResizeError, Switch, Tuning};
use guira_memory::MIB;
use guira_protocol::{AdminVerb, exact_i32, exact_u32};
use guira_sync::atomic::Ordering;
use rustix::process::Signal;

/// What a command about the server comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Line(String),
    Close,
    /// Something that takes long, of which no other request may be under way on the connection: its name, and what it is, or
    /// this line if it cannot be done.
    Alone(&'static str, Result<BackgroundTask, &'static str>),
}

impl From<&str> for Answer {
    fn from(line: &str) -> Self {
        Answer::Line(line.to_owned())
    }
}

pub(super) const OK: &str = "OK";
pub(super) const ERROR: &str = "ERROR";
const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_CLASS: &str = "BADCLASS invalid class id";

/// The longest sleep of the crawler that clients may set, in microseconds.
const SLEEP_MAX: u32 = 1_000_000;

impl Admin {
    pub(crate) fn carry_out(&self, verb: AdminVerb, rest: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(rest);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let changes = matches!(
            verb,
            AdminVerb::CacheMemlimit | AdminVerb::Slabs | AdminVerb::Policy | AdminVerb::LruCrawler
        );
        let _one_at_a_time = changes.then(|| self.auto.lock_changes());
        match verb {
            AdminVerb::CacheMemlimit => self.memory_limit(&words),
            AdminVerb::Slabs => self.slabs_verb(&words),
            AdminVerb::Lru => self.lru(&words),
            AdminVerb::Policy => self.policy(&words),
            AdminVerb::LruCrawler => self.crawler(&words),
            AdminVerb::Watch if self.shared.options.disable_watch => {
                "CLIENT_ERROR watch commands not allowed".into()
            }
            AdminVerb::Watch => {
                Answer::Alone("watch", LogKinds::parse(&words).map(BackgroundTask::Watch).ok_or(ERROR))
            }
            // The words of a memcached that knows TLS.
            AdminVerb::RefreshCerts if self.shared.tls.is_none() => "Error TLS not enabled".into(),
            AdminVerb::RefreshCerts => match self.shared.refresh_tls() {
                Ok(()) => OK.into(),
                Err(error) => Answer::Line(format!("SERVER_ERROR {error}")),
            },
            AdminVerb::Shutdown => self.shutdown(&words),
            AdminVerb::Debugtime if self.shared.options.test_commands => self.debug_time(&words),
            AdminVerb::Debugitem if self.shared.options.test_commands => debug_item(&words),
            AdminVerb::Debugtime | AdminVerb::Debugitem => ERROR.into(),
        }
    }

    fn memory_limit(&self, words: &[&str]) -> Answer {
        match words.first().and_then(|word| unsigned(word)) {
            Some(0..8) => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m".into(),
            Some(1_000_000_001..) => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes".into(),
            Some(mebibytes) => self.resize(Size(mebibytes as usize * MIB)),
            None => ERROR.into(),
        }
    }

    /// Gives the whole process another ceiling: the one that is wanted, or the lowest that can be.
    fn resize(&self, wanted: Size) -> Answer {
        let options = &self.shared.options;
        let resize = |memory: Size| {
            let division = MemorySplit::of_running(options, memory.0);
            self.control.resize(division.engine).map(|()| (memory, division))
        };
        let resized = match resize(wanted) {
            // More than there is was not asked for.
            Err(ResizeError::TooSmall { least, .. }) => {
                let present = self.memory.load(Ordering::Relaxed) as usize;
                resize(Size(memory_for(options, least).0.min(present)))
            }
            resized => resized,
        };
        let is_logged = self.log_limit.is_due(self.shared.clock.now());
        match resized {
            Ok((memory, division)) => {
                self.memory.store(memory.0 as u64, Ordering::Relaxed);
                self.shared.budget.resize(division.conn_limits());
                self.look_for_excess();
                if is_logged && memory > wanted {
                    // Operator: Nothing: the limit is now the smallest possible.
                    tracing::warn!("cannot shrink memory to {wanted}: the limit is now {memory}");
                } else if is_logged {
                    tracing::info!("the memory limit is now {memory}");
                    division.report(memory);
                }
                OK.into()
            }
            Err(error) => {
                if is_logged {
                    // Operator: The message has the reason; raise `reserve` to allow more.
                    tracing::warn!("cannot change the memory limit: {}", self.why_not(wanted, error));
                }
                "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust".into()
            }
        }
    }

    /// Why the ceiling cannot be moved, in the figures of who has asked for it: those of the whole process.
    fn why_not(&self, wanted: Size, error: ResizeError) -> String {
        let options = &self.shared.options;
        match error {
            ResizeError::TooSmall { least, .. } => {
                let least = memory_for(options, least);
                format!("{wanted} is too little for what cannot be given back: at least {least}")
            }
            ResizeError::TooBig { most, .. } => {
                let most = Size(memory_for(options, most + 1).0 - MIB);
                format!("{wanted} is more than was reserved at the start: at most {most}")
            }
            ResizeError::NoRoom { .. } => format!("{wanted} is too much: {error}"),
        }
    }

    fn slabs_verb(&self, words: &[&str]) -> Answer {
        match words {
            ["reassign", from, to] => match (signed(from), signed(to)) {
                (Some(from), Some(to)) => self.reassign(from, to),
                _ => BAD_FORMAT.into(),
            },
            ["automove", "ratio" | "freeratio", ratio] if ratio.parse::<f64>().is_ok() => OK.into(),
            ["automove", "ratio" | "freeratio", ..] => ERROR.into(),
            ["automove", "window", window] => match unsigned(window) {
                Some(3..=1800) => OK.into(),
                Some(_) => "CLIENT_ERROR automove window too low or too high".into(),
                None => BAD_FORMAT.into(),
            },
            ["automove", "window"] => BAD_FORMAT.into(),
            ["automove", level, ..] => match unsigned(level) {
                Some(level @ 0..=2) => {
                    self.automove.store(level, Ordering::Relaxed);
                    self.control.tune(Tuning::Automove(if level > 0 { Switch::On } else { Switch::Off }));
                    OK.into()
                }
                Some(_) => ERROR.into(),
                None => BAD_FORMAT.into(),
            },
            _ => ERROR.into(),
        }
    }

    /// Moves a page from one class to another; class 0 is the pool, and from -1 is from any.
    fn reassign(&self, from: i32, to: i32) -> Answer {
        if from == to {
            return "SAME src and dst class are identical".into();
        }
        const NO_SPARE: &str = "NOSPARE source class has no spare pages";
        let class = |number: i32| u32::try_from(number).ok();
        let Some(to) = class(to) else {
            return "BADCLASS invalid src or dst class id".into();
        };
        // Every class takes pages out of the pool by itself, as long as there are any.
        if from == 0 {
            return NO_SPARE.into();
        }
        match self.control.reassign(class(from), to) {
            Reassign::Begun => OK.into(),
            Reassign::Busy => "BUSY currently processing reassign request".into(),
            Reassign::NoClass => "BADCLASS invalid src or dst class id".into(),
            Reassign::NothingToSpare => NO_SPARE.into(),
        }
    }

    fn crawler(&self, words: &[&str]) -> Answer {
        let crawls = self.crawler.load(Ordering::Relaxed);
        let disabled = || Answer::from("CLIENT_ERROR lru crawler disabled");
        let dumps = !self.shared.options.disable_dumping;
        let list = |name, classes, listing: fn(ClassFilter) -> Listing| {
            let classes = ClassFilter::parse(classes).ok_or(BAD_CLASS);
            Answer::Alone(name, classes.map(|classes| BackgroundTask::List(listing(classes))))
        };
        match words {
            ["enable"] => self.set_crawler(Switch::On),
            ["disable"] => self.set_crawler(Switch::Off),
            ["crawl" | "metadump" | "mgdump", _] if !crawls => disabled(),
            ["metadump", _] if !dumps => "ERROR metadump not allowed".into(),
            ["mgdump", _] if !dumps => "ERROR key dump not allowed".into(),
            ["crawl", classes] => match ClassFilter::parse(classes) {
                Some(_) => {
                    self.control.tune(Tuning::CrawlNow);
                    OK.into()
                }
                None => BAD_CLASS.into(),
            },
            ["metadump", classes] => list("metadump", classes, Listing::Meta),
            ["mgdump", classes] => list("mgdump", classes, Listing::MetaGet),
            ["tocrawl", number] => match unsigned(number) {
                Some(number) => {
                    self.crawler_tocrawl.store(number, Ordering::Relaxed);
                    OK.into()
                }
                None => BAD_FORMAT.into(),
            },
            ["sleep", micros] => match unsigned(micros) {
                Some(micros @ 0..=SLEEP_MAX) => {
                    self.crawler_sleep.store(micros, Ordering::Relaxed);
                    OK.into()
                }
                Some(_) => "CLIENT_ERROR sleep must be one second or less".into(),
                None => BAD_FORMAT.into(),
            },
            _ => ERROR.into(),
        }
    }

    fn set_crawler(&self, switch: Switch) -> Answer {
        self.crawler.store(switch == Switch::On, Ordering::Relaxed);
        self.control.tune(Tuning::Crawler(switch));
        OK.into()
    }

    /// Ends the server by the signal that an operator would send.
    fn shutdown(&self, words: &[&str]) -> Answer {
        let signal = match words {
            _ if !self.shared.options.enable_shutdown => return "SERVER_ERROR: shutdown not enabled".into(),
            [] => Signal::INT,
            ["graceful"] => Signal::USR1,
            _ => return "CLIENT_ERROR invalid shutdown mode".into(),
        };
        match rustix::process::kill_process(rustix::process::getpid(), signal) {
            Ok(()) => Answer::Close,
            Err(error) => Answer::Line(format!("SERVER_ERROR cannot shut down: {error}")),
        }
    }

    /// Moves the clock that expiry goes by; for tests.
    fn debug_time(&self, words: &[&str]) -> Answer {
        match words {
            ["p"] => self.shared.clock.pause(),
            ["r"] => self.shared.clock.resume(),
            [seconds] => match seconds.parse::<i32>() {
                Ok(seconds) => self.shared.clock.shift(seconds),
                Err(_) => return ERROR.into(),
            },
            _ => return ERROR.into(),
        }
        OK.into()
    }
}

pub(super) fn unsigned(word: &str) -> Option<u32> {
    exact_u32(word.as_bytes())
}

pub(super) fn signed(word: &str) -> Option<i32> {
    exact_i32(word.as_bytes())
}

/// memcached's tests hold an item or its lock with this. Here readers hold nothing that anybody could wait for.
fn debug_item(words: &[&str]) -> Answer {
    match words {
        ["lock" | "unlock" | "ref" | "unref", _] => OK.into(),
        _ => ERROR.into(),
    }
}

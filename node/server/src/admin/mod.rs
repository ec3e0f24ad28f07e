//! Commands about the server rather than its items: stats, flush_all, version, verbosity, and the
//! commands of [`verbs`].

mod advice;
mod classes;
mod derived;
mod differences;
mod general;
mod latencies;
mod lines;
mod lru;
mod metrics;
mod naming;
mod policy;
mod settings;
mod status;
mod top_keys;
mod verbs;

pub use derived::DERIVED;
pub use metrics::metric_tables;
pub(crate) use settings::Settings;
pub(crate) use verbs::Answer;

use crate::VERSION;
use crate::auto::PolicyController;
use crate::background::{BackgroundTask, BeginWalk, DetachedConnection, LAST_DUMPED, Listing, begin_walk};
use crate::shared::Shared;
use crate::watch::TooMany;
use differences::Differences;
use guira_contract::{Control, Engine, FlushBusy, Switch};
use guira_memory::MIB;
use guira_protocol::{ReplyBuffer, exact_u32};
use guira_serving::RateLimited;
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use latencies::Detail;
use std::fmt;
use std::sync::Arc;

/// What clients and operators ask of the server: one for all workers, whatever the engine.
pub(crate) struct Admin {
    control: Arc<dyn Control>,
    begin_walk: BeginWalk,
    shared: Arc<Shared>,
    settings: Settings,
    /// The ceiling of the process, in bytes. Relaxed: it is only shown.
    memory: AtomicU64,
    /// What clients last set of the crawler and automatic moves. Relaxed: it is only shown.
    crawler: AtomicBool,
    crawler_sleep: AtomicU32,
    crawler_tocrawl: AtomicU32,
    automove: AtomicU32,
    /// Clients must not be able to fill the log.
    log_limit: RateLimited,
    lru_log_limit: RateLimited,
    /// More memory was in use than the limit allows when it was last moved. Relaxed: it only decides what is logged.
    is_shrinking: AtomicBool,
    region_log_limit: RateLimited,
    /// The value of `region_no_room` that was last logged. Relaxed: it only decides what is logged.
    region_no_room: AtomicU64,
    auto: Arc<PolicyController>,
    differences: Differences,
}

impl fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admin").field("settings", &self.settings).finish_non_exhaustive()
    }
}

const VERBOSITY_MAX: u32 = 2;

impl Admin {
    pub(crate) fn new<E: Engine>(engine: &E, shared: Arc<Shared>, settings: Settings) -> Self {
        let control: Arc<dyn Control> = Arc::new(engine.clone());
        Admin {
            auto: Arc::new(PolicyController::new(control.clone(), shared.clone())),
            control,
            begin_walk: begin_walk(engine.clone()),
            memory: AtomicU64::new(shared.options.memory.0 as u64),
            shared,
            settings,
            crawler: AtomicBool::new(true),
            crawler_sleep: AtomicU32::new(100),
            crawler_tocrawl: AtomicU32::new(0),
            automove: AtomicU32::new(1),
            log_limit: RateLimited::every(1),
            lru_log_limit: RateLimited::once(),
            is_shrinking: AtomicBool::new(false),
            region_log_limit: RateLimited::every(60),
            region_no_room: AtomicU64::new(0),
            differences: Differences::default(),
        }
    }

    /// Logs that the region cannot grow any more.
    fn log_region(&self, now: Seconds) {
        let Some(place) = &self.shared.options.region else {
            return;
        };
        let stats = self.control.stats();
        let is_news = stats.region_no_room > self.region_no_room.load(Ordering::Relaxed);
        if is_news && self.region_log_limit.is_due(now) {
            self.region_no_room.store(stats.region_no_room, Ordering::Relaxed);
            let [used, limit] = [stats.memory_used, stats.memory_limit].map(|bytes| bytes / MIB as u64);
            // Operator: Free space in the region's file system, or lower `memory`.
            tracing::warn!(
                "the file system of region {place} is full: items and index are limited to {used} of \
                     {limit} MiB"
            );
        }
    }

    /// Logs how many items are left once no more memory is in use than the limit allows.
    fn log_shrinking(&self) {
        if !self.is_shrinking.load(Ordering::Relaxed) {
            return;
        }
        let stats = self.control.stats();
        if stats.memory_used <= stats.memory_limit {
            self.is_shrinking.store(false, Ordering::Relaxed);
            tracing::info!("memory is below its new limit; {} items are left", stats.items);
        }
    }

    /// The limit was moved, or a region opened: looks whether more memory is in use, and how much, in MiB.
    pub(crate) fn look_for_excess(&self) -> Option<[u64; 2]> {
        let stats = self.control.stats();
        let is_over = stats.memory_used > stats.memory_limit;
        self.is_shrinking.store(is_over, Ordering::Relaxed);
        is_over.then(|| [stats.memory_used, stats.memory_limit].map(|bytes| bytes / MIB as u64))
    }

    /// Answers `stats` with a word behind it.
    fn stats_about(&self, now: Seconds, words: &[&str], reply: &mut ReplyBuffer) -> Option<BackgroundTask> {
        let dump = !self.shared.options.disable_dumping;
        let mut out = Lines(reply);
        match words {
            [] => self.general(&mut out),
            ["settings", ..] => self.show_settings(&mut out),
            ["items", ..] => self.items(&mut out),
            ["slabs", ..] => self.slabs(&mut out),
            ["mrc", ..] => match &self.shared.advisor {
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
            ["conns", ..] => self.shared.registry.tell(now, |name, value| out.stat(name, value)),
            ["detail", ..] if !dump => return refuse(reply, "CLIENT_ERROR stats detail not allowed"),
            ["detail", "on", ..] => {
                self.shared.prefixes.switch(Switch::On);
                return refuse(reply, "OK");
            }
            ["detail", "off", ..] => {
                self.shared.prefixes.switch(Switch::Off);
                return refuse(reply, "OK");
            }
            ["detail", "dump", ..] => {
                reply.put(&self.shared.prefixes.dump());
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

/// Answers with a line of its own.
fn refuse(reply: &mut ReplyBuffer, line: &str) -> Option<BackgroundTask> {
    reply.line(line);
    None
}

impl Admin {
    /// Makes all items that are stored now disappear at `at`.
    pub(crate) fn flush(&self, now: Seconds, at: Seconds) {
        self.control.flush(now, at);
        self.auto.flush(now, at);
    }

    /// Makes all items that are stored now, and whose keys begin with one of `prefixes`, disappear. The sample of requests keeps them: it is of the clients'
    /// habits, and they will ask for these keys again.
    ///
    /// # Errors
    /// If earlier ones are still being removed.
    pub(crate) fn flush_prefixes(&self, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy> {
        self.control.flush_prefixes(now, prefixes)
    }

    /// Answers `stats` with these arguments, or returns the task that answers it.
    pub(crate) fn stats(
        &self,
        now: Seconds,
        arguments: &[u8],
        reply: &mut ReplyBuffer,
    ) -> Option<BackgroundTask> {
        let text = String::from_utf8_lossy(arguments);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        self.stats_about(now, &words, reply)
    }

    /// Runs a task for a connection, which comes back to its worker afterwards.
    ///
    /// # Errors
    /// The connection, with the line that says why not.
    pub(crate) fn run(
        &self,
        task: BackgroundTask,
        detached: DetachedConnection,
    ) -> Result<(), (DetachedConnection, &'static str)> {
        let listing = match task {
            BackgroundTask::List(listing) => listing,
            BackgroundTask::Watch(kinds) => {
                let refused = self.shared.hub.watch(detached, kinds, &self.shared);
                return refused
                    .map_err(|(detached, TooMany)| (detached, "WATCHER_TOO_MANY log watcher limit reached"));
            }
        };
        let Some(walk) = (self.begin_walk)() else {
            self.shared.walk_wanted.store(true, Ordering::Relaxed);
            return Err((detached, "BUSY currently processing crawler request"));
        };
        let shared = self.shared.clone();
        // Left where it can be taken back: with the closure its descriptor would be closed while the connection is still registered, and the next
        // connection may get the same.
        let handed_over = Arc::new(Mutex::new(Some(detached)));
        let taken = handed_over.clone();
        let take = |detached: &Mutex<Option<DetachedConnection>>| detached.lock().take();
        let thread = guira_sync::thread::Builder::new().name("lister".to_owned());
        self.shared.background_tasks.fetch_add(1, Ordering::SeqCst);
        let run = move || {
            if let Some(detached) = take(&taken) {
                walk(listing, detached, &shared);
            }
            shared.background_tasks.fetch_sub(1, Ordering::SeqCst);
        };
        let Err(error) = thread.spawn(run) else {
            return Ok(());
        };
        // Operator: Raise the limit of threads (`TasksMax=`).
        tracing::error!(%error, "cannot start the thread that lists items");
        self.shared.background_tasks.fetch_sub(1, Ordering::SeqCst);
        take(&handed_over).map_or(Ok(()), |detached| Err((detached, "SERVER_ERROR out of memory")))
    }

    /// Learns from requests, on this thread, until the server stops.
    pub(crate) fn learn(&self) {
        self.auto.run(|now| self.pulse(now));
    }

    /// Reports the state at the start to the advisor.
    pub(crate) fn begin_to_learn(&self) {
        self.auto.begin();
    }

    /// How many items there are, expired ones that were not found yet among them.
    pub(crate) fn item_count(&self) -> u64 {
        self.control.stats().items
    }

    /// To be called once a second.
    fn pulse(&self, now: Seconds) {
        if let Some(top_keys) = &self.shared.top_keys {
            top_keys.turn(now);
        }
        self.log_region(now);
        self.log_shrinking();
    }

    pub(crate) fn set_verbosity(&self, level: u32) {
        self.shared.verbosity.store(level.min(VERBOSITY_MAX), Ordering::Relaxed);
    }

    /// The reply to `version`.
    pub(crate) fn version_line(&self) -> String {
        format!("VERSION {VERSION}")
    }
}

/// Writes `STAT` lines.
struct Lines<'a>(&'a mut ReplyBuffer);

impl Lines<'_> {
    fn stat(&mut self, name: &str, value: impl fmt::Display) {
        self.0.line(&format!("STAT {name} {value}"));
    }
}

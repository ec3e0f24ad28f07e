//! The engine, as the server sees it.

use crate::core::Core;
use crate::options::{LogPolicy, MicaOptions};
use crate::resize::resize;
use crate::restart;
use crate::session::MicaSession;
use crate::stats;
use crate::store::{ItemStore, Log};
use guira_contract::{
    CloseError, Control, Emptied, Engine, EngineStats, EvictionWatcher, FlushBusy, NotHandedOver, Opened,
    OptionError, Partitioning, PolicyError, Preview, Reassign, ResizeError, Spec, Tuning,
};
use guira_items::{Hashing, OpenError};
use guira_memory::RegionPlace;
use guira_memory::lasting::HandedRegion;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// MICA: a cache, or with [`Fits`](crate::Fits) a store.
#[derive(Debug)]
pub struct MicaEngine<S = Log> {
    pub(crate) core: Arc<Core<S>>,
}

impl<S> Clone for MicaEngine<S> {
    fn clone(&self) -> Self {
        MicaEngine { core: self.core.clone() }
    }
}

impl<S: ItemStore> MicaEngine<S> {
    /// An empty engine.
    ///
    /// # Errors
    /// If the options leave too little memory, or the system refuses the address space.
    pub fn open(options: MicaOptions) -> Result<Self, OpenError> {
        Ok(MicaEngine { core: Arc::new(Core::open(options)?) })
    }

    /// An engine whose Region lasts at `place`. It continues with what was there when it was last closed, if it can; then reserve and partitions are those of
    /// the file, whatever the options say. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// As [`MicaEngine::open`], or if the file cannot be used. Contents that cannot be restored are no error: see [`Opened::opening`].
    pub fn open_lasting(
        options: MicaOptions,
        place: &RegionPlace,
        now_unix: u64,
    ) -> Result<Opened<MicaEngine<S>>, OpenError> {
        let mut begun = restart::open(options, place, now_unix)?;
        begun.core.shell.last_in(begun.file);
        let base = begun.core.shell.base();
        let engine = MicaEngine { core: Arc::new(begun.core) };
        Ok(Opened { engine, opening: begun.opening, notes: begun.notes, base, shortage: begun.shortage })
    }

    /// Whether an engine with these options could go on with such a Region. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// Why not.
    pub fn accepts(options: MicaOptions, preview: &Preview, now_unix: u64) -> Result<(), Emptied> {
        restart::accepts::<S>(options, preview, now_unix)
    }
}

/// A store has no replacement policy.
fn no_policy() -> Spec {
    Spec { name: NO_POLICY.to_owned(), options: Vec::new() }
}

/// The error for any policy of a store.
fn refuse_policy(policy: &Spec) -> OptionError {
    OptionError::Unknown { what: "policy", name: policy.name.clone(), known: NO_POLICY.to_owned() }
}

/// The only policy of a store: nothing is evicted.
pub const NO_POLICY: &str = "none";

impl<S: ItemStore> Engine for MicaEngine<S> {
    type Session = MicaSession<S>;

    fn session(&self) -> MicaSession<S> {
        MicaSession::new(self.core.clone())
    }

    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        guira_items::close(self.core, now, notes)
    }

    fn hand_over(self, now: Seconds, notes: &[u8]) -> Result<HandedRegion, NotHandedOver<Self>> {
        guira_items::hand_over(self.core, now, notes)
            .map_err(|NotHandedOver { engine: core, why }| NotHandedOver { engine: MicaEngine { core }, why })
    }

    fn preview(&self) -> Option<Preview> {
        guira_items::preview(&*self.core)
    }
}

impl<S: ItemStore> Control for MicaEngine<S> {
    fn flush(&self, now: Seconds, at: Seconds) {
        self.core.flushes.schedule(now, at);
    }

    fn flush_prefixes(&self, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy> {
        // A flush of everything that has fallen due goes first; of this one each item tells by its stamp.
        self.core.flushes.settle(now);
        let clean_since = || self.core.partitions.iter().map(|partition| partition.clean_since()).min();
        self.core.flushes.flush_prefixes(prefixes, || clean_since().unwrap_or_default())
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        self.core.shell.watch_evictions(watcher);
    }

    fn policy(&self) -> (Spec, Option<Spec>) {
        if S::IS_LOSSY { (self.core.policy.get().spec(), None) } else { (no_policy(), None) }
    }

    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError> {
        if !S::IS_LOSSY {
            return if *policy == no_policy() { Ok(()) } else { Err(refuse_policy(policy).into()) };
        }
        self.core.policy.set(LogPolicy::read(policy)?);
        Ok(())
    }

    fn tune(&self, tuning: Tuning) {
        match tuning {
            Tuning::Crawler(switch) => self.core.crawler.switch(switch),
            Tuning::CrawlNow => self.core.crawler.ask(),
            // There are no classes between which memory could move.
            Tuning::Automove(_) => {}
        }
    }

    fn reassign(&self, _from: Option<u32>, _to: u32) -> Reassign {
        Reassign::NoClass
    }

    fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        resize(&self.core, memory)
    }

    fn partitioning(&self) -> Option<Partitioning> {
        match self.core.options.engine.hashing {
            Hashing::Seeded(seed) => {
                Some(Partitioning { bits: self.core.bits, access: self.core.locks.access(), seed })
            }
            Hashing::Fixed(_) => None,
        }
    }

    fn stats(&self) -> EngineStats {
        stats::of(&self.core)
    }

    fn reset_stats(&self) {
        stats::reset(&self.core);
    }
}

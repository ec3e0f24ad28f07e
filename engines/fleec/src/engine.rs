//! The engine, as the server sees it.

use crate::core::Core;
use crate::donors;
use crate::flush;
use crate::options::{BucketClock, FleecOptions};
use crate::restart;
use crate::session::FleecSession;
use crate::stats;
use guira_contract::{
    CloseError, Control, Emptied, Engine, EngineStats, EvictionWatcher, FlushBusy, NotHandedOver, Opened,
    PolicyError, Preview, Reassign, ResizeError, Spec, Tuning,
};
use guira_items::OpenError;
use guira_memory::RegionPlace;
use guira_memory::lasting::HandedRegion;
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct FleecEngine {
    pub(crate) core: Arc<Core>,
}

impl FleecEngine {
    /// An empty engine.
    ///
    /// # Errors
    /// If the options leave too little memory, or the system refuses the address space.
    pub fn open(options: FleecOptions) -> Result<Self, OpenError> {
        Ok(FleecEngine { core: Arc::new(Core::open(options)?) })
    }

    /// An engine whose Region lasts at `place`. It continues with what was there when it was last closed, if it can; then the reserve is that of
    /// the file, whatever the options say. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// As [`FleecEngine::open`], or if the file cannot be used. Contents that cannot be restored are no error: see [`Opened::opening`].
    pub fn open_lasting(
        options: FleecOptions,
        place: &RegionPlace,
        now_unix: u64,
    ) -> Result<Opened<FleecEngine>, OpenError> {
        let mut begun = restart::open(options, place, now_unix)?;
        begun.core.shell.last_in(begun.file);
        let base = begun.core.shell.base();
        let engine = FleecEngine { core: Arc::new(begun.core) };
        Ok(Opened { engine, opening: begun.opening, notes: begun.notes, base, shortage: begun.shortage })
    }

    /// Whether an engine with these options could go on with such a Region. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// Why not.
    pub fn accepts(options: FleecOptions, preview: &Preview, now_unix: u64) -> Result<(), Emptied> {
        restart::accepts(options, preview, now_unix)
    }
}

impl Engine for FleecEngine {
    type Session = FleecSession;

    fn session(&self) -> FleecSession {
        FleecSession::new(self.core.clone())
    }

    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        guira_items::close(self.core, now, notes)
    }

    fn hand_over(self, now: Seconds, notes: &[u8]) -> Result<HandedRegion, NotHandedOver<Self>> {
        guira_items::hand_over(self.core, now, notes).map_err(|NotHandedOver { engine: core, why }| {
            NotHandedOver { engine: FleecEngine { core }, why }
        })
    }

    fn preview(&self) -> Option<Preview> {
        guira_items::preview(&*self.core)
    }
}

impl Control for FleecEngine {
    fn flush(&self, now: Seconds, at: Seconds) {
        flush::schedule(&self.core, now, at);
    }

    fn flush_prefixes(&self, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy> {
        flush::flush_prefixes(&self.core, now, prefixes)
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        self.core.shell.watch_evictions(watcher);
    }

    fn policy(&self) -> (Spec, Option<Spec>) {
        let bits = 8 - self.core.table.clock_max().leading_zeros();
        (BucketClock { bits }.spec(), None)
    }

    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError> {
        self.core.table.set_clock_max(BucketClock::read(policy)?.max());
        Ok(())
    }

    fn tune(&self, tuning: Tuning) {
        match tuning {
            Tuning::Crawler(switch) => self.core.expiry.crawler.switch(switch),
            Tuning::CrawlNow => self.core.expiry.crawler.ask(),
            // Pages move only when a class needs one.
            Tuning::Automove(_) => {}
        }
    }

    fn reassign(&self, from: Option<u32>, to: u32) -> Reassign {
        donors::reassign(&self.core, from, to)
    }

    fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        let Core { shell, sizing, table, options, .. } = &*self.core;
        sizing.resize(shell, memory, table.committed(), options.engine.max_item_size)
    }

    fn stats(&self) -> EngineStats {
        stats::of(&self.core)
    }

    fn reset_stats(&self) {
        stats::reset(&self.core);
    }
}

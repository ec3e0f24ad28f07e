//! The engine as its callers see it.

use crate::core::Core;
use crate::index::Scheme;
use crate::options::SlabOptions;
use crate::policy::table::{Policy, PolicyControl};
use crate::session::SlabSession;
use crate::{committer, flush, reassign, resize, restart, stats};
use guira_contract::{
    CloseError, CommitAhead, Control, Emptied, Engine, EngineStats, EvictionWatcher, FlushBusy,
    NotHandedOver, Opened, PolicyError, Preview, Reassign, ResizeError, SizeWeight, Spec, Tuning,
};
use guira_items::OpenError;
use guira_memory::RegionPlace;
use guira_memory::lasting::HandedRegion;
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct SlabEngine<X: Scheme> {
    pub(crate) core: Arc<Core<X>>,
}

impl<X: Scheme> SlabEngine<X> {
    /// An empty engine.
    ///
    /// # Errors
    /// If the options leave too little memory, or the system refuses the address space.
    pub fn open(options: SlabOptions) -> Result<Self, OpenError> {
        Ok(SlabEngine { core: Arc::new(Core::<X>::open(options)?) })
    }

    /// An engine whose Region lasts at `place`, where it goes on with what was there when it was last closed, if it can.
    /// Then the reserve is what the file was made for, whatever the options say. `now_unix` is the time in seconds since
    /// 1970.
    ///
    /// # Errors
    /// As [`SlabEngine::open`], or if the file cannot be used. What cannot be restored is no error: see
    /// [`Opened::opening`].
    pub fn open_lasting(
        options: SlabOptions,
        place: &RegionPlace,
        now_unix: u64,
    ) -> Result<Opened<SlabEngine<X>>, OpenError> {
        let opened = restart::open(options, place, now_unix)?;
        let engine = SlabEngine { core: Arc::new(opened.engine) };
        let Opened { opening, notes, base, shortage, .. } = opened;
        Ok(Opened { engine, opening, notes, base, shortage })
    }

    /// Whether an engine with these options could go on with such a Region. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// Why not.
    pub fn accepts(options: SlabOptions, preview: &Preview, now_unix: u64) -> Result<(), Emptied> {
        restart::accepts::<X>(options, preview, now_unix)
    }
}

impl<X: Scheme> Engine for SlabEngine<X> {
    type Session = SlabSession<X>;

    fn session(&self) -> SlabSession<X> {
        SlabSession::<X>::new(self.core.clone())
    }

    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        guira_items::close(self.core, now, notes)
    }

    fn hand_over(self, now: Seconds, notes: &[u8]) -> Result<HandedRegion, NotHandedOver<Self>> {
        guira_items::hand_over(self.core, now, notes)
            .map_err(|NotHandedOver { engine: core, why }| NotHandedOver { engine: SlabEngine { core }, why })
    }

    fn preview(&self) -> Option<Preview> {
        guira_items::preview(&*self.core)
    }
}

impl<X: Scheme> PolicyControl for SlabEngine<X> {
    fn policies(&self) -> (Policy, Option<Policy>) {
        self.core.evictor.policies()
    }

    fn switch_to(&self, policy: Policy) -> Result<(), PolicyError> {
        self.core.evictor().change_policy(policy)
    }
}

impl<X: Scheme> Control for SlabEngine<X> {
    fn flush(&self, now: Seconds, at: Seconds) {
        flush::schedule(&self.core, now, at);
    }

    fn flush_prefixes(&self, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy> {
        flush::flush_prefixes(&self.core, now, prefixes)
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        self.core.items.shell().watch_evictions(watcher);
    }

    fn policy(&self) -> (Spec, Option<Spec>) {
        let (policy, next) = self.policies();
        (policy.spec(), next.map(Policy::spec))
    }

    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError> {
        self.switch_to(Policy::read(policy)?)
    }

    fn tune(&self, tuning: Tuning) {
        match tuning {
            Tuning::Crawler(switch) => self.core.crawler.switch(switch),
            Tuning::CrawlNow => self.core.crawler.ask(),
            Tuning::Automove(switch) => self.core.pool.balance().switch(switch),
        }
    }

    fn reassign(&self, from: Option<u32>, to: u32) -> Reassign {
        reassign::reassign(&self.core, from, to)
    }

    fn chunk_sizes(&self) -> Vec<usize> {
        let classes = self.core.pool.memory().classes();
        classes.ids().map(|class| classes.geometry(class).chunk as usize).collect()
    }

    fn stored_bytes(&self) -> u64 {
        self.core.pool.balance().stored_bytes()
    }

    fn weigh_sizes(&self, weights: &[SizeWeight]) {
        self.core.evictor().weigh(weights);
    }

    fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        resize::resize(&self.core, memory)
    }

    fn commit_ahead(&self) -> CommitAhead {
        committer::commit_ahead(&self.core)
    }

    fn stats(&self) -> EngineStats {
        stats::collect(&self.core)
    }

    fn reset_stats(&self) {
        stats::reset(&self.core);
    }
}

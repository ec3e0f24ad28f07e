//! What every engine stands in: its Region and the file that may outlive it, how keys are hashed, cas uniques, the time, counters, and who hears of evictions.

use crate::counts::Registry;
use crate::setup::{EngineOptions, Hashing, OpenError, Residence};
use guira_contract::{CloseError, EvictionWatcher, KeyHash, ResizeError};
use guira_memory::Region;
use guira_memory::lasting::{EngineStates, HandedRegion, NOTES_MAX, RegionFile};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::lock::OnceLock;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};
use std::sync::Arc;

/// Cas uniques are above this; lower numbers stay free for codes of the lease protocol.
const CAS_LEAST: u64 = 100;

#[derive(Debug)]
pub struct Shell {
    region: Arc<Region>,
    /// The system commits memory in steps of this many bytes.
    commit_step: usize,
    hashing: Hashing,
    secrets: RapidSecrets,
    /// The last cas unique given out.
    cas: AtomicU64,
    /// The latest time that any session has seen.
    seen: AtomicU32,
    registry: Registry,
    watcher: OnceLock<Arc<dyn EvictionWatcher>>,
    /// When second 0 was, for a Region that lasts.
    base: TimeBase,
    /// The file that the Region lasts in, if it does.
    file: Option<RegionFile>,
}

/// What lasts of a shell beside the Region, the setup and the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellState {
    /// When second 0 was, and how far time has come.
    pub base: TimeBase,
    /// The last cas unique given out.
    pub cas: u64,
}

impl ShellState {
    pub fn numbers(&self) -> [u64; 3] {
        [self.base.unix, u64::from(self.base.reached.0), self.cas]
    }
}

impl Shell {
    /// A shell around `bytes` bytes of address space, with counters for this many slab classes.
    ///
    /// # Errors
    /// If the system refuses address space, or to lock memory.
    pub fn anonymous(options: &EngineOptions, bytes: usize, classes: usize) -> Result<Self, OpenError> {
        let region = Region::anonymous(bytes, options.huge_pages())
            .map_err(|source| OpenError::Reserve { bytes, source })?;
        Self::on(region, options, classes)
    }

    /// A shell around a `region` that lasts, whose time goes by `base`.
    ///
    /// # Errors
    /// If the system refuses to lock memory.
    pub fn since(
        base: TimeBase,
        region: Region,
        options: &EngineOptions,
        classes: usize,
    ) -> Result<Self, OpenError> {
        let shell = Self::on(region, options, classes)?;
        shell.see_time(base.reached);
        Ok(Shell { base, ..shell })
    }

    fn on(mut region: Region, options: &EngineOptions, classes: usize) -> Result<Self, OpenError> {
        if options.residence == Residence::Locked {
            region.lock().map_err(|source| OpenError::Lock { bytes: region.reserved(), source })?;
        }
        // A page of the system that was touched anywhere is committed as a whole.
        let commit_step = options.huge_pages().commit_step();
        let seed = if let Hashing::Seeded(seed) = options.hashing { seed } else { 0 };
        Ok(Shell {
            region: Arc::new(region),
            commit_step,
            hashing: options.hashing,
            secrets: RapidSecrets::seed(seed),
            cas: AtomicU64::new(options.first_cas.max(CAS_LEAST)),
            seen: AtomicU32::new(0),
            registry: Registry::new(classes),
            watcher: OnceLock::new(),
            base: TimeBase::new(0),
            file: None,
        })
    }

    #[inline(always)]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The system commits memory in steps of this many bytes.
    pub fn commit_step(&self) -> usize {
        self.commit_step
    }

    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        match self.hashing {
            Hashing::Seeded(_) => KeyHash(rapidhash_v3_micro_inline::<true, true>(key, &self.secrets)),
            Hashing::Fixed(function) => KeyHash(function(key)),
        }
    }

    /// A cas unique that no item has yet.
    pub fn next_cas(&self) -> u64 {
        // Relaxed: only that no number is given out twice matters.
        self.cas.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The latest time that any session has seen.
    pub fn time_seen(&self) -> Seconds {
        Seconds(self.seen.load(Ordering::Relaxed))
    }

    pub fn see_time(&self, now: Seconds) {
        // Relaxed, and not one operation: a clock set back by a second for a moment does no harm.
        if now > self.time_seen() {
            self.seen.store(now.0, Ordering::Relaxed);
        }
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Reports evictions to `watcher` from now on. The first one stays.
    pub fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        let _ = self.watcher.set(watcher);
    }

    /// The watcher of evictions and its time, if it wants reports now.
    pub fn watcher(&self) -> Option<(&dyn EvictionWatcher, Seconds)> {
        let watcher = self.watcher.get()?;
        Some((watcher.as_ref(), watcher.watches()?))
    }

    /// Whether the file of the Region has room to grow from `limit` to `memory` bytes.
    ///
    /// # Errors
    /// If it has not.
    pub fn check_room(&self, limit: usize, memory: usize) -> Result<(), ResizeError> {
        if let Some(file) = &self.file
            && memory > limit
            && let Ok(room) = file.room()
            && room < memory as u64
        {
            return Err(ResizeError::NoRoom { room });
        }
        Ok(())
    }

    /// When second 0 was.
    pub fn base(&self) -> TimeBase {
        self.base
    }

    /// The Region lasts in `file`.
    pub fn last_in(&mut self, file: RegionFile) {
        self.file = Some(file);
    }

    /// What lasts, at `now`.
    pub fn state(&self, now: Seconds) -> ShellState {
        let base = TimeBase { reached: now.max(self.base.reached), ..self.base };
        ShellState { base, cas: self.cas.load(Ordering::Relaxed) }
    }

    /// Gives out cas uniques from there on.
    pub fn restore_cas(&self, cas: u64) {
        self.cas.store(cas, Ordering::Relaxed);
    }

    /// Whether there is a file to close, and the notes fit into it.
    ///
    /// # Errors
    /// If the notes are too long.
    pub fn lasts(&self, notes: &[u8]) -> Result<bool, CloseError> {
        if notes.len() > NOTES_MAX { Err(CloseError::Notes(notes.len())) } else { Ok(self.file.is_some()) }
    }

    /// Closes the file in order, if there is one, with this state and these notes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn close(self, state: &[u8], notes: &[u8]) -> Result<(), CloseError> {
        match self.file {
            Some(file) => Ok(file.close(&self.region, state, notes)?),
            None => Ok(()),
        }
    }

    /// Hands the file over, if there is one, with this state and these notes.
    pub fn hand_over(self, states: EngineStates, notes: &[u8]) -> Option<HandedRegion> {
        Some(self.file?.hand_over(self.region, states, notes.to_vec()))
    }
}

/// The hash of a key by this function.
pub(crate) fn hash_by(hashing: Hashing, key: &[u8]) -> KeyHash {
    match hashing {
        Hashing::Seeded(seed) => {
            KeyHash(rapidhash_v3_micro_inline::<true, true>(key, &RapidSecrets::seed(seed)))
        }
        Hashing::Fixed(function) => KeyHash(function(key)),
    }
}

//! What all sessions of an engine share.

use crate::flush::Flushes;
use crate::hold::Waiting;
use crate::log::Log;
use crate::maintain::Upkeep;
use crate::options::{LogPolicy, MicaOptions};
use crate::partition::{Partition, Share};
use crate::plan::{Plan, arriving};
use crate::restart;
use crate::session::MicaSession;
use crate::space::Space;
use guira_contract::{
    Access, CloseError, Control, Engine, EngineStats, EvictionWatcher, Opened, OptionError, Partitioning,
    PolicyError, Reassign, ResizeError, Spec, Tuning,
};
use guira_items::{Hashing, KEPT_PART, OpenError, Shell};
use guira_memory::{Budget, RegionPlace};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Core<S> {
    pub(crate) shell: Shell,
    pub(crate) partitions: Box<[Partition<S>]>,
    /// There are 2^`bits` of them.
    pub(crate) bits: u32,
    pub(crate) access: Access,
    /// The policy's number.
    policy: AtomicU32,
    pub(crate) waiting: Waiting,
    pub(crate) flushes: Flushes,
    pub(crate) options: MicaOptions,
    pub(crate) plan: Plan,
    /// Bytes that may be committed.
    memory: AtomicUsize,
    /// The part of it that is for values that are still arriving, and what they take, which may be more.
    arriving: Budget,
    /// What a partition may take.
    share: AtomicUsize,
    /// The most bytes that an item may take.
    largest_item: AtomicUsize,
    pub(crate) upkeep: Upkeep,
    /// Times an index has begun to grow.
    pub(crate) growths: AtomicU64,
    /// Whether a walk is under way.
    pub(crate) walking: AtomicBool,
}

/// If values that are arriving take more than is kept for them, in how many steps logs give way.
const ARRIVING_STEPS: usize = 16;

impl<S: Space> Core<S> {
    fn open(options: MicaOptions) -> Result<Self, OpenError> {
        options.engine.check()?;
        let partitions = Plan::partitions(&options);
        let plan =
            Plan::new(options.engine.reserve.max(options.engine.memory), partitions, options.offset_bits);
        let shell = Shell::anonymous(&options.engine, plan.total, 1)?;
        Core::on(shell, plan, options)
    }

    /// An engine in `shell`, whose Region is divided as `plan` says. Nothing is stored in it yet, or it is to be restored.
    pub(crate) fn on(shell: Shell, plan: Plan, options: MicaOptions) -> Result<Self, OpenError> {
        let region = shell.region().clone();
        let partition = |number| Partition::new(&region, &plan, number, options.offset_bits);
        let partitions: Box<[Partition<S>]> = (0..plan.partitions).map(partition).collect();
        let core = Core {
            bits: partitions.len().trailing_zeros(),
            partitions,
            access: options.access,
            policy: AtomicU32::new(options.policy as u32),
            waiting: Waiting::default(),
            flushes: Flushes::default(),
            options,
            plan,
            memory: AtomicUsize::new(options.engine.memory),
            arriving: Budget::new(arriving(options.engine.memory, options.engine.max_item_size)),
            share: AtomicUsize::new(0),
            largest_item: AtomicUsize::new(0),
            upkeep: Upkeep::new(plan.partitions),
            growths: AtomicU64::new(0),
            walking: AtomicBool::new(false),
            shell,
        };
        core.reckon_share();
        let share = core.share();
        for partition in &core.partitions {
            if !partition.back_reached(core.shell.region(), share) {
                return Err(OpenError::Full);
            }
            partition.space.set_end(partition.space_end(share));
        }
        Ok(core)
    }

    /// Memory, or what values take that are still arriving, has changed. These may take more than is kept for them as long as nobody else needs it; then
    /// logs end earlier.
    fn reckon_share(&self) {
        let memory = self.memory();
        let step = (memory / ARRIVING_STEPS).max(1);
        let (kept, used) = (self.arriving.limit(), self.arriving.used());
        let arriving = if used > kept { used.next_multiple_of(step) } else { kept };
        // Relaxed: who stores something looks, and logs are as long as they are for a while.
        self.share.store(self.plan.share(memory, arriving), Ordering::Relaxed);
        let largest = Plan::largest_item(self.plan.share(memory, kept));
        self.largest_item.store(largest, Ordering::Relaxed);
    }

    /// Takes memory for a part of a value that has arrived, if there is any.
    pub(crate) fn take_for_arrival(&self, bytes: usize) -> bool {
        if self.arriving.take(bytes) {
            return true;
        }
        // Relaxed, as all counts of memory: two who look at the same time may both take the last of it.
        let has_room = self.used() + bytes <= self.memory() - self.memory() / KEPT_PART;
        if has_room {
            self.arriving.charge(bytes);
            self.reckon_share();
        }
        has_room
    }

    /// Gives it back.
    pub(crate) fn give_after_arrival(&self, bytes: usize) {
        let was_over = self.arriving.excess() > 0;
        self.arriving.give(bytes);
        if was_over {
            self.reckon_share();
        }
    }

    /// The most bytes that an item may take: half of a partition's share.
    pub(crate) fn largest_item(&self) -> usize {
        self.largest_item.load(Ordering::Relaxed)
    }

    /// What a partition may take.
    pub(crate) fn share(&self) -> Share {
        Share { bytes: self.share.load(Ordering::Relaxed), step: self.shell.commit_step() }
    }

    /// Bytes that may be committed.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Bytes that are.
    pub(crate) fn used(&self) -> usize {
        let share = self.share();
        let of_partition =
            |partition: &Partition<S>| partition.index_bytes(share) + partition.space_bytes(share);
        self.partitions.iter().map(of_partition).sum::<usize>() + self.arriving.used()
    }

    /// Which items go when memory is needed.
    #[inline(always)]
    pub(crate) fn policy(&self) -> LogPolicy {
        LogPolicy::of(self.policy.load(Ordering::Relaxed))
    }

    /// Bytes that what is stored takes, in the fullest partition as in all, with what lies between items.
    fn needed(&self) -> usize {
        let share = self.share();
        let of_partition =
            |partition: &Partition<S>| partition.index_bytes(share) + partition.bytes.get() as usize * 9 / 8;
        let most = self.partitions.iter().map(of_partition).max().unwrap_or(0);
        most * self.partitions.len() + self.arriving.limit()
    }

    /// From now on up to `memory` bytes may be committed.
    fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        let item = 2 * self.plan.partitions * self.options.engine.max_item_size;
        let least = guira_items::MINIMUM.max(item).max(if S::IS_LOSSY { 0 } else { self.needed() });
        if memory < least {
            return Err(ResizeError::TooSmall { memory, least });
        }
        let share = self.plan.share(memory, arriving(memory, self.options.engine.max_item_size));
        if let Some(least) = self.room_missing(share) {
            return Err(ResizeError::TooSmall { memory, least });
        }
        if memory > self.plan.reserve {
            return Err(ResizeError::TooBig { memory, most: self.plan.reserve });
        }
        self.shell.check_room(self.memory(), memory)?;
        self.memory.store(memory, Ordering::Relaxed);
        self.arriving.set_limit(arriving(memory, self.options.engine.max_item_size));
        self.reckon_share();
        Ok(())
    }
}

/// MICA: a cache, or with [`crate::Fits`] a store.
#[derive(Debug)]
pub struct MicaEngine<S = Log> {
    pub(crate) core: Arc<Core<S>>,
}

impl<S> Clone for MicaEngine<S> {
    fn clone(&self) -> Self {
        MicaEngine { core: self.core.clone() }
    }
}

impl<S: Space> MicaEngine<S> {
    /// An empty engine.
    ///
    /// # Errors
    /// If the options leave too little memory, or the system refuses the address space.
    pub fn open(options: MicaOptions) -> Result<Self, OpenError> {
        Ok(MicaEngine { core: Arc::new(Core::open(options)?) })
    }

    /// An engine whose Region lasts at `place`, where it goes on with what was there when it was last closed, if it can. Then reserve and partitions
    /// are what the file was made for, whatever the options say. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// As [`MicaEngine::open`], or if the file cannot be used. What cannot be restored is no error: see [`Opened::opening`].
    pub fn open_lasting(
        options: MicaOptions,
        place: &RegionPlace,
        now_unix: u64,
    ) -> Result<Opened<MicaEngine<S>>, OpenError> {
        restart::open(options, place, now_unix)
    }
}

/// What a store has in place of a replacement policy.
fn no_policy() -> Spec {
    Spec { name: NO_POLICY.to_owned(), options: Vec::new() }
}

/// What is said of a policy for a store.
fn refuse_policy(policy: &Spec) -> OptionError {
    OptionError::Unknown { what: "policy", name: policy.name.clone(), known: NO_POLICY.to_owned() }
}

/// A store's only policy: nothing goes.
pub const NO_POLICY: &str = "none";

impl<S: Space> Engine for MicaEngine<S> {
    type Session = MicaSession<S>;

    fn session(&self) -> MicaSession<S> {
        MicaSession::new(self.core.clone())
    }

    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        Arc::into_inner(self.core).ok_or(CloseError::InUse)?.close(now, notes)
    }
}

impl<S: Space> Control for MicaEngine<S> {
    fn flush(&self, now: Seconds, at: Seconds) {
        self.core.schedule_flush(now, at);
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        self.core.shell.watch_evictions(watcher);
    }

    fn policy(&self) -> (Spec, Option<Spec>) {
        if S::IS_LOSSY { (self.core.policy().spec(), None) } else { (no_policy(), None) }
    }

    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError> {
        if !S::IS_LOSSY {
            return if *policy == no_policy() { Ok(()) } else { Err(refuse_policy(policy).into()) };
        }
        self.core.policy.store(LogPolicy::read(policy)? as u32, Ordering::Relaxed);
        Ok(())
    }

    fn tune(&self, tuning: Tuning) {
        self.core.upkeep.tune(tuning);
    }

    fn reassign(&self, _from: Option<u32>, _to: u32) -> Reassign {
        Reassign::NoClass
    }

    fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        self.core.resize(memory)
    }

    fn partitioning(&self) -> Option<Partitioning> {
        match self.core.options.engine.hashing {
            Hashing::Seeded(seed) => {
                Some(Partitioning { bits: self.core.bits, access: self.core.access, seed })
            }
            Hashing::Fixed(_) => None,
        }
    }

    fn stats(&self) -> EngineStats {
        self.core.stats()
    }

    fn reset_stats(&self) {
        self.core.shell.registry().reset();
        self.core.waiting.waits.reset();
    }
}

//! The parts that all sessions of an engine share.

use crate::crawler::Crawler;
use crate::entry::ENTRY_MAX;
use crate::flush::Flushes;
use crate::hold::PartitionLocks;
use crate::options::{CurrentPolicy, MicaOptions};
use crate::partition::Partition;
use crate::plan::Plan;
use crate::sizing::Sizing;
use crate::store::ItemStore;
use guira_contract::{ItemSpec, counted_size};
use guira_items::{OpenError, Shell, Walks};
use guira_sync::atomic::AtomicU64;

#[derive(Debug)]
pub(crate) struct Core<S> {
    pub(crate) shell: Shell,
    pub(crate) plan: Plan,
    pub(crate) options: MicaOptions,
    pub(crate) partitions: Box<[Partition<S>]>,
    /// There are 2^`bits` partitions.
    pub(crate) bits: u32,
    pub(crate) locks: PartitionLocks,
    pub(crate) flushes: Flushes,
    pub(crate) policy: CurrentPolicy,
    pub(crate) sizing: Sizing,
    pub(crate) crawler: Crawler,
    /// How often an index has begun to grow.
    pub(crate) growths: AtomicU64,
    pub(crate) walks: Walks,
}

impl<S: ItemStore> Core<S> {
    /// An empty engine.
    pub(crate) fn open(options: MicaOptions) -> Result<Self, OpenError> {
        options.engine.check()?;
        let partitions = Plan::partitions(&options);
        let plan =
            Plan::new(options.engine.reserve.max(options.engine.memory), partitions, options.offset_bits);
        let shell = Shell::anonymous(&options.engine, plan.total, 1)?;
        Core::on(shell, plan, options)
    }

    /// An engine in `shell`, whose Region is divided as `plan` says. It is empty, or to be restored.
    pub(crate) fn on(shell: Shell, plan: Plan, options: MicaOptions) -> Result<Self, OpenError> {
        let region = shell.region().clone();
        let partition = |number| Partition::new(&region, &plan, number, options.offset_bits);
        let partitions: Box<[Partition<S>]> = (0..plan.partitions).map(partition).collect();
        let sizing = Sizing::new(&options, plan, shell.commit_step());
        let share = sizing.share();
        for partition in &partitions {
            if !partition.back_reached(&region, share) {
                return Err(OpenError::Full);
            }
            partition.store().set_end(partition.store_end(share));
        }
        Ok(Core {
            shell,
            plan,
            options,
            bits: partitions.len().trailing_zeros(),
            locks: PartitionLocks::new(partitions.len(), options.access),
            partitions,
            flushes: Flushes::default(),
            policy: CurrentPolicy::new(options.policy),
            sizing,
            crawler: Crawler::new(plan.partitions),
            growths: AtomicU64::new(0),
            walks: Walks::default(),
        })
    }

    /// Committed bytes.
    pub(crate) fn used(&self) -> usize {
        let share = self.sizing.share();
        let of_partition =
            |partition: &Partition<S>| partition.index_bytes(share) + partition.store_bytes(share);
        self.partitions.iter().map(of_partition).sum::<usize>() + self.sizing.arriving()
    }

    /// Whether the item size limits allow such an item.
    pub(crate) fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        counted_size(key_len, spec.flags, spec.value_len) <= self.options.engine.max_item_size
            && key_len + spec.value_len + ENTRY_MAX <= self.sizing.largest_item()
    }
}

//! Changing the memory limit.

use crate::core::Core;
use crate::partition::Partition;
use crate::plan::arriving;
use crate::store::ItemStore;
use guira_contract::ResizeError;
use guira_items::MINIMUM;

/// Sets the limit to `memory` bytes.
pub(crate) fn resize<S: ItemStore>(core: &Core<S>, memory: usize) -> Result<(), ResizeError> {
    let max_item_size = core.options.engine.max_item_size;
    let least = MINIMUM.max(if S::IS_LOSSY { 0 } else { needed(core) });
    if memory < least {
        return Err(ResizeError::TooSmall { memory, least });
    }
    let share = core.plan.share(memory, arriving(memory, max_item_size));
    if let Some(least) = room_missing(core, share) {
        return Err(ResizeError::TooSmall { memory, least });
    }
    if memory > core.plan.reserve {
        return Err(ResizeError::TooBig { memory, most: core.plan.reserve });
    }
    core.shell.check_room(core.sizing.memory(), memory)?;
    core.sizing.set_memory(memory);
    Ok(())
}

/// Bytes that the items need, with the gaps between them: those of the fullest partition, times the number of partitions.
fn needed<S: ItemStore>(core: &Core<S>) -> usize {
    let share = core.sizing.share();
    let of_partition =
        |partition: &Partition<S>| partition.index_bytes(share) + partition.usage().bytes as usize * 9 / 8;
    let most = core.partitions.iter().map(of_partition).max().unwrap_or(0);
    most * core.partitions.len() + core.sizing.reserved_for_arrival()
}

/// The least limit, if indexes, which give nothing back, would leave no room for items in a partition of `share` bytes.
pub(crate) fn room_missing<S: ItemStore>(core: &Core<S>, share: usize) -> Option<usize> {
    let index_bytes = |partition: &Partition<S>| partition.index_bytes(core.sizing.share());
    let least = 2 * core.partitions.iter().map(index_bytes).max().unwrap_or(0);
    (least > share).then(|| {
        let all = least * core.partitions.len();
        all + arriving(2 * all, core.options.engine.max_item_size)
    })
}

//! The machine and the process, as `guira_sync::host` shows them: the same on every machine that runs a seed.

use crate::{net, scheduler};

/// The limit of descriptors. Nothing else is limited.
pub const OPEN_FILES: u64 = 1 << 16;

/// The address of the host.
pub fn name() -> String {
    net::host_of(scheduler::current_process()).to_string()
}

pub fn process() -> u32 {
    scheduler::current_process().number()
}

pub fn parent() -> u32 {
    1
}

pub fn thread() -> i32 {
    scheduler::current().number()
}

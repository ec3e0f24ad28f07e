//! The machine and the process, as `guira_sync::host` shows them: the same on every machine that runs a seed.

use crate::{net, scheduler};

/// As `guira_sync::host::Limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    AddressSpace,
    FileSize,
    OpenFiles,
}

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

pub fn limit(limit: Limit) -> Option<u64> {
    (limit == Limit::OpenFiles).then_some(1 << 16)
}

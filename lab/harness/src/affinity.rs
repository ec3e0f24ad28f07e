//! Processors that threads and servers may use.

use std::io;
use std::process::{Child, Command};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on `cores`.
///
/// # Errors
/// When the machine has no such processors.
pub fn pin_thread(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// Starts `command` on `cores`, or on all if there are none: a child inherits the processors of the thread that starts it.
pub(crate) fn spawn_on(cores: &[usize], command: &mut Command) -> io::Result<Child> {
    if cores.is_empty() {
        return command.spawn();
    }
    let before = sched_getaffinity(None)?;
    pin_thread(cores)?;
    let child = command.spawn();
    sched_setaffinity(None, &before)?;
    child
}

//! Whether a process is restricted to listed system calls, as the kernel sees it.

use std::fs;
use std::path::PathBuf;

/// How many of the threads of a process have a filter of system calls, and how many have none.
///
/// # Panics
/// If there is no such process.
#[track_caller]
pub fn restricted_threads(process_id: u32) -> (usize, usize) {
    let tasks = fs::read_dir(format!("/proc/{process_id}/task")).expect("a process");
    let tasks: Vec<PathBuf> = tasks.map(|task| task.expect("a thread").path()).collect();
    // A thread that has ended in between has no status.
    let status = tasks.iter().filter_map(|task| fs::read_to_string(task.join("status")).ok());
    let (with, without): (Vec<_>, Vec<_>) = status.partition(|text| text.contains("\nSeccomp:\t2\n"));
    (with.len(), without.len())
}

/// Expects that all threads of a process are restricted.
///
/// # Panics
/// If one is not.
#[track_caller]
pub fn expect_restricted(process_id: u32) {
    let (with, without) = restricted_threads(process_id);
    assert!(with > 0 && without == 0, "{with} threads have a filter, {without} have none");
}

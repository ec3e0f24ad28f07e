//! Reports why a process dies that stores to a Region whose file has no space: the kernel sends SIGBUS, and reports
//! nothing itself.
//!
//! Ranges are allocated before use, so this happens only if the file system cannot do that, if another process
//! truncated the file, or if the disk failed.

use crate::place::RegionPlace;
use guira_sync::lock::OnceLock;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// The watched addresses, the message, and the previous signal action.
struct Watched {
    addresses: Range<usize>,
    words: String,
    before: libc::sigaction,
}

/// A process has one Region in a file; of several, this is the first.
static WATCHED: OnceLock<Watched> = OnceLock::new();

/// From now on a fault at one of these addresses is reported before it kills the process.
pub(crate) fn watch(addresses: Range<usize>, place: &RegionPlace) {
    WATCHED.get_or_init(|| {
        let words = format!(
            "guira: killed by SIGBUS: the region {place} could not be read or written; its file system is full or has failed, or the file was truncated\n"
        );
        Watched { addresses, words, before: handle() }
    });
}

/// Installs the signal handler. Returns the previous action.
fn handle() -> libc::sigaction {
    // SAFETY: zeroes are an action without flags and with an empty mask.
    let [mut ours, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler calls only functions that signal-safety(7) allows. If the call fails, no handler is
    // installed.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before) };
    before
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(watched) = WATCHED.get() else {
        return;
    };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let info = unsafe { &*info };
    // SAFETY: the siginfo of a SIGBUS has an address.
    let address = unsafe { info.si_addr() } as usize;
    if watched.addresses.contains(&address) {
        // SAFETY: the message lives as long as the process.
        unsafe { libc::write(libc::STDERR_FILENO, watched.words.as_ptr().cast(), watched.words.len()) };
    }
    // The faulting instruction runs again, and the previous action applies.
    // SAFETY: the action was returned by the kernel.
    unsafe { libc::sigaction(signal, &raw const watched.before, std::ptr::null_mut()) };
}

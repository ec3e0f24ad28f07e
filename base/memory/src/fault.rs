//! The last words of a process that stores where the file of its Region has no room: the system kills it by SIGBUS, and says nothing.
//!
//! What is used was allocated before, so this comes only where a file system cannot do that, or when the file was made shorter by somebody else, or the disk
//! has failed.

use crate::place::RegionPlace;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// What is said of which addresses, and what was done about the signal before.
struct Watched {
    addresses: Range<usize>,
    words: String,
    before: libc::sigaction,
}

/// A process has one Region in a file; of several, this is the first.
static WATCHED: OnceLock<Watched> = OnceLock::new();

/// From now on the process says why it dies if a fault at one of these addresses kills it.
pub(crate) fn watch(addresses: Range<usize>, place: &RegionPlace) {
    WATCHED.get_or_init(|| {
        let words = format!(
            "guira: killed by SIGBUS: the region {place} could not be read or written; its file system is full or has failed, or somebody has cut the file\n"
        );
        Watched { addresses, words, before: handle() }
    });
}

/// Has the signal handled here. Returns what was done about it before.
fn handle() -> libc::sigaction {
    // SAFETY: zeroes are an action without flags and with an empty mask.
    let [mut ours, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler calls nothing but what signal-safety(7) allows. If it fails, nothing is handled.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before) };
    before
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(watched) = WATCHED.get() else {
        return;
    };
    // SAFETY: the system tells of the fault, as was asked for by SA_SIGINFO.
    let info = unsafe { &*info };
    // SAFETY: that of a SIGBUS has an address.
    let address = unsafe { info.si_addr() } as usize;
    if watched.addresses.contains(&address) {
        // SAFETY: the text lives as long as the process.
        unsafe { libc::write(libc::STDERR_FILENO, watched.words.as_ptr().cast(), watched.words.len()) };
    }
    // What faults is done again, and comes to whatever was to be done about it before.
    // SAFETY: what the system has told of an action is one.
    unsafe { libc::sigaction(signal, &raw const watched.before, std::ptr::null_mut()) };
}

//! Answers system calls that a filter of the process does not list (base/sandbox), and counts them.
//!
//! The kernel does not execute such a call. It sends SIGSYS to the thread instead, and the handler here stores the
//! result of the call: an error. So a call that is missing from the list is a failed operation and a line in the log,
//! not the end of the process.

use crate::atomic::{AtomicU64, Ordering};
use std::ffi::{c_int, c_void};
use std::io;

/// The handler works with numbers below this; no architecture has as many calls.
const NUMBERS: usize = 512;

/// One bit for each number of a call; a greater number has the last bit.
struct Bits([AtomicU64; NUMBERS / 64]);

impl Bits {
    const fn new() -> Self {
        Bits([const { AtomicU64::new(0) }; NUMBERS / 64])
    }

    fn place(number: u64) -> (usize, u64) {
        let number = usize::try_from(number).unwrap_or(NUMBERS).min(NUMBERS - 1);
        (number / 64, 1 << (number % 64))
    }

    fn contains(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.0[word].load(Ordering::Relaxed) & bit != 0
    }

    fn insert(&self, number: u64) {
        let (word, bit) = Self::place(number);
        self.0[word].fetch_or(bit, Ordering::Relaxed);
    }
}

// A process has one handler for a signal. All orderings are Relaxed: these are statistics, and FORBIDDEN does not
// change while the handler is installed.
static COUNT: AtomicU64 = AtomicU64::new(0);
static REFUSED: Bits = Bits::new();
static REPORTED: Bits = Bits::new();
static FORBIDDEN: Bits = Bits::new();

/// The number of refused calls.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// The numbers of refused calls, each once in the life of the process; 511 stands for all greater ones.
pub fn take_new() -> Vec<u32> {
    let is_new = |number: &u32| {
        let number = u64::from(*number);
        REFUSED.contains(number) && !REPORTED.contains(number)
    };
    let new: Vec<u32> = (0..NUMBERS as u32).filter(is_new).collect();
    new.iter().for_each(|number| REPORTED.insert((*number).into()));
    new
}

/// Installs the handler. A refused call returns EPERM if its number is in `forbidden`, and otherwise ENOSYS, as from
/// an older kernel: then C libraries do the same with an older call.
///
/// # Errors
/// The error of `sigaction`.
pub fn answer(forbidden: impl IntoIterator<Item = u32>) -> io::Result<()> {
    forbidden.into_iter().for_each(|number| FORBIDDEN.insert(number.into()));
    // SAFETY: zeroes are an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_refusal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler only uses atomics and the registers of its thread.
    match unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `si_code` of a SIGSYS that a filter has caused; other processes can send one too.
const SYS_SECCOMP: c_int = 1;

extern "C" fn on_refusal(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let info = unsafe { &*info };
    if info.si_code != SYS_SECCOMP {
        return;
    }
    // SAFETY: with SA_SIGINFO the kernel passes the registers of the thread, which only this handler uses now.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let number = number(context);
    COUNT.fetch_add(1, Ordering::Relaxed);
    REFUSED.insert(number);
    set_error(context, if FORBIDDEN.contains(number) { libc::EPERM } else { libc::ENOSYS });
}

/// The number of the call that the thread has made.
#[cfg(target_arch = "x86_64")]
fn number(context: &libc::ucontext_t) -> u64 {
    // The kernel restores it in the register of the result.
    context.uc_mcontext.gregs[libc::REG_RAX as usize] as u64
}

#[cfg(target_arch = "x86_64")]
fn set_error(context: &mut libc::ucontext_t, error: c_int) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(error);
}

/// The number of the call that the thread has made.
#[cfg(target_arch = "aarch64")]
fn number(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.regs[8]
}

#[cfg(target_arch = "aarch64")]
fn set_error(context: &mut libc::ucontext_t, error: c_int) {
    context.uc_mcontext.regs[0] = (-i64::from(error)) as u64;
}

// There is no filter for other architectures.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn number(_context: &libc::ucontext_t) -> u64 {
    u64::MAX
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn set_error(_context: &mut libc::ucontext_t, _error: c_int) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_the_last_share_its_bit() {
        let bits = Bits::new();
        [0, 63, 64, 1 << 40].into_iter().for_each(|number| bits.insert(number));
        let set: Vec<u64> = (0..NUMBERS as u64).filter(|number| bits.contains(*number)).collect();
        assert_eq!(set, [0, 63, 64, 511]);
    }
}

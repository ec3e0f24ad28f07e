//! The system's clocks, which std and other crates read through the C library. Within a world they are the world's.

use crate::{scheduler, time};
use std::ffi::{c_int, c_long};

/// As the C library has it on 64-bit Linux.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanos: i64,
}

#[cfg(target_arch = "x86_64")]
const CLOCK_GETTIME: c_long = 228;
#[cfg(target_arch = "aarch64")]
const CLOCK_GETTIME: c_long = 113;

const CLOCK_REALTIME: c_int = 0;
const CLOCK_REALTIME_COARSE: c_int = 5;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Stands in for clock_gettime(2) of the C library in the whole program.
///
/// # Safety
/// `time` must be valid for a write.
// SAFETY: the C library has a function of this name and these types, and what the clocks of a world show is a time of its host.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    let Some(now) = scheduler::now_in_world() else {
        // SAFETY: the caller upholds what the call needs, and its arguments are those of this function.
        return unsafe { syscall(CLOCK_GETTIME, c_long::from(clock), time) } as c_int;
    };
    let is_wall = matches!(clock, CLOCK_REALTIME | CLOCK_REALTIME_COARSE);
    let now = if is_wall { time::wall_at(now) } else { time::UPTIME + now };
    let value = Timespec { seconds: now.as_secs() as i64, nanos: i64::from(now.subsec_nanos()) };
    // SAFETY: the caller upholds this, as it does for clock_gettime(2).
    unsafe { time.write(value) };
    0
}

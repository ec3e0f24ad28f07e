//! A system call without a safe wrapper.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

/// setsockopt(2), with any option.
pub(super) fn set_option(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    let length = value.len() as libc::socklen_t;
    // SAFETY: the value is readable for its length, and only read.
    let result = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), length) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

pub(super) fn last_error() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(code.unwrap_or(libc::EIO))
}

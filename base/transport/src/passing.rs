//! Open descriptors that go from one process to another, over a UNIX socket.

use crate::net::UnixStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Duration;

/// The most descriptors that are sent at once: the system takes 253.
pub const FDS_AT_ONCE: usize = 240;

/// Space for the descriptors of one message.
const ANCILLARY: usize = rustix::cmsg_space!(ScmRights(253));

/// Sends some of `bytes`, which must not be empty, and with the first of them all of `fds`. Returns how many bytes were sent.
///
/// # Errors
/// What the system says, also if its patience with the other end is over.
///
/// # Panics
/// If there are more than [`FDS_AT_ONCE`] descriptors.
pub fn send_fds(link: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    assert!(fds.len() <= FDS_AT_ONCE, "they go with one message");
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    loop {
        match sendmsg(link, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Receives some bytes into `buffer`, and appends the descriptors that come with them to `fds`. 0 at the end.
///
/// # Errors
/// What the system says, also if its patience with the other end is over, or there were descriptors that this process has no room for.
pub fn receive_fds(link: &UnixStream, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(link, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
        return Err(io::Error::other("there is no room for the descriptors that were sent"));
    }
    Ok(received.bytes)
}

/// The process at the other end of a UNIX socket.
#[derive(Debug)]
pub struct PeerProcess {
    /// Its number; `None` if it lives in a PID namespace that this process does not see.
    pid: Option<Pid>,
    user: u32,
    handle: Option<OwnedFd>,
}

impl PeerProcess {
    /// That of `link`, as it was when the two were connected.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(link: impl AsFd) -> io::Result<Self> {
        let peer = peer_credentials(link.as_fd())?;
        let pid = Pid::from_raw(peer.pid);
        let handle = match peer_handle(link.as_fd()) {
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                // Before Linux 6.5. In between the number may have passed to another process.
                pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            }
            handle => handle.ok(),
        };
        Ok(PeerProcess { pid, user: peer.uid, handle })
    }

    /// Its number, if this process can see it.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(Pid::as_raw_pid)
    }

    /// Whether it runs as the same user as this process.
    pub fn is_ours(&self) -> bool {
        self.user == geteuid().as_raw()
    }

    /// Whether this process can see to it that it ends: not if it has ended, or lives in another PID namespace.
    pub fn can_be_ended(&self) -> bool {
        self.handle.is_some()
    }

    /// Waits until it is gone, for as long as `patience`. Whether it is.
    pub fn wait_until_gone(&self, patience: Duration) -> bool {
        let Some(handle) = &self.handle else {
            // It was when the link was made, or the system does not tell.
            guira_sync::thread::sleep(patience.min(Duration::from_millis(100)));
            return false;
        };
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// Ends it at once: it executes nothing more.
    ///
    /// # Errors
    /// What the system says, or that it cannot be reached.
    pub fn kill(&self) -> io::Result<()> {
        let handle = self.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(pidfd_send_signal(handle, Signal::KILL)?)
    }
}

/// Who is at the other end, as it was when the two were connected. rustix has a `Pid` for its number, which is never 0; that of a process
/// in another PID namespace is.
fn peer_credentials(link: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    // SAFETY: the system writes a `ucred`, which is three numbers.
    unsafe { socket_option(link, libc::SO_PEERCRED) }
}

/// A handle of the process at the other end, as it was when the two were connected.
fn peer_handle(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the system writes a descriptor, which is a number.
    let fd: libc::c_int = unsafe { socket_option(link, SO_PEERPIDFD)? };
    // SAFETY: the system has just opened the descriptor for this call, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A handle of the peer's process, since Linux 6.5 (asm-generic/socket.h).
const SO_PEERPIDFD: libc::c_int = 77;

/// # Safety
/// The system must write a `T` for this option, of which all bytes are valid as zeroes.
unsafe fn socket_option<T>(link: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the system writes at most `length` bytes to `value`, which has as many.
    let result = unsafe {
        libc::getsockopt(
            link.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller says that what was written, and the zeroes behind it, are a `T`.
    Ok(unsafe { value.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn descriptors_arrive_with_the_bytes_that_they_were_sent_with() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let pipes: Vec<_> = (0..FDS_AT_ONCE).map(|_| UnixStream::pair().unwrap()).collect();
        let fds: Vec<_> = pipes.iter().map(|(near, _)| near.as_fd()).collect();
        assert_eq!(send_fds(&ours, b"all", &fds).unwrap(), 3);
        assert_eq!(send_fds(&ours, b"none", &[]).unwrap(), 4);
        let (mut buffer, mut received) = ([0; 16], Vec::new());
        assert_eq!(receive_fds(&theirs, &mut buffer, &mut received).unwrap(), 3);
        assert_eq!(received.len(), FDS_AT_ONCE);
        for (fd, (_, mut far)) in received.into_iter().zip(pipes) {
            UnixStream::from(fd).write_all(b"x").unwrap();
            let mut byte = [0];
            far.read_exact(&mut byte).unwrap();
            assert_eq!(byte, *b"x");
        }
        let mut none = Vec::new();
        assert_eq!((receive_fds(&theirs, &mut buffer, &mut none).unwrap(), none.len()), (4, 0));
        drop(ours);
        assert_eq!(receive_fds(&theirs, &mut buffer, &mut none).unwrap(), 0);
    }

    #[test]
    fn the_other_end_is_known_and_of_the_same_user() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = PeerProcess::of(&ours).unwrap();
        assert_eq!((peer.pid(), peer.is_ours()), (Some(std::process::id() as i32), true));
        assert!(peer.can_be_ended() && !peer.wait_until_gone(Duration::ZERO));
    }

    /// Its number may be another process's by then.
    #[test]
    fn the_handle_is_of_the_process_that_has_connected_and_not_of_its_number() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let handle = match peer_handle(ours.as_fd()) {
            Ok(handle) => handle,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT), "before Linux 6.5");
                return;
            }
        };
        let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).unwrap();
        assert!(facts.contains(&format!("Pid:\t{}\n", std::process::id())), "{facts}");
        assert!(PeerProcess::of(&ours).unwrap().can_be_ended());
    }
}

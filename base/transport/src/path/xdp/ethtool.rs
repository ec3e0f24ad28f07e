//! Requests of ethtool (`SIOCETHTOOL`) to a card, such as how many queues it has.

use super::sys::last_error;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::ffi::c_void;

const SIOCETHTOOL: u32 = 0x8946;
const GET_CHANNELS: u32 = 0x3c;

/// `struct ifreq`, as these requests use it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut c_void,
    padding: [u64; 2],
}

/// `struct ethtool_channels`.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

#[derive(Debug)]
pub(super) struct Card {
    socket: OwnedFd,
    name: [u8; libc::IFNAMSIZ],
}

impl Card {
    pub(super) fn new(interface: &str) -> Result<Self, Errno> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut name = [0; libc::IFNAMSIZ];
        // One byte is left for the end.
        let room = name[..libc::IFNAMSIZ - 1].get_mut(..interface.len()).ok_or(Errno::NODEV)?;
        room.copy_from_slice(interface.as_bytes());
        Ok(Card { socket, name })
    }

    /// # Safety
    /// The request is one that ethtool knows under the command it begins with.
    pub(super) unsafe fn ask<T>(&self, request: &mut T) -> Result<(), Errno> {
        let data = (&raw mut *request).cast();
        let mut interface = InterfaceRequest { name: self.name, data, padding: [0; 2] };
        let (fd, argument) = (self.socket.as_raw_fd(), &raw mut interface);
        // SAFETY: the kernel reads the name, and reads and writes the request, which the caller answers for and no other pointer refers to.
        let result = unsafe { libc::ioctl(fd, SIOCETHTOOL as _, argument) };
        if result < 0 { Err(last_error()) } else { Ok(()) }
    }
}

/// Queues that packets arrive in. A driver that does not know the question has one.
pub(super) fn queues(interface: &str) -> u32 {
    let mut channels = Channels { command: GET_CHANNELS, ..Default::default() };
    // SAFETY: `struct ethtool_channels`, which is what the command reads and writes.
    let result = Card::new(interface).and_then(|card| unsafe { card.ask(&mut channels) });
    result.map_or(1, |()| (channels.receive + channels.combined).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_the_kernel_has_them() {
        assert_eq!(size_of::<InterfaceRequest>(), 40);
        assert_eq!(size_of::<Channels>(), 36);
    }

    #[test]
    fn an_interface_that_does_not_know_the_question_has_one_queue() {
        assert_eq!(queues("lo"), 1);
        assert_eq!(queues("a name that is far too long"), 1);
    }
}

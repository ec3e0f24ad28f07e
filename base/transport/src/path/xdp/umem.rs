//! Packet memory shared with the kernel: frames of 4 KiB, each owned by the holder of its [`Frame`].
//!
//! ```text
//! 0          256                      2048       2112                    4096
//! | headroom | packet that has arrived |  headers | payload that is sent  |
//! ```
//! An answer is written into the frame of its request, so that neither is copied and one frame is enough for both.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};
use std::ptr::NonNull;

pub(super) const FRAME_BYTES: usize = 4096;
pub(super) const HALF: usize = FRAME_BYTES / 2;
/// The offset of a sent payload in the upper half. The headers end there.
pub(super) const PAYLOAD_AT: usize = 64;

/// The ownership of a frame: while this exists nothing else accesses the frame, the kernel included.
#[derive(Debug)]
pub(super) struct Frame(u32);

impl Frame {
    /// The frame that an address lies in.
    ///
    /// # Safety
    /// The kernel has just passed the frame to us, by a ring of the [`Umem`] that it is used with from now on.
    #[inline(always)]
    pub(super) unsafe fn from_kernel(address: u64) -> Self {
        Frame((address as usize / FRAME_BYTES) as u32)
    }

    /// Passes the frame to the kernel: its address in the memory.
    #[inline(always)]
    pub(super) fn into_address(self) -> u64 {
        u64::from(self.0) * FRAME_BYTES as u64
    }

    /// The same for a packet in the upper half, from byte `at` of it on.
    #[inline(always)]
    pub(super) fn into_upper_address(self, at: usize) -> u64 {
        self.into_address() + (HALF + at) as u64
    }
}

/// The offset of an address in its frame.
#[inline(always)]
pub(super) fn offset_in_frame(address: u64) -> usize {
    address as usize % FRAME_BYTES
}

#[derive(Debug)]
pub(super) struct Umem {
    base: NonNull<u8>,
    frames: u32,
}

// SAFETY: the mapping belongs to the Umem alone; its bytes are accessed only through frames, each of which has one
// owner.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    /// New memory, and all its frames.
    pub(super) fn new(frames: u32) -> Result<(Self, Vec<Frame>), Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), frames as usize * FRAME_BYTES, prot, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok((Umem { base, frames }, (0..frames).map(Frame).collect()))
    }

    fn bytes(&self) -> usize {
        self.frames as usize * FRAME_BYTES
    }

    /// The registration of the memory at a socket.
    pub(super) fn registration(&self) -> XdpUmemReg {
        XdpUmemReg {
            addr: self.base.as_ptr() as u64,
            len: self.bytes() as u64,
            chunk_size: FRAME_BYTES as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        }
    }

    #[inline(always)]
    fn half(&self, frame: &Frame, half: usize) -> NonNull<[u8; HALF]> {
        assert!(frame.0 < self.frames);
        // SAFETY: the frame lies in the mapping, as checked, and so do its halves.
        unsafe { self.base.add(frame.0 as usize * FRAME_BYTES + half * HALF) }.cast()
    }

    /// The half for received packets, and the one for sent packets.
    #[inline(always)]
    pub(super) fn halves<'a>(&'a self, frame: &'a mut Frame) -> (&'a [u8; HALF], &'a mut [u8; HALF]) {
        let (lower, mut upper) = (self.half(frame, 0), self.half(frame, 1));
        // SAFETY: inside the mapping; any bytes are valid; the frame is owned exclusively, and borrowed here.
        let lower = unsafe { lower.as_ref() };
        // SAFETY: as above; the two halves do not overlap.
        let upper = unsafe { upper.as_mut() };
        (lower, upper)
    }

    #[inline(always)]
    pub(super) fn lower<'a>(&'a self, frame: &'a Frame) -> &'a [u8; HALF] {
        let lower = self.half(frame, 0);
        // SAFETY: inside the mapping; any bytes are valid; while the frame is borrowed, nothing writes to it.
        unsafe { lower.as_ref() }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // Open sockets have pinned the pages, and do not write to the mapping.
        // SAFETY: the whole mapping, to which no references exist. An error would leave it mapped: a leak.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_two_halves_and_an_address() {
        let (umem, mut frames) = Umem::new(16).unwrap();
        let mut last = frames.pop().unwrap();
        let (lower, upper) = umem.halves(&mut last);
        upper.fill(7);
        assert!(lower.iter().all(|byte| *byte == 0));
        let address = last.into_upper_address(22);
        assert_eq!(address, 15 * 4096 + 2048 + 22);
        assert_eq!(offset_in_frame(address), 2048 + 22);
        // SAFETY: `last` was dropped.
        let same = unsafe { Frame::from_kernel(address) };
        assert_eq!(same.into_address(), 15 * 4096);
    }
}

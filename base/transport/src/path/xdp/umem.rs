//! Memory that packets lie in, shared with the kernel: frames of 4 KiB, each owned by whoever has its [`Frame`].
//!
//! ```text
//! 0          256                      2048       2112                    4096
//! | headroom | packet that has arrived |  headers | payload that is sent  |
//! ```
//! An answer is written into the frame of its request, so that none of the two is copied and one frame is enough for both.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};
use std::ptr::NonNull;

/// Bytes of a frame.
pub(super) const FRAME_BYTES: usize = 4096;
/// Bytes of either half.
pub(super) const HALF: usize = FRAME_BYTES / 2;
/// Where a payload that is sent begins in the upper half. The headers end there.
pub(super) const PAYLOAD_AT: usize = 64;

/// The right to a frame: nobody else reads or writes it, the kernel included, while this exists.
#[derive(Debug)]
pub(super) struct Frame(u32);

impl Frame {
    /// The frame that an address lies in.
    ///
    /// # Safety
    /// The kernel has just handed the frame over, by a ring that was given frames of the [`Umem`] that it is used with from now on.
    #[inline(always)]
    pub(super) unsafe fn from_kernel(address: u64) -> Self {
        Frame((address as usize / FRAME_BYTES) as u32)
    }

    /// Hands the frame over to the kernel: its address in the memory.
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

/// Where in its frame an address lies.
#[inline(always)]
pub(super) fn offset_in_frame(address: u64) -> usize {
    address as usize % FRAME_BYTES
}

/// The memory.
#[derive(Debug)]
pub(super) struct Umem {
    base: NonNull<u8>,
    frames: u32,
}

// SAFETY: the mapping belongs to the Umem alone; its bytes are reached only by way of frames, of which each has one owner.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Memory, and all its frames.
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

    /// What a socket is told of it.
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

    /// The half that packets arrive in, and the one that they are sent from.
    #[inline(always)]
    pub(super) fn halves<'a>(&'a self, frame: &'a mut Frame) -> (&'a [u8; HALF], &'a mut [u8; HALF]) {
        let (lower, mut upper) = (self.half(frame, 0), self.half(frame, 1));
        // SAFETY: inside the mapping; bytes can be anything; whoever has the frame has it alone, and lends it out here.
        let lower = unsafe { lower.as_ref() };
        // SAFETY: as above; the two halves do not overlap.
        let upper = unsafe { upper.as_mut() };
        (lower, upper)
    }

    /// The half that packets arrive in.
    #[inline(always)]
    pub(super) fn lower<'a>(&'a self, frame: &'a Frame) -> &'a [u8; HALF] {
        let lower = self.half(frame, 0);
        // SAFETY: inside the mapping; bytes can be anything; while the frame is lent out, nobody writes to it.
        unsafe { lower.as_ref() }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // Sockets that are still open have pinned the pages, and write into nothing that is mapped.
        // SAFETY: the whole mapping, which nobody can reach any more. An error would leave it mapped: a leak.
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
        // SAFETY: `last` is gone.
        let same = unsafe { Frame::from_kernel(address) };
        assert_eq!(same.into_address(), 15 * 4096);
    }
}

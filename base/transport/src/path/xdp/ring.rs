//! The rings shared with the kernel (`Documentation/networking/af_xdp.rst`), each with one producer and one consumer.

use guira_sync::atomic::{AtomicU32, Ordering, fence};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// An entry of a packet ring (`struct xdp_desc`). The entries of frame rings are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) options: u32,
}

/// An entry of a ring, for which any bits are valid.
pub(super) trait Slot: Copy {}

impl Slot for Descriptor {}
impl Slot for u64 {}

#[derive(Debug)]
struct Ring<T> {
    base: NonNull<c_void>,
    bytes: usize,
    offsets: XdpRingOffset,
    /// The number of slots, a power of two, less one.
    mask: u32,
    slots: PhantomData<T>,
}

// SAFETY: the mapping belongs to the ring alone, and is not tied to a thread. Slots are plain numbers.
unsafe impl<T: Slot> Send for Ring<T> {}

impl<T: Slot> Ring<T> {
    fn map(socket: BorrowedFd<'_>, page: u64, offsets: XdpRingOffset, slots: u32) -> Result<Self, Errno> {
        let bytes = offsets.desc as usize + slots as usize * size_of::<T>();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, socket, page) }?;
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Ring { base, bytes, offsets, mask: slots - 1, slots: PhantomData })
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: according to the kernel this word of the ring lies there, inside the mapping.
        let word = unsafe { self.base.byte_add(offset as usize) };
        // SAFETY: aligned, as the kernel lays rings out, and valid as long as `self`. Both sides access it
        // atomically.
        unsafe { word.cast().as_ref() }
    }

    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    #[inline(always)]
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> NonNull<T> {
        let offset = self.offsets.desc as usize + (index & self.mask) as usize * size_of::<T>();
        // SAFETY: the mapping has `mask + 1` slots behind that offset.
        unsafe { self.base.byte_add(offset) }.cast()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which no references exist. An error would leave it mapped: a leak.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// A ring that we produce for the kernel.
#[derive(Debug)]
pub(super) struct Producer<T: Slot> {
    ring: Ring<T>,
    /// Our index; [`Producer::submit`] publishes it.
    next: u32,
    /// The kernel's index when it was last read.
    taken: u32,
}

impl<T: Slot> Producer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: XdpRingOffset,
        slots: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, page, offsets, slots)?;
        Ok(Producer { ring, next: 0, taken: 0 })
    }

    /// The number of entries that the kernel has not taken yet.
    #[inline]
    pub(super) fn waiting(&mut self) -> u32 {
        // Acquire: pairs with the kernel's release of the slots before this index: it has read them.
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    /// The number of free slots, at least. The kernel's index is read only if fewer than `wanted` are known to be
    /// free.
    #[inline]
    pub(super) fn free_slots(&mut self, wanted: u32) -> u32 {
        let slots = self.ring.mask + 1;
        let room = slots - self.next.wrapping_sub(self.taken);
        if room >= wanted { room } else { slots - self.waiting() }
    }

    /// Adds an entry, for which a slot must be free. The kernel sees it after [`Producer::submit`].
    ///
    /// # Panics
    /// If no slot is free.
    #[inline]
    pub(super) fn put(&mut self, value: T) {
        assert!(self.free_slots(1) > 0);
        // SAFETY: the slot is ours, since the kernel has consumed its previous entry; it does not read it before
        // `submit`.
        unsafe { self.ring.slot(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    #[inline]
    pub(super) fn submit(&mut self) {
        // Release: pairs with the kernel's acquire of this index: the slots before it, and the frames they name, are written.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel has to be woken. To be called after [`Producer::submit`].
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.ring.offsets.flags else {
            return true;
        };
        // The index has to be visible before the flag is read: a driver that finds nothing sets the flag and checks
        // once more. SeqCst fence: pairs with the barrier between that flag and that check.
        fence(Ordering::SeqCst);
        // Relaxed: after the fence; nothing is read through it.
        self.ring.word(flags).load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// A ring that we consume from the kernel.
#[derive(Debug)]
pub(super) struct Consumer<T: Slot> {
    ring: Ring<T>,
    /// Our index; [`Consumer::release`] publishes it.
    next: u32,
    /// The kernel's index when it was last read.
    filled: u32,
}

impl<T: Slot> Consumer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: XdpRingOffset,
        slots: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, page, offsets, slots)?;
        Ok(Consumer { ring, next: 0, filled: 0 })
    }

    /// The number of entries to take.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        // Acquire: pairs with the kernel's release of this index: the slots before it, and the frames they name, are
        // written.
        self.filled = self.ring.producer().load(Ordering::Acquire);
        self.filled.wrapping_sub(self.next)
    }

    /// Takes an entry, if [`Consumer::available`] has reported one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        if self.next == self.filled {
            return None;
        }
        // SAFETY: the kernel has written this slot, and does not touch it until `release`; any bits are valid.
        let value = unsafe { self.ring.slot(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(value)
    }

    /// Returns the slots of taken entries to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        // Release: pairs with the kernel's acquire of this index before it writes the slots again: they have been read.
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

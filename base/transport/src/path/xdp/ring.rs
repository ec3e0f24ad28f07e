//! The rings that a process and the kernel share (`Documentation/networking/af_xdp.rst`): one of the two puts in, the other takes out.

use guira_sync::atomic::{AtomicU32, Ordering, fence};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// What rings of packets hold (`struct xdp_desc`). Rings of frames hold their addresses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) options: u32,
}

/// What can stand in a ring: any bits are one.
pub(super) trait Slot: Copy {}

impl Slot for Descriptor {}
impl Slot for u64 {}

/// Memory of a ring, from either end.
#[derive(Debug)]
struct Ring<T> {
    base: NonNull<c_void>,
    bytes: usize,
    offsets: XdpRingOffset,
    /// One less than the number of slots, a power of two.
    mask: u32,
    slots: PhantomData<T>,
}

// SAFETY: the mapping belongs to the ring alone, and nothing in it is tied to a thread. Slots are plain numbers.
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
        // SAFETY: the kernel says that this word of the ring lies there, inside the mapping.
        let word = unsafe { self.base.byte_add(offset as usize) };
        // SAFETY: aligned, as the kernel lays rings out, and valid as long as `self`. Both sides use it as an atomic.
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
        // SAFETY: the whole mapping, which nobody can reach any more. An error would leave it mapped: a leak.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// A ring that we put into and the kernel takes from.
#[derive(Debug)]
pub(super) struct Producer<T: Slot> {
    ring: Ring<T>,
    /// Where we are; what is shared follows with [`Producer::submit`].
    next: u32,
    /// Where the kernel was when we last looked.
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

    /// What the kernel has not taken yet.
    #[inline]
    pub(super) fn waiting(&mut self) -> u32 {
        // Acquire: pairs with the kernel's release of the slots before this index: it has read them.
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    /// How much there is room for, at least. The kernel is asked only if it looks less than `wanted`.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let slots = self.ring.mask + 1;
        let room = slots - self.next.wrapping_sub(self.taken);
        if room >= wanted { room } else { slots - self.waiting() }
    }

    /// Puts something in, for which there is room. The kernel sees it after [`Producer::submit`].
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(super) fn put(&mut self, value: T) {
        assert!(self.room(1) > 0);
        // SAFETY: a slot of ours, since the kernel has taken what was there a round ago; it does not look before `submit`.
        unsafe { self.ring.slot(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Lets the kernel see what was put in.
    #[inline]
    pub(super) fn submit(&mut self) {
        // Release: pairs with the kernel's acquire of this index: the slots before it, and the frames they name, are written.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel has to be woken to look. To be asked after [`Producer::submit`].
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.ring.offsets.flags else {
            return true;
        };
        // The index is to be seen before the flag is looked at: a driver that finds nothing sets the flag and looks once more.
        // SeqCst fence: pairs with the barrier between that flag and that look.
        fence(Ordering::SeqCst);
        // Relaxed: after the fence; nothing is read by way of it.
        self.ring.word(flags).load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// A ring that the kernel puts into and we take from.
#[derive(Debug)]
pub(super) struct Consumer<T: Slot> {
    ring: Ring<T>,
    /// Where we are; what is shared follows with [`Consumer::release`].
    next: u32,
    /// Where the kernel was when we last looked.
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

    /// How much there is to take.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        // Acquire: pairs with the kernel's release of this index: the slots before it, and the frames they name, are written.
        self.filled = self.ring.producer().load(Ordering::Acquire);
        self.filled.wrapping_sub(self.next)
    }

    /// Takes something, if there was something when [`Consumer::available`] was asked.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        if self.next == self.filled {
            return None;
        }
        // SAFETY: the kernel has written this slot, and leaves it to us until `release`; any bits are a value.
        let value = unsafe { self.ring.slot(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(value)
    }

    /// Gives the slots back of which something was taken.
    #[inline]
    pub(super) fn release(&mut self) {
        // Release: pairs with the kernel's acquire of this index before it writes the slots again: they have been read.
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

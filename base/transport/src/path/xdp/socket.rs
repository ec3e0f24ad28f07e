//! AF_XDP sockets, and what the sockets of one queue share.
//!
//! Several sockets can be bound to one queue of an interface, one for each thread. They share their memory, and the
//! kernel makes them share the rings of frames too: the fill ring, which gives it frames for packets that arrive, and
//! the completion ring, which returns frames that were sent. These two are under a lock, which a thread takes once
//! for each burst; packets themselves use rings of each socket's own.

use super::error::XdpError;
use super::ring::{Consumer, Descriptor, Producer};
use super::umem::{FRAME_BYTES, Frame, Umem, offset_in_frame};
use guira_sync::lock::{Mutex, MutexGuard};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};
use std::sync::Arc;

const SEND_SLOTS: u32 = 1024;

/// Sizes of what the sockets of a queue share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    frames: u32,
    /// Packets of one socket that have arrived and have not been received.
    receive_slots: u32,
    /// Frames in the fill ring. Fewer than all, so that recently used frames are reused while they are in a cache;
    /// but more than all threads but one can hold: if none were left for a thread that is blocked, it would never be
    /// woken.
    fill: u32,
}

impl Sizes {
    /// For this many sockets at a queue. Half of the frames are never held by stalled threads.
    fn of(sockets: u32) -> Self {
        const FEWEST_SLOTS: u32 = 64;
        let rounded = sockets.next_power_of_two();
        let frames = if sockets <= 2 { 4096 } else { 8192.max(2 * FEWEST_SLOTS * rounded) };
        let receive_slots = (frames / 2 / rounded).min(1024);
        // As many as arrive in a millisecond at a million a second.
        let fill = 1024 + (sockets - 1) * receive_slots;
        Sizes { frames, receive_slots, fill: fill.min(frames) }
    }
}

/// The most wake-ups of the kernel for one burst. It takes 32 packets at a time unless it can be configured to take
/// more (Linux 6.17), and stops when one is lost.
const KICKS: usize = 8;
/// Rounds without packets before frames are recycled all the same. The kernel writes to the rings of frames while it
/// works, and reading them all the time slows it down.
pub(super) const IDLE_ROUNDS: usize = 64;
/// `XDP_MAX_TX_SKB_BUDGET`, which libc does not define yet.
const SEND_BUDGET: libc::c_int = 9;
/// The send buffer, in bytes: enough for all frames, with the kernel's overhead.
const SEND_BUFFER: usize = 16 << 20;

/// The rings of frames, and the spare frames.
#[derive(Debug)]
struct Pool {
    sizes: Sizes,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    /// The last used frame is taken first.
    spare: Vec<Frame>,
}

/// Whether the kernel has to be woken for new frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asleep {
    Yes,
    No,
}

impl Pool {
    /// Collects sent frames, and refills the kernel's frames.
    fn circulate(&mut self) -> Asleep {
        if self.completion.available() > 0 {
            while let Some(address) = self.completion.take() {
                // SAFETY: the kernel has sent the frame and returns it; all sockets of the queue use the same memory.
                self.spare.push(unsafe { Frame::from_kernel(address) });
            }
            self.completion.release();
        }
        let waiting = self.fill.waiting();
        let wanted = self.sizes.fill;
        let missing = (wanted.saturating_sub(waiting) as usize).min(self.spare.len());
        // A small refill is not worth the transfer of a cache line.
        if missing >= 16 || waiting < wanted / 2 && missing > 0 {
            for frame in self.spare.drain(self.spare.len() - missing..).rev() {
                self.fill.put(frame.into_address());
            }
            self.fill.submit();
            if self.fill.needs_wakeup() {
                return Asleep::Yes;
            }
        }
        Asleep::No
    }
}

/// What the sockets of one queue share.
#[derive(Debug)]
struct Queue {
    receive_slots: u32,
    umem: Umem,
    /// LOCK: frame pool. Leaf; a few loads and stores for each packet of a burst.
    pool: Mutex<Pool>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// Frames also pass between threads through the kernel, which ThreadSanitizer does not see, so its build takes
    /// the lock where a thread begins or ends to use a frame.
    fn show_order(&self) {
        if cfg!(guira_tsan) {
            drop(self.lock());
        }
    }
}

/// The queue that sockets are bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueBinding<'a> {
    pub(super) interface: &'a str,
    pub(super) index: u32,
    pub(super) queue: u32,
    pub(super) sockets: u32,
}

impl QueueBinding<'_> {
    fn sizes(&self) -> Sizes {
        Sizes::of(self.sockets)
    }

    /// Bytes of frames and rings, for all sockets of the queue.
    pub(super) fn bytes(&self) -> usize {
        let Sizes { frames, receive_slots, .. } = self.sizes();
        let slots = (self.sockets * (receive_slots + SEND_SLOTS)) as usize;
        frames as usize * (FRAME_BYTES + 2 * size_of::<u64>()) + slots * size_of::<Descriptor>()
    }
}

#[derive(Debug)]
pub(super) struct Socket {
    receive: Consumer<Descriptor>,
    send: Producer<Descriptor>,
    fd: Arc<OwnedFd>,
    queue: Arc<Queue>,
}

#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) frame: Frame,
    pub(super) at: usize,
    pub(super) length: usize,
}

impl Arrived {
    /// The packet; `None` if it is longer than the longest datagram.
    #[inline]
    pub(super) fn packet<'a>(&'a self, umem: &'a Umem) -> Option<&'a [u8]> {
        umem.lower(&self.frame).get(self.at..self.at + self.length)
    }
}

/// The result of a wake-up for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kick {
    /// The kernel has taken everything, or is about to.
    Done,
    /// The kernel has not taken everything; try again later.
    Busy,
    Gone(Errno),
}

fn open(receive_slots: u32) -> Result<OwnedFd, XdpError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let at = XdpError::at("open an AF_XDP socket");
    let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None).map_err(at)?;
    let at = XdpError::at("make rings of packets");
    sockopt::set_xdp_rx_ring_size(&fd, receive_slots).map_err(&at)?;
    sockopt::set_xdp_tx_ring_size(&fd, SEND_SLOTS).map_err(&at)?;
    // The system may grant less, and older kernels ignore the option: that only costs calls.
    let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
    let budget = SEND_SLOTS.to_ne_bytes();
    let _ = super::sys::set_option(&fd, libc::SOL_XDP, SEND_BUDGET, &budget);
    Ok(fd)
}

impl Socket {
    /// The first socket of a queue. It makes what the others share.
    pub(super) fn first(binding: &QueueBinding<'_>) -> Result<Self, XdpError> {
        let (sizes, frames) = (binding.sizes(), binding.sizes().frames);
        let fd = open(sizes.receive_slots)?;
        let at = XdpError::at("give memory to AF_XDP");
        let (umem, spare) = Umem::new(frames).map_err(&at)?;
        sockopt::set_xdp_umem_reg(&fd, umem.registration()).map_err(&at)?;
        let at = XdpError::at("make rings of frames");
        sockopt::set_xdp_umem_fill_ring_size(&fd, frames).map_err(&at)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, frames).map_err(&at)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd).map_err(&at)?;
        let page = XDP_UMEM_PGOFF_FILL_RING;
        let fill = Producer::map(fd.as_fd(), page, offsets.fr, frames).map_err(&at)?;
        let page = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Consumer::map(fd.as_fd(), page, offsets.cr, frames).map_err(&at)?;
        let queue = Queue {
            receive_slots: sizes.receive_slots,
            umem,
            pool: Mutex::new(Pool { sizes, fill, completion, spare }),
        };
        let socket = Self::with_rings(fd, Arc::new(queue))?;
        socket.queue.lock().circulate();
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, binding.index, binding.queue);
        bind(&socket.fd, &address).map_err(|errno| bind_error(binding.interface, errno))?;
        Ok(socket)
    }

    /// Another socket of the same queue.
    pub(super) fn beside(&self, binding: &QueueBinding<'_>) -> Result<Self, XdpError> {
        let fd = open(self.queue.receive_slots)?;
        let socket = Self::with_rings(fd, self.queue.clone())?;
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, binding.index, binding.queue);
        let address = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: self.fd.as_fd() };
        bind(&socket.fd, &address).map_err(|errno| bind_error(binding.interface, errno))?;
        Ok(socket)
    }

    fn with_rings(fd: OwnedFd, queue: Arc<Queue>) -> Result<Self, XdpError> {
        let at = XdpError::at("map rings of packets");
        let offsets = sockopt::xdp_mmap_offsets(&fd).map_err(&at)?;
        let receive =
            Consumer::map(fd.as_fd(), XDP_PGOFF_RX_RING, offsets.rx, queue.receive_slots).map_err(&at)?;
        let send = Producer::map(fd.as_fd(), XDP_PGOFF_TX_RING, offsets.tx, SEND_SLOTS).map_err(&at)?;
        Ok(Socket { receive, send, fd: Arc::new(fd), queue })
    }

    pub(super) fn umem(&self) -> &Umem {
        &self.queue.umem
    }

    #[inline]
    pub(super) fn has_arrived(&mut self) -> bool {
        self.receive.available() > 0
    }

    /// Passes the packets that have arrived to `take`, at most `most`, and returns their number.
    #[inline]
    pub(super) fn receive(&mut self, most: usize, mut take: impl FnMut(&Umem, Arrived)) -> usize {
        let count = most.min(self.receive.available() as usize);
        self.queue.show_order();
        for _ in 0..count {
            let Some(descriptor) = self.receive.take() else {
                break;
            };
            let (at, length) = (offset_in_frame(descriptor.address), descriptor.length as usize);
            // SAFETY: the kernel passes the frame with the packet; it was given only frames of this memory.
            let frame = unsafe { Frame::from_kernel(descriptor.address) };
            take(&self.queue.umem, Arrived { frame, at, length });
        }
        if count > 0 {
            self.receive.release();
        }
        count
    }

    /// Returns frames, and keeps those of the whole queue circulating. If there is nothing to return and another
    /// thread does that at the moment, it is left to that thread.
    pub(super) fn recycle(&self, frames: &mut Vec<Frame>) {
        let mut pool = match self.queue.pool.try_lock() {
            Some(pool) => pool,
            None if frames.is_empty() => return,
            None => self.queue.lock(),
        };
        pool.spare.append(frames);
        let asleep = pool.circulate();
        drop(pool);
        if asleep == Asleep::Yes {
            // Only drivers with zero copy need this. There is nothing to receive this way.
            let _ = recv(&self.fd, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
    }

    /// Returns the frames of packets that will not be received any more, and these.
    pub(super) fn abandon(&mut self, frames: &mut Vec<Frame>) {
        self.receive(usize::MAX, |_, arrived| frames.push(arrived.frame));
        self.recycle(frames);
    }

    /// Takes frames to send from, at most `most`.
    pub(super) fn take_frames(&self, most: usize, into: &mut Vec<Frame>) {
        let mut pool = self.queue.lock();
        pool.circulate();
        let from = pool.spare.len().saturating_sub(most);
        into.extend(pool.spare.drain(from..));
    }

    /// The number of free send slots, up to `wanted`.
    #[inline]
    pub(super) fn free_slots(&mut self, wanted: usize) -> usize {
        (self.send.free_slots(wanted as u32) as usize).min(wanted)
    }

    /// Queues a packet for sending: `length` bytes of the upper half from `at` on. A send slot must be free.
    ///
    /// # Panics
    /// If no send slot is free.
    #[inline]
    pub(super) fn post(&mut self, frame: Frame, at: usize, length: usize) {
        self.send.put(Descriptor {
            address: frame.into_upper_address(at),
            length: length as u32,
            options: 0,
        });
    }

    /// Wakes the kernel to send what was queued: with one call, if it takes everything at once.
    pub(super) fn kick(&mut self) -> Kick {
        self.queue.show_order();
        self.send.submit();
        let mut waiting = self.send.waiting();
        for _ in 0..KICKS {
            if waiting == 0 || !self.send.needs_wakeup() {
                return Kick::Done;
            }
            match send(&self.fd, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                // An interface that is down may come up again; queued packets wait for that.
                Err(Errno::NETDOWN) => return Kick::Done,
                Err(errno) => return Kick::Gone(errno),
            }
            let before = std::mem::replace(&mut waiting, self.send.waiting());
            if waiting == before {
                break;
            }
        }
        if waiting == 0 { Kick::Done } else { Kick::Busy }
    }

    /// Whether the kernel will notify us of packets. If not, there is work to do at once.
    pub(super) fn may_sleep(&mut self) -> bool {
        let kick = self.kick();
        let mut pool = self.queue.lock();
        // Without frames no packet can arrive, and so there would be no notification.
        let starved = pool.circulate() == Asleep::Yes || pool.fill.waiting() == 0;
        drop(pool);
        kick == Kick::Done && !starved && !self.has_arrived()
    }

    /// An asynchronous error of the socket, such as that the interface was removed.
    pub(super) fn error(&self) -> Option<Errno> {
        sockopt::socket_error(&self.fd).map_or_else(Some, Result::err)
    }

    /// The descriptor, for [`lost`].
    pub(super) fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.fd
    }
}

/// The number of packets that the kernel dropped: there was no frame, or the ring was full.
pub(super) fn lost(socket: &OwnedFd) -> u64 {
    sockopt::xdp_statistics(socket)
        .map_or(0, |statistics| statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0))
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn bind_error(interface: &str, errno: Errno) -> XdpError {
    match errno {
        Errno::BUSY => XdpError::Occupied { interface: interface.to_owned(), source: errno.into() },
        Errno::NODEV => XdpError::NoInterface { interface: interface.to_owned(), source: errno.into() },
        errno => XdpError::at("bind an AF_XDP socket to the interface")(errno),
    }
}

#[cfg(test)]
impl Socket {
    /// For tests: spare frames of the queue, and all frames but those in flight.
    pub(super) fn count_frames(&self) -> (usize, usize) {
        let mut pool = self.queue.lock();
        let spare = pool.spare.len();
        let total = spare + pool.fill.waiting() as usize + pool.completion.available() as usize;
        (spare, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_do_not_look_leave_half_of_the_frames_to_others() {
        assert_eq!(Sizes::of(1), Sizes { frames: 4096, receive_slots: 1024, fill: 1024 });
        for sockets in 1..=300 {
            let sizes = Sizes::of(sockets);
            assert!(sizes.receive_slots.is_power_of_two() && sizes.frames.is_power_of_two());
            assert!(sizes.receive_slots * sockets <= sizes.frames / 2, "{sockets}: {sizes:?}");
            assert!(sizes.receive_slots * (sockets - 1) < sizes.fill, "{sockets}: {sizes:?}");
        }
    }
}

//! Datagrams of kernel sockets, many with one call and many in one packet.
//!
//! With UDP_GRO the kernel delivers datagrams of one sender that arrived together as one message, and with
//! UDP_SEGMENT it accepts several of one length as one: they pass its network stack once.

use super::losses::Unreadable;
use super::{BURST_MAX, PAYLOAD_MAX, Sent};
use crate::datagram::{NO_PEER, Peer, none_if_blocked};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

const MESSAGES: usize = 32;
/// The longest message: many datagrams, or one that is too long.
const MESSAGE_MAX: usize = 64 << 10;
/// The most datagrams in a message, by the kernel's limits: their number …
const SEGMENTS_MAX: usize = 64;
/// … and their bytes.
const SEGMENTED_MAX: usize = 65_000;

/// A buffer for the only control message: a header and a number, aligned.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Control([u8; 24]);

impl Control {
    const EMPTY: Control = Control([0; 24]);
    const NUMBER: usize = size_of::<libc::cmsghdr>();
    /// Bytes of a control message with a number of two bytes.
    const LENGTH: usize = Self::NUMBER + 2;

    /// Tells the kernel to send a message as datagrams of this many bytes.
    fn segment(length: usize) -> Self {
        let mut control = Control::EMPTY;
        let bytes = &mut control.0;
        bytes[..8].copy_from_slice(&Self::LENGTH.to_ne_bytes());
        bytes[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        bytes[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        bytes[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        control
    }

    /// The length of the datagrams of which the message consists, if there are several.
    fn segment_length(&self, length: usize) -> Option<usize> {
        let bytes = &self.0;
        let number = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let is_it = length > Self::NUMBER && number(8) == libc::SOL_UDP && number(12) == libc::UDP_GRO;
        is_it.then(|| number(16) as usize).filter(|length| *length > 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    at: u32,
    length: u16,
    message: u8,
}

/// Received datagrams that have not been returned yet.
#[derive(Debug)]
pub(super) struct Intake {
    bytes: Box<[u8]>,
    senders: [Peer; MESSAGES],
    /// For each message the first of a run from the same sender.
    first_of: [u8; MESSAGES],
    segments: Vec<Segment>,
    /// The first datagram of the burst.
    from: usize,
    burst: usize,
    unreadable: Unreadable,
}

impl Default for Intake {
    fn default() -> Self {
        Intake {
            bytes: vec![0; MESSAGES * MESSAGE_MAX].into_boxed_slice(),
            senders: [NO_PEER; MESSAGES],
            first_of: [0; MESSAGES],
            segments: Vec::with_capacity(MESSAGES * SEGMENTS_MAX),
            from: 0,
            burst: 0,
            unreadable: Unreadable::default(),
        }
    }
}

impl Intake {
    /// Starts the next burst, and returns the number of its datagrams.
    pub(super) fn advance(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.from += self.burst;
        if self.is_used_up() {
            self.burst = 0;
            self.refill(socket)?;
        }
        self.burst = (self.segments.len() - self.from).min(BURST_MAX);
        Ok(self.burst)
    }

    /// Whether no datagrams are left after the burst.
    pub(super) fn is_last(&self) -> bool {
        self.from + self.burst == self.segments.len()
    }

    /// The number of datagrams that were too long.
    pub(super) fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    fn is_used_up(&self) -> bool {
        self.from == self.segments.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let segment = self.segment(index);
        &self.bytes[segment.at as usize..][..usize::from(segment.length)]
    }

    fn sender(&self, index: usize) -> usize {
        usize::from(self.segment(index).message)
    }

    #[inline(always)]
    fn segment(&self, index: usize) -> Segment {
        assert!(index < self.burst, "a datagram of the burst");
        self.segments[self.from + index]
    }

    fn refill(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.segments.clear();
        self.from = 0;
        let mut pieces: [libc::iovec; MESSAGES] = std::array::from_fn(|index| libc::iovec {
            iov_base: self.bytes[index * MESSAGE_MAX..].as_mut_ptr().cast(),
            iov_len: MESSAGE_MAX,
        });
        let mut controls = [Control::EMPTY; MESSAGES];
        // SAFETY: zeroes are a header without name, pieces and control data.
        let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
        let slots = headers.iter_mut().zip(&mut pieces).zip(&mut self.senders).zip(&mut controls);
        for (((header, piece), sender), control) in slots {
            let header = &mut header.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (piece, 1);
            header.msg_name = (&raw mut sender.address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len();
        }
        // SAFETY: each header names one piece of `bytes`, no two the same, the address of one entry of `senders` and one of `controls`; all
        // of them outlive the call, and nothing else refers to them meanwhile.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                MESSAGES as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        for index in 0..none_if_blocked(result)? {
            let header = &headers[index].msg_hdr;
            self.senders[index].length = header.msg_namelen;
            let follows = index > 0 && self.senders[index].is(&self.senders[index - 1]);
            self.first_of[index] = if follows { self.first_of[index - 1] } else { index as u8 };
            let length = (headers[index].msg_len as usize).min(MESSAGE_MAX);
            let each = controls[index].segment_length(header.msg_controllen).unwrap_or(length);
            self.cut(index, length, each);
        }
        Ok(())
    }

    fn cut(&mut self, message: usize, length: usize, each: usize) {
        let mut at = 0;
        while at < length {
            let part = each.min(length - at);
            if part <= PAYLOAD_MAX {
                let from = (message * MESSAGE_MAX + at) as u32;
                self.segments.push(Segment { at: from, length: part as u16, message: message as u8 });
            } else {
                self.unreadable.note();
            }
            at += part;
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound<'p> {
    /// The receiver; `None` for the socket's peer. Equal receivers have equal numbers.
    pub(super) peer: Option<(usize, &'p Peer)>,
    pub(super) bytes: &'p [u8],
}

impl<'p> Outbound<'p> {
    /// The answer to a datagram of a burst.
    pub(super) fn answer(intake: &'p Intake, index: usize, bytes: &'p [u8]) -> Self {
        let sender = usize::from(intake.first_of[intake.sender(index)]);
        Outbound { peer: Some((sender, &intake.senders[sender])), bytes }
    }

    /// Whether it may follow another datagram of `length` bytes in one message.
    fn joins(&self, other: &Self) -> bool {
        let same = match (self.peer, other.peer) {
            (Some((one, _)), Some((other, _))) => one == other,
            (one, other) => one.is_none() && other.is_none(),
        };
        same && self.bytes.len() <= other.bytes.len()
    }
}

/// Whether several datagrams may be sent as one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segmentation {
    On,
    Off,
}

/// The end of the message that begins with datagram `from`: the most datagrams that may go together. All have the
/// same length, except the last, which may be shorter.
fn message_end(datagrams: &[Outbound<'_>], from: usize, segmentation: Segmentation) -> usize {
    if segmentation == Segmentation::Off {
        return from + 1;
    }
    let first = datagrams[from];
    let length = first.bytes.len();
    let most = (SEGMENTED_MAX / length.max(1)).clamp(1, SEGMENTS_MAX);
    let mut end = from + 1;
    while end < datagrams.len() && end - from < most && datagrams[end].joins(&first) && length > 0 {
        end += 1;
        if datagrams[end - 1].bytes.len() < length {
            break;
        }
    }
    end
}

/// Sends datagrams, at most [`BURST_MAX`], in any order, and returns those sent. Datagrams that the system does not
/// accept are lost.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    datagrams: &mut [Outbound<'_>],
    segmentation: &mut Segmentation,
) -> Sent {
    // Only datagrams of one length go together. They may be reordered, as by any network.
    let kind = |datagram: &Outbound<'_>| (datagram.peer.map(|(number, _)| number), datagram.bytes.len());
    if *segmentation == Segmentation::On && !datagrams.is_sorted_by_key(kind) {
        datagrams.sort_by_key(kind);
    }
    let datagrams = &*datagrams;
    let mut sent = Sent::default();
    let mut from = 0;
    while from < datagrams.len() {
        match send_from(socket, &datagrams[from..], *segmentation) {
            Ok(0) => break,
            Ok(count) => {
                sent.datagrams += count;
                sent.bytes += datagrams[from..from + count].iter().map(|it| it.bytes.len()).sum::<usize>();
                from += count;
            }
            Err(error) => {
                let end = message_end(datagrams, from, *segmentation);
                let alone = &datagrams[from..=from];
                // A device without segmentation offload: datagrams are sent one by one from now on. Other errors
                // concern this receiver, or a datagram sent before: that receiver is gone.
                if end > from + 1 && is_unable(&error) && send_from(socket, alone, Segmentation::Off).is_ok()
                {
                    *segmentation = Segmentation::Off;
                    sent.datagrams += 1;
                    sent.bytes += alone[0].bytes.len();
                    from += 1;
                } else {
                    from = end;
                }
            }
        }
    }
    sent
}

fn is_unable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::ENOPROTOOPT | libc::EOPNOTSUPP))
}

/// Sends as many as one call accepts, and returns their number.
fn send_from(
    socket: BorrowedFd<'_>,
    datagrams: &[Outbound<'_>],
    segmentation: Segmentation,
) -> io::Result<usize> {
    // SAFETY: zeroes are a piece of nothing.
    let mut pieces: [libc::iovec; BURST_MAX] = unsafe { std::mem::zeroed() };
    // SAFETY: zeroes are a header without name, pieces and control data.
    let mut headers: [libc::mmsghdr; BURST_MAX] = unsafe { std::mem::zeroed() };
    let mut controls = [Control::EMPTY; BURST_MAX];
    let mut ends = [0; BURST_MAX];
    for (piece, datagram) in pieces.iter_mut().zip(datagrams) {
        piece.iov_base = datagram.bytes.as_ptr().cast_mut().cast();
        piece.iov_len = datagram.bytes.len();
    }
    let (mut count, mut from) = (0, 0);
    while from < datagrams.len().min(BURST_MAX) {
        let end = message_end(&datagrams[..datagrams.len().min(BURST_MAX)], from, segmentation);
        let header = &mut headers[count].msg_hdr;
        header.msg_iov = pieces[from..].as_mut_ptr();
        header.msg_iovlen = end - from;
        if let Some((_, peer)) = datagrams[from].peer {
            header.msg_name = (&raw const peer.address).cast_mut().cast();
            header.msg_namelen = peer.length;
        }
        if end - from > 1 {
            controls[count] = Control::segment(datagrams[from].bytes.len());
            header.msg_control = controls[count].0.as_mut_ptr().cast();
            header.msg_controllen = controls[count].0.len();
        }
        ends[count] = end;
        count += 1;
        from = end;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: each of the first `count` headers names pieces of `datagrams`, an address of theirs and an entry of `controls`, which outlive
    // the call and are only read.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, flags) };
    let messages = none_if_blocked(result)?;
    Ok(if messages == 0 { 0 } else { ends[messages - 1] })
}

/// Enables UDP_GRO, by which the kernel delivers datagrams that arrived together as one message.
pub(super) fn receive_segmented(socket: BorrowedFd<'_>) {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is a number that outlives the call. A failure does no harm.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

//! The handshake by which a client gets its rings.

use super::lane::{Consumer, Producer, RingArea, ring_words};
use super::shared::Shared;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Words for requests in flight, and for answers, of each thread.
const REQUESTS: usize = 8 << 10;
const ANSWERS: usize = 16 << 10;
const PAIR: usize = ring_words(REQUESTS) + ring_words(ANSWERS);

/// Bytes of a client's rings, to this many threads.
pub fn client_rings_bytes(cores: usize) -> usize {
    cores * PAIR * guira_sync::words::WORD
}

/// Length of the server's first message: its magic number, and the number of threads.
const HELLO: usize = 8;
const MAGIC: [u8; 4] = *b"GmR1";

/// The most threads for rings: the most descriptors in one message, less a few.
pub(super) const CORES_MAX: usize = 250;
/// Space for the descriptors of one message.
const ANCILLARY: usize = rustix::cmsg_space!(ScmRights(252));

/// What a client receives: memory, and a bell to each thread.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) memory: Arc<Shared>,
    pub(super) bells: Vec<OwnedFd>,
}

/// The requests' ring of a thread, and its answers' ring.
fn ring_areas(memory: &Arc<Shared>, core: usize) -> (RingArea, RingArea) {
    let requests = RingArea { memory: memory.clone(), from: core * PAIR, capacity: REQUESTS };
    let from = core * PAIR + ring_words(REQUESTS);
    (requests, RingArea { memory: memory.clone(), from, capacity: ANSWERS })
}

/// The server's ends of a thread's rings.
pub(super) fn server_ends(memory: &Arc<Shared>, core: usize) -> (Consumer, Producer) {
    let (requests, answers) = ring_areas(memory, core);
    (Consumer::new(requests), Producer::new(answers))
}

/// The client's ends of a thread's rings.
pub(super) fn client_ends(memory: &Arc<Shared>, core: usize) -> (Producer, Consumer) {
    let (requests, answers) = ring_areas(memory, core);
    (Producer::new(requests), Consumer::new(answers))
}

/// New memory for a client of a server with this many threads.
pub(super) fn new_memory(cores: usize) -> io::Result<(Arc<Shared>, OwnedFd)> {
    let (memory, file) = Shared::create(cores * PAIR)?;
    Ok((Arc::new(memory), file))
}

/// Sends a client the memory, and its ends of the bells.
pub(super) fn send_rings(link: impl AsFd, memory: &OwnedFd, bells: &[OwnedFd]) -> io::Result<()> {
    let mut hello = [0; HELLO];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4..].copy_from_slice(&(bells.len() as u32).to_le_bytes());
    let files: Vec<BorrowedFd<'_>> = std::iter::once(memory).chain(bells).map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(link, &[IoSlice::new(&hello)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == HELLO { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

pub(super) fn refuse(link: impl AsFd) {
    let mut hello = [0; HELLO];
    hello[..4].copy_from_slice(&MAGIC);
    let mut ancillary = SendAncillaryBuffer::default();
    // If the message is lost, the client sees that the connection is closed.
    let _ = sendmsg(link, &[IoSlice::new(&hello)], &mut ancillary, SendFlags::NOSIGNAL);
}

pub(super) fn receive_rings(link: impl AsFd) -> io::Result<Rings> {
    let mut hello = [0; HELLO];
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        link,
        &mut [IoSliceMut::new(&mut hello)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    if received.bytes != HELLO || hello[..4] != MAGIC {
        return Err(io::Error::other("no server with shared-memory rings listens at this path"));
    }
    let cores = u32::from_le_bytes([hello[4], hello[5], hello[6], hello[7]]) as usize;
    if cores == 0 {
        return Err(io::Error::other("the server accepts no more clients"));
    }
    if files.len() != cores + 1 {
        return Err(io::Error::other("the server sent the wrong number of descriptors"));
    }
    let bells = files.split_off(1);
    let Some(file) = files.pop() else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let memory = Arc::new(Shared::open(&file, cores * PAIR)?);
    Ok(Rings { memory, bells })
}

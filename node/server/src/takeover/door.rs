//! The socket at which a successor requests a takeover from a running server.

use super::channel::{Channel, Wait};
use super::handed::Sockets;
use super::message::{Hello, Kind, expect, refused, tag};
use super::{Successor, TakeoverError};
use guira_contract::Preview;
use guira_serving::FieldWriter;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_transport::{Interest, Mailbox, Stream, wait_for};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The timeout of a greeting: a server talks to one visitor at a time.
const HELLO_MAX: Duration = Duration::from_secs(2);
/// The longest greeting, in bytes.
const HELLO_BYTES: usize = 4 << 10;
/// The longest time in which a successor checks whether it can serve.
const READY_MAX: Duration = Duration::from_secs(30);

/// The region that a server would hand over.
#[derive(Debug)]
pub(crate) struct OfferedRegion {
    pub(crate) path: String,
    /// Device and inode of its file.
    pub(crate) identity: (u64, u64),
    pub(crate) preview: Preview,
}

/// Waits for successors of a running server.
#[derive(Debug)]
pub struct Door {
    pub(crate) sockets: Sockets,
    region: Option<OfferedRegion>,
    bell: Mailbox<()>,
    is_closed: AtomicBool,
}

impl Door {
    /// # Errors
    /// If the system has no descriptors.
    pub(crate) fn new(sockets: Sockets, region: Option<OfferedRegion>) -> io::Result<Self> {
        Ok(Door { sockets, region, bell: Mailbox::new()?, is_closed: AtomicBool::new(false) })
    }

    /// Waits until a process is ready to take over; `None` once the door is closed. Other visitors,
    /// and processes that cannot take over, are refused, and the log has the reason.
    pub fn wait(&self) -> Option<Successor> {
        let listener = self.sockets.takeover.as_ref()?;
        loop {
            let sources = [(listener.as_fd(), Interest::Read), (self.bell.as_fd(), Interest::Read)];
            if let Err(error) = wait_for(&sources, None) {
                // Operator: Upgrade by a restart, and check the folder of the takeover socket.
                tracing::error!(%error, "stopped waiting for a server that takes over");
                return None;
            }
            if self.is_closed.load(Ordering::SeqCst) {
                return None;
            }
            match listener.accept() {
                Ok(Some((Stream::Unix(stream), _))) => match Channel::new(stream) {
                    Ok(channel) => match self.meet(channel) {
                        Ok(successor) => return Some(successor),
                        // Operator: The message has the reason; correct it and start the new server
                        // again.
                        Err(error) => tracing::warn!("a takeover failed; this server keeps serving: {error}"),
                    },
                    // Operator: The message has the reason; correct it and start the new server again.
                    Err(error) => tracing::warn!("a takeover failed; this server keeps serving: {error}"),
                },
                Ok(_) => {}
                Err(error) => {
                    // Operator: Check the limit of open files; then start the new server again.
                    tracing::warn!(%error, "takeover socket: accept failed");
                    guira_sync::thread::sleep(HELLO_MAX);
                }
            }
        }
    }

    /// Makes [`Door::wait`] return.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    fn meet(&self, mut channel: Channel) -> Result<Successor, TakeoverError> {
        match self.talk(&mut channel) {
            Ok(build) => Ok(Successor::new(channel, build)),
            Err(error) => {
                // The process may have exited.
                let _ = channel.send(Kind::Refused, &mut refused(&error.to_string()), &[]);
                Err(error)
            }
        }
    }

    /// Talks to the successor until it is ready. Returns its description.
    fn talk(&self, channel: &mut Channel) -> Result<String, TakeoverError> {
        if !channel.peer.can_be_ended() {
            return Err(TakeoverError::OutOfReach);
        }
        let unless = Some(&self.is_closed);
        let hello = channel.receive(Wait { most: HELLO_MAX, unless, bytes: HELLO_BYTES })?;
        let hello = Hello::read(expect(hello, Kind::Hello)?.fields())?;
        let version = hello.common()?;
        self.sockets.send(channel)?;
        let mut offer = FieldWriter::default();
        offer.put_number(tag::VERSION, version).put(tag::BUILD, crate::VERSION.as_bytes());
        if let Some(region) = &self.region {
            let (device, inode) = region.identity;
            offer.put(tag::REGION, region.path.as_bytes());
            offer.put_number(tag::DEVICE, device).put_number(tag::INODE, inode);
            offer.put(tag::STATE, &region.preview.state);
            offer.put_number(tag::BYTES, region.preview.bytes as u64);
        }
        channel.send(Kind::Offer, &mut offer, &[])?;
        let ready = channel.receive(Wait { most: READY_MAX, unless, bytes: HELLO_BYTES })?;
        expect(ready, Kind::Ready)?;
        Ok(hello.build)
    }
}

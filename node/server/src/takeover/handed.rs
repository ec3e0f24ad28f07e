//! The sockets that a server keeps copies of, so that a successor can have them, or itself if the successor fails.

use super::TakeoverError;
use super::channel::{Channel, Message};
use super::message::{Kind, tag};
use guira_serving::{Arrival, FieldWriter, Fields};
use guira_transport::net::{UdpSocket, is_listening};
use guira_transport::{FDS_AT_ONCE, Listener};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Stream = 1,
    Datagrams = 2,
    Takeover = 3,
}

/// Sockets that were not opened by this server, nor by the one before, but by a service manager: they are served whatever the options
/// say.
const BY_MANAGER: u64 = 1;

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) streams: Vec<Listener>,
    pub(crate) managed_streams: Vec<Listener>,
    pub(crate) datagrams: Vec<UdpSocket>,
    pub(crate) managed_datagrams: Vec<UdpSocket>,
    pub(crate) takeover: Option<Listener>,
    /// Addresses of listeners whose files are removed with them, once this server serves.
    files: Vec<OwnedFd>,
}

/// A connection on its way in.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A connection of this process that comes back.
    Back(Arrival),
    /// A socket, with the state that the other server has written for it.
    Written(OwnedFd, Vec<u8>),
}

impl Sockets {
    fn all(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Role, u64, bool)> {
        let streams = self.streams.iter().map(|it| (it.as_fd(), Role::Stream, 0, it.owns_file()));
        let managed = self.managed_streams.iter().map(|it| (it.as_fd(), Role::Stream, BY_MANAGER, false));
        let datagrams = self.datagrams.iter().map(|it| (it.as_fd(), Role::Datagrams, 0, false));
        let managed_datagrams =
            self.managed_datagrams.iter().map(|it| (it.as_fd(), Role::Datagrams, BY_MANAGER, false));
        let takeover = self.takeover.iter().map(|it| (it.as_fd(), Role::Takeover, 0, true));
        streams.chain(managed).chain(datagrams).chain(managed_datagrams).chain(takeover)
    }

    /// Sends copies of all connections.
    ///
    /// # Errors
    /// The errors of the channel.
    pub(super) fn send(&self, channel: &mut Channel) -> Result<(), TakeoverError> {
        let all: Vec<_> = self.all().collect();
        for part in all.chunks(FDS_AT_ONCE) {
            let mut fields = FieldWriter::default();
            for (_, role, origin, owns_file) in part {
                let mut each = FieldWriter::default();
                each.put_number(tag::ROLE, *role as u64).put_number(tag::ORIGIN, *origin);
                each.put_number(tag::FILE, u64::from(*owns_file));
                fields.put(tag::EACH, &each.finish());
            }
            let fds: Vec<_> = part.iter().map(|(fd, ..)| *fd).collect();
            channel.send(Kind::Sockets, &mut fields, &fds)?;
        }
        Ok(())
    }

    /// Adds the connections of a message.
    ///
    /// # Errors
    /// If their number differs from the one in the message.
    pub(super) fn receive(&mut self, message: Message) -> Result<(), TakeoverError> {
        let each = message.fields().filter(|field| !matches!(field, Ok(field) if field.tag != tag::EACH));
        let each = each.collect::<Result<Vec<_>, _>>()?;
        if each.len() != message.fds.len() {
            return Err(TakeoverError::Unknown("sockets are missing"));
        }
        let described: Vec<Vec<u8>> = each.iter().map(|field| field.bytes.to_vec()).collect();
        for (fd, described) in message.fds.into_iter().zip(described) {
            self.add(fd, Fields::of(&described))?;
        }
        Ok(())
    }

    fn add(&mut self, fd: OwnedFd, described: Fields<'_>) -> Result<(), TakeoverError> {
        let (mut role, mut origin, mut owns_file) = (0, 0, false);
        for field in described {
            let field = field?;
            match field.tag {
                tag::ROLE => role = field.number()?,
                tag::ORIGIN => origin = field.number()?,
                tag::FILE => owns_file = field.number()? > 0,
                _ => {}
            }
        }
        let is_managed = origin == BY_MANAGER;
        if owns_file {
            self.files.push(fd.try_clone()?);
        }
        match role {
            // The predecessor has given it up: this server listens there again.
            role if role == Role::Stream as u64 && !is_listening(&fd)? => {
                // Operator: Nothing: the previous server had stopped listening there.
                tracing::warn!(
                    "skipped a socket of the previous server because the socket no longer listens"
                );
            }
            role if role == Role::Stream as u64 => {
                let listeners = if is_managed { &mut self.managed_streams } else { &mut self.streams };
                listeners.push(Listener::adopt(fd)?);
            }
            role if role == Role::Datagrams as u64 => {
                let sockets = if is_managed { &mut self.managed_datagrams } else { &mut self.datagrams };
                sockets.push(UdpSocket::from(fd));
            }
            role if role == Role::Takeover as u64 => self.takeover = Some(Listener::adopt(fd)?),
            // Something of a later version, which it does without.
            _ => {}
        }
        Ok(())
    }

    /// The predecessor lets go: the files of sockets are this server's from now on. Those that it does not serve are removed.
    pub(crate) fn own_files(&mut self) {
        let mut files: Vec<Listener> =
            self.files.drain(..).filter_map(|fd| Listener::adopt(fd).ok()).collect();
        for listener in self.streams.iter_mut().chain(&mut self.takeover) {
            let before = files.len();
            files.retain(|file| file.address() != listener.address());
            if files.len() < before {
                listener.own();
            }
        }
        files.iter_mut().for_each(Listener::own);
    }

    /// The successor has them: their files are left to it.
    pub(crate) fn disown_files(&mut self) {
        self.streams.iter_mut().chain(&mut self.takeover).for_each(Listener::disown);
    }

    /// Hands over the ownership of the sockets that a server was opened with.
    pub(crate) fn with_files_of(&mut self, other: &mut Sockets) {
        self.files.append(&mut other.files);
    }
}

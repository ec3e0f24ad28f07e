//! The server that is taken over from, as its successor sees it.

use super::channel::{Channel, Message, Wait};
use super::door::OfferedRegion;
use super::handed::{Incoming, Sockets};
use super::message::{Hello, Kind, expect, refused, tag};
use super::{HandedTime, TakeoverError};
use crate::options::Options;
use crate::parts::Parts;
use guira_contract::Preview;
use guira_disk::MetadataExt;
use guira_memory::lasting::{HandedRegion, HandedState};
use guira_roster::Setup;
use guira_serving::FieldWriter;
use guira_sync::atomic::AtomicU64;
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_transport::Inherited;
use guira_transport::net::UnixStream;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a predecessor may take to answer: it may be busy with another successor, from which this one then takes over.
const OFFER_MAX: Duration = Duration::from_secs(60);
/// How long it may take to let go.
const GIVE_MAX: Duration = Duration::from_secs(30);
/// How long it may take to agree.
const COMMIT_MAX: Duration = Duration::from_secs(30);
/// How long a process that has closed its link may take to die.
const DEATH_MAX: Duration = Duration::from_secs(5);

/// A running server that a new one is to take over from.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
    pub(crate) sockets: Sockets,
    region: Option<OfferedRegion>,
    build: String,
}

/// The inheritance of a server in addition to its sockets.
#[derive(Debug, Default)]
pub(crate) struct Bringing {
    pub(crate) incoming: Vec<Incoming>,
    pub(crate) region: Option<Arc<HandedRegion>>,
    /// The time of the predecessor, or of this server before; `None` is the wall clock.
    pub(crate) time: Option<HandedTime>,
    /// The background tasks of a server that resumes, which may still hold sessions of the engine.
    pub(crate) background_tasks: Arc<AtomicU64>,
    /// The channel to the predecessor, as long as it may resume instead.
    link: Option<Channel>,
    since: Option<Stopwatch>,
}

/// Device and inode of a file, if there is one.
pub(crate) fn region_identity(path: &Path) -> Option<(u64, u64)> {
    guira_disk::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Predecessor {
    /// Connects to the server that listens at `path`; `None` if there is none.
    ///
    /// # Errors
    /// If another kind of process listens there, or the server refuses.
    pub fn find(path: &Path) -> Result<Option<Self>, TakeoverError> {
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(source) => return Err(TakeoverError::Socket { path: path.to_owned(), source }),
        };
        let mut channel = Channel::new(stream)?;
        channel.send(Kind::Hello, &mut Hello::ours().write(), &[])?;
        let mut sockets = Sockets::default();
        loop {
            let message = channel.receive(Wait::most(OFFER_MAX))?;
            match message.kind {
                Kind::Sockets => sockets.receive(message)?,
                Kind::Offer => {
                    let (region, build) = read_offer(&message)?;
                    return Ok(Some(Predecessor { channel, sockets, region, build }));
                }
                _ => return Err(TakeoverError::Unknown("unexpected message")),
            }
        }
    }

    /// The sockets that a service manager has opened: they go from server to server.
    pub fn take_inherited(&mut self) -> Vec<Inherited> {
        let streams = std::mem::take(&mut self.sockets.managed_streams).into_iter().map(Inherited::Stream);
        let datagrams = std::mem::take(&mut self.sockets.managed_datagrams);
        streams.chain(datagrams.into_iter().map(Inherited::Datagram)).collect()
    }

    /// Whether a server with these options would continue with the items.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_region(&self, options: &Options, setup: &Setup) -> Result<(), TakeoverError> {
        let Some(theirs) = &self.region else {
            // Operator: Set `region` in both servers to keep items across a takeover.
            tracing::warn!("the running server has no region; its items are lost");
            return Ok(());
        };
        let ours = options.region.as_ref();
        if ours.and_then(|place| region_identity(place.path())) != Some(theirs.identity) {
            let ours = ours.map_or("has no region".to_owned(), |place| format!("in {place}"));
            return Err(TakeoverError::OtherRegion { theirs: theirs.path.clone(), ours });
        }
        let accepted = options.choice().map(|choice| choice.accepts(setup, &theirs.preview, wall_clock()));
        let why = match accepted {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why.to_string(),
            Err(error) => error.to_string(),
        };
        Err(TakeoverError::WouldEmpty(why))
    }

    /// Reports to the predecessor why this process does not take over.
    pub(crate) fn refuse(&mut self, why: &dyn std::error::Error) {
        // It may have exited.
        let _ = self.channel.send(Kind::Refused, &mut refused(&why.to_string()), &[]);
    }

    /// This server can serve: the predecessor lets go.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn let_go(self) -> Result<Bringing, TakeoverError> {
        let Predecessor { mut channel, build, .. } = self;
        tracing::info!(pid = channel.peer.pid(), build, "taking over from the running server");
        channel.send(Kind::Ready, &mut FieldWriter::default(), &[])?;
        let mut incoming = Vec::new();
        loop {
            let message = channel.receive(Wait::most(GIVE_MAX))?;
            match message.kind {
                Kind::Connections => receive_connections(message, &mut incoming)?,
                Kind::Region => {
                    let (region, time) = read_region(message)?;
                    let since = Some(Stopwatch::start());
                    return Ok(Bringing {
                        incoming,
                        region: region.map(Arc::new),
                        time,
                        link: Some(channel),
                        since,
                        ..Bringing::default()
                    });
                }
                _ => return Err(TakeoverError::Unknown("unexpected message")),
            }
        }
    }
}

impl Bringing {
    /// The inheritance of a server that resumes after a failed successor.
    pub(crate) fn back(incoming: Vec<Incoming>, region: Option<Arc<HandedRegion>>, parts: &Parts) -> Self {
        let time = Some(HandedTime::of(&parts.clock));
        let background_tasks = parts.background.count().clone();
        Bringing { incoming, region, time, background_tasks, ..Bringing::default() }
    }

    /// How long the clients of a predecessor have waited for this server, in microseconds.
    pub(crate) fn waited_us(&self) -> u64 {
        self.since.as_ref().map_or(0, |since| since.elapsed().as_micros() as u64)
    }

    /// Whether a predecessor may still continue instead of this server.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.link.is_some()
    }

    /// Requests the commit from the predecessor, if there is one, once everything is open.
    ///
    /// # Errors
    /// If the predecessor does not commit.
    pub(crate) fn commit(&mut self) -> Result<(), TakeoverError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let sent = link.send(Kind::Opened, &mut FieldWriter::default(), &[]);
        let answer = sent.and_then(|()| link.receive(Wait::most(COMMIT_MAX)));
        match answer.and_then(|answer| expect(answer, Kind::Commit)) {
            Ok(_) => Ok(()),
            // The predecessor exited without a reply, and no other process has the items now.
            Err(TakeoverError::Gone) if link.peer.wait_until_gone(DEATH_MAX) => {
                // Operator: Check that all items are there (`curr_items`).
                tracing::warn!("the previous server died during the takeover; this server continues");
                self.link = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The workers have begun: the predecessor may end.
    pub(crate) fn serving(&mut self) {
        if let Some(mut link) = self.link.take()
            && let Err(error) = link.send(Kind::Serving, &mut FieldWriter::default(), &[])
        {
            // Operator: Check that the previous server has exited.
            tracing::warn!("cannot notify the previous server that the takeover succeeded: {error}");
        }
    }

    /// This server does not serve, and has let go of everything.
    pub(crate) fn refuse(&mut self, why: &dyn std::error::Error) {
        if let Some(link) = &mut self.link {
            // It may have exited.
            let _ = link.send(Kind::Refused, &mut refused(&why.to_string()), &[]);
        }
    }
}

fn read_offer(message: &Message) -> Result<(Option<OfferedRegion>, String), TakeoverError> {
    let (mut path, mut build) = (None, String::new());
    let (mut device, mut inode) = (0, 0);
    let mut preview = Preview { state: Vec::new(), bytes: 0 };
    for field in message.fields() {
        let field = field?;
        match field.tag {
            tag::BUILD => build = field.text(),
            tag::REGION => path = Some(field.text()),
            tag::DEVICE => device = field.number()?,
            tag::INODE => inode = field.number()?,
            tag::STATE => preview.state = field.bytes.to_vec(),
            tag::BYTES => preview.bytes = field.number()? as usize,
            _ => {}
        }
    }
    let region = path.map(|path| OfferedRegion { path, identity: (device, inode), preview });
    Ok((region, build))
}

fn receive_connections(message: Message, incoming: &mut Vec<Incoming>) -> Result<(), TakeoverError> {
    let mut written = Vec::new();
    for field in message.fields() {
        let field = field?;
        if field.tag == tag::EACH {
            written.push(field.bytes.to_vec());
        }
    }
    if written.len() != message.fds.len() {
        return Err(TakeoverError::Unknown("connections are missing"));
    }
    incoming.extend(message.fds.into_iter().zip(written).map(|(fd, written)| Incoming::Written(fd, written)));
    Ok(())
}

type RegionAndTime = (Option<HandedRegion>, Option<HandedTime>);

fn read_region(mut message: Message) -> Result<RegionAndTime, TakeoverError> {
    let (mut unix, mut at) = (None, None);
    let mut found = HandedState { state: Vec::new(), notes: Vec::new(), bytes: 0 };
    for field in message.fields() {
        let field = field?;
        match field.tag {
            tag::STATE => found.state = field.bytes.to_vec(),
            tag::NOTES => found.notes = field.bytes.to_vec(),
            tag::BYTES => found.bytes = field.number()? as usize,
            tag::UNIX_MS => unix = Some(field.number()?),
            tag::MONOTONIC_MS => at = Some(field.number()?),
            _ => {}
        }
    }
    let region = message.fds.pop().map(|file| HandedRegion::received(file, found));
    Ok((region, unix.zip(at).map(|(unix, at)| HandedTime { unix, at })))
}

//! A client and its server.

use std::io;

use guira_transport::{Interest, Progress, Stream};
use rustix::net::{Shutdown, shutdown};

/// Reads of one end before others are served.
const READS_MAX: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

#[derive(Debug)]
struct End {
    stream: Stream,
    /// Bytes from the other end that this end has not taken.
    unsent: Vec<u8>,
    /// Whether this end has closed its side.
    is_silent: bool,
    interest: Interest,
}

/// Two connections whose bytes go to each other.
#[derive(Debug)]
pub(super) struct Pair {
    ends: [End; 2],
}

impl Pair {
    pub(super) fn new(client: Stream, server: Stream) -> Self {
        let end = |stream| End { stream, unsent: Vec::new(), is_silent: false, interest: Interest::Read };
        Self { ends: [end(client), end(server)] }
    }

    pub(super) fn socket(&self, side: Side) -> &Stream {
        &self.ends[side as usize].stream
    }

    /// Whether both ends have closed their sides, and all bytes are delivered.
    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.is_silent && end.unsent.is_empty())
    }

    /// Moves what there is to move at the end that an event is of.
    pub(super) fn turn(&mut self, side: Side, failed: bool, piece: &mut [u8]) -> io::Result<()> {
        self.send_rest(side)?;
        for _ in 0..READS_MAX {
            if !self.wants_input(side) {
                // An error is reported until the pair is closed.
                return if failed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) };
            }
            match self.ends[side as usize].stream.read(piece)? {
                Progress::Moved(count) => {
                    self.send(side.other(), &piece[..count])?;
                    if count < piece.len() {
                        break;
                    }
                }
                Progress::Blocked => break,
                Progress::Ended => {
                    self.ends[side as usize].is_silent = true;
                    self.pass_end_to(side.other())?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads only when the other end takes the bytes.
    fn wants_input(&self, side: Side) -> bool {
        !self.ends[side as usize].is_silent && self.ends[side.other() as usize].unsent.is_empty()
    }

    fn send(&mut self, side: Side, mut bytes: &[u8]) -> io::Result<()> {
        let end = &mut self.ends[side as usize];
        while !bytes.is_empty() {
            match end.stream.write(bytes)? {
                Progress::Moved(count) => bytes = &bytes[count..],
                Progress::Blocked => {
                    end.unsent.extend_from_slice(bytes);
                    break;
                }
                Progress::Ended => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        Ok(())
    }

    fn send_rest(&mut self, side: Side) -> io::Result<()> {
        let rest = std::mem::take(&mut self.ends[side as usize].unsent);
        if rest.is_empty() {
            return Ok(());
        }
        self.send(side, &rest)?;
        self.pass_end_to(side)
    }

    /// Closes the other side of a stream, once all bytes are delivered.
    fn pass_end_to(&self, side: Side) -> io::Result<()> {
        let end = &self.ends[side as usize];
        if self.ends[side.other() as usize].is_silent && end.unsent.is_empty() {
            shutdown(&end.stream, Shutdown::Write)?;
        }
        Ok(())
    }

    /// The new interest of this end for the poller, if it has changed.
    pub(super) fn changed_interest(&mut self, side: Side) -> Option<Interest> {
        let reads = self.wants_input(side);
        let end = &mut self.ends[side as usize];
        let interest = match (reads, !end.unsent.is_empty()) {
            (true, true) => Interest::ReadWrite,
            (true, false) => Interest::Read,
            (false, true) => Interest::Write,
            (false, false) => Interest::End,
        };
        let before = std::mem::replace(&mut end.interest, interest);
        (before != interest).then_some(interest)
    }
}

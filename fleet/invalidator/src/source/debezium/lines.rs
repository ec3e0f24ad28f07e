//! Connections of senders, and their lines.

use super::{Position, event};
use crate::source::{Changes, Log, Place, SourceError};
use guira_databases::Socket;
use std::io::{self, Read};
use std::sync::Arc;

/// The longest line, in bytes.
const LINE_MAX: usize = 64 << 20;
/// Memory of a long line is given back.
const CAPACITY_MAX: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

/// What a sender says.
#[derive(Debug)]
pub(super) struct Lines {
    socket: Arc<Socket>,
    position: Position,
    buffer: Vec<u8>,
    /// What was taken of the buffer, and up to where it has no end of a line.
    start: usize,
    searched: usize,
}

impl Lines {
    pub(super) fn new(socket: Arc<Socket>, connection: u64) -> Self {
        let position = Position { connection, lines: 0 };
        Lines { socket, position, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// Where the next line ends, if all of it is there.
    fn end(&mut self) -> Option<usize> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = found.map(|at| self.searched + at);
        self.searched = end.unwrap_or(self.buffer.len());
        end
    }

    /// Reads what is there; returns whether that was anything.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.buffer.shrink_to(CAPACITY_MAX);
        let length = self.buffer.len();
        if length > LINE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line has over 64 MiB"));
        }
        self.buffer.resize(length + BUFFER, 0);
        let read = (&*self.socket).read(&mut self.buffer[length..]);
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sender has ended")),
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl Log for Lines {
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let read = self.read_line(changes);
        // A sender that has ended is still told what is acknowledged; one that makes no sense has to notice.
        if matches!(&read, Err(SourceError::Connection(error)) if error.kind() == io::ErrorKind::InvalidData)
        {
            self.socket.close();
        }
        read
    }

    fn position(&self) -> String {
        self.position.to_string()
    }

    fn place(&self) -> Place {
        Place::default()
    }
}

impl Lines {
    fn read_line(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let Some(end) = self.end() else {
            if !self.fill()? {
                changes.pause()?;
            }
            return Ok(());
        };
        let when = event::tell(&self.buffer[self.start..end], changes)?;
        (self.start, self.searched) = (end + 1, end + 1);
        self.position.lines += 1;
        changes.committed(&self.position, when)?;
        if self.end().is_none() { Ok(changes.pause()?) } else { Ok(()) }
    }
}

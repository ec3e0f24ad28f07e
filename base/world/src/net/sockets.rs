//! All sockets, by their number.

use super::wires::Socket;

/// The first number of a socket: no descriptor of the system has it.
const FIRST: i32 = 1 << 24;

/// Numbers are given once, so that a place is a number without [`FIRST`]. Pollers look up each of their sockets at each
/// event, and a tree of them took a fifth of a run.
#[derive(Debug, Default)]
pub(super) struct Sockets(Vec<Option<Box<Socket>>>);

impl Sockets {
    /// Adds a socket; returns its number.
    pub(super) fn add(&mut self, socket: Socket) -> i32 {
        self.0.push(Some(Box::new(socket)));
        FIRST + self.0.len() as i32 - 1
    }

    pub(super) fn get(&self, fd: i32) -> Option<&Socket> {
        self.0.get(place(fd)?)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, fd: i32) -> Option<&mut Socket> {
        self.0.get_mut(place(fd)?)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, fd: i32) -> Option<Socket> {
        self.0.get_mut(place(fd)?)?.take().map(|socket| *socket)
    }

    /// The numbers of those that are as wanted.
    pub(super) fn select(&self, is_wanted: impl Fn(&Socket) -> bool) -> Vec<i32> {
        let sockets = self.0.iter().enumerate().filter_map(|(at, socket)| Some((at, socket.as_deref()?)));
        sockets.filter(|(_, socket)| is_wanted(socket)).map(|(at, _)| FIRST + at as i32).collect()
    }
}

fn place(fd: i32) -> Option<usize> {
    usize::try_from(fd.checked_sub(FIRST)?).ok()
}

//! Connections that change servers while they are open: how one is written for the next server, and read there.
//!
//! A connection leaves between two turns, with what was read of it and not executed, what it was not sent yet, and the state of its
//! protocol ([`Conversation::carry`](crate::Conversation::carry)). What is said meanwhile waits in the socket.

use crate::fields::{FieldError, FieldWriter, Fields};
use crate::host::CONNECTION_BYTES;
use crate::{Access, Arrival, ConnectionFacts, Host, Speaks};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use guira_transport::{Address, Stream};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

const SPEAKS: u16 = 1;
/// It had to log in, and has.
const LOGGED_IN: u16 = 2;
const INPUT: u16 = 3;
const OUTPUT: u16 = 4;
const CARRIED: u16 = 5;
const LISTENER: u16 = 6;
const IDLE_S: u16 = 7;

const TEXT: u64 = 1;
const BINARY: u64 = 2;

impl Arrival {
    /// Writes it for the server that goes on with it; the socket is not part of that.
    pub fn write(&self, host: &Host, now: Seconds) -> Vec<u8> {
        let mut fields = FieldWriter::default();
        let speaks = match self.speaks {
            Speaks::Any => 0,
            Speaks::Text => TEXT,
            Speaks::Binary => BINARY,
        };
        let idle_s = now.0.saturating_sub(self.facts.last_active().0);
        fields.put_number(SPEAKS, speaks).put_number(IDLE_S, u64::from(idle_s));
        fields.put(LISTENER, self.facts.listener().to_string().as_bytes());
        if host.users.is_some() && self.access == Access::Free {
            fields.put_number(LOGGED_IN, 1);
        }
        for (tag, bytes) in [(INPUT, &self.input[..]), (OUTPUT, &self.output), (CARRIED, &self.carried)] {
            if !bytes.is_empty() {
                fields.put(tag, bytes);
            }
        }
        fields.finish()
    }

    /// Reads what [`Arrival::write`] has written. `access` is that of connections that have not logged in.
    ///
    /// # Errors
    /// If the socket is of no use, or the fields are not whole.
    pub fn read(socket: OwnedFd, fields: &[u8], access: Access, now: Seconds) -> io::Result<Self> {
        let whole = |error: FieldError| io::Error::new(io::ErrorKind::InvalidData, error);
        let (stream, peer) = Stream::adopt(socket)?;
        let (mut idle_s, mut listener) = (0, Address::Unix("".into()));
        let (mut speaks, mut access) = (Speaks::Any, access);
        let (mut input, mut output, mut carried) = (Vec::new(), Vec::new(), Box::default());
        for field in Fields::of(fields) {
            let field = field.map_err(whole)?;
            match field.tag {
                SPEAKS => {
                    speaks = match field.number().map_err(whole)? {
                        TEXT => Speaks::Text,
                        BINARY => Speaks::Binary,
                        _ => Speaks::Any,
                    }
                }
                LOGGED_IN => access = Access::Free,
                INPUT => input = field.bytes.to_vec(),
                OUTPUT => output = field.bytes.to_vec(),
                CARRIED => carried = field.bytes.into(),
                LISTENER => listener = field.text().parse().unwrap_or(listener),
                IDLE_S => idle_s = field.number().map_err(whole)?,
                _ => {}
            }
        }
        let active = Seconds(now.0.saturating_sub(u32::try_from(idle_s).unwrap_or(u32::MAX)));
        let facts = ConnectionFacts::new(&stream, peer, Arc::new(listener), CONNECTION_BYTES, active);
        Ok(Arrival { stream, facts: Arc::new(facts), speaks, access, input, output, carried })
    }
}

impl Host {
    /// Deals out connections that were handed over. To be called before the workers begin. Returns how many there was room for; the others
    /// are closed.
    pub fn take_over(&self, arrivals: Vec<Arrival>) -> usize {
        let mut taken = 0;
        for arrival in arrivals {
            if !self.budget.enter(arrival.facts.bytes) {
                continue;
            }
            self.connections.current.fetch_add(1, Ordering::SeqCst);
            self.registry.add(&arrival.facts);
            self.mailboxes[taken % self.mailboxes.len()].send(arrival);
            taken += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnLimits;
    use guira_transport::net::UnixStream;

    fn host() -> Host {
        Host::of_one_worker(ConnLimits { idle: 1 << 20, traffic: 0, pinned: 0 })
    }

    fn arrival(access: Access) -> Arrival {
        let stream = Stream::Unix(UnixStream::pair().unwrap().0);
        let listener = Arc::new(Address::Unix("/a/socket".into()));
        let facts = Arc::new(ConnectionFacts::new(&stream, None, listener, CONNECTION_BYTES, Seconds(100)));
        let (input, output, carried) = (b"set a ".to_vec(), b"END\r\n".to_vec(), Box::from(*b"state"));
        Arrival { stream, facts, speaks: Speaks::Text, access, input, output, carried }
    }

    #[test]
    fn a_connection_is_read_as_it_was_written() {
        let written = arrival(Access::Free).write(&host(), Seconds(130));
        let socket = OwnedFd::from(UnixStream::pair().unwrap().0);
        let read = Arrival::read(socket, &written, Access::Free, Seconds(1000)).unwrap();
        assert_eq!((read.speaks, read.access), (Speaks::Text, Access::Free));
        assert_eq!((&read.input[..], &read.output[..]), (&b"set a "[..], &b"END\r\n"[..]));
        assert_eq!((&read.carried[..], read.facts.peer()), (&b"state"[..], "unix:/a/socket".to_owned()));
        assert_eq!(read.facts.last_active(), Seconds(970));
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over_and_what_is_cut_off_is_refused() {
        let mut written = arrival(Access::Free).write(&host(), Seconds(100));
        written.extend(FieldWriter::default().put(999, b"news").finish());
        let read = |bytes: &[u8]| {
            let socket = OwnedFd::from(UnixStream::pair().unwrap().0);
            Arrival::read(socket, bytes, Access::Free, Seconds(1))
        };
        assert_eq!(read(&written).unwrap().input, b"set a ");
        assert!(read(&written[..written.len() - 1]).is_err());
        assert_eq!(read(b"").unwrap().speaks, Speaks::Any);
    }

    #[test]
    fn who_was_not_asked_to_log_in_has_not_done_so() {
        let written = arrival(Access::Free).write(&host(), Seconds(100));
        let socket = OwnedFd::from(UnixStream::pair().unwrap().0);
        let read = Arrival::read(socket, &written, Access::Login, Seconds(1)).unwrap();
        assert_eq!(read.access, Access::Login);
    }
}

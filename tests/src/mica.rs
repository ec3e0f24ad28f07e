//! MICA's datagrams as bytes (docs/reference/protocol-mica.md).

use crate::Server;
use crate::deadline::PATIENCE;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

pub const LONGEST: usize = 1452;

pub const GET: u8 = 1;
pub const SET: u8 = 2;
/// Stores what is not there.
pub const ADD: u8 = 3;
pub const REPLACE: u8 = 4;
pub const DELETE: u8 = 5;
pub const INCREMENT: u8 = 6;
pub const DECREMENT: u8 = 7;
pub const TOUCH: u8 = 8;

#[derive(Clone, Debug)]
pub struct Datagram(pub Vec<u8>);

impl Datagram {
    /// Without requests.
    pub fn new(generation: u32, sequence: u32, opaque: u64) -> Self {
        let mut bytes = b"Gm\x01\x01\0\0\0\0".to_vec();
        bytes.extend(generation.to_le_bytes());
        bytes.extend(sequence.to_le_bytes());
        bytes.extend(opaque.to_le_bytes());
        Datagram(bytes)
    }

    #[must_use]
    pub fn with(self, operation: u8, key: &str, value: &[u8], hash: u64) -> Self {
        self.storing(operation, key, value, hash, 0, 0)
    }

    /// The same with flags and an expiration time.
    #[must_use]
    pub fn storing(
        mut self,
        operation: u8,
        key: &str,
        value: &[u8],
        hash: u64,
        flags: u32,
        exptime: i32,
    ) -> Self {
        let count = u16::from_le_bytes([self.0[4], self.0[5]]) + 1;
        self.0[4..6].copy_from_slice(&count.to_le_bytes());
        self.0.extend([operation, key.len() as u8]);
        self.0.extend((value.len() as u16).to_le_bytes());
        self.0.extend(flags.to_le_bytes());
        self.0.extend(exptime.to_le_bytes());
        self.0.extend(hash.to_le_bytes());
        self.0.extend(key.bytes());
        self.0.extend(value);
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub kind: u8,
    pub generation: u32,
    pub sequence: u32,
    pub opaque: u64,
    /// Status, flags and value of each record.
    pub records: Vec<(u8, u32, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Reply {
    fn read(bytes: &[u8]) -> Self {
        assert!(bytes.len() >= 24 && bytes.len() <= LONGEST && bytes[..3] == *b"Gm\x01", "{bytes:?}");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let count = u16::from_le_bytes([bytes[4], bytes[5]]);
        let mut records = Vec::new();
        let mut at = 24;
        for _ in 0..count {
            let length = usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
            records.push((bytes[at], number(at + 4), bytes[at + 8..at + 8 + length].to_vec()));
            at += 8 + length;
        }
        assert!(count == 0 || at == bytes.len(), "nothing follows the records");
        Reply {
            kind: bytes[3],
            generation: number(8),
            sequence: number(12),
            opaque: u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")),
            records,
            body: bytes[24..].to_vec(),
        }
    }
}

/// A socket that sends to the workers of a server.
#[derive(Debug)]
pub struct MicaClient {
    socket: UdpSocket,
    first: SocketAddr,
    pub generation: u32,
}

impl MicaClient {
    /// A client of the server, which says in its settings where it takes MICA's datagrams.
    ///
    /// # Panics
    /// If it takes none.
    #[track_caller]
    pub fn connect(server: &Server) -> Self {
        let settings = server.connect().stats("settings");
        Self::connect_to(settings["mica"].parse().expect("a server that takes MICA's datagrams"))
    }

    /// A client of the server there.
    ///
    /// # Panics
    /// If no answer comes.
    #[track_caller]
    pub fn connect_to(first: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a wait is not zero");
        let mut client = MicaClient { socket, first, generation: 0 };
        client.generation = client.directory().generation;
        client
    }

    /// Asks for the directory.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn directory(&self) -> Reply {
        let mut question = b"Gm\x01\x05".to_vec();
        question.resize(48, 0);
        self.send(0, &question);
        let reply = self.hear();
        assert_eq!((reply.kind, reply.body.len()), (6, 24));
        reply
    }

    /// Sends bytes to a worker.
    ///
    /// # Panics
    /// If the system does not take them.
    pub fn send(&self, worker: u16, bytes: &[u8]) {
        let mut to = self.first;
        to.set_port(to.port() + worker);
        self.socket.send_to(bytes, to).expect("a datagram can be sent");
    }

    /// The next datagram.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn hear(&self) -> Reply {
        let mut buffer = [0; 65_536];
        loop {
            match self.socket.recv(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return Reply::read(&buffer[..received.expect("a datagram comes")]),
            }
        }
    }

    /// Whether nothing more has come, after an answer to something that was sent later.
    ///
    /// # Panics
    /// If something else has.
    #[track_caller]
    pub fn expect_nothing_before(&self, sequence: u32) {
        self.send(0, &Datagram::new(self.generation, sequence, 0).0);
        assert_eq!(self.hear().sequence, sequence, "only what was asked for is answered");
    }

    /// Sends a datagram to a worker and takes the answer's records.
    ///
    /// # Panics
    /// If it is not answered as a whole.
    #[track_caller]
    pub fn ask(&self, worker: u16, datagram: &Datagram) -> Vec<(u8, u32, Vec<u8>)> {
        self.send(worker, &datagram.0);
        let reply = self.hear();
        assert_eq!((reply.kind, reply.generation), (2, self.generation));
        assert_eq!(reply.records.len(), usize::from(u16::from_le_bytes([datagram.0[4], datagram.0[5]])));
        reply.records
    }

    /// One request without flags and time: its status and value.
    ///
    /// # Panics
    /// If it is not answered.
    #[track_caller]
    pub fn one(&self, operation: u8, key: &str, value: &[u8], hash: u64) -> (u8, Vec<u8>) {
        let datagram = Datagram::new(self.generation, 1, 2).with(operation, key, value, hash);
        let (status, _, value) = self.ask(0, &datagram).remove(0);
        (status, value)
    }
}

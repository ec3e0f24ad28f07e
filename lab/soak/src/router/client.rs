//! A client that pipelines requests of several kinds, and knows of every reply whether it can be the one to its request.

use std::io;
use std::net::SocketAddr;

use guira_protocol::client::{Failure, Reply, failure};
use guira_protocol::word::reply;
use guira_workload::Rng;

use crate::line::Line;

/// Requests that are sent at once.
const AT_ONCE: usize = 16;
const KEYS: u64 = 500;
/// The longest rest of a value behind its key and version.
const REST_MAX: u64 = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    MetaGet,
    Set,
    Touch,
    /// For a key that no client sets.
    Delete,
}

const KINDS: [Kind; 8] =
    [Kind::Get, Kind::Get, Kind::Get, Kind::MetaGet, Kind::Set, Kind::Set, Kind::Touch, Kind::Delete];

#[derive(Clone, Copy, Debug)]
struct ClientRequest {
    kind: Kind,
    key: u64,
    /// Distinguishes the request from all others of this client.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    pub(super) replies: u64,
    pub(super) hits: u64,
    pub(super) errors: u64,
}

pub(super) struct Client {
    line: Line,
    /// Distinguishes the client's keys from those of other clients.
    name: u64,
    random: Rng,
    /// Versions of each key that were sent so far; one whose reply was lost may still take effect.
    versions: Vec<u64>,
    count: u64,
    pub(super) answers: Answers,
}

/// A value has its key and its version; the rest follows from them.
fn value(name: u64, key: u64, version: u64) -> String {
    let rest = Rng::part(name ^ key << 20, version).below(REST_MAX) as usize;
    format!("{name}:{key}:{version}:{}", "x".repeat(rest))
}

impl Client {
    pub(super) fn open(address: SocketAddr, name: u64, random: Rng) -> io::Result<Self> {
        let versions = vec![0; KEYS as usize];
        Ok(Client {
            line: Line::open(address)?,
            name,
            random,
            versions,
            count: 0,
            answers: Answers::default(),
        })
    }

    /// Sends some requests and checks their replies. An error is a reply that cannot be right, or a lost connection.
    pub(super) fn turn(&mut self) -> Result<(), String> {
        let mut bytes = String::new();
        let mut requested = Vec::with_capacity(AT_ONCE);
        for _ in 0..AT_ONCE {
            let kind = KINDS[self.random.below(KINDS.len() as u64) as usize];
            let one = ClientRequest { kind, key: self.random.below(KEYS), number: self.count };
            self.count += 1;
            bytes.push_str(&self.request(one));
            requested.push(one);
        }
        self.line.send(bytes.as_bytes()).map_err(|error| format!("client {}: {error}", self.name))?;
        for one in requested {
            self.receive(one).map_err(|error| format!("client {}, {one:?}: {error}", self.name))?;
            self.answers.replies += 1;
        }
        Ok(())
    }

    fn request(&mut self, one: ClientRequest) -> String {
        let (name, key) = (self.name, one.key);
        match one.kind {
            Kind::Get => format!("get {name}:{key}\r\n"),
            Kind::MetaGet => format!("mg {name}:{key} v k O{}\r\n", one.number),
            Kind::Set => {
                let version = &mut self.versions[key as usize];
                *version += 1;
                let value = value(name, key, *version);
                format!("set {name}:{key} 0 0 {}\r\n{value}\r\n", value.len())
            }
            Kind::Touch => format!("touch {name}:{key} 0\r\n"),
            Kind::Delete => format!("delete nobody:{name}:{key}\r\n"),
        }
    }

    fn receive(&mut self, one: ClientRequest) -> Result<(), String> {
        let name = format!("{}:{}", self.name, one.key);
        let behind = format!("k{name} O{}", one.number);
        let reply = self.line.reply().map_err(|error| error.to_string())?;
        let value = match (one.kind, reply) {
            (_, Reply::Line(line)) if matches!(failure(line), Some(Failure::Server(_))) => {
                self.answers.errors += 1;
                return Ok(());
            }
            (Kind::Get, Reply::End) => return Ok(()),
            (Kind::Get, Reply::Value(value))
                if (value.key, value.flags, value.number) == (name.as_bytes(), 0, None) =>
            {
                value.value.to_vec()
            }
            (Kind::MetaGet, Reply::Line(line)) if line == format!("EN {behind}").as_bytes() => return Ok(()),
            (Kind::MetaGet, Reply::MetaValue { line, value })
                if line == format!("VA {} {behind}", value.len()).as_bytes() =>
            {
                value.to_vec()
            }
            (Kind::Set, Reply::Line(reply::STORED)) => return Ok(()),
            (Kind::Touch, Reply::Line(reply::TOUCHED | reply::NOT_FOUND)) => return Ok(()),
            (Kind::Delete, Reply::Line(reply::NOT_FOUND)) => return Ok(()),
            (_, other) => {
                return Err(format!("a reply that is not its own: {}", other.line().escape_ascii()));
            }
        };
        if one.kind == Kind::Get {
            let end = self.line.reply().map_err(|error| error.to_string())?;
            if end != Reply::End {
                return Err(format!("no end behind a value: {}", end.line().escape_ascii()));
            }
        }
        self.answers.hits += 1;
        self.check(one.key, &String::from_utf8_lossy(&value))
    }

    /// Whether a value can be the key's.
    fn check(&self, key: u64, text: &str) -> Result<(), String> {
        let version = text.split(':').nth(2).and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
        let is_known = (1..=self.versions[key as usize]).contains(&version);
        if is_known && text == value(self.name, key, version) {
            return Ok(());
        }
        Err(format!("a value that is not its own: {}", &text[..text.len().min(60)]))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use guira_workload::Rng;

    use super::{Client, ClientRequest, Kind, value};

    /// Answers everything with these bytes.
    fn server(reply: String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
        address
    }

    fn received(kind: Kind, reply: &str) -> Result<(), String> {
        let mut client = Client::open(server(reply.to_owned()), 7, Rng::new(1)).unwrap();
        client.versions[3] = 2;
        client.line.send(b"x").unwrap();
        client.receive(ClientRequest { kind, key: 3, number: 5 })
    }

    #[test]
    fn a_reply_to_another_request_is_found() {
        let got = |key: u64, version| {
            let value = value(7, key, version);
            format!("VALUE 7:3 0 {}\r\n{value}\r\nEND\r\n", value.len())
        };
        for reply in [got(3, 1), got(3, 2), "END\r\n".to_owned(), "SERVER_ERROR timeout\r\n".to_owned()] {
            received(Kind::Get, &reply).unwrap();
        }
        // Of another key, of a version that was never sent, and of other commands.
        for reply in
            [got(4, 1), got(3, 3), "STORED\r\n".to_owned(), "VALUE 7:4 0 1\r\nx\r\nEND\r\n".to_owned()]
        {
            received(Kind::Get, &reply).unwrap_err();
        }
        let text = value(7, 3, 1);
        received(Kind::MetaGet, &format!("VA {} k7:3 O5\r\n{text}\r\n", text.len())).unwrap();
        received(Kind::MetaGet, &format!("VA {} k7:3 O6\r\n{text}\r\n", text.len())).unwrap_err();
        received(Kind::MetaGet, "EN k7:3 O5\r\n").unwrap();
        received(Kind::MetaGet, "EN k7:3 O6\r\n").unwrap_err();
        received(Kind::Delete, "DELETED\r\n").unwrap_err();
        received(Kind::Set, "NOT_FOUND\r\n").unwrap_err();
    }
}

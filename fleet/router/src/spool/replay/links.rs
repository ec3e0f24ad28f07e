//! Connections for replays: one for each server, apart from those of workers, and only as long as there is something to deliver.

use super::super::entry::put_delete;
use guira_client::text::{Connection, Target};
use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// What became of a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Done,
    /// The server says that it is wrong, and will say so again.
    Refused(String),
    Failed,
}

/// A server.
#[derive(Debug, Default)]
pub(crate) struct Link {
    connection: Option<Connection>,
    /// When it has failed, and how long it is left alone.
    failed: Option<(Stopwatch, Duration)>,
    /// Why it has failed last.
    pub(crate) reason: String,
}

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl Link {
    /// Whether it is not left alone.
    pub(crate) fn is_ready(&self) -> bool {
        self.failed.as_ref().is_none_or(|(since, pause)| since.elapsed() >= *pause)
    }

    /// It is tried again at once.
    pub(crate) fn forgive(&mut self) {
        self.failed = None;
    }

    /// It is left alone for a while, and for longer each time.
    pub(crate) fn fail(&mut self, reason: String) {
        self.connection = None;
        let pause = self.failed.as_ref().map_or(PAUSE_FIRST, |(_, pause)| (*pause * 2).min(PAUSE_MAX));
        self.failed = Some((Stopwatch::start(), pause));
        self.reason = reason;
    }

    /// Closes the connection, if there is one.
    pub(crate) fn rest(&mut self) {
        self.connection = None;
    }

    /// Deletes keys, in order. After the first that has failed, all have.
    pub(crate) fn deliver(&mut self, target: &Target, keys: &[&[u8]]) -> Vec<Delivery> {
        let mut done = Vec::new();
        match self.try_deliver(target, keys, &mut done) {
            Ok(()) => self.failed = None,
            Err(reason) => self.fail(reason),
        }
        done.resize(keys.len(), Delivery::Failed);
        done
    }

    fn try_deliver(
        &mut self,
        target: &Target,
        keys: &[&[u8]],
        done: &mut Vec<Delivery>,
    ) -> Result<(), String> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::open(target).map_err(|error| error.to_string())?),
        };
        let mut requests = Vec::new();
        keys.iter().for_each(|key| put_delete(key, &mut requests));
        connection.send(&requests).map_err(|error| error.to_string())?;
        for _ in keys {
            let line = connection.line().map_err(|error| error.to_string())?;
            done.push(match line {
                b"DELETED" | b"NOT_FOUND" => Delivery::Done,
                _ if matches!(line.get(..2), Some(b"HD" | b"NF")) => Delivery::Done,
                b"ERROR" => Delivery::Refused("ERROR".to_owned()),
                _ if line.starts_with(b"CLIENT_ERROR") => Delivery::Refused(line.escape_ascii().to_string()),
                _ => return Err(line.escape_ascii().to_string()),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_client::text::Endpoint;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server that says this to the first that asks, and what it was asked.
    fn server(reply: &'static str, length: usize) -> (Target, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; length];
            stream.read_exact(&mut asked).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
            asked
        });
        (Target::new(Endpoint::Tcp { host: "127.0.0.1".into(), port }, PATIENCE), thread)
    }

    fn deliver(reply: &'static str, keys: &[&[u8]]) -> (Vec<Delivery>, Link, String) {
        let mut requests = Vec::new();
        keys.iter().for_each(|key| put_delete(key, &mut requests));
        let (target, thread) = server(reply, requests.len());
        let mut link = Link::default();
        let done = link.deliver(&target, keys);
        (done, link, String::from_utf8(thread.join().unwrap()).unwrap())
    }

    #[test]
    fn deletes_are_sent_together_and_each_reply_is_that_of_one() {
        let (done, link, asked) = deliver(
            "DELETED\r\nNOT_FOUND\r\nCLIENT_ERROR bad\r\nHD\r\nNF\r\n",
            &[b"a", b"b", b"c", b"d e", b"f\n"],
        );
        assert_eq!(asked, "delete a\r\ndelete b\r\ndelete c\r\nmd ZCBl b\r\nmd Zgo= b\r\n");
        let refused = Delivery::Refused("CLIENT_ERROR bad".to_owned());
        assert_eq!(done, [Delivery::Done, Delivery::Done, refused, Delivery::Done, Delivery::Done]);
        assert!(link.is_ready());
    }

    #[test]
    fn after_the_first_failure_all_have_failed() {
        let (done, link, _) = deliver("DELETED\r\nSERVER_ERROR busy\r\nDELETED\r\n", &[b"a", b"b", b"c"]);
        assert_eq!(done, [Delivery::Done, Delivery::Failed, Delivery::Failed]);
        assert_eq!((link.is_ready(), &*link.reason), (false, "SERVER_ERROR busy"));
        let (done, link, _) = deliver("DELETED\r\nDEL", &[b"a", b"b"]);
        assert_eq!(done, [Delivery::Done, Delivery::Failed]);
        assert!(!link.is_ready() && link.connection.is_none());
    }

    #[test]
    fn a_server_that_fails_again_is_left_alone_for_longer() {
        let mut link = Link::default();
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                link.fail("no".to_owned());
                link.failed.as_ref().unwrap().1.as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        link.forgive();
        assert!(link.is_ready());
    }
}

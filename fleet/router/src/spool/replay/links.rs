//! Connections for replays: one for each server, apart from those of workers, and only as long as there is something to deliver.

use super::super::entry::{Delete, HoldOff};
use guira_client::text::{Connection, Target, TextError, is_refusal};
use guira_protocol::client::MetaReply;
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;
use guira_sync::simulated::is_planted;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Done,
    /// The server says that it is wrong, and will say so again.
    Refused(String),
    Failed,
}

#[derive(Debug, Default)]
pub(crate) struct Link {
    connection: Option<Connection>,
    /// When it has failed, and how long it is left alone.
    failed: Option<(Stopwatch, Duration)>,
    pub(crate) reason: String,
}

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl Link {
    /// Whether it is not left alone.
    pub(crate) fn is_ready(&self) -> bool {
        self.failed.as_ref().is_none_or(|(since, pause)| since.elapsed() >= *pause)
    }

    /// Lets the next delete try the server at once.
    pub(crate) fn forgive(&mut self) {
        self.failed = None;
    }

    /// Pauses the server after a failure, longer each time.
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

    /// Sends deletes, in order. After the first that has failed, all have.
    pub(crate) fn deliver(&mut self, target: &Target, deletes: &[Delete]) -> Vec<Delivery> {
        let mut done = Vec::new();
        match self.try_deliver(target, deletes, &mut done) {
            Ok(()) => self.failed = None,
            Err(reason) => self.fail(reason),
        }
        done.resize(deletes.len(), Delivery::Failed);
        done
    }

    fn try_deliver(
        &mut self,
        target: &Target,
        deletes: &[Delete],
        done: &mut Vec<Delivery>,
    ) -> Result<(), String> {
        let sent = self.send(target, deletes, done);
        let Some(first) = done.iter().position(|delivery| matches!(delivery, Delivery::Refused(_))) else {
            return sent;
        };
        if sent.is_err() {
            // Perhaps the server closes connections over which it has refused something.
            self.connection = None;
        }
        // Whether the server refuses some deletes or all decides what becomes of those that it has refused.
        self.look_at_refused(target, deletes, done).inspect_err(|_| done.truncate(first))?;
        sent
    }

    fn send(&mut self, target: &Target, deletes: &[Delete], done: &mut Vec<Delivery>) -> Result<(), String> {
        let connection = self.connected(target)?;
        send(connection, deletes.iter())?;
        deletes.iter().try_for_each(|_| {
            done.push(reply(connection)?);
            Ok(())
        })
    }

    fn connected(&mut self, target: &Target) -> Result<&mut Connection, String> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(target).map_err(|error| error.to_string())?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Sends a delete that every server accepts, and then those that were refused once more: the server may have refused
    /// all deletes a moment ago, and accept them now.
    fn look_at_refused(
        &mut self,
        target: &Target,
        deletes: &[Delete],
        done: &mut [Delivery],
    ) -> Result<(), String> {
        if is_planted("refused-deletes-dropped") {
            return Ok(());
        }
        let is_again = |at: &usize| {
            let is_once = deletes[*at].hold_off == HoldOff::None && is_planted("rejected-once-dropped");
            matches!(done[*at], Delivery::Refused(_)) && !is_once
        };
        let again: Vec<usize> = (0..done.len()).filter(is_again).collect();
        let connection = self.connected(target)?;
        let probe = Delete::of(PROBE);
        send(connection, [&probe].into_iter().chain(again.iter().map(|at| &deletes[*at])))?;
        if let Delivery::Refused(line) = reply(connection)? {
            return Err(format!("the server rejects every delete: {line}"));
        }
        for at in again {
            done[at] = reply(connection)?;
        }
        self.leave_out_hold_offs(target, deletes, done)
    }

    /// Sends the deletes that are still refused without their hold-offs, which not every server knows.
    fn leave_out_hold_offs(
        &mut self,
        target: &Target,
        deletes: &[Delete],
        done: &mut [Delivery],
    ) -> Result<(), String> {
        let is_held =
            |at: &usize| matches!(done[*at], Delivery::Refused(_)) && deletes[*at].hold_off != HoldOff::None;
        let held: Vec<usize> = (0..done.len()).filter(is_held).collect();
        if held.is_empty() {
            return Ok(());
        }
        let plain: Vec<Delete> = held.iter().map(|at| deletes[*at].plain()).collect();
        let mut replies = Vec::new();
        if self.send(target, &plain, &mut replies).is_err() {
            // Perhaps the server has closed the connection with its last refusal.
            self.connection = None;
            replies.clear();
            self.send(target, &plain, &mut replies)?;
        }
        for (at, reply) in held.into_iter().zip(replies) {
            done[at] = reply;
        }
        Ok(())
    }
}

/// A key that every server takes a delete of: if this is refused, all are, and none of them may be dropped.
const PROBE: &[u8] = b"guira-router-asks";

fn send<'a>(connection: &mut Connection, deletes: impl Iterator<Item = &'a Delete>) -> Result<(), String> {
    let mut requests = Vec::new();
    deletes.for_each(|delete| delete.write(&mut requests));
    connection.send(&requests).map_err(|error: TextError| error.to_string())
}

/// Reads the next reply; a temporary failure of a delete is an error.
fn reply(connection: &mut Connection) -> Result<Delivery, String> {
    let line = connection.reply().map_err(|error| error.to_string())?.line();
    match MetaReply::of(line).code {
        reply::DELETED | reply::NOT_FOUND => Ok(Delivery::Done),
        reply::META_DONE | reply::META_NOT_FOUND => Ok(Delivery::Done),
        _ if is_refusal(line) => Ok(Delivery::Refused(line.escape_ascii().to_string())),
        _ => Err(line.escape_ascii().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_client::text::Endpoint;
    use guira_transport::net::TcpListener;
    use std::io::{BufRead, BufReader, Write};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server that answers each of these rounds of requests, whatever they are, and what it was sent.
    fn server(rounds: &[(usize, &'static str)]) -> (Target, guira_sync::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let rounds = rounds.to_vec();
        let thread = guira_sync::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream);
            let mut received = String::new();
            for (requests, replies) in rounds {
                (0..requests).for_each(|_| _ = lines.read_line(&mut received).unwrap());
                (&stream).write_all(replies.as_bytes()).unwrap();
            }
            received
        });
        (Target::new(Endpoint::Tcp { host: "127.0.0.1".into(), port }, PATIENCE), thread)
    }

    fn deliver(rounds: &[(usize, &'static str)], deletes: &[Delete]) -> (Vec<Delivery>, Link, String) {
        let (target, thread) = server(rounds);
        let mut link = Link::default();
        let done = link.deliver(&target, deletes);
        (done, link, thread.join().unwrap())
    }

    fn deletes(keys: &[&[u8]]) -> Vec<Delete> {
        keys.iter().map(|key| Delete::of(key)).collect()
    }

    #[test]
    fn deletes_are_sent_together_and_each_reply_is_that_of_one() {
        let (done, link, received) = deliver(
            &[
                (5, "DELETED\r\nNOT_FOUND\r\nCLIENT_ERROR bad\r\nHD\r\nNF\r\n"),
                (2, "NOT_FOUND\r\nCLIENT_ERROR bad\r\n"),
            ],
            &deletes(&[b"a", b"b", b"c", b"d e", b"f\n"]),
        );
        assert_eq!(
            received,
            "delete a\r\ndelete b\r\ndelete c\r\nmd ZCBl b\r\nmd Zgo= b\r\n\
             delete guira-router-asks\r\ndelete c\r\n"
        );
        let refused = Delivery::Refused("CLIENT_ERROR bad".to_owned());
        assert_eq!(done, [Delivery::Done, Delivery::Done, refused, Delivery::Done, Delivery::Done]);
        assert!(link.is_ready());
    }

    #[test]
    fn after_the_first_failure_all_have_failed() {
        let three = deletes(&[b"a", b"b", b"c"]);
        let (done, link, _) = deliver(&[(3, "DELETED\r\nSERVER_ERROR busy\r\nDELETED\r\n")], &three);
        assert_eq!(done, [Delivery::Done, Delivery::Failed, Delivery::Failed]);
        assert_eq!((link.is_ready(), &*link.reason), (false, "SERVER_ERROR busy"));
        let (done, link, _) = deliver(&[(2, "DELETED\r\nDEL")], &three[..2]);
        assert_eq!(done, [Delivery::Done, Delivery::Failed]);
        assert!(!link.is_ready() && link.connection.is_none());
        // The server is gone: it cannot be known any more whether it refuses all.
        let (done, ..) = deliver(&[(3, "DELETED\r\nCLIENT_ERROR bad\r\nSERVER_ERROR busy\r\n")], &three);
        assert_eq!(done, [Delivery::Done, Delivery::Failed, Delivery::Failed]);
        let (done, ..) = deliver(&[(2, "ERROR\r\nDELETED\r\n"), (1, "SERVER_ERROR busy\r\n")], &three[..2]);
        assert_eq!(done, [Delivery::Failed, Delivery::Failed]);
    }

    #[test]
    fn a_server_that_ends_the_connection_with_a_refusal_is_asked_over_another_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = guira_sync::thread::spawn(move || {
            for replies in ["DELETED\r\nCLIENT_ERROR bad\r\n", "NOT_FOUND\r\nCLIENT_ERROR bad\r\n"] {
                let (stream, _) = listener.accept().unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                (&stream).write_all(replies.as_bytes()).unwrap();
            }
        });
        let target = Target::new(Endpoint::Tcp { host: "127.0.0.1".into(), port }, PATIENCE);
        let done = Link::default().deliver(&target, &deletes(&[b"a", b"b", b"c"]));
        let refused = Delivery::Refused("CLIENT_ERROR bad".to_owned());
        assert_eq!(done, [Delivery::Done, refused, Delivery::Failed]);
        thread.join().unwrap();
    }

    #[test]
    fn a_server_that_refuses_every_delete_has_had_none() {
        for refusal in ["CLIENT_ERROR unauthenticated", "ERROR"] {
            let two: &'static str = format!("{refusal}\r\n{refusal}\r\n").leak();
            let (done, link, _) = deliver(&[(2, two), (1, &two[two.len() / 2..])], &deletes(&[b"a", b"b"]));
            assert_eq!(done, [Delivery::Failed, Delivery::Failed]);
            assert_eq!(link.reason, format!("the server rejects every delete: {refusal}"));
            assert!(!link.is_ready());
        }
    }

    #[test]
    fn what_a_server_has_refused_before_it_accepted_deletes_is_sent_again() {
        let (done, ..) = deliver(
            &[(2, "ERROR\r\nERROR\r\n"), (3, "NOT_FOUND\r\nDELETED\r\nNOT_FOUND\r\n")],
            &deletes(&[b"a", b"b"]),
        );
        assert_eq!(done, [Delivery::Done, Delivery::Done]);
    }

    #[test]
    fn a_hold_off_is_sent_and_left_out_for_servers_that_know_none() {
        let mut held = deletes(&[b"a", b"b c"]);
        held.iter_mut().for_each(|delete| delete.hold_off = HoldOff::Meta(3));
        held[0].hold_off = HoldOff::Classic(3);
        let (done, _, received) = deliver(&[(2, "DELETED\r\nHD\r\n")], &held);
        assert_eq!((&*received, done), ("delete a 3\r\nmd YiBj b H3\r\n", vec![Delivery::Done; 2]));
        let (done, link, received) = deliver(
            &[
                (2, "CLIENT_ERROR usage\r\nCLIENT_ERROR invalid flag\r\n"),
                (3, "DELETED\r\nCLIENT_ERROR usage\r\nCLIENT_ERROR invalid flag\r\n"),
                (2, "NOT_FOUND\r\nNF\r\n"),
            ],
            &held,
        );
        assert_eq!(done, [Delivery::Done, Delivery::Done]);
        assert!(received.ends_with("md YiBj b H3\r\ndelete a\r\nmd YiBj b\r\n"), "{received}");
        assert!(link.is_ready());
    }

    #[test]
    fn a_hold_off_is_kept_if_the_server_refused_every_request_for_a_moment() {
        let mut held = deletes(&[b"a", b"b c"]);
        held.iter_mut().for_each(|delete| delete.hold_off = HoldOff::Meta(3));
        held[0].hold_off = HoldOff::Classic(3);
        let (done, _, received) =
            deliver(&[(2, "ERROR\r\nERROR\r\n"), (3, "NOT_FOUND\r\nDELETED\r\nHD\r\n")], &held);
        assert_eq!(done, [Delivery::Done, Delivery::Done]);
        assert!(
            received.ends_with("delete guira-router-asks\r\ndelete a 3\r\nmd YiBj b H3\r\n"),
            "{received}"
        );
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

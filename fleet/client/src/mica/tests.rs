//! A client over a wire that loses, duplicates, reorders, truncates and forges, to a server that is a table.

use super::*;
use guira_protocol::mica::{
    DATAGRAM_HEADER, Directory, HashFunction, Header, Kind, Operation, PartitionAccess, REPLY_HEADER,
    ReplyWriter, Requests, Status,
};
use guira_transport::{ClientPath, PAYLOAD_MAX};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

/// What happens to the next datagrams: nothing, once no faults are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    LoseRequest,
    LoseAnswer,
    DoubleAnswer,
    CutAnswer,
    /// Deliver it after the next one.
    Delay,
    /// Deliver a forged copy first, with another byte at this index.
    Forge(usize),
}

#[derive(Debug)]
struct Wire {
    cores: usize,
    directory: Directory,
    table: HashMap<Vec<u8>, (u32, Vec<u8>)>,
    /// The requests that the server received: thread, operation, hash.
    seen: Vec<(usize, Operation, u64)>,
    faults: VecDeque<Fault>,
    buffer: Vec<u8>,
    chosen: usize,
    answers: VecDeque<Vec<u8>>,
    delayed: Vec<Vec<u8>>,
    /// Deliver at most this many replies at once.
    slow: bool,
}

const DIRECTORY: Directory = Directory {
    generation: 1,
    access: PartitionAccess::Erew,
    hash: HashFunction::RapidMicro,
    cores: 2,
    partition_bits: 4,
    port: 1,
    seed: 77,
    datagram_max: PAYLOAD_MAX as u32,
};

impl Wire {
    fn new(directory: Directory, faults: &[Fault]) -> Self {
        Wire {
            cores: 1,
            directory,
            table: HashMap::new(),
            seen: Vec::new(),
            faults: faults.iter().copied().collect(),
            buffer: vec![0; PAYLOAD_MAX],
            chosen: 0,
            answers: VecDeque::new(),
            delayed: Vec::new(),
            slow: false,
        }
    }

    /// The server's reply.
    fn serve(&mut self, core: usize, datagram: &[u8]) -> Vec<u8> {
        let header = Header::read(datagram).unwrap();
        let mut out = vec![0; PAYLOAD_MAX];
        if header.kind == Kind::DirectoryRequest {
            let length = self.directory.write(header, &mut out);
            out.truncate(length);
            return out;
        }
        if header.generation != self.directory.generation {
            header.answer(Kind::Moved, 0, self.directory.generation).write(&mut out);
            out.truncate(DATAGRAM_HEADER);
            return out;
        }
        let mut writer = ReplyWriter::resume(&mut out, DATAGRAM_HEADER);
        for (number, record) in Requests::of(datagram, &header).enumerate() {
            let operation = record.operation.unwrap();
            self.seen.push((core, operation, record.hash));
            let after = usize::from(header.count) - number - 1;
            match (operation, self.table.get(record.key)) {
                (Operation::Get, Some((flags, value))) if value.len() <= writer.space(after).len() => {
                    writer.space(after)[..value.len()].copy_from_slice(value);
                    writer.put(Status::Done, *flags, value.len());
                }
                (Operation::Get, Some(_)) => writer.put(Status::RequestAlone, 0, 0),
                (Operation::Set, _) => {
                    self.table.insert(record.key.to_vec(), (record.flags, record.value.to_vec()));
                    writer.put(Status::Done, 0, 0);
                }
                (Operation::Delete, Some(_)) => {
                    self.table.remove(record.key);
                    writer.put(Status::Done, 0, 0);
                }
                (_, _) => writer.put(Status::NotFound, 0, 0),
            }
        }
        let length = writer.at();
        header.answer(Kind::Replies, header.count, header.generation).write(&mut out);
        out.truncate(length);
        out
    }
}

impl ClientPath for Wire {
    fn cores(&self) -> usize {
        self.cores
    }

    fn reach(&mut self, cores: usize) -> io::Result<()> {
        self.cores = cores;
        Ok(())
    }

    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        assert!(core < self.cores);
        self.chosen = core;
        Some(&mut self.buffer)
    }

    fn post(&mut self, length: usize) {
        let fault = self.faults.pop_front().unwrap_or(Fault::None);
        if fault == Fault::LoseRequest {
            return;
        }
        let datagram = self.buffer[..length].to_vec();
        let mut answer = self.serve(self.chosen, &datagram);
        match fault {
            Fault::LoseAnswer => return,
            Fault::DoubleAnswer => self.answers.push_back(answer.clone()),
            Fault::CutAnswer => answer.truncate(answer.len() - 1),
            Fault::Forge(at) => {
                let mut lie = answer.clone();
                lie[at] ^= 0x5a;
                self.answers.push_back(lie);
            }
            Fault::Delay => return self.delayed.push(answer),
            Fault::None | Fault::LoseRequest => {}
        }
        self.answers.push_back(answer);
        self.answers.extend(self.delayed.drain(..));
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let count = if self.slow { self.answers.len().min(1) } else { self.answers.len() };
        self.answers.drain(..count).for_each(|answer| take(&answer));
        Ok(count)
    }

    fn wait(&mut self, _most: Duration) -> io::Result<()> {
        Ok(())
    }
}

const TIMEOUT: Duration = Duration::from_millis(20);

fn client(wire: Wire, per_datagram: u16) -> PipelinedClient<Wire> {
    let options = ClientOptions { per_datagram, window: 8, timeout: TIMEOUT, retries: 3 };
    let directory = wire.directory;
    PipelinedClient::new(wire, directory, 99, options).unwrap()
}

fn set<'r>(key: &'r [u8], value: &'r [u8]) -> Request<'r> {
    Request { value, flags: 5, ..Request::of(Operation::Set, key) }
}

fn get(key: &[u8]) -> Request<'_> {
    Request::of(Operation::Get, key)
}

/// The reported outcomes: ticket, and status and value unless the request was lost.
type Reported = Vec<(u64, Option<(Status, Vec<u8>)>)>;

/// Advances the time until all outcomes are reported.
fn run_to_end(client: &mut PipelinedClient<Wire>, now: &mut Duration) -> Reported {
    let mut reported = Reported::new();
    for _ in 0..50 {
        client.flush(*now).unwrap();
        client
            .poll(*now, &mut |ticket, outcome| {
                reported.push((
                    ticket.0,
                    match outcome {
                        Outcome::Answered(reply) => Some((reply.status, reply.value.to_vec())),
                        Outcome::Lost => None,
                    },
                ));
            })
            .unwrap();
        *now += TIMEOUT / 2;
    }
    assert!(client.is_idle());
    reported.sort_by_key(|(ticket, _)| *ticket);
    reported
}

fn done(value: &[u8]) -> Option<(Status, Vec<u8>)> {
    Some((Status::Done, value.to_vec()))
}

fn submit_all(client: &mut PipelinedClient<Wire>, requests: &[Request<'_>]) -> Reported {
    for (number, request) in requests.iter().enumerate() {
        client.submit(request, Ticket(number as u64)).unwrap().unwrap();
    }
    run_to_end(client, &mut Duration::from_secs(1))
}

#[test]
fn requests_in_a_datagram_are_answered_in_their_order() {
    let mut client = client(Wire::new(Directory { cores: 1, ..DIRECTORY }, &[]), 64);
    let reported =
        submit_all(&mut client, &[set(b"a", b"1"), get(b"a"), get(b"b"), set(b"b", b"2"), get(b"b")]);
    let missing = Some((Status::NotFound, Vec::new()));
    assert_eq!(reported, [(0, done(b"")), (1, done(b"1")), (2, missing), (3, done(b"")), (4, done(b"2"))]);
}

#[test]
fn only_idempotent_requests_are_sent_again() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::CutAnswer] {
        let wire = Wire::new(Directory { cores: 1, ..DIRECTORY }, &[Fault::None, fault, Fault::None]);
        let mut client = client(wire, 64);
        assert_eq!(submit_all(&mut client, &[set(b"a", b"1")]), [(0, done(b""))]);
        let reported =
            submit_all(&mut client, &[get(b"a"), set(b"x", b"2"), Request::of(Operation::Noop, b"")]);
        assert_eq!(reported[0], (0, done(b"1")), "{fault:?}");
        assert_eq!(reported[1], (1, None), "{fault:?}: it may or may not have been stored");
        assert_eq!(reported.len(), 3);
    }
}

#[test]
fn a_request_without_a_reply_is_lost() {
    let mut client = client(Wire::new(DIRECTORY, &[Fault::LoseRequest; 100]), 1);
    assert_eq!(submit_all(&mut client, &[get(b"a"), set(b"b", b"1")]), [(0, None), (1, None)]);
}

/// For each outcome its ticket, the time in units of half the timeout, and whether a reply arrived.
type Times = Vec<(u64, u32, bool)>;

/// The times at which four requests in one datagram are reported, and the requests that the server received.
fn times_of(faults: &[Fault]) -> (Times, Vec<(usize, Operation, u64)>) {
    let mut wire = Wire::new(Directory { cores: 1, ..DIRECTORY }, faults);
    wire.table.insert(b"a".to_vec(), (0, b"1".to_vec()));
    let mut client = client(wire, 64);
    for (number, request) in [get(b"a"), set(b"b", b"2"), get(b"a"), set(b"c", b"3")].iter().enumerate() {
        client.submit(request, Ticket(number as u64)).unwrap().unwrap();
    }
    let mut reported = Vec::new();
    for step in 0..100 {
        let now = Duration::from_secs(1) + step * TIMEOUT / 2;
        client.flush(now).unwrap();
        let report = &mut |ticket: Ticket, outcome: Outcome<'_>| {
            reported.push((ticket.0, step, outcome != Outcome::Lost))
        };
        client.poll(now, report).unwrap();
    }
    assert!(client.is_idle());
    reported.sort_by_key(|it| it.0);
    let seen = client.path().seen.clone();
    (reported, seen)
}

#[test]
fn a_store_is_waited_for_as_long_as_a_retried_request() {
    let lost = |reported: Times| reported.iter().map(|it| (it.1, it.2)).collect::<Vec<_>>();
    // 1 + 2 + 4 + 8 times the timeout, without a reply.
    let (reported, seen) = times_of(&[Fault::LoseRequest; 100]);
    assert!(seen.is_empty());
    assert_eq!(lost(reported), [(30, false); 4]);
    // Idempotent requests are sent again after the timeout; the others are lost at the end.
    let (reported, _) = times_of(&[Fault::LoseRequest]);
    assert_eq!(lost(reported), [(3, true), (30, false), (3, true), (30, false)]);
}

#[test]
fn a_late_reply_reports_requests_that_were_not_sent_again() {
    // The first datagram's reply arrives after that of the first retry that is not lost.
    for (lost, late) in [(0, 3), (2, 7), (4, 15)] {
        let mut faults = vec![Fault::LoseRequest; lost + 1];
        faults[0] = Fault::Delay;
        let (reported, seen) = times_of(&faults);
        assert_eq!(reported, [(0, late, true), (1, late, true), (2, late, true), (3, late, true)]);
        let sets = seen.iter().filter(|(_, operation, _)| *operation == Operation::Set).count();
        assert_eq!((sets, seen.len()), (2, 6), "nothing is stored twice, each get is sent again");
    }
}

#[test]
fn each_request_is_reported_once_over_a_faulty_wire() {
    let faults = [
        Fault::DoubleAnswer,
        Fault::Delay,
        Fault::None,
        Fault::Delay,
        Fault::DoubleAnswer,
        Fault::LoseAnswer,
        Fault::Delay,
        Fault::DoubleAnswer,
    ];
    let mut client = client(Wire::new(DIRECTORY, &faults), 1);
    let keys: Vec<Vec<u8>> = (0..8u8).map(|number| vec![b'k', number]).collect();
    let requests: Vec<Request<'_>> = keys.iter().map(|key| get(key)).collect();
    let reported = submit_all(&mut client, &requests);
    let tickets: Vec<u64> = reported.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(reported.iter().all(|(_, outcome)| *outcome == Some((Status::NotFound, Vec::new()))));
}

#[test]
fn forged_answers_are_not_believed() {
    // Magic, version, kind, count, sequence, opaque.
    for at in [0, 1, 2, 3, 4, 12, 13, 14, 15, 16, 23] {
        let mut client = client(Wire::new(DIRECTORY, &[Fault::None, Fault::Forge(at)]), 1);
        assert_eq!(submit_all(&mut client, &[set(b"a", b"1")]), [(0, done(b""))]);
        assert_eq!(submit_all(&mut client, &[get(b"a")]), [(0, done(b"1"))], "forged at {at}");
    }
}

#[test]
fn a_new_directory_is_requested_and_no_request_is_lost() {
    let mut client = client(Wire::new(DIRECTORY, &[]), 4);
    let keys: Vec<Vec<u8>> = (0..20u8).map(|number| vec![b'k', number]).collect();
    let sets: Vec<Request<'_>> = keys.iter().map(|key| set(key, b"value")).collect();
    assert_eq!(submit_all(&mut client, &sets).len(), 20);
    let next = Directory { generation: 2, cores: 3, seed: 78, ..DIRECTORY };
    let wire = client.path();
    wire.directory = next;
    wire.seen.clear();
    let gets: Vec<Request<'_>> = keys.iter().map(|key| get(key)).collect();
    assert!(submit_all(&mut client, &gets).iter().all(|(_, outcome)| *outcome == done(b"value")));
    assert_eq!(client.directory(), next);
    let seen = &client.path().seen;
    assert!(seen.len() == 20 && seen.iter().all(|(core, _, hash)| *core == next.home(*hash)));
}

#[test]
fn a_reply_that_does_not_fit_beside_others_is_requested_alone() {
    let mut client = client(Wire::new(Directory { cores: 1, ..DIRECTORY }, &[]), 64);
    let long = vec![7; PAYLOAD_MAX - DATAGRAM_HEADER - REPLY_HEADER - 20];
    assert_eq!(submit_all(&mut client, &[set(b"a", &long), set(b"b", &long)]).len(), 2);
    let reported = submit_all(&mut client, &[get(b"a"), get(b"b"), get(b"c")]);
    assert_eq!(reported, [(0, done(&long)), (1, done(&long)), (2, Some((Status::NotFound, Vec::new())))]);
}

#[test]
fn requests_go_where_their_keys_are_at_home_and_reads_anywhere_if_they_may() {
    let keys: Vec<Vec<u8>> = (0..64u8).map(|number| vec![b'k', number]).collect();
    for access in
        [PartitionAccess::Erew, PartitionAccess::Crew, PartitionAccess::Crcw, PartitionAccess::Shared]
    {
        let directory = Directory { access, cores: 4, ..DIRECTORY };
        let mut client = client(Wire::new(directory, &[]), 1);
        keys.iter().for_each(|key| _ = submit_all(&mut client, &[set(key, b"1")]));
        keys.iter().for_each(|key| _ = submit_all(&mut client, &[get(key)]));
        let seen = client.path().seen.clone();
        let at_home = |read: bool| {
            let of_kind: Vec<_> =
                seen.iter().filter(|(_, operation, _)| operation.is_read() == read).collect();
            of_kind.iter().filter(|(core, _, hash)| *core == directory.home(*hash)).count() * 100
                / of_kind.len()
        };
        let spread = |read: bool| {
            (0..4)
                .all(|core| seen.iter().any(|(it, operation, _)| *it == core && operation.is_read() == read))
        };
        let everywhere = access == PartitionAccess::Shared;
        assert_eq!(at_home(false) == 100, !everywhere, "{access:?}");
        assert_eq!(at_home(true) == 100, !everywhere && access != PartitionAccess::Crew, "{access:?}");
        assert!(spread(true) && spread(false));
    }
}

#[test]
fn an_invalid_request_is_refused_with_a_reason() {
    let mut client = client(Wire::new(DIRECTORY, &[]), 1);
    let mut refusal = |request: &Request<'_>| client.submit(request, Ticket(0)).unwrap_err().to_string();
    assert_eq!(refusal(&get(b"")), "a key has 1 to 250 bytes, not 0");
    assert_eq!(refusal(&get(&[b'k'; 251])), "a key has 1 to 250 bytes, not 251");
    assert_eq!(
        refusal(&set(b"a", &[0; PAYLOAD_MAX])),
        "key and value (1453 bytes) do not fit into a datagram: use TCP"
    );
}

#[test]
fn no_more_is_under_way_than_the_window_allows() {
    let mut wire = Wire::new(DIRECTORY, &[]);
    wire.slow = true;
    let mut client = client(wire, 1);
    let mut submitted = 0;
    while client.submit(&get(b"a"), Ticket(submitted)).unwrap().is_ok() {
        submitted += 1;
    }
    assert_eq!(submitted, 8);
    client.flush(Duration::ZERO).unwrap();
    assert!(client.submit(&get(b"a"), Ticket(8)).unwrap().is_err());
    assert_eq!(client.poll(Duration::ZERO, &mut |_, _| ()).unwrap(), 1);
    assert!(client.submit(&get(b"a"), Ticket(8)).unwrap().is_ok());
    assert_eq!(run_to_end(&mut client, &mut Duration::from_secs(0)).len(), 8);
}

#[test]
fn a_client_requests_the_directory_first_and_again_if_it_is_lost() {
    let faults = [Fault::LoseRequest, Fault::LoseAnswer];
    let mut client = Client::new(Wire::new(DIRECTORY, &faults), ClientOptions::default()).unwrap();
    assert_eq!(client.directory(), DIRECTORY);
    client.set(b"a", b"1", 5, 0).unwrap();
    assert_eq!(client.get(b"a").unwrap(), Some(StoredValue { value: b"1".to_vec(), flags: 5 }));
    assert_eq!((client.delete(b"a").unwrap(), client.delete(b"a").unwrap()), (true, false));
    assert_eq!(client.get(b"a").unwrap(), None);
    let silent = Client::new(Wire::new(DIRECTORY, &[Fault::LoseRequest; 1000]), ClientOptions::default());
    assert_eq!(silent.unwrap_err().to_string(), "no MICA server replies at this address");
}

#[test]
fn hashes_are_those_of_the_document() {
    let document = include_str!("../../../../docs/reference/protocol-mica.md");
    let mut rows = 0;
    for line in document.lines().filter(|line| line.contains("| k |")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let directory = Directory { seed: number(cells[0]), ..DIRECTORY };
        let mut client = client(Wire::new(directory, &[]), 1);
        let key = vec![b'k'; cells[2].parse().unwrap()];
        submit_all(&mut client, &[get(&key)]);
        assert_eq!(client.path().seen[0].2, number(cells[3]), "{line}");
        rows += 1;
    }
    assert_eq!(rows, 34);
}

#[test]
fn requests_sent_again_after_a_move_keep_their_order() {
    let mut client = client(Wire::new(Directory { cores: 1, ..DIRECTORY }, &[]), 64);
    let next = Directory { generation: 2, cores: 1, seed: 78, ..DIRECTORY };
    client.path().directory = next;
    // One datagram: the specification says that its requests are executed in order.
    let reported = submit_all(&mut client, &[set(b"a", b"older"), set(b"a", b"newer")]);
    assert_eq!(reported.len(), 2);
    assert_eq!(client.path().table[&b"a"[..]].1, b"newer");
}

#[test]
fn a_server_with_fewer_workers_than_before_is_found() {
    let mut client = client(Wire::new(DIRECTORY, &[]), 64);
    // Keys for both workers.
    let keys: Vec<Vec<u8>> = (0..20u8).map(|number| vec![b'k', number]).collect();
    client.path().directory = Directory { generation: 2, cores: 1, ..DIRECTORY };
    let now = Duration::from_secs(1);
    client.submit(&get(b"first"), Ticket(100)).unwrap().unwrap();
    client.flush(now).unwrap();
    // The server replies that it has moved; the client requests the directory.
    client.poll(now, &mut |_, _| ()).unwrap();
    // These are submitted before the reply is received.
    for (number, key) in keys.iter().enumerate() {
        client.submit(&get(key), Ticket(number as u64)).unwrap().unwrap();
    }
    client.poll(now, &mut |_, _| ()).unwrap();
    let reported = run_to_end(&mut client, &mut Duration::from_secs(1));
    assert!(reported.len() >= 20);
}

#[test]
fn requests_to_a_server_that_disappears_after_a_move_are_lost() {
    let wire = Wire::new(DIRECTORY, &[]);
    let mut client = client(wire, 1);
    client.path().directory = Directory { generation: 2, ..DIRECTORY };
    let now = Duration::from_secs(1);
    client.submit(&get(b"a"), Ticket(1)).unwrap().unwrap();
    client.flush(now).unwrap();
    // From now on all datagrams are lost.
    client.path().faults.extend(std::iter::repeat_n(Fault::LoseRequest, 100_000));
    let mut reported = 0;
    for step in 0..10_000u32 {
        reported += client.poll(now + step * TIMEOUT, &mut |_, _| ()).unwrap();
    }
    assert_eq!(
        reported, 1,
        "200 seconds after it was sent it is neither answered nor lost: Client::call never returns"
    );
}

/// A wire that refuses datagrams for a while, as a ring does whose server is stopped.
#[derive(Debug)]
struct Stuffed(Wire, u32);

impl ClientPath for Stuffed {
    fn cores(&self) -> usize {
        self.0.cores()
    }
    fn reach(&mut self, cores: usize) -> io::Result<()> {
        self.0.reach(cores)
    }
    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        if self.1 > 0 {
            self.1 -= 1;
            return None;
        }
        self.0.buffer(core)
    }
    fn post(&mut self, length: usize) {
        self.0.post(length);
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.0.receive(take)
    }
    fn wait(&mut self, most: Duration) -> io::Result<()> {
        guira_sync::thread::sleep(most);
        Ok(())
    }
}

#[test]
fn datagrams_that_the_path_refuses_are_sent_later() {
    let client = guira_sync::thread::spawn(|| {
        let mut client =
            Client::new(Stuffed(Wire::new(DIRECTORY, &[]), 1), ClientOptions::default()).unwrap();
        client.set(b"a", b"1", 0, 0).unwrap();
        let wire = Stuffed(Wire::new(DIRECTORY, &[]), 0);
        drop(wire);
        client
    });
    // `fetch_directory` makes the first attempt, and tries again; so this one succeeds.
    let mut client = client.join().unwrap();
    let caller = guira_sync::thread::spawn(move || {
        client.stuff(1);
        client.get(b"a").map(|found| found.is_some())
    });
    for _ in 0..200 {
        if caller.is_finished() {
            assert!(caller.join().unwrap().is_ok());
            return;
        }
        guira_sync::thread::sleep(Duration::from_millis(10));
    }
    panic!("two seconds later, with a wire that takes everything again, the call has not returned");
}

impl Client<Stuffed> {
    fn stuff(&mut self, times: u32) {
        self.client.path().1 = times;
    }
}

#[test]
fn a_truncated_late_reply_to_a_single_request_is_ignored() {
    let mut client = client(Wire::new(Directory { cores: 1, ..DIRECTORY }, &[Fault::Delay]), 1);
    let now = Duration::from_secs(1);
    client.submit(&set(b"a", b"1"), Ticket(0)).unwrap().unwrap();
    client.flush(now).unwrap();
    let late = now + 2 * TIMEOUT;
    client.poll(late, &mut |_, _| panic!("the reply is still expected")).unwrap();
    let whole = client.path().delayed.pop().unwrap();
    client.path().answers.push_back(whole[..whole.len() - 1].to_vec());
    client.poll(late, &mut |_, _| panic!("a truncated reply was accepted")).unwrap();
    client.path().answers.push_back(whole);
    assert_eq!(client.poll(late, &mut |_, outcome| assert_ne!(outcome, Outcome::Lost)).unwrap(), 1);
}

#[test]
fn options_may_be_as_extreme_as_they_like() {
    for timeout in [Duration::ZERO, Duration::from_secs(1 << 50), Duration::MAX] {
        for retries in [0, 1, RETRIES_MAX, RETRIES_MAX + 1, u32::MAX] {
            let wire = Wire::new(Directory { cores: 1, ..DIRECTORY }, &[Fault::LoseRequest; 100]);
            let options = ClientOptions { per_datagram: 4, window: 8, timeout, retries };
            let mut client =
                PipelinedClient::new(wire, Directory { cores: 1, ..DIRECTORY }, 99, options).unwrap();
            for request in [set(b"a", b"1"), get(b"a")] {
                client.submit(&request, Ticket(0)).unwrap().unwrap();
            }
            let mut reported = 0;
            for step in 0..100 {
                let now = Duration::from_secs(1) + step * TIMEOUT;
                client.flush(now).unwrap();
                reported += client.poll(now, &mut |_, outcome| assert_eq!(outcome, Outcome::Lost)).unwrap();
            }
            assert_eq!(reported, if timeout.is_zero() { 2 } else { 0 }, "{timeout:?}, {retries}");
        }
    }
}

/// Pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

#[test]
fn each_request_is_reported_once_in_any_order_of_events() {
    const FAULTS: [Fault; 8] = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::DoubleAnswer,
        Fault::CutAnswer,
        Fault::Delay,
        Fault::Delay,
        Fault::None,
        Fault::None,
    ];
    for seed in 0..200u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let options = ClientOptions {
            per_datagram: numbers.one_of(&[1, 2, 4, 64]),
            window: numbers.one_of(&[1, 2, 8]),
            timeout: TIMEOUT,
            retries: numbers.one_of(&[0, 1, 3, 5]),
        };
        let mut client = PipelinedClient::new(Wire::new(DIRECTORY, &[]), DIRECTORY, 99, options).unwrap();
        let long = vec![7; PAYLOAD_MAX - DATAGRAM_HEADER - REPLY_HEADER - 40];
        client.path().table.insert(b"long".to_vec(), (0, long.clone()));
        client.path().table.insert(b"long2".to_vec(), (0, long));
        let (mut reported, mut submitted, mut generation) = (HashMap::<u64, u32>::new(), 0u64, 1);
        for step in 0..800u32 {
            let now = Duration::from_secs(1) + step * TIMEOUT / 2;
            if step < 120 {
                for _ in 0..numbers.below(6) {
                    let key = format!("k{submitted}");
                    let request = match numbers.below(4) {
                        0 => get(b"long"),
                        1 => get(b"long2"),
                        _ => set(key.as_bytes(), b"v"),
                    };
                    submitted += u64::from(client.submit(&request, Ticket(submitted)).unwrap().is_ok());
                }
                let fault = numbers.one_of(&FAULTS);
                client.path().faults.push_back(fault);
                if numbers.below(25) == 0 {
                    generation += 1;
                    let cores = 1 + numbers.below(3) as u16;
                    client.path().directory = Directory { generation, cores, ..DIRECTORY };
                }
            }
            let kind = numbers.below(10);
            if let Some(late) = client.path().delayed.first_mut().filter(|_| kind < 2)
                && let Some(header) = Header::read(late).ok().filter(|header| header.kind == Kind::Replies)
            {
                late.truncate(if kind == 0 { DATAGRAM_HEADER } else { late.len() - 1 });
                if kind == 0 {
                    header.answer(Kind::Malformed, 0, header.generation).write(late);
                }
            }
            client.flush(now).unwrap();
            client.poll(now, &mut |ticket, _| *reported.entry(ticket.0).or_default() += 1).unwrap();
        }
        assert!(client.is_idle(), "seed {seed}");
        assert_eq!(reported.len() as u64, submitted, "seed {seed}");
        assert!(reported.values().all(|count| *count == 1), "seed {seed}");
    }
}

#[test]
fn a_closed_port_is_tried_again_until_it_can_be_open() {
    let closed = guira_transport::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut path = guira_transport::UdpClientPath::connect(closed).unwrap();
    let (timeout, watch) = (Duration::from_millis(2), guira_sync::clock::Stopwatch::start());
    assert!(matches!(fetch_directory(&mut path, timeout), Err(ClientError::Silent)));
    assert!(watch.elapsed() >= 40 * timeout, "gave up after {:?}", watch.elapsed());
}

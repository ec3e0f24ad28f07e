//! Servers and clients that are slow: what others notice of them.

use crate::{Router, name};
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::{Client, Server};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A server that answers its first get when it is told to.
fn late_server(answer: Receiver<()>, asked: Sender<()>) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let thread = std::thread::spawn(move || {
        let stream = listener.accept().expect("the router connects").0;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("the router asks");
        assert_eq!(line, "get late:key\r\n");
        asked.send(()).expect("the test waits for it");
        answer.recv().expect("the test tells when");
        (&stream).write_all(b"VALUE late:key 0 4\r\nlate\r\nEND\r\n").expect("the router listens");
    });
    (address, thread)
}

#[test]
fn a_server_that_is_late_holds_up_nobody_who_asks_others() {
    let node = Server::start();
    let ((answer, told), (asked, is_asked)) = (channel(), channel());
    let (late, server) = late_server(told, asked);
    let config = format!(
        r#"{{
            "pools": {{"A": {{"servers": ["{}"]}}, "S": {{"servers": ["{late}"]}}}},
            "route": {{
                "type": "PrefixSelectorRoute", "policies": {{"late:": "PoolRoute|S"}}, "wildcard": "PoolRoute|A"
            }}
        }}"#,
        name(&node)
    );
    let options = ["--num-proxies", "1", "--server-timeout-ms", "60000", "--config-str", &config];
    let router = Router::start(&options);
    let mut patient = router.connect();
    patient.send("get late:key\r\n");
    is_asked.recv_timeout(PATIENCE).expect("the request arrives");
    // All of them are answered before the late one is.
    let mut others: Vec<Client> = (0..4).map(|_| router.connect()).collect();
    for number in 0..200 {
        for (who, other) in others.iter_mut().enumerate() {
            other.exchange(format!("set {who} 0 0 3\r\n{number:03}\r\n"), "STORED\r\n");
            other.exchange(
                format!("get {who} none\r\n"),
                format!("VALUE {who} 0 3\r\n{number:03}\r\nEND\r\n"),
            );
        }
    }
    answer.send(()).expect("the server waits");
    patient.hear("VALUE late:key 0 4\r\nlate\r\nEND\r\n");
    server.join().expect("it was asked once");
}

/// What clients' replies may hold in these tests.
const CONNECTION_MEMORY: &str = "64MiB";
/// What the router takes with that: replies that wait for others, those that are just being read and handed out, and the program.
const CEILING: usize = (64 + 64 + 32) << 20;

/// A router before one node that has a value of this length at `long`, and a short one.
fn router_with_long_value(length: usize) -> (Router, Server, Client) {
    let node = Server::start();
    let config = crate::config_of(&node);
    // Copying takes long without optimisation, and no server is at fault here.
    let memory = ["--connection-memory", CONNECTION_MEMORY];
    let options = ["--num-proxies", "2", "--server-timeout-ms", "60000", "--config-str", &config];
    let router = Router::start(&[memory.as_slice(), &options].concat());
    let mut honest = router.connect();
    honest.set("long", vec![b'v'; length]);
    honest.set("short", "s");
    (router, node, honest)
}

fn resident(router: &Router) -> usize {
    router.process.process().private_bytes().expect("it runs") as usize
}

/// Waits until clients have what they will ever have. Returns the most that the router held meanwhile.
#[track_caller]
fn most_until_at_rest(router: &Router, honest: &mut Client) -> usize {
    let (mut most, mut last) = (0, 0);
    let is_settled = || {
        honest.expect_value("short", "s");
        let now = resident(router);
        most = most.max(now);
        std::mem::replace(&mut last, now).eq(&now).then_some(())
    };
    Deadline::after(PATIENCE).poll(is_settled).expect("memory comes to rest");
    most
}

/// Waits until no connection holds anything.
#[track_caller]
fn expect_given_back(honest: &mut Client) {
    let used = || honest.stats("")["conn_memory_used"].parse::<usize>().expect("a number");
    let mut used = used;
    Deadline::after(PATIENCE).poll(|| (used() < 64 << 10).then_some(())).expect("all of it is given back");
}

#[test]
fn clients_that_never_read_leave_memory_within_its_ceiling_and_others_are_served() {
    for (length, clients) in [(1_000_000, 50), (200_000, 50), (10_000, 20), (100, 5)] {
        let (router, _node, mut honest) = router_with_long_value(length);
        let mut most = 0;
        // Fifty gibibytes, if the router took all of it.
        let requests = ["get long\r\n".repeat(1000), format!("get{}\r\n", " long".repeat(100)).repeat(10)];
        let mut blind = Vec::new();
        for number in 0..clients {
            let mut client = router.connect();
            client.send_what_is_taken(requests[number % 2].as_bytes());
            blind.push(client);
            honest.expect_value("short", "s");
            most = most.max(resident(&router));
        }
        most = most.max(most_until_at_rest(&router, &mut honest));
        assert!(most <= CEILING, "{} MiB with values of {length}", most >> 20);
        blind.into_iter().for_each(Client::abandon);
        expect_given_back(&mut honest);
    }
}

#[test]
fn a_client_that_reads_late_is_sent_all_that_it_has_asked_for() {
    const LENGTH: usize = 700_000;
    let (router, _node, mut honest) = router_with_long_value(LENGTH);
    let mut late = router.connect();
    // Nobody knows how long replies to its first requests are.
    late.expect_value("long", "v".repeat(LENGTH));
    let value = format!("VALUE long 0 {LENGTH}\r\n{}\r\n", "v".repeat(LENGTH));
    let many = format!("get{}\r\n", " long".repeat(100));
    let requests = ["get long\r\n".repeat(50), many, "get short\r\n".to_owned()].concat();
    late.send_what_is_taken(requests.as_bytes());
    let held = most_until_at_rest(&router, &mut honest);
    assert!(held < 48 << 20, "{} MiB for one client", held >> 20);
    let one = format!("{value}END\r\n");
    for number in 0..50 {
        assert!(late.take(one.len()) == one.as_bytes(), "reply {number}");
    }
    for number in 0..100 {
        assert!(late.take(value.len()) == value.as_bytes(), "value {number} of a get of a hundred");
    }
    late.hear("END\r\nVALUE short 0 1\r\ns\r\nEND\r\n");
    expect_given_back(&mut honest);
}

#[test]
fn a_get_whose_values_do_not_fit_fails_and_is_answered_in_parts_when_that_is_known() {
    const LENGTH: usize = 1_000_000;
    let (router, _node, mut honest) = router_with_long_value(LENGTH);
    let mut client = router.connect();
    let many = format!("get{}\r\n", " long".repeat(200));
    client.exchange(&many, "SERVER_ERROR out of memory for replies\r\n");
    let value = format!("VALUE long 0 {LENGTH}\r\n{}\r\n", "v".repeat(LENGTH));
    client.send(&many);
    for number in 0..200 {
        assert!(client.take(value.len()) == value.as_bytes(), "value {number}");
    }
    client.hear("END\r\n");
    expect_given_back(&mut honest);
}

#[test]
fn many_clients_that_ask_for_more_than_there_is_room_for_are_served_one_after_the_other() {
    const LENGTH: usize = 1_000_000;
    let (router, _node, mut honest) = router_with_long_value(LENGTH);
    let one = format!("VALUE long 0 {LENGTH}\r\n{}\r\nEND\r\n", "v".repeat(LENGTH));
    let readers: Vec<_> = (0..20).map(|_| router.connect()).collect();
    let most = std::thread::scope(|scope| {
        let reading: Vec<_> = readers
            .into_iter()
            .map(|mut reader| {
                let one = one.as_bytes();
                scope.spawn(move || {
                    reader.be_patient(PATIENCE);
                    for _ in 0..10 {
                        reader.send("get long\r\n".repeat(10));
                        (0..10).for_each(|number| assert!(reader.take(one.len()) == one, "reply {number}"));
                    }
                })
            })
            .collect();
        let mut most = 0;
        while !reading.iter().all(|reader| reader.is_finished()) {
            honest.expect_value("short", "s");
            most = most.max(resident(&router));
        }
        most
    });
    assert!(most <= CEILING, "{} MiB", most >> 20);
    expect_given_back(&mut honest);
}

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

/// What clients may make the router hold, and what it takes for itself.
const CEILING: usize = (1024 + 256 + 64) << 20;

#[test]
fn clients_that_never_read_leave_memory_within_its_ceiling_and_others_are_served() {
    const LENGTH: usize = 200_000;
    let node = Server::start();
    let config = crate::config_of(&node);
    // Copying takes long without optimisation, and no server is at fault here.
    let options = ["--num-proxies", "2", "--server-timeout-ms", "60000", "--config-str", &config];
    let router = Router::start(&options);
    let mut honest = router.connect();
    honest.set("long", vec![b'v'; LENGTH]);
    honest.set("short", "s");
    let resident = || router.process.process().private_bytes().expect("it runs") as usize;
    let mut most = 0;
    // Ten gibibytes, if the router took all of it.
    let request = "get long\r\n".repeat(1000);
    let mut blind = Vec::new();
    for _ in 0..50 {
        let mut client = router.connect();
        client.send_what_is_taken(request.as_bytes());
        blind.push(client);
        honest.expect_value("short", "s");
        most = most.max(resident());
    }
    let mut last = 0;
    let is_settled = || {
        honest.expect_value("short", "s");
        let now = resident();
        most = most.max(now);
        std::mem::replace(&mut last, now).eq(&now).then_some(())
    };
    Deadline::after(PATIENCE).poll(is_settled).expect("memory comes to rest");
    assert!(most <= CEILING, "{} MiB", most >> 20);
    blind.into_iter().for_each(Client::abandon);
    honest.expect_value("short", "s");
}

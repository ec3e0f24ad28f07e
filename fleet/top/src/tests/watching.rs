use guira_sync::thread;
use guira_transport::net::TcpListener;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_sync::clock::Stopwatch;

use super::target;
use crate::reading::Group;
use crate::watch::Watch;

const WAIT: Duration = Duration::from_secs(20);

/// Answers every line until the client leaves, or until `most` lines were answered.
fn answer(listener: &TcpListener, text: &str, most: usize) {
    let (mut socket, _) = listener.accept().expect("a client");
    let lines = BufReader::new(socket.try_clone().expect("a copy")).lines();
    for _ in lines.map_while(Result::ok).take(most) {
        if socket.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_node_that_goes_away_is_told_and_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        answer(&listener, "STAT uptime 1\r\nEND\r\n", 1);
        answer(&listener, "CLIENT_ERROR unauthenticated\r\n", 1);
        answer(&listener, "STAT uptime 2\r\nEND\r\n", usize::MAX);
    });
    let interval = Duration::from_millis(5);
    let watch =
        Watch::start(&[target(&address, WAIT)], &[Group::General], interval, Stopwatch::start()).unwrap();
    let mut seen: Vec<String> = Vec::new();
    let up_again = Deadline::after(WAIT).poll(|| {
        seen.extend(watch.updates().map(|update| match update.outcome {
            Ok(reading) => format!("up {}", reading.number("uptime").unwrap()),
            Err(why) => why,
        }));
        seen.iter().any(|what| what == "up 2").then_some(())
    });
    assert!(up_again.is_some(), "{seen:?}");
    assert_eq!(seen[0], "up 1");
    assert!(seen.iter().any(|what| what.contains("refuses stats: CLIENT_ERROR unauthenticated")), "{seen:?}");
}

#[test]
fn what_is_wished_for_is_asked_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || answer(&listener, "STAT topkeys:sampling 4\r\nEND\r\n", usize::MAX));
    // The next look would come in an hour.
    let interval = Duration::from_secs(3600);
    let watch =
        Watch::start(&[target(&address, WAIT)], &[Group::General], interval, Stopwatch::start()).unwrap();
    let next = || Deadline::after(WAIT).poll(|| watch.updates().next()).expect("an update").outcome.unwrap();
    assert!(next().keys.received().is_none());
    watch.request(&[Group::General, Group::Keys]);
    assert_eq!(next().keys.received().unwrap().sampling, Some(4));
}

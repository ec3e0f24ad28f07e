//! Members of etcd that hang, answer late, or answer.

use super::*;
use guira_harness::deadline::Deadline;
use guira_sync::clock::Stopwatch;
use guira_sync::lock::Mutex;
use guira_transport::net::TcpListener;
use std::io::Write;

/// The requests to a member, and its replies.
const SNAPSHOT: &str =
    r#"{"header":{"revision":"7"},"kvs":[{"key":"L2E=","mod_revision":"3","value":"aGk="}]}"#;

/// A member that takes connections, and answers nothing on them.
fn hung() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (listener, endpoint)
}

/// A member that replies after this time, and pushes each request to `asked`.
fn answering(after: Duration, answer: &'static str, paths: Arc<Mutex<Vec<String>>>) -> String {
    answering_by(move |_| after, answer, paths)
}

/// A member that replies after a time that depends on the number of earlier requests.
fn answering_by(
    after: impl Fn(usize) -> Duration + Clone + Send + 'static,
    answer: &'static str,
    paths: Arc<Mutex<Vec<String>>>,
) -> String {
    let (listener, endpoint) = hung();
    guira_sync::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, paths, after) = (stream.unwrap(), paths.clone(), after.clone());
            guira_sync::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length, mut wait) = (String::new(), 0, Duration::ZERO);
                loop {
                    line.clear();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if let Some(path) = line.strip_prefix("POST ") {
                        let mut paths = paths.lock();
                        wait = after(paths.len());
                        paths.push(path.split(' ').next().unwrap().to_owned());
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        let mut body = vec![0; length];
                        reader.read_exact(&mut body).unwrap();
                        let is_over: Option<()> = None;
                        let _ = Deadline::after(wait).poll(|| is_over);
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                        let _ = stream.write_all((head + answer).as_bytes());
                    }
                }
            });
        }
    });
    endpoint
}

fn etcd(endpoints: Vec<String>) -> Etcd {
    Etcd::new(EtcdOptions::new(endpoints), Arc::default()).unwrap()
}

#[test]
fn members_that_hang_are_not_waited_for_one_after_the_other() {
    let ((_one, first), (_two, second)) = (hung(), hung());
    let third = answering(Duration::ZERO, SNAPSHOT, Arc::default());
    let mut etcd = etcd(vec![first, second, third]);
    let clock = Stopwatch::start();
    assert_eq!(etcd.range("/").unwrap().revision, 7);
    // Two whole calls would be three seconds.
    assert!(clock.elapsed() < Duration::from_millis(2500), "{:?}", clock.elapsed());
    let clock = Stopwatch::start();
    assert_eq!(etcd.range("/").unwrap().revision, 7);
    assert!(clock.elapsed() < NEXT_AFTER, "the one that has answered is asked first: {:?}", clock.elapsed());
}

#[test]
fn members_that_are_slow_are_waited_for() {
    let slow = || answering(Duration::from_millis(700), SNAPSHOT, Arc::default());
    let mut etcd = etcd(vec![slow(), slow()]);
    assert_eq!(etcd.range("/").unwrap().revision, 7);
}

#[test]
fn members_that_are_slow_are_asked_once_from_the_second_call_on() {
    let paths = Arc::<Mutex<Vec<String>>>::default();
    // Five slow answers, and then one that is fast.
    let after = |before| if before < 5 { Duration::from_millis(700) } else { Duration::ZERO };
    let slow = || answering_by(after, SNAPSHOT, paths.clone());
    let mut etcd = etcd(vec![slow(), slow()]);
    let mut calls = || {
        etcd.range("/").unwrap();
        paths.lock().len()
    };
    assert_eq!([calls(), calls(), calls()], [3, 4, 5], "both have had half a second once");
    assert_eq!(calls(), 6);
    assert_eq!(etcd.patience, NEXT_AFTER, "members that hang later are not waited for so long");
}

#[test]
fn a_change_is_not_asked_for_twice_because_a_member_is_slow() {
    let paths = Arc::<Mutex<Vec<String>>>::default();
    let slow = || answering(Duration::from_millis(700), r#"{"succeeded":true}"#, paths.clone());
    let mut etcd = etcd(vec![slow(), slow()]);
    assert_eq!(etcd.change(&[Condition::IsAbsent("/a")], &[]).unwrap(), Outcome::Done);
    assert_eq!(*paths.lock(), ["/v3/kv/txn"]);
}

use guira_sync::thread::{self, JoinHandle};
use guira_transport::net::{TcpListener, UnixListener};
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use guira_harness::port::refusing_address;
use guira_harness::scratch::Scratch;
use guira_protocol::client::Reply;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

/// A server that reads as many lines as it is given answers, and gives them. It returns what it has read.
fn serve(
    mut socket: impl Read + Write + Send + 'static,
    answers: &'static [&'static str],
) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut read = String::new();
        for answer in answers {
            BufReader::with_capacity(1, &mut socket).read_line(&mut read).unwrap();
            socket.write_all(answer.as_bytes()).unwrap();
        }
        read
    })
}

/// A server at a port of its own.
fn listen(answers: &'static [&'static str]) -> (Target, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = endpoint(&listener.local_addr().unwrap().to_string());
    let server = thread::spawn(move || serve(listener.accept().unwrap().0, answers).join().unwrap());
    (Target::new(at, TIMEOUT), server)
}

#[test]
fn endpoints_are_read_and_written_alike() {
    for text in ["localhost:11211", "10.0.0.1:1", "[::1]:11211", "unix:/run/x", "cache-0.pool_a:2"] {
        assert_eq!(endpoint(text).to_string(), text);
    }
    for text in
        ["", "localhost", ":1", "a:0", "a:65536", "a b:1", "::1:1", "[::1]", "[x]:1", "unix:", "a\x1b[2J:1"]
    {
        assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
    }
}

#[test]
fn statistics_are_told_until_the_end() {
    let (target, server) = listen(&["STAT a 1\r\nSTAT b x y\r\nSTAT c\r\nEND\r\n", "ERROR\r\n", "END\r\n"]);
    let mut connection = Connection::open(&target).unwrap();
    let mut received = Vec::new();
    let mut query = |group: &str| {
        connection.stats(group, |name, value| received.push((name.to_owned(), value.to_owned()))).unwrap()
    };
    assert_eq!(query(""), StatsReply::Sent);
    assert_eq!(query("topkeys"), StatsReply::Refused(b"ERROR".to_vec()));
    assert_eq!(query("conns"), StatsReply::Sent);
    let received: Vec<(&[u8], &[u8])> =
        received.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert_eq!(received, [(&b"a"[..], &b"1"[..]), (b"b", b"x y"), (b"c", b"")]);
    assert_eq!(server.join().unwrap(), "stats\r\nstats topkeys\r\nstats conns\r\n");
}

#[test]
fn a_login_comes_first_and_may_be_refused() {
    let folder = Scratch::new();
    let login = || Login::of_file(&folder.write("users", "foo:bar\nother:x\n")).unwrap();
    let (target, server) = listen(&["", "STORED\r\n", "MN\r\n"]);
    let mut connection = Connection::open(&target.with_login(login())).unwrap();
    connection.send(b"mn\r\n").unwrap();
    assert_eq!(connection.line().unwrap(), b"MN");
    assert_eq!(server.join().unwrap(), "set login 0 0 7\r\nfoo bar\r\nmn\r\n");
    let (target, _server) = listen(&["", "CLIENT_ERROR \x1bno\r\n"]);
    let error = Connection::open(&target.with_login(login())).unwrap_err().to_string();
    assert_eq!(error, "the login was refused: CLIENT_ERROR \\x1bno");
    assert!(!format!("{:?}", login()).contains("bar"));
    for (contents, message) in [("", "USER:PASSWORD"), ("foo", "USER:PASSWORD"), ("a b:c", "without blanks")]
    {
        let error = Login::of_file(&folder.write("wrong", contents)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(Login::of_file(&folder.path().join("none")).unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn a_server_that_ends_or_is_silent_is_an_error() {
    let (target, _server) = listen(&["STAT a 1\r\nSTA"]);
    let mut connection = Connection::open(&target).unwrap();
    assert!(matches!(connection.stats("", |_, _| ()).unwrap_err(), TextError::Closed));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = endpoint(&listener.local_addr().unwrap().to_string());
    let mut connection = Connection::open(&Target::new(silent, Duration::from_millis(20))).unwrap();
    assert!(matches!(connection.stats("", |_, _| ()).unwrap_err(), TextError::Late));
    let target = Target::new(endpoint(&refusing_address().to_string()), TIMEOUT);
    assert!(matches!(Connection::open(&target).unwrap_err(), TextError::Connect(_)));
}

#[test]
fn a_line_without_end_is_not_read_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = endpoint(&listener.local_addr().unwrap().to_string());
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        while socket.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let mut connection = Connection::open(&Target::new(at, TIMEOUT)).unwrap();
    assert!(matches!(connection.line().unwrap_err(), TextError::TooLong));
    drop(connection);
    server.join().unwrap();
}

#[test]
fn sockets_of_the_file_system_are_reached() {
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server =
        thread::spawn(move || serve(listener.accept().unwrap().0, &["VERSION 1\r\n"]).join().unwrap());
    let mut connection = Connection::open(&Target::new(Endpoint::Unix(path), TIMEOUT)).unwrap();
    connection.send(b"version\r\n").unwrap();
    assert_eq!(connection.line().unwrap(), b"VERSION 1");
    assert_eq!(server.join().unwrap(), "version\r\n");
}

#[test]
fn a_server_that_sends_byte_for_byte_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = endpoint(&listener.local_addr().unwrap().to_string());
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            while socket.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let target = Target::new(at, Duration::from_millis(100));
    let mut connection = Connection::open(&target).unwrap();
    assert!(matches!(connection.line().unwrap_err(), TextError::Late));
    let mut connection = Connection::open(&target).unwrap();
    assert!(matches!(connection.reply().unwrap_err(), TextError::Late));
}

#[test]
fn answers_that_are_one_have_one_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = endpoint(&listener.local_addr().unwrap().to_string());
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        while socket.write_all(b"x\r\n").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let mut connection = Connection::open(&Target::new(at, Duration::from_millis(300))).unwrap();
    connection.send_batch(b"mn\r\n").unwrap();
    let late = (0..1000).find_map(|_| connection.line().err());
    assert!(matches!(late, Some(TextError::Late)), "{late:?}");
}

#[test]
fn a_server_that_accepts_nothing_is_an_error() {
    let folder = Scratch::new();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let target = Target::new(Endpoint::Unix(path), Duration::from_millis(50));
    let mut open = Vec::new();
    let error = loop {
        match Connection::open(&target) {
            Ok(connection) => open.push(connection),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TextError::Connect(_)) && (1..10).contains(&open.len()), "{error}");
}

#[test]
fn replies_are_read_in_any_pieces_and_malformed_ones_are_errors() {
    let sent: &[u8] = b"VALUE k 0 4\r\n\r\n\r\n\r\nEND\r\nHD O1\r\nkey=a\nVALUE k 0 1\r\nab\r\n";
    for length in 1..sent.len() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = endpoint(&listener.local_addr().unwrap().to_string());
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_nodelay(true).unwrap();
            sent.chunks(length).for_each(|piece| socket.write_all(piece).unwrap());
        });
        let mut connection = Connection::open(&Target::new(at, TIMEOUT)).unwrap();
        let Reply::Value(value) = connection.reply().unwrap() else { panic!() };
        assert_eq!((value.key, value.value), (&b"k"[..], &b"\r\n\r\n"[..]));
        assert_eq!(connection.reply().unwrap(), Reply::End);
        assert_eq!(connection.reply().unwrap(), Reply::Line(b"HD O1"));
        assert_eq!(connection.line().unwrap(), b"key=a");
        assert!(matches!(connection.reply().unwrap_err(), TextError::Malformed(_)));
        server.join().unwrap();
    }
}

#[test]
fn a_long_value_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = endpoint(&listener.local_addr().unwrap().to_string());
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let value = vec![b'x'; 5_000_000];
        socket.write_all(&[b"VA 5000000 f7\r\n", &value[..], b"\r\nEN\r\n"].concat()).unwrap();
    });
    let mut connection = Connection::open(&Target::new(at, TIMEOUT)).unwrap();
    let Reply::MetaValue { line, value } = connection.reply().unwrap() else { panic!() };
    assert_eq!((line, value.len()), (&b"VA 5000000 f7"[..], 5_000_000));
    assert_eq!(connection.reply().unwrap(), Reply::Line(b"EN"));
    server.join().unwrap();
}

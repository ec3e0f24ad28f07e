//! MICA's datagrams of clients on the same host (`--local`): what one process writes into memory the other reads there.

use guira_client::mica::{Client, ClientError, ClientOptions};
use guira_tests::scratch::Scratch;
use guira_tests::server::{run_guira, wait_for};
use guira_tests::{Server, Setup};
use guira_transport::{ClientPath, PAYLOAD_MAX, RingClientPath};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn start(socket: &Path) -> Server {
    Setup::new().guira_argument("--local").guira_argument(socket.to_str().unwrap()).start_guira()
}

fn socket(scratch: &Scratch) -> PathBuf {
    scratch.path().join("local")
}

fn client(socket: &Path) -> Client<RingClientPath> {
    let path = wait_for("the socket for rings", || RingClientPath::connect(socket).ok());
    Client::new(path, ClientOptions::default()).unwrap()
}

#[test]
fn a_client_stores_and_reads_through_memory() {
    let scratch = Scratch::new();
    let server = start(&socket(&scratch));
    let mut client = client(&socket(&scratch));
    assert_eq!(client.directory().cores, 2);
    for number in 0..500u32 {
        let key = format!("key{number}");
        client.set(key.as_bytes(), &number.to_le_bytes(), number, 0).unwrap();
    }
    for number in 0..500u32 {
        let found = client.get(format!("key{number}").as_bytes()).unwrap().unwrap();
        assert_eq!((found.value, found.flags), (number.to_le_bytes().to_vec(), number));
    }
    // A client that hashes as the directory says finds what others have stored.
    let mut tcp = server.connect();
    tcp.exchange("set over-tcp 5 0 3\r\nabc\r\n", "STORED\r\n");
    assert_eq!(client.get(b"over-tcp").unwrap().unwrap().value, b"abc");
    tcp.exchange("get key65\r\n", "VALUE key65 65 4\r\nA\0\0\0\r\nEND\r\n");
    let long = "x".repeat(20_000);
    tcp.exchange(format!("set long 0 0 20000\r\n{long}\r\n"), "STORED\r\n");
    let error = client.get(b"long").unwrap_err();
    assert_eq!(error.to_string(), "object too large for a datagram: use TCP");
    assert!(matches!(client.set(b"long", &[0; PAYLOAD_MAX], 0, 0), Err(ClientError::TooLong { .. })));
    assert!(client.delete(b"key1").unwrap() && !client.delete(b"key1").unwrap());
    assert_eq!(tcp.stats("")["mica_malformed"], "0");
}

#[test]
fn a_server_restarted_under_its_clients_is_found_again() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let server = start(&path);
    let mut client = client(&path);
    client.set(b"key", b"value", 0, 0).unwrap();
    server.stop("KILL");
    assert!(matches!(client.set(b"key", b"lost", 0, 0), Err(ClientError::Lost)));
    // It has other partitions and another seed, if it has any.
    let _server = start(&path);
    wait_for("the next server", || client.get(b"key").ok());
    client.set(b"key", b"again", 0, 0).unwrap();
    assert_eq!(client.get(b"key").unwrap().unwrap().value, b"again");
}

#[test]
fn a_client_that_never_reads_its_ring_is_let_alone_and_the_others_are_served() {
    let scratch = Scratch::new();
    let server = start(&socket(&scratch));
    let mut served = client(&socket(&scratch));
    served.set(b"key", b"value", 0, 0).unwrap();
    let mut greedy = RingClientPath::connect(socket(&scratch)).unwrap();
    let question = [b"Gm\x01\x05".to_vec(), vec![0; 44]].concat();
    let mut posted = 0;
    for core in 0..greedy.cores() {
        while let Some(buffer) = greedy.buffer(core) {
            buffer[..question.len()].copy_from_slice(&question);
            greedy.post(question.len());
            greedy.flush().unwrap();
            posted += 1;
        }
    }
    assert!(posted > 1000, "{posted}");
    for _ in 0..100 {
        assert_eq!(served.get(b"key").unwrap().unwrap().value, b"value");
    }
    // It is asleep as before: it waits for neither of them.
    let taken_ms = || server.costs().cpu_ns().unwrap() / 1_000_000;
    wait_for("the server to sleep", || {
        let before = taken_ms();
        std::thread::sleep(Duration::from_millis(100));
        (taken_ms() - before <= 10).then_some(())
    });
    let mut taken = 0;
    wait_for("all its answers", || {
        while greedy.receive(&mut |_| taken += 1).unwrap() > 0 {}
        (taken >= 1000).then_some(())
    });
}

#[test]
fn there_is_memory_for_a_number_of_clients_and_no_more() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let setup = Setup::new().guira_argument("--local").guira_argument(path.to_str().unwrap());
    let _server = setup.start_guira();
    let mut clients = vec![wait_for("the socket for rings", || RingClientPath::connect(&path).ok())];
    let error = loop {
        match RingClientPath::connect(&path) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
        assert!(clients.len() < 10);
    };
    assert_eq!(error.to_string(), "the server accepts no more clients");
    clients.pop();
    wait_for("room for another client", || RingClientPath::connect(&path).ok());
}

#[test]
fn users_and_datagrams_do_not_go_together() {
    let scratch = Scratch::new();
    let file = scratch.path().join("users");
    std::fs::write(&file, "user:password\n").unwrap();
    let (file, path) = (file.to_str().unwrap(), socket(&scratch));
    for more in [["--local", path.to_str().unwrap()], ["--mica", "127.0.0.1:0"]] {
        let base = ["serve", "--listen", "127.0.0.1:0", "--auth-file", file];
        let output = run_guira(&[&base[..], &more[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("datagrams have no login"), "{text}");
    }
}

#[test]
fn idle_ring_clients_take_nothing_from_connections_over_tcp() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let setup = Setup::new().guira_argument("--local").guira_argument(path.to_str().unwrap());
    let server = setup.guira_argument("--connection-memory=2MiB").start_guira();
    let mut clients = vec![wait_for("the socket for rings", || RingClientPath::connect(&path).ok())];
    while let Ok(client) = RingClientPath::connect(&path) {
        clients.push(client);
        assert!(clients.len() < 20);
    }
    // Without them 300 halves of lines are 600 KiB of 2 MiB: that is too little to notice.
    let mut all: Vec<_> = (0..300).map(|_| server.connect()).collect();
    let line = format!("get{}", " key".repeat(450));
    for client in &mut all {
        client.send(&line);
    }
    let mut witness = server.connect();
    wait_for("the halves of lines to be read", || {
        let read: usize = witness.stats("")["bytes_read"].parse().unwrap();
        (read >= 300 * line.len()).then_some(())
    });
    for client in &mut all {
        client.send("\r\n");
        client.hear("END\r\n");
    }
}

#[test]
fn who_connects_and_goes_again_and_again_leaves_the_worker_time_for_others() {
    use guira_sync::atomic::{AtomicBool, Ordering};
    use guira_sync::clock::Stopwatch;
    use std::os::unix::net::UnixStream;
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let setup = Setup::new().guira_argument("--local").guira_argument(path.to_str().unwrap());
    let server = setup.guira_argument("--workers=1").start_guira();
    drop(wait_for("the socket for rings", || RingClientPath::connect(&path).ok()));
    let mut tcp = server.connect();
    tcp.exchange("mn\r\n", "MN\r\n");
    let stop = AtomicBool::new(false);
    let worst = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = UnixStream::connect(&path);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        let mut worst = Duration::ZERO;
        let begin = Stopwatch::start();
        tcp.be_patient(Duration::from_secs(60));
        let stopper = scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            stop.store(true, Ordering::Relaxed);
        });
        while begin.elapsed() < Duration::from_millis(2500) {
            let asked = Stopwatch::start();
            tcp.exchange("mn\r\n", "MN\r\n");
            worst = worst.max(asked.elapsed());
        }
        stopper.join().unwrap();
        worst
    });
    assert!(worst < Duration::from_millis(500), "a request took {worst:?}");
}

#[test]
fn a_server_without_descriptors_does_not_spin_for_who_wants_rings() {
    use std::os::unix::net::UnixStream;
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let server = start(&path);
    drop(wait_for("the socket for rings", || RingClientPath::connect(&path).ok()));
    std::thread::sleep(Duration::from_millis(100));
    server.limit_descriptors(8);
    let _waiting = UnixStream::connect(&path).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let before = server.costs().cpu_ns().unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let taken_ms = (server.costs().cpu_ns().unwrap() - before) / 1_000_000;
    assert!(taken_ms < 200, "{taken_ms} of 1000 ms");
}

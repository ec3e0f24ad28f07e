//! One client that has always more to ask takes no more than its turn.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::server::{Address, wait_for, wait_for_log};
use guira_tests::{Client, Server, Setup};

/// A client that sends requests as fast as the server takes them, until it is dropped. They ask for much and are answered by little, so that
/// there are always more.
struct Flood {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(server: &Server) -> Self {
        Self::of(server, b"", [&b"get "[..], &b"a ".repeat(1_000), b"\r\n"].concat().repeat(100))
    }

    /// Sends `first`, and `requests` again and again.
    fn of(server: &Server, first: &[u8], requests: Vec<u8>) -> Self {
        let Address::Tcp(address) = *server.address() else { panic!("a TCP address") };
        let over = Arc::new(AtomicBool::new(false));
        let (ends, first) = (Arc::clone(&over), first.to_vec());
        let thread = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(&first).expect("it is read");
            while !ends.load(Ordering::Relaxed) && stream.write_all(&requests).is_ok() {}
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the flood ends");
        }
    }
}

/// How often a connection had to give way to others though it had more to do.
fn yields(client: &mut Client) -> u64 {
    client.stats("")["conn_yields"].parse().expect("a number")
}

/// The least of what `count` grows by between two answers to this client. The best of many is not the machine's fault.
fn least_between_answers(client: &mut Client, count: fn(&mut Client) -> u64) -> u64 {
    let mut before = count(client);
    let grown = (0..100).map(|_| {
        let now = count(client);
        now - std::mem::replace(&mut before, now)
    });
    grown.min().expect("some")
}

#[test]
fn who_asks_for_little_waits_for_one_turn_and_not_for_one_of_everybody() {
    const FLOODS: u64 = 8;
    let server = Setup::new().options(&["-t", "1"]).start_guira();
    let mut client = server.connect();
    // Several, so that each has more again when it is its turn.
    let floods: Vec<Flood> = (0..FLOODS).map(|_| Flood::start(&server)).collect();
    client.be_patient(std::time::Duration::from_secs(60));
    wait_for("a busy worker", || (yields(&mut client) > 25 * FLOODS).then_some(()));
    let turns = least_between_answers(&mut client, yields);
    let keys =
        least_between_answers(&mut client, |client| client.stats("")["cmd_get"].parse().expect("a number"));
    drop(floods);
    assert!(turns <= FLOODS / 2, "{turns} turns of {FLOODS} others between two answers");
    assert!(keys <= 2048, "{keys} keys of others were looked up between two answers");
}

/// Where much of the memory of connections is held, little is read at once. These requests are as long as that, and begin in the middle of it: there is always
/// a part of one left.
#[test]
fn a_client_whose_requests_are_never_read_to_their_end_has_turns_as_others_have() {
    let server = Setup::new().options(&["-t", "1", "-m", "128"]).start_guira();
    let mut client = server.connect();
    let mut halves: Vec<Client> = (0..80).map(|_| server.connect()).collect();
    let half = [&b"set half 0 0 8000\r\n"[..], &[b'x'; 7900]].concat();
    halves.iter_mut().for_each(|other| other.send(&half));
    wait_for("all halves", || {
        (client.stats("")["bytes_read"].parse::<u64>().ok()? > 80 * 7900).then_some(())
    });
    let set = |length: usize| {
        let line = format!("set k 0 0 {length:04} noreply\r\n");
        [line.as_bytes(), &vec![b'y'; length], b"\r\n"].concat()
    };
    let length = 2048 - (set(0).len());
    let before = yields(&mut client);
    let flood = Flood::of(&server, &set(1001), set(length).repeat(1000));
    wait_for("turns", || (yields(&mut client) > before + 100).then_some(()));
    drop(flood);
    halves.into_iter().for_each(Client::abandon);
}

/// A line of a get is kept as a whole until its last key is executed. Here it takes most of the memory of connections, so the
/// server reads and writes little at once.
#[test]
fn a_get_that_fills_the_memory_of_connections_yields_to_other_clients() {
    const KEYS: usize = 40_000;
    // What a key counts, of a turn of 256 KiB.
    const TURNS: u64 = KEYS as u64 * 512 / (256 << 10);
    let server = ["--workers=1", "--memory=32MiB", "--connection-memory=256KiB"]
        .into_iter()
        .fold(Setup::new(), Setup::guira_argument)
        .start_guira();
    let mut client = server.connect();
    let before = yields(&mut client);
    let mut long = server.connect();
    long.send([&b"get"[..], &b" a".repeat(KEYS), b"\r\n"].concat());
    long.hear("END\r\n");
    let yielded = yields(&mut client) - before;
    assert!(yielded >= TURNS / 2, "{yielded} turns of about {TURNS}");
}

#[test]
fn many_who_ask_for_much_at_once_are_all_answered() {
    let server = Setup::new().options(&["-t", "1"]).start_guira();
    let line = [&b"get "[..], &b"a ".repeat(1_000), b"\r\n"].concat();
    let requests = [line.repeat(20), b"mn\r\n".to_vec()].concat();
    let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(&requests));
        // They ask for little in between.
        server.connect().sync();
        for client in &mut clients {
            client.hear("END\r\n".repeat(20));
            client.hear("MN\r\n");
        }
    }
}

#[test]
fn values_that_are_sent_in_several_turns_take_no_room_from_others() {
    const CLIENTS: usize = 40;
    // Long values that are not taken may keep a quarter of the memory.
    let server = Setup::new().options(&["-t", "1", "-m", "100"]).start_guira();
    let value = vec![b'x'; 1_000_000];
    server.connect().set("large", &value);
    let mut reply = b"VALUE large 0 1000000\r\n".to_vec();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(b"\r\nEND\r\n");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for _ in 0..5 {
        clients.iter_mut().for_each(|client| client.send("get large\r\n"));
        clients.iter_mut().for_each(|client| client.hear(&reply));
    }
}

#[test]
fn connections_are_accepted_again_under_load_once_there_are_descriptors() {
    let server = Setup::new().options(&["-t", "1"]).start_guira();
    let mut client = server.connect();
    client.sync();
    let flood = Flood::start(&server);
    wait_for("the flood", || (client.stats("")["curr_connections"] == "2").then_some(()));
    server.limit_descriptors(30);
    let clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    let times =
        |client: &mut Client| client.stats("")["listen_disabled_num"].parse::<u64>().expect("a number");
    // It is tried again and again, and logged once.
    wait_for("a shortage", || (times(&mut client) >= 3).then_some(()));
    assert_eq!(client.stats("")["accepting_conns"], "0");
    wait_for_log(|| server.log(), "cannot accept connections");
    assert_eq!(server.log().matches("cannot accept connections").count(), 1, "{}", server.log());
    clients.into_iter().for_each(Client::abandon);
    // The worker is never idle.
    server.connect().sync();
    drop(flood);
}

//! One client that has always more to ask takes no more than its turn.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::server::{Address, wait_for};
use guira_tests::{Client, Server, Setup};

/// A client that sends requests as fast as the server takes them, until it is dropped. They ask for much and are answered by little, so that
/// there are always more.
struct Flood {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(server: &Server) -> Self {
        let Address::Tcp(address) = *server.address() else { panic!("a TCP address") };
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let requests = [&b"get "[..], &b"a ".repeat(1_000), b"\r\n"].concat().repeat(100);
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

#[test]
fn who_asks_without_end_has_one_turn_a_round() {
    const FLOODS: u64 = 8;
    let server = Setup::new().options(&["-t", "1"]).start_guira();
    let mut client = server.connect();
    // Several, so that each has more again when it is its turn.
    let floods: Vec<Flood> = (0..FLOODS).map(|_| Flood::start(&server)).collect();
    client.be_patient(std::time::Duration::from_secs(60));
    wait_for("a busy worker", || (yields(&mut client) > 25 * FLOODS).then_some(()));
    // An answer comes once a round. The best of many is not the machine's fault.
    let mut before = yields(&mut client);
    let turns = (0..10).map(|_| {
        let now = yields(&mut client);
        now - std::mem::replace(&mut before, now)
    });
    let least = turns.min().expect("some");
    drop(floods);
    assert!(least <= FLOODS + FLOODS / 2, "{least} turns of {FLOODS} others between two answers");
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
    // It is tried again and again, and told once.
    wait_for("a shortage", || (times(&mut client) >= 3).then_some(()));
    assert_eq!(client.stats("")["accepting_conns"], "0");
    wait_for("the log", || server.log().contains("cannot accept connections").then_some(()));
    assert_eq!(server.log().matches("cannot accept connections").count(), 1, "{}", server.log());
    clients.into_iter().for_each(Client::abandon);
    // The worker is never idle.
    server.connect().sync();
    drop(flood);
}

//! Sessions with servers in this process.

use super::*;
use crate::pools::core::{HEALTH, Reply, Ticket};
use crate::pools::error::ErrorKind;
use crate::pools::plan::Builder;
use crate::pools::window::Window;
use guira_routing::{Op, Request};
use guira_sync::clock::Stopwatch;
use guira_transport::net::{TcpListener, TcpStream};
use guira_upstream::ProbeSchedule;
use std::io::{Read, Write};

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// More turns than anything with two connections needs.
const TURNS_MAX: usize = 100;

/// A session with one server.
struct Bench {
    plan: Arc<Plan>,
    session: Session,
}

fn listen() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    (listener, address)
}

/// An address that refuses connections.
fn refusing() -> Address {
    listen().1
}

impl Bench {
    fn new(addresses: &[Address]) -> Self {
        Self::of(&Builder::servers(&["127.0.0.1:1"]).timeout(PATIENCE), addresses)
    }

    fn of(builder: &Builder, addresses: &[Address]) -> Self {
        let plan = Plan::new(builder);
        let plan = Arc::new(plan.unwrap());
        plan.servers()[0].addresses.replace(addresses);
        let session = Session::new(&plan, &Arc::default(), Window::default().era()).unwrap();
        Bench { plan, session }
    }

    fn server(&self) -> &Server {
        &self.plan.servers()[0]
    }

    fn send_get(&mut self) -> u32 {
        self.session.begin().unwrap();
        let call = self.session.core.begin(1);
        let get = Request::classic(Op::Get, b"k");
        self.session.core.start(Ticket { call, part: 0 }, &get, Window::default().era());
        call
    }

    /// The index of the listener that the session connects to, and the connection.
    #[track_caller]
    fn reached(&mut self, listeners: &[&TcpListener]) -> (usize, TcpStream) {
        let since = Stopwatch::start();
        while since.elapsed() < PATIENCE {
            self.session.turn(Duration::from_millis(10)).unwrap();
            for (number, listener) in listeners.iter().enumerate() {
                if let Ok((stream, _)) = listener.accept() {
                    return (number, stream);
                }
            }
        }
        panic!("nobody is connected to");
    }

    #[track_caller]
    fn turn_until(&mut self, what: &str, is_so: impl Fn(&Link) -> bool) {
        for _ in 0..TURNS_MAX {
            self.session.turn(Duration::from_millis(100)).unwrap();
            if is_so(&self.session.peers[0].link) {
                return;
            }
        }
        panic!("{what}: not after {TURNS_MAX} turns");
    }

    #[track_caller]
    fn reply(&mut self, call: u32) -> Reply {
        assert_eq!(self.session.core.take_done(), [call]);
        self.session.core.take(call).remove(0)
    }

    /// The connection to the server times out.
    fn give_up_connecting(&mut self) {
        self.session.flush();
        assert!(self.session.peers[0].link.is_connecting());
        let then_ms = self.plan.now_ms() + PATIENCE.as_millis() as u64;
        self.session.core.set_time(wall_clock(), then_ms);
        self.session.expire();
    }

    /// Sends the probe that is due.
    fn probe(&mut self) {
        assert!(!self.server().health.is_up());
        let mut probes = ProbeSchedule::begin(0, &HEALTH);
        probes.next_ms = 0;
        *self.server().probes() = Some(probes);
        self.session.begin().unwrap();
    }
}

#[test]
fn addresses_that_others_have_looked_up_are_used_at_the_next_connection() {
    let ((before, old), (after, new)) = (listen(), listen());
    let mut bench = Bench::new(&[old]);
    let first = bench.send_get();
    let (_, stream) = bench.reached(&[&before]);
    bench.turn_until("a connection", Link::is_up);
    drop(stream);
    bench.turn_until("its end", Link::is_closed);
    // The connection was closed with an open request.
    let error = bench.reply(first).unwrap_err();
    assert_eq!(error.to_string(), "the connection to 127.0.0.1:1 was lost: Connection reset by peer");
    bench.server().addresses.replace([new]);
    assert!(bench.server().health.is_up());
    bench.send_get();
    assert_eq!(bench.reached(&[&before, &after]).0, 1);
}

#[test]
fn a_server_whose_first_address_refuses_is_reached_by_the_second() {
    let (listener, address) = listen();
    let mut bench = Bench::new(&[refusing(), address]);
    bench.send_get();
    bench.reached(&[&listener]);
    bench.turn_until("a connection", Link::is_up);
    assert!(bench.server().health.is_up() && bench.server().health.failures_in_a_row() == 0);
}

#[test]
fn a_server_whose_addresses_all_refuse_is_out_after_one_attempt_at_each() {
    let mut bench = Bench::new(&[refusing(), refusing()]);
    let call = bench.send_get();
    bench.turn_until("the end of the attempts", Link::is_closed);
    let error = bench.reply(call).unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to 127.0.0.1:1: Connection refused");
    bench.probe();
    bench.turn_until("the end of a probe", Link::is_closed);
    // The name has another address when the next probe is due.
    let (listener, address) = listen();
    bench.server().addresses.replace([address]);
    bench.probe();
    bench.reached(&[&listener]);
}

#[test]
fn a_server_whose_first_address_is_silent_is_reached_by_the_second() {
    let ((silent, first), (listener, second)) = (listen(), listen());
    let mut bench = Bench::new(&[first, second]);
    let call = bench.send_get();
    bench.give_up_connecting();
    assert_eq!(bench.reply(call).unwrap_err().kind(), &ErrorKind::Unreachable);
    assert!(bench.server().health.is_up());
    let call = bench.send_get();
    assert_eq!(bench.session.peers[0].link.address(), Some(&Address::Tcp(listener.local_addr().unwrap())));
    // The second address is silent too: the server is out of service until the next probe.
    bench.give_up_connecting();
    assert_eq!(bench.reply(call).unwrap_err().kind(), &ErrorKind::Unreachable);
    bench.probe();
    assert_eq!(bench.reached(&[&silent]).0, 0);
}

#[test]
fn a_server_without_an_address_is_unreachable_until_one_is_found() {
    let mut bench = Bench::new(&[]);
    let call = bench.send_get();
    bench.session.turn(Duration::ZERO).unwrap();
    assert_eq!(bench.reply(call).unwrap_err().kind(), &ErrorKind::Unreachable);
    let (listener, address) = listen();
    bench.server().addresses.replace([address]);
    bench.probe();
    bench.reached(&[&listener]);
}

#[test]
fn datagrams_go_to_where_the_server_is_by_now() {
    let servers = [(); 2].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    let [old, new] = servers.each_ref().map(|socket| Address::Tcp(socket.local_addr().unwrap()));
    let mut bench = Bench::of(&Builder::servers(&["127.0.0.1:1"]).timeout(PATIENCE).udp_gets(), &[old]);
    let receives_get = |bench: &mut Bench, socket: &UdpSocket| {
        bench.send_get();
        bench.session.flush();
        assert!(socket.recv(&mut [0; 1400]).unwrap() > 8);
    };
    receives_get(&mut bench, &servers[0]);
    receives_get(&mut bench, &servers[0]);
    bench.server().addresses.replace([new]);
    receives_get(&mut bench, &servers[1]);
    // A further address is no reason to leave the current one.
    let same = bench.server().addresses.list()[0].clone();
    bench.server().addresses.replace([refusing(), same]);
    receives_get(&mut bench, &servers[1]);
}

/// All addresses of this host at one port, each a server; and the sessions of a client that uses
/// pools of these servers.
struct Fleet {
    listener: TcpListener,
    open: Vec<TcpStream>,
    plan: Arc<Plan>,
    sessions: Vec<Session>,
}

impl Fleet {
    fn new(sessions: usize) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let first = name(&listener, 0);
        let plan = Arc::new(Plan::new(&Builder::servers(&[first]).timeout(PATIENCE)).unwrap());
        let session = |_| Session::new(&plan, &Arc::default(), Window::default().era()).unwrap();
        let sessions = (0..sessions).map(session).collect();
        Fleet { listener, open: Vec::new(), plan, sessions }
    }

    /// Loads another configuration, which sessions adopt later. Returns the number of its first
    /// server.
    fn load(&mut self, servers: &[u32]) -> u32 {
        let names: Vec<String> = servers.iter().map(|server| name(&self.listener, *server)).collect();
        let texts: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let pool = texts.join(", ");
        let text = format!(r#"{{"pools": {{"P": {{"servers": [{pool}]}}}}, "route": "PoolRoute|P"}}"#);
        self.plan = Arc::new(self.plan.after(&text.as_str().into()).unwrap());
        let number = self.plan.servers().iter().position(|server| *server.name == *names[0]);
        number.unwrap() as u32
    }

    fn go_by(&mut self, servers: &[u32]) -> u32 {
        let number = self.load(servers);
        self.sessions.iter_mut().for_each(|session| session.go_by(&self.plan).unwrap());
        number
    }

    fn send_get(&mut self, session: usize) -> u32 {
        let session = &mut self.sessions[session];
        session.begin().unwrap();
        let call = session.core.begin(1);
        let get = Request::classic(Op::Get, b"k");
        session.core.start(Ticket { call, part: 0 }, &get, Window::default().era());
        call
    }

    /// The server and the connection of a session's next request.
    #[track_caller]
    fn expect_request(&mut self, session: usize) -> (String, TcpStream) {
        let since = Stopwatch::start();
        while since.elapsed() < PATIENCE {
            self.sessions[session].turn(Duration::from_millis(1)).unwrap();
            if let Some(stream) = self.next_request() {
                return (stream.local_addr().unwrap().to_string(), stream);
            }
        }
        panic!("nobody is asked");
    }

    fn next_request(&mut self) -> Option<TcpStream> {
        self.open.extend(self.listener.incoming().map_while(Result::ok));
        let mut next = None;
        self.open.retain_mut(|stream| {
            stream.set_nonblocking(true).unwrap();
            if next.is_some() {
                return true;
            }
            match stream.read(&mut [0; 256]) {
                Ok(0) => false,
                Ok(_) => {
                    next = Some(stream.try_clone().unwrap());
                    true
                }
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            }
        });
        next
    }

    #[track_caller]
    fn reply(&mut self, session: usize, call: u32) -> Reply {
        let (since, session) = (Stopwatch::start(), &mut self.sessions[session]);
        while since.elapsed() < PATIENCE {
            session.turn(Duration::from_millis(1)).unwrap();
            if session.core.take_done() == [call] {
                return session.core.take(call).remove(0);
            }
        }
        panic!("no reply");
    }
}

fn name(listener: &TcpListener, server: u32) -> String {
    format!("127.1.{}.{}:{}", server / 250, server % 250 + 1, listener.local_addr().unwrap().port())
}

#[test]
fn ever_new_servers_leave_no_more_than_two_configurations_have() {
    let mut fleet = Fleet::new(2);
    for round in 0..10_000 {
        fleet.go_by(&[2 * round, 2 * round + 1]);
        if round % 50 > 0 {
            continue;
        }
        for session in 0..2 {
            let call = fleet.send_get(session);
            fleet.expect_request(session).1.write_all(b"EN\r\n").unwrap();
            assert!(fleet.reply(session, call).is_ok());
        }
    }
    let known = fleet.plan.servers().len();
    assert!(known <= 6, "{known} servers are known");
    assert!(fleet.sessions.iter().all(|session| session.peers.len() <= known));
    assert!(fleet.next_request().is_none());
    assert_eq!(fleet.open.len(), 0, "the servers of the last configuration were asked nothing");
}

#[test]
fn a_late_answer_of_a_server_that_has_left_is_not_taken_for_that_of_another_with_its_number() {
    let mut fleet = Fleet::new(1);
    let call = fleet.send_get(0);
    let (_, mut late) = fleet.expect_request(0);
    let numbers = [fleet.go_by(&[1]), fleet.go_by(&[2])];
    assert_eq!(numbers, [1, 2], "somebody waits for an answer of the first");
    let then_ms = fleet.plan.now_ms() + PATIENCE.as_millis() as u64;
    fleet.sessions[0].core.set_time(wall_clock(), then_ms);
    fleet.sessions[0].expire();
    assert_eq!(fleet.reply(0, call).unwrap_err().kind(), &ErrorKind::Timeout);
    assert_eq!(fleet.go_by(&[3]), 0, "the number of the first is given to the fourth");
    // The client has closed the connection. It sends the same opaque to both servers.
    let _ = late.write_all(b"VA 3 f0 O0\r\nold\r\n");
    let call = fleet.send_get(0);
    let (server, mut stream) = fleet.expect_request(0);
    assert_eq!(server, name(&fleet.listener, 3));
    stream.write_all(b"VA 3 f0 O0\r\nnew\r\n").unwrap();
    let item = fleet.reply(0, call).unwrap().item;
    assert_eq!(item.map(|(value, _)| value), Some(b"new".to_vec()));
}

#[test]
fn a_session_that_has_not_heard_of_a_change_has_its_servers_still() {
    let mut fleet = Fleet::new(2);
    for (server, number) in [(1, 1), (2, 2), (3, 1)] {
        assert_eq!(fleet.load(&[server]), number);
        fleet.sessions[0].go_by(&fleet.plan).unwrap();
    }
    let call = fleet.send_get(1);
    let (server, mut stream) = fleet.expect_request(1);
    assert_eq!(server, name(&fleet.listener, 0));
    stream.write_all(b"EN\r\n").unwrap();
    assert!(fleet.reply(1, call).is_ok());
    fleet.sessions[1].go_by(&fleet.plan).unwrap();
    assert_eq!(fleet.go_by(&[4]), 0);
}

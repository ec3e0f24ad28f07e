use super::super::channel::{Channel, Wait};
use super::super::message::{Hello, Kind, refused};
use super::super::successor::Patience;
use super::super::{Predecessor, TakeoverError};
use super::*;
use crate::start::start_after;
use crate::{Address, AdminAddress, Options, Secrets, Size};
use guira_serving::FieldWriter;
use guira_transport::net::{TcpStream, UnixStream};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Much longer than any step of these tests takes.
const SOON: Duration = Duration::from_secs(30);
/// The environment variable with the takeover socket of a server, for child processes.
const PLACE: &str = "GUIRA_TEST_TAKEOVER";

/// A folder for a server's region and socket.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("guira-hand-over-{name}-{}", std::process::id()));
        guira_disk::create_dir_all(&folder).unwrap();
        Place(folder)
    }

    fn of_parent() -> Option<Self> {
        std::env::var_os(PLACE).map(|folder| Place(folder.into()))
    }

    fn takeover(&self) -> PathBuf {
        self.0.join("takeover")
    }

    fn region(&self) -> RegionPlace {
        RegionPlace::at(self.0.join("region"))
    }

    fn options(&self) -> Options {
        let mut options = Options { workers: 2, memory: Size(32 << 20), ..Options::default() };
        options.listen[0].address = any_port();
        options.region = Some(self.region());
        options.takeover = Some(self.takeover());
        options
    }

    /// Starts a server, which takes over from the running one.
    fn serve(&self, options: &Options) -> Result<Running, StartError> {
        let predecessor = Predecessor::find(&self.takeover())?;
        start_after(crate::open_default, options, SECRETS, Vec::new(), predecessor)
    }

    fn remove(&self) {
        guira_disk::remove_dir_all(&self.0).unwrap();
    }
}

const SECRETS: Secrets = Secrets { users: None, tls: None, token: None };

fn any_port() -> Address {
    Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn of(running: &Running) -> Self {
        let Address::Tcp(address) = running.addresses()[0] else { panic!("it has a port") };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Client(BufReader::new(stream))
    }

    fn exchange(&mut self, request: &str, lines: usize) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        (0..lines).for_each(|_| _ = self.0.read_line(&mut text).unwrap());
        text.replace("\r\n", "|")
    }

    fn set(&mut self) {
        assert_eq!(self.exchange("set a 0 0 1\r\n1\r\n", 1), "STORED|");
    }

    fn finds_it(&mut self) {
        assert_eq!(self.exchange("get a\r\n", 3), "VALUE a 0 1|1|END|");
    }

    fn misses_it(&mut self) {
        assert_eq!(self.exchange("get a\r\n", 1), "END|");
    }
}

/// Hands over to a successor in another thread.
fn change(
    place: &Place,
    running: Running,
) -> (Option<(Running, TakeoverError)>, Result<Running, StartError>) {
    guira_sync::thread::scope(|scope| {
        let next = scope.spawn(|| place.serve(&place.options()));
        let successor = running.door().unwrap().wait().unwrap();
        let back = running.hand_over(successor).unwrap();
        (back, next.join().unwrap())
    })
}

/// Plays a successor that refuses what it is given.
fn object(path: &Path) {
    let mut channel = Channel::new(UnixStream::connect(path).unwrap()).unwrap();
    greet(&mut channel);
    loop {
        match channel.receive(Wait::most(SOON)) {
            Ok(message) if message.kind == Kind::Region => break,
            Ok(_) => {}
            Err(TakeoverError::Refused(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
    channel.send(Kind::Refused, &mut refused("this is a test"), &[]).unwrap();
}

fn greet(channel: &mut Channel) {
    channel.send(Kind::Hello, &mut Hello::ours().write(), &[]).unwrap();
    while channel.receive(Wait::most(SOON)).unwrap().kind != Kind::Offer {}
    channel.send(Kind::Ready, &mut FieldWriter::default(), &[]).unwrap();
}

/// Runs a test of this file in a process of its own.
fn child(place: &Place, test: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", &format!("takeover::hand_over::tests::{test}")]);
    command.env(PLACE, &place.0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn a_worker_that_has_failed_costs_its_connections_and_no_item() {
    let place = Place::new("failed");
    let mut first = place.serve(&place.options()).unwrap();
    let mut client = Client::of(&first);
    client.set();
    first.crew.spawn("failing".to_owned(), || Err(std::io::Error::other("on purpose"))).unwrap();
    let (back, next) = change(&place, first);
    let second = next.unwrap();
    assert!(back.is_none());
    assert_eq!(second.region().unwrap().1, &Opening::Restored { items: 1 });
    client.finds_it();
    second.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

#[test]
fn a_worker_that_has_panicked_costs_the_items_and_the_server_goes_on() {
    let place = Place::new("panicked");
    let mut first = place.serve(&place.options()).unwrap();
    let mut client = Client::of(&first);
    client.set();
    first.crew.spawn("panicking".to_owned(), || panic!("on purpose")).unwrap();
    let (back, next) = change(&place, first);
    let (running, why) = back.unwrap();
    assert!(matches!(why, TakeoverError::Panicked), "{why}");
    let said = next.err().unwrap().to_string();
    assert!(said.contains("panicked"), "{said}");
    client.misses_it();
    assert!(matches!(running.region().unwrap().1, Opening::Emptied(_)));
    client.set();
    let (back, next) = change(&place, running);
    assert!(back.is_none());
    client.finds_it();
    next.unwrap().stop(crate::Ending::Kept).unwrap();
    place.remove();
}

/// The successor had given up when the server agreed.
#[test]
fn a_successor_that_refuses_after_it_was_agreed_to_has_cost_nothing() {
    let place = Place::new("refuses-late");
    let running = place.serve(&place.options()).unwrap();
    let mut client = Client::of(&running);
    client.set();
    let path = place.takeover();
    let (running, why) = guira_sync::thread::scope(|scope| {
        scope.spawn(move || {
            let mut channel = Channel::new(UnixStream::connect(path).unwrap()).unwrap();
            greet(&mut channel);
            let mut until = |last| while channel.receive(Wait::most(SOON)).unwrap().kind != last {};
            until(Kind::Region);
            channel.send(Kind::Opened, &mut FieldWriter::default(), &[]).unwrap();
            let mut until = |last| while channel.receive(Wait::most(SOON)).unwrap().kind != last {};
            until(Kind::Commit);
            channel.send(Kind::Refused, &mut refused("it took too long"), &[]).unwrap();
        });
        let successor = running.door().unwrap().wait().unwrap();
        running.hand_over(successor).unwrap().unwrap()
    });
    assert!(why.to_string().contains("it took too long"), "{why}");
    client.finds_it();
    running.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

/// As if the wall clock had been set back since the start of the server.
#[test]
fn the_clock_goes_on_whatever_the_wall_clock_says() {
    let place = Place::new("clock");
    let mut options = place.options();
    options.test_commands = true;
    let first = place.serve(&options).unwrap();
    first.parts.clock.shift(3600);
    let clock = first.parts.clock.clone();
    Client::of(&first).set();
    let (back, next) = change(&place, first);
    let second = next.unwrap();
    assert!(back.is_none());
    let ahead = clock.millis().0.abs_diff(second.parts.clock.millis().0);
    assert!(ahead < 20, "{ahead} ms");
    assert_eq!(clock.base_unix(), second.parts.clock.base_unix());
    Client::of(&second).finds_it();
    second.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

#[test]
fn an_engine_that_is_in_use_stays_where_it_is() {
    let place = Place::new("in-use");
    let first = place.serve(&place.options()).unwrap();
    let mut client = Client::of(&first);
    client.set();
    let user = first.status.admin.upgrade().unwrap();
    let (back, next) = change(&place, first);
    let (running, why) = back.unwrap();
    assert!(matches!(why, TakeoverError::Kept(_)), "{why}");
    assert!(next.err().unwrap().to_string().contains("keeps its region"));
    assert_eq!(running.region().unwrap().1, &Opening::New, "it is as it was");
    client.finds_it();
    drop(user);
    let (back, next) = change(&place, running);
    assert!(back.is_none());
    client.finds_it();
    next.unwrap().stop(crate::Ending::Kept).unwrap();
    place.remove();
}

/// Makes both the successor of a server and the server itself fail. The successor receives the
/// order to end, and obeys.
fn fail_both(place: &Place, mut running: Running, spoil: fn(&mut Options), then: impl FnOnce() + Send) {
    Client::of(&running).set();
    spoil(&mut running.again.options);
    let path = place.takeover();
    guira_sync::thread::scope(|scope| {
        scope.spawn(move || {
            object(&path);
            then();
        });
        let successor = running.door().unwrap().wait().unwrap();
        assert!(running.hand_over(successor).is_err());
    });
    let running = place.serve(&place.options()).unwrap();
    assert_eq!(running.region().unwrap().1, &Opening::Restored { items: 1 });
    Client::of(&running).finds_it();
    running.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

fn too_much_for_connections(options: &mut Options) {
    options.connection_memory = Some(options.memory);
}

fn no_such_engine(options: &mut Options) {
    options.engine = "none".to_owned();
}

#[test]
fn a_server_that_cannot_prepare_to_go_on_closes_its_region() {
    let place = Place::new("prepare");
    let running = place.serve(&place.options()).unwrap();
    fail_both(&place, running, too_much_for_connections, || {});
}

#[test]
fn a_server_that_cannot_open_its_region_again_closes_it() {
    let place = Place::new("open");
    let running = place.serve(&place.options()).unwrap();
    fail_both(&place, running, no_such_engine, || {});
}

/// The list ends once the server has given up.
fn fail_both_in_a_list(name: &str, spoil: fn(&mut Options)) {
    let place = Place::new(name);
    let running = place.serve(&place.options()).unwrap();
    let background = running.parts.background.clone();
    background.begin();
    fail_both(&place, running, spoil, || background.end());
}

#[test]
fn a_server_that_sends_lists_and_cannot_prepare_to_go_on_closes_its_region() {
    fail_both_in_a_list("prepare-list", too_much_for_connections);
}

#[test]
fn a_server_that_sends_lists_and_cannot_serve_again_closes_its_region() {
    fail_both_in_a_list("serve-list", no_such_engine);
}

#[test]
fn a_server_that_sends_lists_stays_and_tells_how_it_has_started() {
    let place = Place::new("list");
    let admin = place.0.join("admin");
    let mut options = place.options();
    options.admin = Some(AdminAddress(format!("unix:{}", admin.display()).parse().unwrap()));
    let start_info = || {
        let mut stream = UnixStream::connect(&admin).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.lines().find(|line| line.starts_with("guira_start_info")).unwrap().to_owned()
    };
    let running = place.serve(&options).unwrap();
    let before = start_info();
    let mut client = Client::of(&running);
    client.set();
    let background = running.parts.background.clone();
    background.begin();
    let (back, _) = change(&place, running);
    let (running, why) = back.unwrap();
    assert!(matches!(why, TakeoverError::Busy), "{why}");
    let tasks = running.parts.background.count().load(Ordering::SeqCst);
    assert_eq!(tasks, 1, "who stops it now waits for the list");
    background.end();
    client.finds_it();
    assert_eq!((before.contains("new"), start_info()), (true, before));
    running.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

/// Is ready to take over, and then hangs.
#[test]
#[ignore = "a part of the test below"]
fn half_a_successor_that_hangs() {
    let Some(place) = Place::of_parent() else { return };
    let mut channel = Channel::new(UnixStream::connect(place.takeover()).unwrap()).unwrap();
    greet(&mut channel);
    let mut until = |last| while channel.receive(Wait::most(SOON)).unwrap().kind != last {};
    until(Kind::Region);
    // Until it is killed, or its parent has exited.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_successor_that_hangs_is_killed_and_the_server_goes_on() {
    let place = Place::new("hangs");
    let running = place.serve(&place.options()).unwrap();
    let mut client = Client::of(&running);
    client.set();
    let mut other = child(&place, "half_a_successor_that_hangs");
    let mut successor = running.door().unwrap().wait().unwrap();
    let soon = Duration::from_millis(200);
    successor.patience = Patience { opened: soon, serving: soon };
    let (running, why) = running.hand_over(successor).unwrap().unwrap();
    assert!(matches!(why, TakeoverError::Late), "{why}");
    client.finds_it();
    assert_eq!(other.wait().unwrap().signal(), Some(9));
    running.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

/// Hands everything over, and dies before it agrees.
#[test]
#[ignore = "a part of the test below"]
fn half_a_predecessor() {
    let Some(place) = Place::of_parent() else { return };
    let running = place.serve(&place.options()).unwrap();
    Client::of(&running).set();
    let mut successor = running.door().unwrap().wait().unwrap();
    let Running { crew, parts, held, .. } = running;
    crew.hand_over(STRAGGLERS).1.unwrap();
    let Ok(region) = held.hand_over(&parts) else { panic!("nothing uses it") };
    successor.give_region(Some(&region), 0, HandedTime::of(&parts.clock)).unwrap();
    successor.channel.receive(Wait::most(SOON)).unwrap();
    std::process::abort();
}

#[test]
fn a_successor_goes_on_alone_if_its_predecessor_dies_with_everything_given_away() {
    let place = Place::new("dies");
    let mut other = child(&place, "half_a_predecessor");
    let started = Stopwatch::start();
    let predecessor = loop {
        // It may not listen yet.
        if let Some(found) = Predecessor::find(&place.takeover()).unwrap() {
            break found;
        }
        assert!(started.elapsed() < SOON, "it listens");
        guira_sync::thread::yield_now();
    };
    let next =
        start_after(crate::open_default, &place.options(), SECRETS, Vec::new(), Some(predecessor)).unwrap();
    assert_eq!(next.region().unwrap().1, &Opening::Restored { items: 1 });
    Client::of(&next).finds_it();
    assert!(other.wait().unwrap().signal().is_some(), "it has died");
    next.stop(crate::Ending::Kept).unwrap();
    place.remove();
}

//! A server that cannot start leaves its region to the next one, and says what is in the way.

use guira_harness::server::Signal;
use guira_tests::deadline::PATIENCE;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, engines, guira_binary, is_root, refused_guira, spawn};
use guira_tests::{Client, Server, Setup, skip};
use std::any::Any;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

const ITEMS: usize = 200;

/// A region, and the engine that it is of.
struct Kept {
    engine: &'static str,
    scratch: Scratch,
}

impl Kept {
    /// One that a server has filled and left.
    fn filled(engine: &'static str) -> Self {
        let kept = Kept { engine, scratch: Scratch::new() };
        let server = kept.start();
        let mut client = server.connect();
        (0..ITEMS).for_each(|number| client.set(&format!("key{number}"), format!("value {number}")));
        client.abandon();
        server.stop("TERM");
        kept
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    fn region(&self) -> String {
        self.path("region")
    }

    fn start(&self) -> Server {
        let setup = Setup::new().engine(self.engine);
        setup.guira_argument("--region").guira_argument(&self.region()).start_guira()
    }

    /// What the same server is started with, and `more`.
    fn arguments(&self, more: &[String]) -> Vec<String> {
        let region = self.region();
        let own =
            ["serve", "--workers", "2", "--memory", "64MiB", "--engine", self.engine, "--region", &region];
        own.into_iter().map(str::to_owned).chain(more.iter().cloned()).collect()
    }

    /// Starts a server that has to refuse, and to say why.
    #[track_caller]
    fn refuses(&self, more: &[String], problem: &str) {
        let arguments = self.arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, errors) = refused_guira(&arguments);
        assert_eq!(code, Some(1), "{} {more:?}: {errors}", self.engine);
        assert!(errors.contains(problem), "{} {more:?}: {errors}", self.engine);
    }

    #[track_caller]
    fn expect_all(&self, client: &mut Client) {
        assert_eq!(client.stats("")["curr_items"], ITEMS.to_string(), "{}", self.engine);
        (0..ITEMS).for_each(|number| client.expect_value(&format!("key{number}"), format!("value {number}")));
    }
}

/// Something that a server cannot have: what it is asked to take, what it says, and whatever keeps it from it.
struct Obstacle {
    arguments: Vec<String>,
    problem: &'static str,
    _holder: Box<dyn Any>,
}

fn obstacles(kept: &Kept) -> Vec<Obstacle> {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mica = UdpSocket::bind("127.0.0.1:0").unwrap();
    let [unix, local] = ["unix", "local"].map(|name| PathBuf::from(kept.path(name)));
    let (tcp_at, udp_at) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    let mica_at = mica.local_addr().unwrap();
    let beside = |option: &str, value: String| {
        vec!["--listen".to_owned(), "127.0.0.1:0".to_owned(), option.to_owned(), value]
    };
    let of = |arguments: Vec<String>, problem, _holder| Obstacle { arguments, problem, _holder };
    vec![
        of(beside("--listen", tcp_at.to_string()), "cannot listen on 127.0.0.1:", Box::new(tcp)),
        of(
            beside("--listen", format!("unix:{}", unix.display())),
            "cannot listen on unix:",
            Box::new(UnixListener::bind(&unix).unwrap()),
        ),
        of(beside("--udp", udp_at.to_string()), "cannot listen for datagrams at 127.0.0.1:", Box::new(udp)),
        of(beside("--mica", mica_at.to_string()), "cannot listen for MICA datagrams at", Box::new(mica)),
        of(
            beside("--local", local.display().to_string()),
            "cannot open the listener for shared-memory rings",
            Box::new(UnixListener::bind(&local).unwrap()),
        ),
        of(beside("--listen", "btls:127.0.0.1:0".to_owned()), "needs TLS", Box::new(())),
    ]
}

#[test]
fn a_server_that_cannot_have_an_address_leaves_the_items() {
    for engine in engines() {
        let kept = Kept::filled(engine);
        for obstacle in obstacles(&kept) {
            kept.refuses(&obstacle.arguments, obstacle.problem);
        }
        kept.expect_all(&mut kept.start().connect());
    }
}

#[test]
fn a_second_server_says_what_the_first_one_has_and_harms_nothing() {
    let kept = Kept::filled("memc3");
    let (unix, local) = (format!("unix:{}", kept.path("unix")), kept.path("local"));
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = taken.local_addr().unwrap().to_string();
    drop(taken);
    let setup = Setup::new().engine("memc3");
    let region = kept.region();
    let own = ["--region", &region, "--listen", &unix, "--local", &local, "--udp", &udp];
    let setup = own.into_iter().fold(setup, Setup::guira_argument);
    let server = setup.start_guira();
    let Address::Tcp(address) = server.address() else { panic!("a TCP address") };
    let beside =
        |option: &str, value: &str| ["--listen", "127.0.0.1:0", option, value].map(str::to_owned).to_vec();
    kept.refuses(&beside("--listen", &address.to_string()), "Address already in use");
    kept.refuses(&beside("--listen", &unix), "Address already in use");
    kept.refuses(&beside("--local", &local), "Address already in use");
    kept.refuses(&beside("--udp", &udp), "Address already in use");
    kept.refuses(&beside("--listen", "127.0.0.1:0"), "another server uses the region");
    for path in ["unix", "local"] {
        assert!(std::path::Path::new(&kept.path(path)).exists(), "the first server's socket is there");
    }
    kept.expect_all(&mut server.connect());
    server.stop("TERM");
    kept.expect_all(&mut kept.start().connect());
}

#[test]
fn a_server_that_cannot_write_its_pid_file_leaves_the_items() {
    let scratch = Scratch::new();
    let region = scratch.path().join("region").display().to_string();
    let start = || Setup::new().options(&["-e", &region]).start_guira();
    let server = start();
    server.connect().set("key", "value");
    server.stop("USR1");
    let own =
        ["memcached", "-u", "root", "-t", "2", "-m", "64", "-l", "127.0.0.1", "-p", "-1", "-e", &region];
    let (code, errors) = refused_guira(&[&own[..], &["-P", "/nowhere/at/all/pid"]].concat());
    assert!(code == Some(1) && errors.contains("cannot write the pid file"), "{code:?}: {errors}");
    start().connect().expect_value("key", "value");
}

/// Starts a server that may have this many descriptors. If it serves it is ended at once; if not, what it has said.
fn with_descriptors(kept: &Kept, most: u32) -> Option<String> {
    let limit = format!("--nofile={most}:{most}");
    // A process that may raise every limit gives up that privilege first.
    let start = ["setpriv", "--bounding-set=-sys_resource", "prlimit", &limit];
    let start = &start[if is_root() { 0 } else { 2 }..];
    let mut command = Command::new(start[0]);
    command.args(&start[1..]).arg(guira_binary());
    command.args(kept.arguments(&["--listen".to_owned(), "127.0.0.1:0".to_owned()]));
    let mut server = spawn(command);
    let serves = server.wait_for_address("", PATIENCE).is_ok();
    if serves {
        // The region stays as it is, without a mark.
        server.signal(Signal::KILL);
    }
    let status = server.wait(PATIENCE).unwrap();
    let errors = server.errors();
    assert!(serves || status.code() == Some(1), "{most} descriptors: {status}: {errors}");
    (!serves).then_some(errors)
}

/// Wherever a start fails for want of descriptors: before the region is opened or after.
#[test]
fn a_server_that_has_too_few_descriptors_leaves_the_items() {
    let tools = if is_root() { &["setpriv", "prlimit"][..] } else { &["prlimit"] };
    if let Some(missing) = tools.iter().find(|tool| Command::new(tool).arg("--help").output().is_err()) {
        return skip::say(&format!("there is no {missing}"));
    }
    for engine in ["memc3", "mica"] {
        let kept = Kept::filled(engine);
        let refusals: Vec<String> = (8..200).map_while(|most| with_descriptors(&kept, most)).collect();
        let late = refusals.iter().filter(|errors| errors.contains("is restored with 200 items"));
        assert!(late.count() >= 2, "some fail after the region was opened: {refusals:?}");
        assert!(refusals.iter().all(|errors| !errors.contains("emptied")), "{refusals:?}");
        assert!(refusals.len() < 192, "with enough of them it starts");
    }
}

//! The server under a service manager: socket activation, and notifications of the manager.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal, Spec};

/// How long is waited for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of this test; it is ended when this is dropped.
struct Server(ServerProcess);

impl Server {
    fn start(command: Command) -> Self {
        Server(ServerProcess::start(Spec::new(command)).expect("the binary was built"))
    }

    /// The addresses that it says it listens on.
    fn addresses(&mut self) -> Vec<String> {
        let places = self.0.wait_until_ready(PATIENCE).expect("it serves");
        places.into_iter().map(|place| place.place).collect()
    }

    fn stop(mut self) {
        self.0.end().unwrap();
    }
}

fn guira(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira"));
    command.args(arguments).env_remove("NOTIFY_SOCKET");
    command
}

/// A server that notifies the manager at `socket`.
fn started(socket: &str, arguments: &[&str]) -> Server {
    let mut command = guira(arguments);
    command.env("NOTIFY_SOCKET", socket);
    Server::start(command)
}

/// The server with these sockets as its descriptors 3 and 4. A shell moves them there, and keeps its number.
fn activated(tcp: &TcpListener, unix: &UnixListener, pid: &str, arguments: &str) -> Command {
    let script = format!(
        "exec 3<&0 4<&2 </dev/null 2>/dev/null; LISTEN_FDS=2 LISTEN_PID={pid} exec \"$GUIRA\" {arguments}"
    );
    let mut command = Command::new("sh");
    let (tcp, unix) = (tcp.try_clone().expect("a copy"), unix.try_clone().expect("a copy"));
    command.env_remove("NOTIFY_SOCKET").env("GUIRA", env!("CARGO_BIN_EXE_guira")).args(["-c", &script]);
    command.stdin(Stdio::from(OwnedFd::from(tcp))).stderr(Stdio::from(OwnedFd::from(unix)));
    command
}

/// Asks over this connection for the version, until the server closes it.
fn version(mut stream: impl Read + Write) -> String {
    stream.write_all(b"version\r\nquit\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn connect_unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

const VERSION: &str = concat!("VERSION 1.6.45-guira-", env!("CARGO_PKG_VERSION"), "\r\n");

#[test]
fn sockets_that_are_handed_over_are_served_and_outlive_the_server() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unix = UnixListener::bind(&path).expect("a socket");
    let address = tcp.local_addr().expect("an address").to_string();
    let start = |arguments| Server::start(activated(&tcp, &unix, "$$", arguments));

    let mut server = start("serve --memory 16M --workers 1");
    // It listens on nothing else: no option asks for it.
    assert_eq!(server.addresses(), [address.clone(), format!("unix:{}", path.display())]);
    assert_eq!(version(connect(&address)), VERSION);
    assert_eq!(version(connect_unix(&path)), VERSION);
    server.stop();
    assert!(path.exists(), "the file is not the server's");

    // Clients that connect between two servers wait for the next one.
    let (early, early_unix) = (connect(&address), connect_unix(&path));
    let server = start("memcached -u root -m 16 -t 1");
    assert_eq!(version(early), VERSION);
    assert_eq!(version(early_unix), VERSION);
    server.stop();
}

#[test]
fn addresses_that_are_named_are_listened_on_besides_sockets_that_are_handed_over() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unix = UnixListener::bind(&path).expect("a socket");
    let arguments = "serve --memory 16M --workers 1 --listen 127.0.0.1:0";
    let mut server = Server::start(activated(&tcp, &unix, "$$", arguments));
    let addresses = server.addresses();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
    assert_eq!(version(connect(&addresses[2])), VERSION);
    server.stop();
}

#[test]
fn one_socket_that_listens_no_more_takes_no_other_with_it() {
    let scratch = Scratch::new();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unix = UnixListener::bind(scratch.file("socket")).expect("a socket");
    let arguments = "serve --memory 16M --workers 1 --listen 127.0.0.1:0";
    let mut server = Server::start(activated(&tcp, &unix, "$$", arguments));
    let addresses = server.addresses();
    let shared = TcpStream::from(OwnedFd::from(tcp.try_clone().expect("a copy")));
    shared.shutdown(std::net::Shutdown::Both).expect("it listens");
    assert_eq!(version(connect(&addresses[2])), VERSION);
    assert_eq!(version(connect_unix(&scratch.file("socket"))), VERSION);
    server.stop();
}

#[test]
fn a_socket_that_does_not_listen_is_no_start() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let shared = TcpStream::from(OwnedFd::from(tcp.try_clone().expect("a copy")));
    shared.shutdown(std::net::Shutdown::Both).expect("it listens");
    let script =
        "exec 2>&1; exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$GUIRA\" serve --memory 16M";
    let mut command = Command::new("sh");
    command
        .env("GUIRA", env!("CARGO_BIN_EXE_guira"))
        .args(["-c", script])
        .stdin(Stdio::from(OwnedFd::from(tcp)));
    let output = command.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("descriptor 3 of LISTEN_FDS: the socket does not listen"), "{said}");
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unix = UnixListener::bind(&path).expect("a socket");
    let arguments = "serve --memory 16M --workers 1 --listen 127.0.0.1:0";
    let mut server = Server::start(activated(&tcp, &unix, "1", arguments));
    let address = tcp.local_addr().expect("an address").to_string();
    let addresses = server.addresses();
    assert!(addresses.len() == 1 && addresses[0] != address, "{addresses:?}");
    server.stop();
}

/// The next notification, except for the periodic status.
fn notification(manager: &UnixDatagram) -> String {
    loop {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).expect("a message");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if !text.starts_with("STATUS=") {
            return text;
        }
    }
}

/// Starts a server that tells `manager` at `name`, and follows its life.
fn follow(manager: &UnixDatagram, name: &str, arguments: &[&str]) {
    manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let server = started(name, arguments);
    let ready = notification(manager);
    let rest = ready.strip_prefix("READY=1\nSTATUS=listening on ").expect(&ready);
    let (address, state) = rest.split_once("; ").expect(&ready);
    assert_eq!(state, "0 items, 0 connections\n");
    let mut client = connect(address);
    client.write_all(b"set a 0 0 1\r\nx\r\n").expect("it is sent");
    let mut stored = [0; 8];
    client.read_exact(&mut stored).expect("an answer");
    assert_eq!(&stored, b"STORED\r\n");
    server.0.signal(Signal::HUP);
    let reloading = notification(manager);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let again = notification(manager);
    assert!(again.starts_with("READY=1\n") && again.ends_with("; 1 items, 1 connections\n"), "{again}");
    server.0.signal(Signal::TERM);
    let stopping = notification(manager);
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    server.stop();
}

#[test]
fn the_manager_is_told_when_the_server_is_ready_reloads_and_stops() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--memory", "16M", "--workers", "1"];
    follow(&manager, path.to_str().expect("a plain path"), &serve);
}

#[test]
fn a_manager_at_an_abstract_address_is_told_by_memcacheds_command_line() {
    let name = format!("guira-service-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    let memcached = ["memcached", "-u", "root", "-p", "-1", "-l", "127.0.0.1", "-m", "16", "-t", "1"];
    follow(&manager, &format!("@{name}"), &memcached);
}

#[test]
fn a_manager_that_is_not_there_is_no_obstacle() {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--memory", "16M", "--workers", "1"];
    for name in ["/nowhere/at/all", "vsock:2:1", "x"] {
        let mut server = started(name, &serve);
        assert_eq!(version(connect(&server.addresses()[0])), VERSION);
        server.stop();
    }
}

/// Waits until `what` is there.
fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    Deadline::after(PATIENCE).poll(look).unwrap_or_else(|| panic!("{what} did not come"))
}

#[test]
fn a_daemon_leaves_the_directory_that_it_was_started_in_but_not_its_files() {
    for options in ["-d", "-dr"] {
        let scratch = Scratch::new();
        let folder = scratch.path();
        let place = if options == "-d" { Path::new("/") } else { folder };
        let place = place.canonicalize().expect("it is there");
        let mut command = guira(&["memcached", "-u", "root", options, "-s", "socket", "-P", "pid"]);
        let status = command.current_dir(folder).status().expect("the binary was built");
        assert!(status.success(), "{options}");
        let pid = wait_for("the pid file", || {
            let text = std::fs::read_to_string(folder.join("pid")).ok()?;
            text.trim().parse::<u32>().ok()
        });
        let works_in = std::fs::read_link(format!("/proc/{pid}/cwd"));
        let answer = version(connect_unix(&folder.join("socket")));
        let killed = Command::new("kill").args(["-s", "TERM", &pid.to_string()]).status();
        assert!(killed.expect("kill is there").success());
        wait_for("its end", || (!folder.join("pid").exists()).then_some(()));
        assert_eq!(works_in.expect("it runs"), place, "{options}");
        assert!(answer.starts_with("VERSION "), "{answer}");
    }
}

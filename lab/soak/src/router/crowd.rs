//! Thousands of clients that request values and never read them.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::fleet::{Node, Router, only};
use super::{Failures, as_text};
use crate::line::Line;
use crate::plan::Plan;
use crate::report::mebibytes;

const VALUE: usize = 20_000;
/// Gets of each client. Together they request three times what the router may hold, and keep their
/// server busy for seconds, not minutes.
const GETS: usize = 16;
/// The ceiling of memory: the clients' share, and the router's own.
const CEILING: u64 = (1024 + 256 + 64) << 20;
/// The time of watching after all clients have sent their requests.
const WATCHED: Duration = Duration::from_secs(10);
/// The clients from one address of this machine, which has a limited number of ports.
const FROM_ONE_ADDRESS: usize = 20_000;
const OTHER_FILES: u64 = 1000;

pub(super) fn run(plan: &Plan) -> Result<Failures, String> {
    allow_files(plan.crowd as u64 + OTHER_FILES)?;
    let node = Node::start(plan)?;
    // A late reply is no fault of a server here.
    let options = ["--server-timeout-ms", "20000"];
    let mut router = Router::start(&plan.binary, &only(&[node.address]), &options)?;
    let mut honest = Line::open(router.address).map_err(as_text)?;
    let value = "v".repeat(VALUE);
    let stored = honest.request(&format!("set long 0 0 {VALUE}\r\n{value}\r\n")).map_err(as_text)?;
    if stored != "STORED" {
        return Err(stored);
    }
    let question = "get long\r\n".repeat(GETS);
    let (mut clients, mut most, mut served) = (Vec::with_capacity(plan.crowd), 0, 0u64);
    let mut look = |router: &Router| -> Result<(), String> {
        let answer = honest.request("get short\r\n").map_err(|error| format!("an honest client: {error}"))?;
        if answer != "END" {
            return Err(format!("an honest client is told {answer}"));
        }
        served += 1;
        most = most.max(router.process.process().resident_bytes().map_err(as_text)?);
        Ok(())
    };
    for number in 0..plan.crowd {
        let mut client = connect(router.address, number / FROM_ONE_ADDRESS).map_err(as_text)?;
        // The router may have had enough of it.
        let _ = client.write_all(question.as_bytes());
        clients.push(client);
        if number % 100 == 99 {
            look(&router)?;
        }
    }
    let watched = Deadline::after(WATCHED);
    while watched.left().is_some() {
        look(&router)?;
    }
    println!(
        "  {} clients, {served} answers to another one, at most {} resident",
        clients.len(),
        mebibytes(most)
    );
    drop(clients);
    let mut failures = router.failures();
    if most > CEILING {
        failures.push(format!("the router holds {}, more than {}", mebibytes(most), mebibytes(CEILING)));
    }
    Ok(failures)
}

/// Raises the limit of open files for this process and those that it starts.
fn allow_files(count: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(count));
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum })
        .map_err(|error| format!("too few files may be open: {error}"))
}

/// A connection from one of this machine's own addresses, with as small a buffer as there is, that never blocks.
fn connect(address: SocketAddr, from: usize) -> std::io::Result<TcpStream> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096)?;
    if from > 0 {
        let source = Ipv4Addr::new(127, 0, 0, 1 + from as u8);
        rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
    }
    rustix::net::connect(&socket, &address)?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

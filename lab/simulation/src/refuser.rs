//! A server that refuses all requests: one that wants a login first, or that has another protocol.

use crate::programs::{host, server};
use guira_world::net::{TcpListener, TcpStream, set_host};
use guira_world::scheduler::{self, draw};
use guira_world::thread::spawn;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;

const HOST: u8 = 90;
const REFUSALS: [&str; 2] = ["ERROR\r\n", "CLIENT_ERROR unauthenticated\r\n"];

pub(crate) fn address() -> SocketAddr {
    server(HOST)
}

/// Starts it on a host of its own.
pub(crate) fn start() {
    let reply = REFUSALS[draw(REFUSALS.len() as u64) as usize];
    let process = scheduler::start("impostor", move || serve(reply));
    set_host(process, host(HOST));
}

fn serve(reply: &'static str) {
    let listener = TcpListener::bind(address()).expect("the address is free");
    loop {
        if let Ok((stream, _)) = listener.accept() {
            // A connection that fails ends its thread.
            drop(spawn(move || refuse(stream, reply)));
        }
    }
}

fn refuse(stream: TcpStream, reply: &str) -> io::Result<()> {
    let (mut input, mut line) = (BufReader::new(stream), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        line.clear();
        input.get_mut().write_all(reply.as_bytes())?;
    }
    Ok(())
}

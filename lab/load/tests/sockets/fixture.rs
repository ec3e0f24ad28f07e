//! A small cache over a map, text and binary, one thread for each connection, that misbehaves on request.

mod datagram;
mod packet;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use guira_load::target::{Carrier, Target};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It changes a byte of every value.
    Contents,
    /// It cuts every value by a byte, and states the shorter length.
    Length,
    /// It stops once for this long, after it has answered this many requests of a connection.
    Stall(u32, Duration),
    /// It closes the connection after it has answered this many requests.
    Close(u32),
    /// It refuses every set.
    Refuse,
    /// It drops the reply to every datagram whose number is a multiple of this.
    Forget(u32),
}

type Items = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Starts the cache on a free port; it lives as long as the test.
pub(crate) fn serve(fault: Fault) -> SocketAddr {
    serve_items(&Items::default(), fault)
}

/// Starts the cache on free ports for connections and for datagrams.
pub(crate) fn serve_with_datagrams(fault: Fault) -> Target {
    let items = Items::default();
    let udp = datagram::serve(&items, fault);
    Target { carrier: Carrier::Udp(udp), ..Target::text(serve_items(&items, fault)) }
}

/// Starts the cache with TLS on a free port.
pub(crate) fn serve_tls(config: Arc<ServerConfig>) -> SocketAddr {
    let items = Items::default();
    accept(move |socket| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a right configuration");
        converse(StreamOwned::new(session, socket), &items, Fault::None)
    })
}

fn serve_items(items: &Items, fault: Fault) -> SocketAddr {
    let items = Arc::clone(items);
    accept(move |socket| converse(socket, &items, fault))
}

/// Runs `talk` for every connection to a free port, each on a thread of its own.
fn accept(talk: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("a bound socket has an address");
    let talk = Arc::new(talk);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let talk = Arc::clone(&talk);
            thread::spawn(move || {
                socket.set_nodelay(true).expect("a connected socket");
                // A client that disconnects ends its thread.
                let _gone = talk(socket);
            });
        }
    });
    addr
}

fn converse(stream: impl Read + Write, items: &Items, fault: Fault) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    let mut answered = 0;
    while let Some(&first) = input.fill_buf()?.first() {
        let reply = match first {
            0x80 => packet::reply(&mut input, items, fault)?,
            _ => line_reply(&mut input, items, fault)?,
        };
        answered += 1;
        match fault {
            Fault::Stall(after, pause) if answered == after => thread::sleep(pause),
            Fault::Close(after) if answered > after => return Ok(()),
            _ => {}
        }
        input.get_mut().write_all(&reply)?;
        input.get_mut().flush()?;
    }
    Ok(())
}

/// The reply to the next text command.
fn line_reply(input: &mut impl BufRead, items: &Items, fault: Fault) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Ok(match words[0].as_str() {
        "get" => get(&words[1..], items, fault),
        "set" => {
            let mut value = vec![0; words[4].parse::<usize>().expect("a length") + 2];
            input.read_exact(&mut value)?;
            value.truncate(value.len() - 2);
            let stored = set(&words[1], value, items, fault);
            if stored { b"STORED\r\n".to_vec() } else { format!("SERVER_ERROR {REFUSAL}\r\n").into_bytes() }
        }
        "delete" => match items.lock().expect("no panic holds it").remove(&words[1]) {
            Some(_) => b"DELETED\r\n".to_vec(),
            None => b"NOT_FOUND\r\n".to_vec(),
        },
        _ => b"ERROR\r\n".to_vec(),
    })
}

/// The reply to a refused set.
const REFUSAL: &str = "out of memory storing object";

fn get(keys: &[String], items: &Items, fault: Fault) -> Vec<u8> {
    let mut reply = Vec::new();
    for key in keys {
        let Some(value) = find(key, items, fault) else { continue };
        reply.extend(format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes());
        reply.extend(value);
        reply.extend(b"\r\n");
    }
    reply.extend(b"END\r\n");
    reply
}

/// The value of `key`, as the fault changes it.
fn find(key: &str, items: &Items, fault: Fault) -> Option<Vec<u8>> {
    let mut value = items.lock().expect("no panic holds it").get(key)?.clone();
    match fault {
        Fault::Contents => value[0] ^= 1,
        Fault::Length => value.truncate(value.len() - 1),
        _ => {}
    }
    Some(value)
}

fn set(key: &str, value: Vec<u8>, items: &Items, fault: Fault) -> bool {
    if fault == Fault::Refuse {
        return false;
    }
    items.lock().expect("no panic holds it").insert(key.to_owned(), value);
    true
}

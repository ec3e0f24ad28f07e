//! A small cache over a map, one thread for each connection, that can be told to misbehave.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the cache does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It changes a byte of every value.
    Contents,
    /// It cuts every value by a byte, and says so.
    Length,
    /// It stops once for this long, after it has answered this many requests of a connection.
    Stall(u32, Duration),
    /// It closes the connection after it has answered this many requests.
    Close(u32),
    /// It refuses every set.
    Refuse,
}

type Items = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Starts the cache on a free port; it lives as long as the test.
pub(crate) fn serve(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("a bound socket has an address");
    let items = Items::default();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let items = Arc::clone(&items);
            thread::spawn(move || {
                // A client that goes away ends its thread.
                let _gone = converse(&socket, &items, fault);
            });
        }
    });
    addr
}

fn converse(socket: &TcpStream, items: &Items, fault: Fault) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut input = BufReader::new(socket);
    let mut line = String::new();
    let mut answered = 0;
    while input.read_line(&mut line)? > 0 {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        line.clear();
        let reply = match words[0].as_str() {
            "get" => get(&words[1..], items, fault),
            "set" => {
                let mut value = vec![0; words[4].parse::<usize>().expect("a length") + 2];
                input.read_exact(&mut value)?;
                value.truncate(value.len() - 2);
                set(&words[1], value, items, fault)
            }
            "delete" => match items.lock().expect("no panic holds it").remove(&words[1]) {
                Some(_) => b"DELETED\r\n".to_vec(),
                None => b"NOT_FOUND\r\n".to_vec(),
            },
            _ => b"ERROR\r\n".to_vec(),
        };
        answered += 1;
        match fault {
            Fault::Stall(after, pause) if answered == after => thread::sleep(pause),
            Fault::Close(after) if answered > after => return Ok(()),
            _ => {}
        }
        (&mut &*socket).write_all(&reply)?;
    }
    Ok(())
}

fn get(keys: &[String], items: &Items, fault: Fault) -> Vec<u8> {
    let items = items.lock().expect("no panic holds it");
    let mut reply = Vec::new();
    for key in keys {
        let Some(value) = items.get(key) else { continue };
        let mut value = value.clone();
        match fault {
            Fault::Contents => value[0] ^= 1,
            Fault::Length => value.truncate(value.len() - 1),
            _ => {}
        }
        reply.extend(format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes());
        reply.extend(value);
        reply.extend(b"\r\n");
    }
    reply.extend(b"END\r\n");
    reply
}

fn set(key: &str, value: Vec<u8>, items: &Items, fault: Fault) -> Vec<u8> {
    if fault == Fault::Refuse {
        return b"SERVER_ERROR out of memory storing object\r\n".to_vec();
    }
    items.lock().expect("no panic holds it").insert(key.to_owned(), value);
    b"STORED\r\n".to_vec()
}

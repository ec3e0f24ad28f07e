use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use guira_harness::deadline::Deadline;

use super::{PIECE, Relay};

const WAIT: Duration = Duration::from_secs(20);

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// A relay before these servers; it runs until the tests end.
fn relay(servers: &[SocketAddr]) -> SocketAddr {
    let relay = Relay::bind((Ipv4Addr::LOCALHOST, 0).into(), servers).unwrap();
    let addr = relay.local_addr().unwrap();
    thread::spawn(move || relay.serve());
    addr
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

fn accept(listener: &TcpListener) -> TcpStream {
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

#[track_caller]
fn receive(stream: &mut TcpStream, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, expected);
}

#[track_caller]
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0; 16]).is_ok_and(|count| count == 0)
}

#[test]
fn a_relay_needs_a_server() {
    let error = Relay::bind((Ipv4Addr::LOCALHOST, 0).into(), &[]).unwrap_err();
    assert!(error.to_string().contains("at least one server"), "{error}");
}

#[test]
fn clients_have_servers_in_turn_and_bytes_go_both_ways() {
    let (one, two) = (listener(), listener());
    let addr = relay(&[one.1, two.1]);
    let mut clients: Vec<(TcpStream, TcpStream)> = Vec::new();
    for server in [&one.0, &two.0, &one.0] {
        let client = connect(addr);
        clients.push((client, accept(server)));
    }
    for (number, (client, server)) in clients.iter_mut().enumerate() {
        let (question, answer) = ([b"no request\0", &[number as u8][..]].concat(), [number as u8, 0xff]);
        client.write_all(&question).unwrap();
        receive(server, &question);
        server.write_all(&answer).unwrap();
        receive(client, &answer);
    }
}

#[test]
fn what_is_under_way_arrives_after_either_end_has_ended_its_part() {
    let (server, addr) = listener();
    let relay = relay(&[addr]);
    let mut client = connect(relay);
    client.write_all(b"last request").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = accept(&server);
    receive(&mut server, b"last request");
    assert!(is_closed(&mut server));
    server.write_all(b"last reply").unwrap();
    drop(server);
    receive(&mut client, b"last reply");
    assert!(is_closed(&mut client));
}

#[test]
fn a_client_whose_server_is_gone_loses_its_connection_and_others_are_served() {
    let (dead, alive) = (listener(), listener());
    let addr = relay(&[dead.1, alive.1]);
    drop(dead.0);
    let mut lost = connect(addr);
    let mut served = connect(addr);
    let mut server = accept(&alive.0);
    assert!(lost.read(&mut [0; 16]).map_or(true, |count| count == 0));
    served.write_all(b"x").unwrap();
    receive(&mut server, b"x");
    // The place of the pair that has ended serves the next two.
    assert!(connect(addr).read(&mut [0; 16]).map_or(true, |count| count == 0));
    let mut next = connect(addr);
    next.write_all(b"y").unwrap();
    receive(&mut accept(&alive.0), b"y");
}

#[test]
fn an_end_that_does_not_read_stops_the_other_and_loses_nothing() {
    let (server, addr) = listener();
    let mut client = connect(relay(&[addr]));
    let mut server = accept(&server);
    server.set_nonblocking(true).unwrap();
    let block: Vec<u8> = (0..PIECE).map(|at| (at % 251) as u8).collect();
    // More than all buffers between the two take: then nothing more is taken, for as long as the client reads nothing.
    let (mut sent, mut last) = (0, 0);
    let is_stopped = || {
        while let Ok(count) = server.write(&block[sent % PIECE..]) {
            sent += count;
        }
        let is_still = sent == last && sent > 0;
        last = sent;
        thread::sleep(Duration::from_millis(20));
        is_still.then_some(())
    };
    Deadline::after(WAIT).poll(is_stopped).expect("the relay holds a bounded amount");
    let mut received = vec![0; sent];
    client.read_exact(&mut received).unwrap();
    assert!(received.iter().enumerate().all(|(at, byte)| *byte == block[at % PIECE]));
    // It continues.
    server.set_nonblocking(false).unwrap();
    server.write_all(b"more").unwrap();
    receive(&mut client, b"more");
}

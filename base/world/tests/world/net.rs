//! Sockets of the world: bytes arrive in order and once, whatever the network does.

use crate::{good, of};
use guira_world::net::{
    Faults, Poll, Ready, TcpListener, TcpStream, crash, cut, heal, redirect, set_faults, set_host,
};
use guira_world::scheduler::{current_process, freeze, kill, start};
use guira_world::thread::{sleep, spawn};
use guira_world::{run, time};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SEEDS: u64 = 100;
const SERVER: &str = "10.0.0.1:11211";

fn host(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// An echo server on one thread, by a poller.
fn echo() {
    set_host(current_process(), host(1));
    let listener = TcpListener::bind(SERVER).unwrap();
    listener.set_nonblocking(true).unwrap();
    let poll = Poll::new();
    let read = Ready { read: true, ..Ready::default() };
    poll.set(&listener, 0, read).unwrap();
    let mut clients: BTreeMap<u64, (TcpStream, Vec<u8>)> = BTreeMap::new();
    let mut last = 0;
    loop {
        for (token, _) in poll.wait(None) {
            if token == 0 {
                while let Ok((stream, _)) = listener.accept() {
                    last += 1;
                    stream.set_nonblocking(true).unwrap();
                    poll.set(&stream, last, read).unwrap();
                    clients.insert(last, (stream, Vec::new()));
                }
                continue;
            }
            let Some((stream, pending)) = clients.get_mut(&token) else { continue };
            let mut buffer = [0; 1000];
            let mut is_over = false;
            match stream.read(&mut buffer) {
                Ok(0) => is_over = true,
                Ok(length) => pending.extend(&buffer[..length]),
                Err(error) => is_over = error.kind() != ErrorKind::WouldBlock,
            }
            match if pending.is_empty() { Ok(0) } else { stream.write(pending) } {
                Ok(length) => drop(pending.drain(..length)),
                Err(error) => is_over |= error.kind() != ErrorKind::WouldBlock,
            }
            let write = !pending.is_empty();
            poll.set(&*stream, token, Ready { read: true, write, failed: false }).unwrap();
            if is_over {
                clients.remove(&token);
            }
        }
    }
}

/// Sends numbered bytes and checks what comes back.
fn talk(bytes: usize) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(SERVER)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut writer = stream.try_clone()?;
    let sent: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
    let all = sent.clone();
    let thread = spawn(move || writer.write_all(&all));
    let mut received = vec![0; bytes];
    let read = stream.read_exact(&mut received);
    thread.join().unwrap()?;
    read?;
    assert!(received == sent, "bytes arrive in order and once");
    Ok(bytes)
}

#[test]
fn bytes_arrive_in_order_and_once() {
    for seed in 0..SEEDS {
        good(seed, || {
            start("server", echo);
            sleep(Duration::from_millis(1));
            set_faults(Faults { window: 5_000, partial: 2, ..Faults::default() });
            let talks: Vec<_> =
                (0..4).map(|number| spawn(move || talk(10_000 * number + 1).unwrap())).collect();
            for talk in talks {
                talk.join().unwrap();
            }
            assert!(time::now() < Duration::from_secs(5));
        });
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let main = || {
        start("server", echo);
        sleep(Duration::from_millis(1));
        set_faults(Faults { resets: 50, ..Faults::default() });
        (0..10).map(|number| talk(number * 500).is_ok()).collect::<Vec<_>>()
    };
    for seed in 0..20 {
        let [one, two] = [run(of(seed), main), run(of(seed), main)];
        assert_eq!((one.digest, one.time, one.result), (two.digest, two.time, two.result), "seed {seed}");
    }
}

#[test]
fn a_connection_to_nothing_is_refused() {
    for seed in 0..SEEDS {
        good(seed, || {
            assert_eq!(TcpStream::connect(SERVER).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            let address: SocketAddr = SERVER.parse().unwrap();
            cut(host(9), host(1));
            set_host(current_process(), host(9));
            let error = TcpStream::connect_timeout(&address, Duration::from_secs(1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        });
    }
}

#[test]
fn a_cut_delays_and_loses_nothing() {
    for seed in 0..SEEDS {
        good(seed, || {
            set_host(current_process(), host(2));
            start("server", echo);
            sleep(Duration::from_millis(1));
            let thread = spawn(|| talk(100_000).unwrap());
            sleep(Duration::from_millis(1));
            cut(host(1), host(2));
            sleep(Duration::from_secs(10));
            heal(host(1), host(2));
            thread.join().unwrap();
            assert!((10..15).contains(&time::now().as_secs()), "{:?}", time::now());
        });
    }
}

#[test]
fn clients_of_a_killed_server_see_an_end_and_of_a_crashed_one_nothing_until_they_send() {
    for seed in 0..SEEDS {
        good(seed, move || {
            let server = start("server", echo);
            sleep(Duration::from_millis(1));
            let mut stream = TcpStream::connect(SERVER).unwrap();
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            if seed % 2 == 0 {
                kill(server);
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                // The port is free again.
                start("server", echo);
                sleep(Duration::from_millis(1));
                talk(100).unwrap();
            } else {
                crash(server);
                assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
                stream.write_all(b"y").unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            }
        });
    }
}

#[test]
fn a_frozen_server_answers_later() {
    for seed in 0..SEEDS {
        good(seed, || {
            let server = start("server", echo);
            sleep(Duration::from_millis(1));
            freeze(server, Duration::from_secs(3));
            talk(10).unwrap();
            assert!((3..4).contains(&time::now().as_secs()));
        });
    }
}

/// Sends one byte to each client, and holds the connections.
fn greet(byte: u8) {
    let listener = TcpListener::bind(SocketAddr::new(host(byte), 11211)).unwrap();
    let mut clients = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[byte]).unwrap();
        clients.push(stream);
    }
}

#[test]
fn a_redirected_address_resets_its_connections_and_another_server_accepts_there() {
    for seed in 0..SEEDS {
        good(seed, || {
            for number in [1, 2] {
                set_host(start("server", move || greet(number)), host(number));
            }
            sleep(Duration::from_millis(1));
            let greeting = || {
                let (mut stream, mut byte) = (TcpStream::connect(SERVER).unwrap(), [0]);
                stream.read_exact(&mut byte).unwrap();
                (stream, byte[0])
            };
            let (mut stream, first) = greeting();
            redirect(SERVER.parse().unwrap(), Some(SocketAddr::new(host(2), 11211)));
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            let (mut stream, second) = greeting();
            redirect(SERVER.parse().unwrap(), None);
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!((first, second, greeting().1), (1, 2, 1));
        });
    }
}

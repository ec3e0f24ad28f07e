//! One ceiling for the whole process: whatever clients leave lying about, memory stays below it.

use std::io::Write;
use std::net::TcpStream;

use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, wait_for};
use guira_tests::tls::Certificate;
use guira_tests::udp::UdpClient;
use guira_tests::{Client, Server, Setup};

/// What the ceiling leaves for the pages of the program's file, which are not measured here.
const CODE: usize = 3 << 20;

/// 32 MiB, of which connections may hold 256 KiB.
fn small_server() -> Server {
    ["--memory=32MiB", "--max-connections=700", "--connection-memory=256KiB"]
        .into_iter()
        .fold(Setup::new(), Setup::guira_argument)
        .start_guira()
}

/// What connections hold, may hold, and how many were closed for holding too much.
fn held(client: &mut Client) -> (usize, usize, usize) {
    let stats = client.stats("");
    let number = |name: &str| stats[name].parse::<usize>().unwrap();
    let closed = number("response_obj_oom") + number("read_buf_oom");
    (number("conn_memory_used"), number("conn_memory_limit"), closed)
}

fn fill(client: &mut Client, mebibytes: usize) {
    let value = "x".repeat(8_000);
    let set = |key| format!("set fill{key} 0 0 8000 noreply\r\n{value}\r\n");
    client.send_many((0..mebibytes * 200).map(set));
    client.sync();
}

/// Sends as long as the server takes it, and at most `requests`.
fn send_blindly(client: &mut Client, request: &str, requests: usize) {
    client.send_what_is_taken(request.repeat(requests).as_bytes());
}

fn expect_below(server: &Server, mebibytes: usize, what: &str) {
    let held = server.memory();
    assert!(held <= (mebibytes << 20) - CODE, "{what}: {} KiB", held >> 10);
}

/// What memcached 1.6.18 of Debian has resident at `-m 64` before it holds anything, but for pages of files: how many of these there are depends on what
/// other processes have read of the same file (docs/develop/decisions/0054-small-process.md has all of it) …
const MEMCACHED: usize = 1_060 << 10;
/// … and how much more it may be here, …
const MORE: usize = 2 << 20;
/// … beside pages of items that are committed before they are needed.
const AHEAD: usize = (64 << 20) / 64;

/// What a server has resident, with the pages of its file.
fn resident(server: &Server) -> usize {
    server.costs().resident_bytes().expect("it runs") as usize
}

#[test]
fn an_empty_server_takes_little_more_than_memcached() {
    let server = Server::start();
    server.connect().sync();
    wait_for("the start to be over", || (server.memory() <= MEMCACHED + MORE + AHEAD).then_some(()));
}

#[test]
fn a_full_server_stays_below_its_ceiling() {
    for mebibytes in [16, 64] {
        let memory = format!("--memory={mebibytes}MiB");
        let server = Setup::new().guira_argument(&memory).start();
        let mut client = server.connect();
        for length in [10, 1_000, 20_000] {
            let value = "x".repeat(length);
            let set = |key| format!("set k{length}-{key} 0 0 {length} noreply\r\n{value}\r\n");
            client.send_many((0..(mebibytes << 20) / (length + 500)).map(set));
            client.sync();
        }
        // A small cache of some engines takes no samples.
        client.send("stats mrc\r\n");
        while !["END", "CLIENT_ERROR stats mrc not allowed"].contains(&client.line().as_str()) {}
        let resident = resident(&server);
        expect_below(&server, mebibytes, "full memory");
        assert!(resident > (mebibytes << 20) * 2 / 3, "{memory}: {} KiB", resident >> 10);
    }
}

#[test]
fn a_server_of_little_memory_says_how_much_it_may_take() {
    let server = Setup::new().options(&["-m", "3", "-t", "2"]).start_guira();
    let line = wait_for("a warning", || {
        server.log().lines().find(|line| line.contains("3MiB is small")).map(str::to_owned)
    });
    let most = line.rsplit(' ').next().and_then(|word| word.strip_suffix("MiB")).unwrap();
    let most = most.parse::<usize>().unwrap();
    fill(&mut server.connect(), 12);
    expect_below(&server, most, "little memory");
}

#[test]
fn clients_that_never_read_their_replies() {
    let server = small_server();
    let mut client = server.connect();
    fill(&mut client, 32);
    client.exchange(format!("set small 0 0 2000\r\n{}\r\n", "s".repeat(2000)), "STORED\r\n");
    client.exchange(format!("set long 0 0 500000\r\n{}\r\n", "l".repeat(500_000)), "STORED\r\n");
    // Somebody who does nothing wrong, all the while.
    let mut honest = server.connect();
    let mut blind: Vec<Client> = Vec::new();
    for number in 0..400 {
        let mut client = server.connect();
        let request = if number % 2 == 0 { "get small\r\n" } else { "get long small long\r\n" };
        send_blindly(&mut client, request, 20_000);
        blind.push(client);
        honest.exchange("mg small\r\nmg small\r\n", "HD\r\nHD\r\n");
        if number % 50 == 49 {
            expect_below(&server, 32, "slow readers");
        }
    }
    // A client that reads is served all the while.
    client.expect_value("small", "s".repeat(2000));
    client.exchange("set other 0 0 1\r\nx\r\n", "STORED\r\n");
    wait_for("those that hold most to be closed", || {
        let (used, limit, closed) = held(&mut client);
        assert!(limit == 256 << 10 && used <= limit, "{used} of {limit}");
        (closed > 100).then_some(())
    });
    blind.into_iter().for_each(Client::abandon);
}

#[test]
fn clients_that_send_requests_in_part() {
    let server = small_server();
    let mut client = server.connect();
    fill(&mut client, 32);
    let items = |client: &mut Client| client.stats("")["curr_items"].parse::<usize>().unwrap();
    let before = items(&mut client);
    let mut halves: Vec<Client> = Vec::new();
    for number in 0..500 {
        let mut client = server.connect();
        // A line of keys without end, half a small value, a third of a long one.
        let part = match number % 3 {
            0 => format!("get {}", "key ".repeat(2_000)),
            1 => format!("set half{number} 0 0 15000\r\n{}", "h".repeat(14_000)),
            _ => format!("set long{number} 0 0 900000\r\n{}", "l".repeat(300_000)),
        };
        client.send_what_is_taken(part.as_bytes());
        halves.push(client);
    }
    wait_for("those that hold most to be closed", || {
        let (used, limit, closed) = held(&mut client);
        assert!(used <= limit, "{used} of {limit}");
        (closed > 100).then_some(())
    });
    expect_below(&server, 32, "half requests");
    client.exchange("set other 0 0 1\r\nx\r\n", "STORED\r\n");
    client.expect_value("other", "x");
    // Values that arrive have at most half of the memory at any time. Clients are closed and others take their place,
    // with values of another size: pages that the first ones leave half empty are not used for these, so that more
    // than half of the items can go.
    let left = items(&mut client);
    assert!(left > before / 4, "{left} items are left of {before}");
    halves.into_iter().for_each(Client::abandon);
}

#[test]
fn values_that_are_sent_in_halves_are_stored_however_little_room_there_is() {
    // The values that arrive at mica have memory of their own, and are refused when it is used up.
    let server = Setup::new().not_with("mica").start();
    let mut watcher = server.connect();
    fill(&mut watcher, 80);
    // 4 MB in all, of which 1 MiB may be held.
    let value = |number: usize| format!("{number:03}").repeat(10_000 / 3);
    let request = |number: usize| {
        let value = value(number);
        match number % 4 {
            0 => format!("ms short{number} {}\r\n{value}\r\n", value.len()),
            1 => format!("add short{number} 0 0 {}\r\n{value}\r\n", value.len()),
            _ => format!("set short{number} 5 1000 {}\r\n{value}\r\n", value.len()),
        }
    };
    let mut clients: Vec<Client> = (0..400).map(|_| server.connect()).collect();
    for quarter in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let request = request(number);
            client.send(&request[request.len() * quarter / 4..request.len() * (quarter + 1) / 4]);
        }
        watcher.sync();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let request = request(number);
        let reply = if number % 4 == 0 { "HD\r\n" } else { "STORED\r\n" };
        client.exchange(&request[request.len() * 3 / 4..], reply);
    }
    // As far as it was not evicted since.
    let mut kept = 0;
    for number in 0..400 {
        if watcher.ask(format!("mg short{number} s v\r\n")) != "EN" {
            watcher.hear(format!("{}\r\n", value(number)));
            kept += 1;
        }
    }
    assert!(kept > 0);
    assert_eq!(held(&mut watcher).2, 0);
}

#[test]
fn what_is_appended_may_be_longer_than_all_connections_may_hold() {
    let server = Setup::new().max_item_mib(4).start();
    let mut client = server.connect();
    client.exchange("set key 0 0 3\r\nabc\r\n", "STORED\r\n");
    let piece = "d".repeat(1_100_000);
    client.send(format!("append key 0 0 {}\r\n{piece}", 2 * piece.len()));
    server.connect().sync();
    client.exchange(format!("{piece}\r\n"), "STORED\r\n");
    client.send(format!("ms key 1100001 MP\r\n{piece}"));
    server.connect().sync();
    client.exchange("e\r\n", "HD\r\n");
    client.expect_value("key", format!("{piece}eabc{piece}{piece}"));
    // What is too large altogether leaves what was there.
    client.exchange(format!("append key 0 0 {}\r\n{piece}\r\n", piece.len()), "NOT_STORED\r\n");
    client.expect_value("key", format!("{piece}eabc{piece}{piece}"));
    assert_eq!(held(&mut client).2, 0);
}

#[test]
fn room_is_given_back_when_connections_go() {
    let server = small_server();
    let mut client = server.connect();
    client.exchange(format!("set small 0 0 2000\r\n{}\r\n", "s".repeat(2000)), "STORED\r\n");
    let used = |client: &mut Client| held(client).0;
    let before = used(&mut client);
    for _ in 0..3 {
        let mut blind: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        blind.iter_mut().for_each(|client| send_blindly(client, "get small\r\n", 20_000));
        wait_for("replies that are not taken", || (used(&mut client) > before + 20 * 2000).then_some(()));
        blind.into_iter().for_each(Client::abandon);
        wait_for("the room to be free", || (used(&mut client) <= before).then_some(()));
    }
}

#[test]
fn who_holds_most_makes_room_for_clients_of_another_worker() {
    let server = small_server();
    // Connections are dealt out in turn to two workers: every second one is of the same.
    let mut watcher = server.connect();
    watcher.sync();
    let pair = || {
        let (mut one, mut other) = (server.connect(), server.connect());
        one.sync();
        other.sync();
        (one, other)
    };
    let mut greedy: Vec<Client> = Vec::new();
    let mut idle: Vec<Client> = Vec::new();
    for _ in 0..40 {
        let (mut one, other) = pair();
        one.send_what_is_taken(format!("get {}", "key ".repeat(3_500)).as_bytes());
        greedy.push(one);
        idle.push(other);
    }
    let mut before = 0;
    wait_for("all the room to be held", || {
        let (used, limit, closed) = held(&mut watcher);
        before = closed;
        (used + 14_004 > limit).then_some(())
    });
    let mut honest: Vec<Client> = Vec::new();
    for _ in 0..40 {
        let (one, mut other) = pair();
        one.abandon();
        other.send(format!("get {}", "key ".repeat(500)));
        honest.push(other);
    }
    wait_for("room to be made", || (held(&mut watcher).2 > before).then_some(()));
    for client in &mut honest {
        client.exchange("key\r\n", "END\r\n");
    }
    greedy.into_iter().for_each(Client::abandon);
    drop(idle);
}

#[test]
fn handshakes_that_do_not_end() {
    let certificate = Certificate::issue();
    // A client that speaks no TLS comes by another way.
    let scratch = Scratch::new();
    let path = scratch.path().join("socket");
    let listen = format!("--listen=unix:{}", path.display());
    let setup = ["--memory=32MiB", "--max-connections=900", "--connection-memory=1MiB", &listen];
    let setup = setup.into_iter().fold(certificate.given_to(Setup::new()), Setup::guira_argument);
    let server = setup.start_guira();
    let Address::Tcp(address) = *server.address() else { panic!("a TCP address") };
    let mut client = Client::connect(&Address::Unix(path));
    fill(&mut client, 32);
    // A hello of 65,520 bytes, of which the end never comes.
    let mut hello = vec![1, 0, 0xff, 0xf0];
    hello.resize(60_000, 0);
    let records: Vec<u8> =
        hello.chunks(15_000).flat_map(|part| [&[22, 3, 1, 0x3a, 0x98][..], part].concat()).collect();
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..800 {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // One that is closed does not take it.
        let _ = stream.write_all(&records);
        silent.push(stream);
    }
    wait_for("those that hold most to be closed", || {
        let (used, limit, closed) = held(&mut client);
        assert!(used <= limit, "{used} of {limit}");
        (closed > 500).then_some(())
    });
    expect_below(&server, 32, "handshakes");
    client.exchange("set other 0 0 1\r\nx\r\n", "STORED\r\n");
}

#[test]
fn long_replies_in_datagrams() {
    let server = Setup::new().options(&["-m", "16", "-t", "1", "-U", "-1"]).start_guira();
    let mut client = server.connect();
    client.exchange(format!("set a 0 0 500000\r\n{}\r\n", "a".repeat(500_000)), "STORED\r\n");
    let datagrams = UdpClient::connect(server.udp_address());
    let before = server.memory();
    for _ in 0..20 {
        // 28 bytes that ask for four million.
        datagrams.request(1, "get a a a a a a a a\r\n");
        assert_eq!(datagrams.reply(1), b"SERVER_ERROR reply too large for UDP\r\n");
    }
    // It is lost in part, as a reply of 370 datagrams may be: what counts is that it was made.
    datagrams.request(2, "get a\r\n");
    client.sync();
    client.sync();
    let taken = server.memory().saturating_sub(before);
    assert!(taken < 3 << 20, "{} KiB more than before", taken >> 10);
}

#[test]
fn watchers_that_do_not_read() {
    let setup = Setup::new().guira_argument("--memory=16MiB").guira_argument("--watcher-buffer=16MiB");
    let scratch = Scratch::new();
    // The buffers of a UNIX socket do not grow.
    let server = setup.unix_socket(&scratch.path().join("socket")).start_guira();
    let mut watchers: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for watcher in &mut watchers {
        watcher.exchange("watch fetchers\r\n", "OK\r\n");
    }
    let mut client = server.connect();
    let gets = format!("get {}\r\n", "k".repeat(240)).repeat(1_000);
    wait_for("lines that do not fit", || {
        client.exchange_at_once(gets.as_bytes(), "END\r\n".repeat(1_000).as_bytes());
        (client.stats("")["log_watcher_skipped"].parse::<u64>().expect("a number") > 20_000).then_some(())
    });
    let (used, limit, _) = held(&mut client);
    assert!(used > 512 && used <= limit / 2, "{used} of {limit}");
    expect_below(&server, 16, "watchers");
    watchers.into_iter().for_each(Client::abandon);
    // But for what is left of this client's own requests.
    wait_for("all to be given back", || (held(&mut client).0 < 512).then_some(()));
}

//! Values that are announced and arrive slowly, or not at all.

use guira_tests::{Client, Server, Setup};

const MIB: usize = 1 << 20;

/// Clients that announce values and send nothing of them.
fn silent(server: &Server) -> Vec<Client> {
    let announce = |line: &str| {
        let mut client = server.connect();
        client.send(line);
        client
    };
    let lengths = [1_000_000, 200_000, 40_000, 17_000].into_iter().cycle().take(90);
    let clients: Vec<_> = lengths.map(|length| announce(&format!("set silent 0 0 {length}\r\n"))).collect();
    // They are announced when others are answered.
    server.connect().sync();
    clients
}

#[test]
fn what_is_announced_and_does_not_come_keeps_no_client_from_storing() {
    let server = Server::start();
    let clients = silent(&server);
    let mut other = server.connect();
    for length in [100, 17_000, 100_000, 900_000] {
        let value = vec![b'x'; length];
        other.set("key", &value);
        other.expect_value("key", &value);
    }
    clients.into_iter().for_each(Client::abandon);
}

#[test]
fn several_large_values_may_arrive_at_the_same_time() {
    let server = Setup::new().max_item_mib(16).start();
    let value = vec![b'x'; 5 * MIB];
    let mut clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(format!("set large{index} 0 0 {}\r\n", value.len()));
        client.send(&value[..value.len() / 2]);
    }
    for client in &mut clients {
        client.send(&value[value.len() / 2..]);
        client.exchange("\r\n", "STORED\r\n");
    }
}

#[test]
fn a_value_that_finds_no_memory_half_way_is_refused_and_passed_over() {
    let server = Setup::new().max_item_mib(16).start();
    let value = vec![b'x'; 15 * MIB];
    // A server that comes late has read little: of each value the sockets hold
    // up to 10 MiB. What it holds of that many does not fit all the same.
    let holders: Vec<Client> = (0..16)
        .map(|index| {
            let mut client = server.connect();
            client.send(format!("set held{index} 0 0 {}\r\n", value.len()));
            client.send(&value[..value.len() - 1]);
            client
        })
        .collect();
    let mut refused = 0;
    for mut client in holders {
        client.send("x\r\nmn\r\n");
        match client.line().as_str() {
            "STORED" => {}
            "SERVER_ERROR Out of memory during read" => refused += 1,
            // Nothing was left when the line arrived.
            "SERVER_ERROR out of memory storing object" => refused += 1,
            other => panic!("{other}"),
        }
        // What came after the refusal was part of the value, not commands.
        client.hear("MN\r\n");
    }
    assert!((1..16).contains(&refused), "240 MiB do not fit at the same time: {refused}");
}

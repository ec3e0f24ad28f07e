//! What many clients send while a server or router stands still arrives in one round. Each client gets its own replies.

use crate::{Client, Server};

/// More than a worker serves together.
const CLIENTS: usize = 80;

/// What a client sends in one round, and what it receives.
struct Step {
    request: String,
    reply: String,
}

fn step(request: impl Into<String>, reply: impl Into<String>) -> Step {
    Step { request: request.into(), reply: reply.into() }
}

fn value(client: usize, length: usize) -> String {
    format!("{client:05} ").repeat(length / 6 + 1)[..length].to_owned()
}

fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
}

fn found(key: &str, value: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len())
}

/// All kinds of requests: those that can be executed together with others', and those that cannot; whole ones, several at once, and parts.
fn script(client: usize) -> Vec<Step> {
    let (short, long) = (value(client, 20), value(client, 20_000));
    let (key, long_key) = (format!("short{client}"), format!("long{client}"));
    let get = format!("get {key}\r\n");
    let got = format!("{}END\r\n", found(&key, &short));
    let got_long = format!("{}END\r\n", found(&long_key, &long));
    let (head, data) = (format!("set {key} 0 0 20\r\n"), format!("{short}\r\n"));
    vec![
        step(set(&key, &short), "STORED\r\n"),
        step(&get, &got),
        step(set(&long_key, &long), "STORED\r\n"),
        step(format!("get {long_key}\r\n"), &got_long),
        step(get.repeat(5), got.repeat(5)),
        step(format!("{get}get {long_key}\r\n{get}"), format!("{got}{got_long}{got}")),
        step(format!("get {long_key}\r\n").repeat(8), got_long.repeat(8)),
        step(&get[..7], ""),
        step(&get[7..], &got),
        step(&head, ""),
        step(&data, "STORED\r\n"),
        step(&head[..3], ""),
        step(format!("{}{data}", &head[3..]), "STORED\r\n"),
        step(format!("{get}{}", &get[..9]), &got),
        step(format!("{}{get}", &get[9..]), got.repeat(2)),
        step("unknown\r\n", "ERROR\r\n"),
        step(format!("{get}unknown\r\n{get}"), format!("{got}ERROR\r\n{got}")),
        step(format!("mg none{client} v q\r\nmn\r\n"), "MN\r\n"),
        step(format!("get {key} none {long_key} {key}\r\n"), {
            let (short, long) = (found(&key, &short), found(&long_key, &long));
            format!("{short}{long}{short}END\r\n")
        }),
        step(format!("{}{get}", get.repeat(90)), got.repeat(91)),
        step(format!("set {key} 0 0 5 noreply\r\nother\r\n"), ""),
        step(&get, format!("{}END\r\n", found(&key, "other"))),
        step("verbosity 1\r\n", "OK\r\n"),
        step(format!("delete {long_key}\r\n"), "DELETED\r\n"),
        step(format!("{get}get {long_key}\r\n"), format!("{}END\r\nEND\r\n", found(&key, "other"))),
        step(format!("{}incr {key} 5\r\n", set(&key, "10")), "STORED\r\n15\r\n"),
        step(format!("mg {key} v\r\nmd {key}\r\nmg {key} v\r\n"), "VA 2\r\n15\r\nHD\r\nEN\r\n"),
    ]
}

/// Sends while the server stands still, so that all of it is there when the server looks.
fn in_one_round(server: &Server, mut send: impl FnMut()) {
    server.freeze();
    send();
    server.signal("CONT");
}

/// All kinds of requests, of clients that are at different places of the same script.
pub fn each_client_gets_its_own_replies(server: &Server) {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let scripts: Vec<Vec<Step>> = (0..CLIENTS).map(script).collect();
    let steps = scripts[0].len();
    // Clients begin one after the other, so that different requests meet.
    for round in 0..2 * steps {
        let now =
            |client: usize| round.checked_sub(client % steps).and_then(|step| scripts[client].get(step));
        in_one_round(server, || {
            for (number, client) in clients.iter_mut().enumerate() {
                if let Some(step) = now(number) {
                    client.send(&step.request);
                }
            }
        });
        for (number, client) in clients.iter_mut().enumerate() {
            if let Some(step) = now(number) {
                client.hear(&step.reply);
            }
        }
    }
}

/// Clients close their connections, or their sending sides, after a request.
pub fn a_client_that_leaves_takes_nothing_from_the_others(server: &Server) {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.set(&format!("key{number}"), value(number, 100 + number * 300));
    }
    for round in 0..12 {
        let leaves = |number: usize| number % 12 == round;
        in_one_round(server, || {
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(format!("get key{number}\r\n"));
                if leaves(number) && number % 2 == 0 {
                    std::mem::replace(client, Client::connect(server.address())).abandon();
                } else if leaves(number) {
                    client.end_of_sending();
                }
            }
        });
        for (number, client) in clients.iter_mut().enumerate() {
            if !leaves(number) || number % 2 == 1 {
                let value = value(number, 100 + number * 300);
                client.hear(format!("{}END\r\n", found(&format!("key{number}"), &value)));
            }
            if leaves(number) && number % 2 == 1 {
                client.expect_closed();
                *client = server.connect();
            }
            client.sync();
        }
    }
}

/// A client requests more than its socket takes.
pub fn a_client_that_does_not_read_delays_nobody_and_loses_nothing(server: &Server) {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let long = value(0, 900_000);
    clients[0].set("long", &long);
    clients[0].set("short", "value");
    for _ in 0..10 {
        in_one_round(server, || {
            clients[0].send("get long\r\n");
            clients[1..].iter_mut().for_each(|client| client.send("get short\r\n"));
        });
        let short = format!("{}END\r\n", found("short", "value"));
        clients[1..].iter_mut().for_each(|client| client.hear(&short));
    }
    let long = format!("{}END\r\n", found("long", &long));
    clients[0].hear(long.repeat(10));
    clients[0].sync();
}

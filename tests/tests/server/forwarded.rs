//! Requests that another worker executes, since their keys are at home there (`--access erew` and `crew`): no client sees a difference.

use guira_tests::random::Random;
use guira_tests::{Client, Server, Setup};
use std::collections::HashMap;

fn start(access: &str) -> Server {
    let setup = Setup::new().not_with("mica").not_with("memc3").not_with("classic").not_with("fleec");
    setup
        .guira_argument("--engine=mica")
        .guira_argument(&format!("--access={access}"))
        .guira_argument("--workers=3")
        .start_guira()
}

/// What a pipeline of commands on a few keys should be answered.
fn pipeline(random: &mut Random, table: &mut HashMap<u32, String>) -> (String, String) {
    let (mut requests, mut replies) = (String::new(), String::new());
    for _ in 0..random.below(300) {
        let key = random.below(40) as u32;
        let value = format!("{}", random.below(1000));
        let found = table.get(&key).cloned();
        match random.below(9) {
            0 | 1 => {
                requests += &format!("set key{key} 0 0 {}\r\n{value}\r\n", value.len());
                replies += "STORED\r\n";
                table.insert(key, value);
            }
            2 => {
                requests += &format!("set key{key} 0 0 {} noreply\r\n{value}\r\n", value.len());
                table.insert(key, value);
            }
            3 => {
                requests += &format!("delete key{key}\r\n");
                replies += if table.remove(&key).is_some() { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
            }
            4 => {
                requests += &format!("append key{key} 0 0 1 noreply\r\n7\r\n");
                if let Some(value) = table.get_mut(&key) {
                    value.push('7');
                }
            }
            5 => {
                requests += &format!("mg key{key} v q\r\nmn\r\n");
                if let Some(value) = &found {
                    replies += &format!("VA {}\r\n{value}\r\n", value.len());
                }
                replies += "MN\r\n";
            }
            6 => {
                requests += "get";
                for key in (0..random.below(30)).map(|step| (key + step as u32) % 40).chain([key]) {
                    requests += &format!(" key{key}");
                    if let Some(value) = table.get(&key) {
                        replies += &format!("VALUE key{key} 0 {}\r\n{value}\r\n", value.len());
                    }
                }
                requests += "\r\n";
                replies += "END\r\n";
            }
            7 if random.below(10) == 0 => {
                requests += "flush_all\r\n";
                replies += "OK\r\n";
                table.clear();
            }
            _ => {
                requests += &format!("get key{key}\r\n");
                if let Some(value) = &found {
                    replies += &format!("VALUE key{key} 0 {}\r\n{value}\r\n", value.len());
                }
                replies += "END\r\n";
            }
        }
    }
    (requests + "mn\r\n", replies + "MN\r\n")
}

#[test]
fn pipelines_are_answered_as_if_one_worker_executed_them_in_order() {
    for access in ["erew", "crew"] {
        let server = start(access);
        let mut random = Random::new(11);
        let mut table = HashMap::new();
        // Several connections, so that it is now this worker and now that one that has to ask the others.
        let mut clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
        for round in 0..200 {
            let (requests, replies) = pipeline(&mut random, &mut table);
            let client = &mut clients[round % 6];
            client.exchange(requests, replies);
        }
        let forwarded: u64 = clients[0].stats("")["forwarded_requests"].parse().unwrap();
        assert!(forwarded > 1000, "{access}: {forwarded}");
    }
}

#[test]
fn long_values_come_from_wherever_they_are() {
    let server = start("erew");
    let mut client = server.connect();
    let value = |number: usize| format!("{number}").repeat(5_000 + 20_000 * (number % 3));
    let mut replies = String::new();
    for number in 0..30 {
        let value = value(number);
        client.exchange(format!("set key{number} 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
        replies += &format!("VALUE key{number} 0 {}\r\n{value}\r\n", value.len());
    }
    let keys: String = (0..30).map(|number| format!(" key{number}")).collect();
    client.exchange(format!("get{keys} nothing\r\n"), format!("{replies}END\r\n"));
    let each: String = (0..30).map(|number| format!("mg key{number} v\r\n")).collect();
    let expected: String =
        (0..30).map(|number| format!("VA {}\r\n{}\r\n", value(number).len(), value(number))).collect();
    client.exchange(each, expected);
}

#[test]
fn gets_with_uniques_and_times_are_forwarded_with_them() {
    let server = start("erew");
    let mut client = server.connect();
    for number in 0..20 {
        client.exchange(format!("set key{number} 0 0 1\r\nx\r\n"), "STORED\r\n");
    }
    let keys: String = (0..20).map(|number| format!(" key{number}")).collect();
    client.send(format!("gats 1500{keys}\r\n"));
    let mut reply = String::new();
    while !reply.ends_with("END\r\n") {
        reply += &format!("{}\r\n", client.line());
    }
    assert_eq!(reply.matches("VALUE key").count(), 20, "{reply}");
    for number in 0..20 {
        let unique = client.cas(&format!("key{number}"));
        assert!(reply.contains(&format!("VALUE key{number} 0 1 {unique}\r\n")), "{reply}");
        client.exchange(format!("mg key{number} t\r\n"), "HD t~1500\r\n");
    }
}

#[test]
fn a_client_that_goes_before_the_replies_come_disturbs_no_other() {
    let server = start("erew");
    let mut witness = server.connect();
    for round in 0..50 {
        let mut client = server.connect();
        let sets: String =
            (0..200).map(|number| format!("set key{number} 0 0 3 noreply\r\n{round:03}\r\n")).collect();
        let gets: String = (0..200).map(|number| format!("get key{number}\r\n")).collect();
        client.send(sets + &gets);
        client.abandon();
        witness.exchange(
            format!("set mine 0 0 3\r\n{round:03}\r\nget mine\r\n"),
            format!("STORED\r\nVALUE mine 0 3\r\n{round:03}\r\nEND\r\n"),
        );
    }
    drop(witness);
    server.stop("TERM");
}

#[test]
fn a_request_that_is_completed_while_the_server_stops_is_answered() {
    let setup = Setup::new().not_with("mica").not_with("memc3").not_with("classic").not_with("fleec");
    let setup = setup.guira_argument("--engine=mica").guira_argument("--access=erew");
    let server = setup.guira_argument("--workers=2").start_guira();
    let mut client = server.connect();
    client.exchange("set key1 0 0 1\r\nx\r\n", "STORED\r\n");
    let keys: String = (0..20).map(|number| format!(" key{number}")).collect();
    // Half of a request: the connection is not at rest.
    client.send(format!("get{keys}"));
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.signal("TERM");
    // The worker without connections ends meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(300));
    client.send("\r\n");
    client.hear("VALUE key1 0 1\r\nx\r\nEND\r\n");
    client.expect_closed();
}

#[test]
fn connections_whose_replies_come_from_elsewhere_hold_no_more_than_others() {
    for access in ["crcw", "erew"] {
        let setup = Setup::new().not_with("mica").not_with("memc3").not_with("classic").not_with("fleec");
        let setup = setup.guira_argument("--engine=mica").guira_argument(&format!("--access={access}"));
        let setup = setup.guira_argument("--workers=8").guira_argument("--memory=256MiB");
        // Room is short at half of this. By then each worker may be about to hold another portion, in a buffer of twice its length.
        let server = setup.guira_argument("--connection-memory=4MiB").start_guira();
        let mut first = server.connect();
        let value = "x".repeat(15_000);
        for number in 0..60 {
            first.exchange(format!("set k{number} 0 0 15000\r\n{value}\r\n"), "STORED\r\n");
        }
        let gets: String = (0..60).map(|number| format!("get k{number}\r\n")).collect();
        let guira_tests::server::Address::Tcp(address) = server.address() else { panic!("TCP") };
        let connect = |_| std::net::TcpStream::connect(address).unwrap();
        let mut clients: Vec<std::net::TcpStream> = (0..60).map(connect).collect();
        // More than a socket takes: what is left over is held, in portions of 64 KiB, or 2 KiB when room is short.
        for client in &mut clients {
            std::io::Write::write_all(client, gets.repeat(8).as_bytes()).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(first.stats("")["response_obj_oom"], "0", "{access}");
    }
}

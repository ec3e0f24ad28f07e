//! A limit of requests of one thread that are under way: others wait, and are not read meanwhile.

use crate::{Router, config_of, stop};
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::udp::UdpClient;
use guira_tests::{Client, Server};

fn router(node: &Server, options: &[&str]) -> Router {
    let config = config_of(node);
    let fixed = ["--config-str", &config, "--server-timeout-ms", "60000", "--udp", "127.0.0.1:0"];
    Router::start(&[&fixed, options].concat())
}

/// Waits until a line of `stats` says this.
#[track_caller]
fn wait_for(client: &mut Client, name: &str, value: &str) {
    let is_so = || (client.stats("")[name] == value).then_some(());
    Deadline::after(PATIENCE).poll(is_so).unwrap_or_else(|| panic!("{name} is never {value}"));
}

#[test]
fn clients_beyond_the_limit_wait_and_further_ones_are_refused() {
    let node = Server::start();
    let mut router =
        router(&node, &["--proxy-max-inflight-requests", "2", "--proxy-max-throttled-requests", "2"]);
    let udp = router.listens_by("udp");
    let mut admin = router.connect();
    admin.set("k", "v");
    stop(&node);
    let mut clients: Vec<Client> = (0..4).map(|_| router.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send("get k\r\n");
        if number < 2 {
            wait_for(&mut admin, "proxy_reqs_processing", &(number + 1).to_string());
        } else {
            wait_for(&mut admin, "proxy_reqs_waiting", &(number - 1).to_string());
        }
    }
    // Nobody else waits; what the router answers itself is answered.
    let mut refused = router.connect();
    refused.exchange("get k\r\nset k 0 0 1\r\nw\r\n", "SERVER_ERROR 307 busy\r\nSERVER_ERROR 307 busy\r\n");
    refused.exchange("version\r\n", format!("{}\r\n", admin.ask("version\r\n")));
    UdpClient::connect(udp).exchange(1, "get k\r\n", "SERVER_ERROR 307 busy\r\n");
    assert_eq!(admin.stats("")["proxy_reqs_throttled_count"], "2");
    node.signal("CONT");
    for client in &mut clients {
        client.hear("VALUE k 0 1\r\nv\r\nEND\r\n");
    }
    wait_for(&mut admin, "proxy_reqs_waiting", "0");
    refused.exchange("get k\r\n", "VALUE k 0 1\r\nv\r\nEND\r\n");
}

#[test]
fn all_that_is_asked_at_once_is_answered_in_order_however_little_may_be_under_way() {
    let node = Server::start();
    let router = router(&node, &["--proxy-max-inflight-requests", "1"]);
    let mut clients: Vec<Client> = (0..8).map(|_| router.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let sets: String = (0..50).map(|key| format!("set k{number}.{key} 0 0 2\r\n{key:02}\r\n")).collect();
        let gets: String = (0..50).map(|key| format!("get k{number}.{key} none\r\n")).collect();
        client.send(sets + &gets + "mn\r\n");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let stored = "STORED\r\n".repeat(50);
        let found: String =
            (0..50).map(|key| format!("VALUE k{number}.{key} 0 2\r\n{key:02}\r\nEND\r\n")).collect();
        client.hear(stored + &found + "MN\r\n");
    }
    let mut admin = router.connect();
    wait_for(&mut admin, "proxy_reqs_waiting", "0");
    wait_for(&mut admin, "proxy_reqs_processing", "0");
}

#[test]
fn a_client_that_goes_while_it_waits_is_forgotten() {
    let node = Server::start();
    let router = router(&node, &["--proxy-max-inflight-requests", "1"]);
    let mut admin = router.connect();
    stop(&node);
    let mut first = router.connect();
    first.send("get k\r\n");
    wait_for(&mut admin, "proxy_reqs_processing", "1");
    let mut gone = router.connect();
    gone.send("get k\r\n");
    wait_for(&mut admin, "proxy_reqs_waiting", "1");
    let mut last = router.connect();
    last.send("get k\r\n");
    wait_for(&mut admin, "proxy_reqs_waiting", "2");
    gone.abandon();
    node.signal("CONT");
    first.hear("END\r\n");
    last.hear("END\r\n");
    wait_for(&mut admin, "proxy_reqs_waiting", "0");
}

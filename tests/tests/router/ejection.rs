//! Pools that leave servers out which are out of service, compared with nutcracker.

use crate::Router;
use guira_harness::server::{ServerProcess, Spec};
use guira_tests::deadline::PATIENCE;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup, skip};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Command, Stdio};

const KEYS: u32 = 300;

/// Servers with the key of each number, whose value is the server's own number.
fn servers() -> Vec<Server> {
    let filled = |number: usize| {
        let server = Setup::new().start_guira();
        let mut client = server.connect();
        for key in 0..KEYS {
            client.set(&format!("key{key}"), number.to_string());
        }
        server
    };
    (0..4).map(filled).collect()
}

/// Which server each key is at; keys whose servers cannot be asked are left out.
fn places(client: &mut Client) -> BTreeMap<u32, String> {
    let place = |key: u32| {
        client.send(format!("get key{key}\r\n"));
        let first = client.line();
        if !first.starts_with("VALUE") {
            return None;
        }
        let place = client.line();
        assert_eq!(client.line(), "END");
        Some((key, place))
    };
    (0..KEYS).filter_map(place).collect()
}

#[track_caller]
fn wait_for_all(client: &mut Client) -> BTreeMap<u32, String> {
    wait_for("an answer for every key", || {
        let found = places(client);
        (found.len() == KEYS as usize).then_some(found)
    })
}

fn ports(servers: &[Server]) -> Vec<String> {
    servers.iter().map(crate::name).collect()
}

fn router(servers: &[Server], more: &str) -> Router {
    let listed: Vec<String> = ports(servers).iter().map(|address| format!("{address:?}")).collect();
    let names: Vec<String> = (0..servers.len()).map(|number| format!("\"cache{number}\"")).collect();
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": [{}], "names": [{}]{more}}}}},
            "route": {{"type": "PoolRoute", "pool": "A", "hash": "KetamaTwemproxy"}}}}"#,
        listed.join(", "),
        names.join(", ")
    );
    Router::start(&[
        "--config-str",
        &config,
        "-r",
        "50",
        "--probe-timeout-max-ms",
        "50",
        "--asynclog-disable",
    ])
}

/// nutcracker with the same pool, if it is here.
fn nutcracker(servers: &[Server], scratch: &Scratch) -> Option<(ServerProcess, Client)> {
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [port, stats] = free.map(|listener| listener.local_addr().expect("it is bound").port());
    let listed: String = ports(servers)
        .iter()
        .zip(0..)
        .fold(String::new(), |all, (address, number)| format!("{all}    - {address}:1 cache{number}\n"));
    let config = format!(
        "pool:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: ketama\n  auto_eject_hosts: true\n  server_failure_limit: 1\n  server_retry_timeout: 600000\n  timeout: 2000\n  servers:\n{listed}"
    );
    let path = scratch.write("nutcracker.yml", &config);
    let mut command = Command::new("nutcracker");
    command.arg("-c").arg(path).args(["-a", "127.0.0.1", "-s", &stats.to_string(), "-o", "/dev/null"]);
    command.arg("-p").arg(scratch.file("nutcracker.pid"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = ServerProcess::start(Spec::new(command)).ok()?;
    let address = guira_harness::socket::Address::Tcp(([127, 0, 0, 1], port).into());
    let is_there = || std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop);
    guira_tests::deadline::Deadline::after(PATIENCE).poll(is_there)?;
    Some((process, Client::connect(&address)))
}

#[test]
fn keys_of_a_server_that_is_out_go_where_nutcracker_sends_them_and_others_stay() {
    let (mut servers, scratch) = (servers(), Scratch::new());
    let router = router(&servers, r#", "auto_eject_hosts": true"#);
    let mut client = router.connect();
    let before = wait_for_all(&mut client);
    let mut peer = nutcracker(&servers, &scratch);
    if let Some((_, peer)) = &mut peer {
        assert_eq!(places(peer), before, "nutcracker has them elsewhere");
    }
    servers.remove(2).stop("KILL");
    let after = wait_for_all(&mut client);
    for (key, place) in &before {
        match place.as_str() {
            "2" => assert_ne!(after[key], "2"),
            place => assert_eq!(after[key], place, "key{key}"),
        }
    }
    let Some((_process, mut peer)) = peer else {
        return skip::say("there is no nutcracker to compare with");
    };
    assert_eq!(wait_for_all(&mut peer), after, "nutcracker sends them elsewhere");
    // It does not know what clients say at their end.
    peer.abandon();
}

#[test]
fn a_server_that_is_back_has_its_keys_again() {
    let servers = servers();
    let router = router(&servers, r#", "auto_eject_hosts": true"#);
    let mut client = router.connect();
    let before = wait_for_all(&mut client);
    crate::stop(&servers[1]);
    // Three timeouts in a row.
    let after = wait_for_all(&mut client);
    assert!(after.values().all(|place| place != "1"));
    servers[1].signal("CONT");
    wait_for("all in their places", || (places(&mut client) == before).then_some(()));
}

#[test]
fn without_the_member_they_fail_and_other_hashes_are_refused() {
    let mut servers = servers();
    let router = router(&servers, "");
    let mut client = router.connect();
    let before = wait_for_all(&mut client);
    servers.remove(2).stop("KILL");
    wait_for("an end", || (places(&mut client).len() < KEYS as usize).then_some(()));
    let after = places(&mut client);
    assert!(before.iter().all(|(key, place)| after.get(key) == Some(place).filter(|place| *place != "2")));
    let config = r#"{"pools": {"A": {"servers": ["a:1"],
        "auto_eject_hosts": true}}, "route": "PoolRoute|A"}"#;
    let refused = crate::output(&["--config-str", config, "--validate-config"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("config-str:2: 'auto_eject_hosts' needs a hash"), "{message}");
}

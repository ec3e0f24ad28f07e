//! What a router says of itself.

use crate::{Router, config_of, name};
use guira_tests::scratch::Scratch;
use guira_tests::{Client, Setup};
use std::collections::BTreeMap;

#[track_caller]
fn ask(client: &mut Client, what: &str) -> String {
    let value = client.value(&format!("__mcrouter__.{what}")).expect("there is always an answer");
    String::from_utf8(value.data).unwrap()
}

#[test]
fn admin_keys_are_answered_by_the_router() {
    let server = Setup::new().start_guira();
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &format!("// A comment.\n{}", config_of(&server)));
    let path = path.to_str().unwrap();
    let router = Router::start(&["-f", path, "-t", "77"]);
    let mut client = router.connect();
    assert!(ask(&mut client, "version").starts_with("1.0.0 mcrouter "));
    assert_eq!(ask(&mut client, "config_file"), path);
    assert!(ask(&mut client, "config_age").parse::<u64>().unwrap() < 60);
    assert_eq!(ask(&mut client, "config_md5_digest").len(), 32);
    assert!(ask(&mut client, "hostid").parse::<u32>().is_ok());
    assert_eq!(ask(&mut client, "options(server-timeout-ms)"), "77");
    assert_eq!(ask(&mut client, "options(server_timeout_ms)"), "77");
    assert!(ask(&mut client, "options").contains("server_timeout_ms 77\n"));
    assert!(ask(&mut client, "options(none)").starts_with("ERROR: "));
    let config = ask(&mut client, "preprocessed_config");
    assert!(config.contains(&name(&server)) && !config.contains("comment"), "{config}");
    assert!(ask(&mut client, "nonsense").starts_with("ERROR: "));
    assert!(ask(&mut client, "options(").starts_with("ERROR: "));
    // No server was asked for any of these.
    assert_eq!(client.stats("")["request_sent_count"], "0");
}

#[test]
fn times_of_the_past_stay_as_they_are() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    let first = client.stats("");
    let second = |stats: &BTreeMap<String, String>| stats["time"].parse::<u64>().expect("a time");
    // Until both clocks, that of the day and that of the router, have come to another second.
    loop {
        let stats = client.stats("");
        for time in ["start_time", "config_last_success", "config_last_attempt"] {
            assert_eq!(stats[time], first[time], "{time} at {}", stats["time"]);
        }
        if second(&stats) >= second(&first) + 2 {
            break;
        }
    }
}

#[test]
fn admin_keys_and_others_can_be_asked_together() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    client.set("a", "1");
    client.send("get a __mcrouter__.hostid\r\n");
    client.hear("VALUE a 0 1\r\n1\r\n");
    assert!(client.line().starts_with("VALUE __mcrouter__.hostid 0 "));
    client.line();
    client.hear("END\r\n");
}

#[test]
fn many_long_answers_at_once_arrive_in_full() {
    let servers: Vec<String> = (1..5000).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let all = servers.join(",");
    let config = format!(r#"{{"pools": {{"all": {{"servers": [{all}]}}}}, "route": "NullRoute"}}"#);
    let scratch = Scratch::new();
    let router = Router::start(&["-f", scratch.write("config.json", &config).to_str().unwrap()]);
    let mut client = router.connect();
    let whole = client.value("__mcrouter__.preprocessed_config").unwrap().data;
    let reply = [
        format!("VALUE __mcrouter__.preprocessed_config 0 {}\r\n", whole.len()).as_bytes(),
        &whole,
        b"\r\nEND\r\n",
    ]
    .concat();
    let request = b"get __mcrouter__.preprocessed_config\r\n".repeat(100);
    client.exchange_at_once(&request, &reply.repeat(100));
}

#[test]
fn requests_and_failures_are_counted() {
    let server = Setup::new().start_guira();
    let config = config_of(&server).replace(", \"route\"", ",\r\n\"route\"");
    let router = Router::start(&["--config-str", &config, "--num-proxies", "2"]);
    let mut clients = [router.connect(), router.connect()];
    for client in &mut clients {
        client.exchange(
            "set a 0 0 1\r\nx\r\nget a b\r\ndelete a\r\n",
            "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nDELETED\r\n",
        );
    }
    let stats = clients[0].stats("");
    let expected = [
        ("cmd_set_count", "2"),
        ("cmd_get_count", "4"),
        ("cmd_delete_count", "2"),
        ("request_sent_count", "8"),
        ("request_replied_count", "8"),
        ("request_success_count", "8"),
        ("result_error_count", "0"),
        ("num_client_connections", "2"),
        ("num_servers", "2"),
        ("config_failures", "0"),
    ];
    for (counter, value) in expected {
        assert_eq!(stats[counter], value, "{counter}");
    }
    assert!(stats["commandargs"].contains("--num-proxies 2"));
    assert_eq!(clients[0].stats("count")["cmd_set_count"], "2");
    assert!(clients[0].stats("servers").keys().next().unwrap().starts_with(&name(&server)));
    server.stop("KILL");
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR connection error\r\n");
    assert_eq!(client.stats("cmd-error")["result_error_count"], "1");
    client.exchange("stats nonsense\r\n", "CLIENT_ERROR bad stats command\r\n");
}

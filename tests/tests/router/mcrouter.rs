//! The router under the name mcrouter: its defaults, and options that mcrouter's start scripts have.

use crate::reload::AT_ONCE;
use crate::{Router, config_of, name, output};
use guira_harness::socket::Address;
use guira_sync::clock::wall_clock;
use guira_tests::deadline::PATIENCE;
use guira_tests::scratch::Scratch;
use guira_tests::server::{guira, guira_binary, listening, wait_for, wait_for_log};
use guira_tests::skip::say;
use guira_tests::{Client, Setup};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

const NULL: [&str; 2] = ["--config-str", r#"{"route": "NullRoute"}"#];

#[track_caller]
fn ask(client: &mut Client, what: &str) -> String {
    let value = client.value(&format!("__mcrouter__.{what}")).expect("there is always an answer");
    String::from_utf8(value.data).unwrap()
}

/// A configuration of one server that does not exist.
fn unreachable() -> String {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!(r#"{{"pools": {{"all": {{"servers": ["{closed}"]}}}}, "route": "PoolRoute|all"}}"#)
}

#[test]
fn unknown_options_are_noted_and_the_router_starts() {
    let router = Router::start_as("mcrouter", &[&NULL[..], &["--no-such-option", "--nor-this=5"]].concat());
    router.connect().exchange("get a\r\n", "END\r\n");
    for option in ["--no-such-option", "--nor-this"] {
        let note = format!("Unrecognized option: {option}");
        wait_for(&note, || router.log().contains(&note).then_some(()));
    }
}

#[test]
fn names_and_failures_are_those_of_mcrouter() {
    let router = Router::start_as("mcrouter", &["--config-str", &unreachable(), "--asynclog-disable"]);
    let mut client = router.connect();
    assert_eq!(ask(&mut client, "options(service_name)"), "mcrouter");
    assert_eq!(ask(&mut client, "options(router_name)"), "0");
    client.exchange("get a\r\n", "SERVER_ERROR connection error\r\n");
    let unavailable = "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n";
    client.exchange("get a\r\n", unavailable);
    client.exchange("incr a 1\r\n", "NOT_FOUND\r\n");
    client.exchange("set a 0 0 1\r\nx\r\n", unavailable);
}

#[test]
fn switches_choose_what_failures_are() {
    let config = unreachable();
    let options =
        ["--config-str", &config, "--disable-miss-on-get-errors=0", "--disable-miss-on-arith-errors=1"];
    let router = Router::start_as("mcrouter", &options);
    let mut client = router.connect();
    client.exchange("get a\r\n", "END\r\n");
    client.exchange("incr a 1\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n");
    let router = Router::start_as("mcrouter", &["--config-str", &config, "--group-remote-errors"]);
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR remote error\r\n");
    client.exchange("get a\r\n", "SERVER_ERROR remote error\r\n");
    client.exchange("get /no/where/a\r\n", "SERVER_ERROR remote error\r\n");
}

#[test]
fn the_version_begins_with_a_number_and_can_be_chosen() {
    let router = Router::start(&NULL);
    let version = concat!("1.0.0 mcrouter guira ", env!("CARGO_PKG_VERSION"));
    let mut client = router.connect();
    client.exchange("version\r\n", format!("VERSION {version}\r\n"));
    assert_eq!(client.stats("")["version"], version);
    let chosen = Router::start(&[&NULL[..], &["--reported-version", "mcrouter 1.0"]].concat());
    chosen.connect().exchange("version\r\n", "VERSION mcrouter 1.0\r\n");
    let refused = output(&[&NULL[..], &["--reported-version", "a\nb"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let ping = Command::new("memcping").arg(format!("--servers={}", router.tcp())).output();
    match ping {
        Ok(ping) => assert!(ping.status.success(), "{ping:?}"),
        Err(_) => say("there is no memcping (libmemcached-tools)"),
    }
}

#[test]
fn a_flavor_has_options_and_the_command_line_takes_precedence() {
    let scratch = Scratch::new();
    let options = r#"{"options": {"server_timeout_ms": 77, "num_proxies": "2", "config_str": "{\"route\": \"NullRoute\"}",
        "miss_on_get_errors": true, "client_queue_size": 5}}"#;
    let flavor = scratch.write("web.json", options);
    scratch.write("web-standalone.json", r#"{"standalone_options": {"max_client_outstanding_reqs": 9}}"#);
    let flavor = flavor.to_str().unwrap();
    let router = Router::start_as("mcrouter", &[flavor, "--num-proxies=1"]);
    let mut client = router.connect();
    for (field, value) in [
        ("server_timeout_ms", "77"),
        ("num_proxies", "1"),
        ("max_client_outstanding_reqs", "9"),
        ("miss_on_get_errors", "1"),
        ("router_name", "web"),
    ] {
        assert_eq!(ask(&mut client, &format!("options({field})")), value, "{field}");
    }
    wait_for_log(|| router.log(), "Unrecognized option: client_queue_size");
    let missing = output(&["/nowhere/web.json"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read the flavor"), "{missing:?}");
}

#[test]
fn parameters_of_the_command_line_are_macros() {
    let server = Setup::new().start_guira();
    let address = name(&server);
    let (host, port) = address.split_once(':').unwrap();
    let config = r#"{"pools": {"%pool%": {"servers": ["%host%:%port%"]}}, "route": "PoolRoute|%pool%"}"#;
    let params = format!("--config-params=host:{host},port:1,pool:all,hostid:7");
    let router =
        Router::start(&["--config-str", config, &params, &format!("--additional-config-params=port:{port}")]);
    router.connect().exchange("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let wrong = output(&["--config-str", config, "--config-params=host"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("NAME:VALUE"), "{wrong:?}");
}

#[test]
fn a_listening_socket_is_taken_over_by_its_number() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A copy stays open in programs that are started.
    let copy = rustix::io::dup(&listener).unwrap();
    let descriptor = copy.as_raw_fd().to_string();
    let words = [&["mcrouter", "--listen-sock-fd", &descriptor], &NULL[..]].concat();
    let (_process, told) = listening(guira(words), "");
    assert_eq!(told, address);
    Client::connect(&Address::Tcp(address)).exchange("get a\r\n", "END\r\n");
    let none = output(&[&NULL[..], &["--listen-sock-fd=99"]].concat());
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("cannot take over --listen-sock-fd 99"),
        "{none:?}"
    );
}

#[test]
fn ports_are_on_the_addresses_that_are_given() {
    let options = ["mcrouter", "-p", "0", "--listen-addresses", "127.0.0.1", "--tcp-listen-backlog", "16"];
    let (_process, address) = listening(guira([&options, &NULL[..]].concat()), "");
    assert!(address.ip().is_loopback(), "{address}");
    Client::connect(&Address::Tcp(address)).exchange("get a\r\n", "END\r\n");
}

#[test]
fn only_gets_are_sent_if_asked() {
    let server = Setup::new().start_guira();
    server.connect().set("a", "1");
    let router = Router::start(&["--config-str", &config_of(&server), "--allow-only-gets"]);
    let mut client = router.connect();
    client
        .exchange("set a 0 0 1\r\n2\r\ndelete a\r\nincr a 1\r\n", "NOT_STORED\r\nNOT_FOUND\r\nNOT_FOUND\r\n");
    client.exchange("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn a_runtime_variable_sets_the_share_of_a_shadow() {
    let servers = [(); 2].map(|()| Setup::new().start_guira());
    let scratch = Scratch::new();
    let vars = scratch.write("vars.json", r#"{"share": [0, 0]}"#);
    let [own, shadow] = servers.each_ref().map(name);
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{own}"]}}, "B": {{"servers": ["{shadow}"]}}}},
            "route": {{"type": "PoolRoute", "pool": "A", "shadows": [{{"target": "PoolRoute|B",
                "index_range": [0, 1], "key_fraction_range": [0, 0], "key_fraction_range_rv": "share"}}]}}}}"#
    );
    let path = scratch.write("config.json", &config);
    let options = ["-f", path.to_str().unwrap(), "--runtime-vars-file", vars.to_str().unwrap()];
    let router = Router::start(&[&options[..], &AT_ONCE].concat());
    let mut client = router.connect();
    client.set("a", "1");
    assert!(servers[1].connect().value("a").is_none());
    scratch.write("vars.json", r#"{"share": [0, 1]}"#);
    wait_for("the shadow's copy", || {
        client.set("a", "1");
        servers[1].connect().value("a").map(|_| ())
    });
}

#[test]
fn shard_splits_can_be_ignored() {
    let config = r#"{"pools": {"A": {"servers": ["127.0.0.1:1"]}},
        "route": {"type": "PoolRoute", "pool": "A", "shard_splits": {"1": 3}}}"#;
    let explained = |more: &[&str]| {
        let words = [&["explain"], more, &[config, "delete", "a:1:b"]].concat();
        String::from_utf8(output(&words).stdout).unwrap()
    };
    assert!(explained(&[]).contains("ShardSplitRoute"));
    assert!(!explained(&["--disable-shard-split-route"]).contains("ShardSplitRoute"));
}

#[test]
fn a_key_that_is_too_long_is_a_bad_key() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    let key = "k".repeat(251);
    let bad = "CLIENT_ERROR bad key\r\n";
    client.exchange(format!("get {key}\r\ndelete {key}\r\n"), bad.repeat(2));
    client.exchange(format!("set {key} 0 0 1\r\nx\r\n"), bad);
    client.exchange("get /a/b/\r\n", "SERVER_ERROR RootRoute: No rh found\r\n");
    client.exchange("get /././\r\n", bad);
    client.exchange("get a\r\n", "END\r\n");
}

#[test]
fn a_line_that_is_no_command_ends_the_connection_under_the_name_mcrouter_only() {
    let router = Router::start_as("mcrouter", &NULL);
    for line in ["statsdetailed", "get", "foo bar", "set a b c d", "delete"] {
        let mut client = router.connect();
        client.send(format!("get a\r\n{line}\r\nget a\r\n"));
        client.hear("END\r\nCLIENT_ERROR malformed request\r\n");
        client.expect_closed();
    }
    let router = Router::start(&NULL);
    let mut client = router.connect();
    client.exchange("foo\r\nget\r\n", "ERROR\r\nCLIENT_ERROR bad command line format\r\n");
    client.exchange("get a\r\n", "END\r\n");
}

#[test]
fn an_error_route_has_its_text() {
    let config = |route: &str| format!(r#"{{"route": {route}}}"#);
    let router = Router::start(&["--config-str", &config(r#""ErrorRoute|reject""#)]);
    let mut client = router.connect();
    client.exchange("set a 0 0 1\r\nx\r\ndelete a\r\nmg a v\r\n", "SERVER_ERROR reject\r\n".repeat(3));
    let handles = ask(&mut client, "route_handles(get,a)");
    assert!(handles.ends_with("\n error|log|mc_res_local_error|reject"), "{handles}");
    let wrong = r#"{"type": "ErrorRoute", "response": "no such key", "result": "mc_res_client_error",
        "enable_logging": false}"#;
    let router = Router::start_as("mcrouter", &["--config-str", &config(wrong)]);
    let mut client = router.connect();
    client.exchange("get a b\r\n", "CLIENT_ERROR no such key\r\n");
    let handles = ask(&mut client, "route_handles(get,a)");
    assert!(handles.ends_with("\n error|no-log|mc_res_client_error|no such key"), "{handles}");
    let empty = r#"{"pools": {"E": {"servers": []}}, "route": "AllSyncRoute|PoolRoute|E"}"#;
    let router = Router::start(&["--config-str", empty]);
    router.connect().exchange("delete a\r\n", "SERVER_ERROR HashRoute with empty children, name: \r\n");
}

#[test]
fn a_shadow_has_no_more_requests_under_way_than_it_may() {
    let server = Setup::new().start_guira();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}, "S": {{"servers": ["{}"]}}}},
            "route": {{"type": "PoolRoute", "pool": "A", "shadows": [{{"target": "PoolRoute|S",
                "index_range": [0, 1], "key_fraction_range": [0, 1]}}]}}}}"#,
        name(&server),
        silent.local_addr().unwrap()
    );
    let limit = ["--target-max-shadow-requests", "2", "--proxy-threads", "1", "-t", "60000"];
    let router = Router::start(&[&["--config-str", &config], &limit[..]].concat());
    let mut client = router.connect();
    for _ in 0..10 {
        client.exchange("get a\r\n", "END\r\n");
    }
    let (mut shadow, _) = silent.accept().unwrap();
    shadow.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = Vec::new();
    while heard != b"get a a\r\n" && heard != b"get a\r\nget a\r\n" {
        let mut part = [0; 4096];
        let bytes = shadow.read(&mut part).unwrap();
        heard.extend_from_slice(&part[..bytes]);
    }
    client.exchange("get a\r\n", "END\r\n");
    shadow.set_nonblocking(true).unwrap();
    assert_eq!(shadow.read(&mut [0; 4096]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_logging_route_is_in_front_of_each_route_if_asked() {
    let router = Router::start(&[&NULL[..], &["--enable-logging-route"]].concat());
    let handles = ask(&mut router.connect(), "route_handles(get,a)");
    assert_eq!(handles.lines().collect::<Vec<_>>(), ["root", " logging", "  null"]);
}

#[test]
fn a_server_with_port_0_cannot_be_reached() {
    let config = r#"{"pools": {"A": {"servers": ["127.0.0.1:0"]}}, "route": "PoolRoute|A"}"#;
    let router = Router::start_as("mcrouter", &["--config-str", config, "--asynclog-disable"]);
    router.connect().exchange("get a\r\n", "SERVER_ERROR connection error\r\n");
}

#[test]
fn a_configuration_that_cannot_be_read_is_reported_before_a_socket_that_cannot_be_taken_over() {
    let failed = output(&["-f", "/dev/null/nothing", "--listen-sock-fd", "99"]);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert!(stderr.contains("Can not read config from file:/dev/null/nothing"), "{stderr}");
}

#[test]
fn a_start_that_fails_is_in_the_log_file() {
    let scratch = Scratch::new();
    let log = scratch.write("log", "");
    let config = "{\n \"route\": {\n  \"type\": \"XYZRoute\"}}";
    let failed = output(&["--config-str", config, "-p", "0", "-L", log.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    for told in [&*stderr, &fs::read_to_string(&log).unwrap()] {
        assert!(told.contains("Unknown RouteHandle: XYZRoute line: 3; use one of PoolRoute"), "{told}");
    }
}

#[test]
fn metaget_has_the_expiry_of_items() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    client.set("a", "1");
    let of_a = "META a age: unknown; exptime: 0; from: unknown; is_transient: 0\r\n";
    client.exchange("metaget a\r\nmetaget b\r\n", format!("{of_a}END\r\nEND\r\n"));
    client.exchange("set b 0 1000 1\r\nx\r\n", "STORED\r\n");
    client.send("metaget a none b\r\n");
    client.hear(of_a);
    let line = client.line();
    let exptime = line.strip_prefix("META b age: unknown; exptime: ").and_then(|rest| rest.split(';').next());
    assert!(exptime.unwrap().parse::<u64>().unwrap().abs_diff(wall_clock() + 1000) < 60, "{line}");
    client.hear("END\r\n");
    client.exchange(format!("metaget {}\r\n", "k".repeat(251)), "CLIENT_ERROR bad key\r\n");
}

#[test]
fn routes_are_told_for_keys_with_commas_and_by_mcrouters_names() {
    let servers = [(); 2].map(|()| Setup::new().start_guira());
    let [one, two] = servers.each_ref().map(name);
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{one}"]}}, "B": {{"servers": ["{two}"]}}}},
            "route": {{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#
    );
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &config);
    let router = Router::start(&["-f", path.to_str().unwrap()]);
    let mut client = router.connect();
    assert_eq!(ask(&mut client, "route(set,abc,def)"), format!("{one}\r\n{two}"));
    let handles = ask(&mut client, "route_handles(get,abc,def)");
    let lines: Vec<&str> = handles.lines().collect();
    assert_eq!(lines[..3], ["root", " all-sync", "  asynclog:A"], "{handles}");
    let host = format!("host|pool=A|id=0|ap={one}:ascii:plain:notcompressed|timeout=1000ms");
    assert!(handles.contains(&host), "{handles}");
    assert_eq!(ask(&mut client, "route_handles(get)"), "ERROR: route_handles: 2 args expected");
    assert_eq!(ask(&mut client, "route(nothing,a)"), "ERROR: route: unknown request nothing");
    let info = ask(&mut client, "config_sources_info");
    assert!(info.contains(&format!("\"config_file\": \"{}\"", path.display())), "{info}");
}

#[test]
fn a_failed_server_has_two_failures_and_its_departure_is_logged() {
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &unreachable());
    let router = Router::start(&[&["-f", path.to_str().unwrap(), "-v", "2"], &AT_ONCE[..]].concat());
    let mut client = router.connect();
    client.exchange("get a\r\n", "SERVER_ERROR connection error\r\n");
    let suspects = client.stats("suspect_servers");
    let (server, status) = suspects.iter().next().expect("one");
    assert_eq!(status, "status:tko num_failures:2");
    scratch.write("config.json", r#"{"route": "NullRoute"}"#);
    wait_for_log(|| router.log(), &format!("{server} was TKO, removed from config"));
}

#[test]
fn counters_of_mcrouter_are_in_stats() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    client.set("a", "1");
    client.exchange("get a\r\nget b\r\n", "VALUE a 0 1\r\n1\r\nEND\r\nEND\r\n");
    let stats = client.stats("");
    let number = |name: &str| stats[name].parse::<f64>().unwrap_or_else(|_| panic!("{name}"));
    assert_eq!(number("destination_requests_sum"), number("request_sent_count"));
    assert!(number("destination_batches_sum") >= 1.0 && number("destination_batch_size") >= 1.0);
    assert!(number("destination_max_inflight_reqs") >= 1.0);
    assert_eq!((number("configs_from_disk"), number("num_ssl_servers")), (0.0, 0.0));
    assert!(number("ps_num_minor_faults") > 0.0);
}

#[test]
fn a_saved_configuration_has_mcrouters_layout_and_an_age() {
    let scratch = Scratch::new();
    let text = "{\"route\": \"NullRoute\"} // As it is.\n";
    let path = scratch.write("config.json", text);
    let root = scratch.file("dump");
    let (config, dump) = (path.to_str().unwrap(), root.to_str().unwrap());
    let options = ["-f", config, "--config-dump-root", dump];
    drop(Router::start_as("mcrouter", &options));
    let copies: Vec<_> =
        fs::read_dir(root.join("mcrouter/0")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(fs::read_to_string(&copies[0]).unwrap(), text);
    assert!(copies[0].to_str().unwrap().ends_with("%2Fconfig.json"), "{copies:?}");
    fs::remove_file(&path).unwrap();
    let router = Router::start_as("mcrouter", &options);
    assert_eq!(router.connect().stats("")["configs_from_disk"], "1");
    drop(router);
    make_old(&root.join("mcrouter.0.config"));
    let refused = |age: &str| {
        let mut command = Command::new(guira_binary());
        let words = ["mcrouter", "--listen", "127.0.0.1:0", "--max-dumped-config-age", age];
        let output = command.args(words).args(options).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused("60").contains("s old"), "{}", refused("60"));
    assert!(refused("0").contains("config.json"));
    drop(Router::start_as("mcrouter", &[&options[..], &["--max-dumped-config-age=7200"]].concat()));
}

fn make_old(path: &Path) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(wall_clock() - 3600);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn statistics_are_written_to_files() {
    let server = Setup::new().start_guira();
    let scratch = Scratch::new();
    let root = scratch.file("stats");
    let config = config_of(&server).replace("\"all\"", "\"web.east\"").replace("|all", "|web.east");
    let path = scratch.write("config.json", &config);
    let pools = scratch.write("pools.json", r#"{"stats_enabled_pools": ["web"]}"#);
    let router = Router::start_as(
        "mcrouter",
        &[
            "-f",
            path.to_str().unwrap(),
            "--stats-root",
            root.to_str().unwrap(),
            "--stats-logging-interval=50",
            "--pool-stats-config-file",
            pools.to_str().unwrap(),
        ],
    );
    let mut client = router.connect();
    client.set("a", "1");
    let prefix = "libmcrouter.mcrouter.0";
    let text = |suffix: &str| fs::read_to_string(root.join(format!("{prefix}.{suffix}"))).unwrap_or_default();
    for line in [
        format!("  \"{prefix}.cmd_set_count\": 1,\n"),
        format!("  \"{prefix}.web.requests.sum\": 1,\n"),
        format!("  \"{prefix}.web.final_result_error.sum\": 0,\n"),
        format!("  \"{prefix}.web.connections\": 1,\n"),
    ] {
        wait_for(&line, || text("stats").contains(&line).then_some(()));
    }
    assert!(text("startup_options").contains("\"default_route\": \"/././\""), "{}", text("startup_options"));
    let digest = ask(&mut client, "config_md5_digest");
    assert!(text("config_sources_info").contains(&format!("\"mcrouter_config\": \"{digest}\"")));
}

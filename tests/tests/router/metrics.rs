//! The admin listener of a router: `/metrics`, readiness, and what its page shows.

use crate::{Router, config_of, name, output};
use guira_harness::port::refusing_address;
use guira_harness::server::Signal;
use guira_tests::deadline::PATIENCE;
use guira_tests::http::HttpClient;
use guira_tests::openmetrics::{Form, Scrape};
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

const NEW: &str = "Accept: application/openmetrics-text;version=1.0.0\r\n";

/// A router with an admin listener on a free port.
#[track_caller]
fn with_admin(options: &[&str]) -> (Router, SocketAddr) {
    let mut router = Router::start(&[&["--admin", "0"], options].concat());
    let address = router.listens_by("admin");
    (router, address)
}

#[track_caller]
fn scrape(address: SocketAddr) -> Scrape {
    let reply = HttpClient::connect(address).get("/metrics", NEW);
    assert_eq!(reply.status, 200);
    Scrape::read(&reply.body, Form::OpenMetrics).unwrap_or_else(|why| panic!("{why}"))
}

#[track_caller]
fn status(address: SocketAddr) -> serde_json::Value {
    let reply = HttpClient::connect(address).get("/status.json", "");
    assert!(reply.has("Content-Type: application/json"));
    serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.body))
}

/// A router whose pool `good` has a server, and `bad` that one and another that is gone. Some requests were made.
struct Asked {
    /// Goes before the router does.
    client: Client,
    _router: Router,
    server: Server,
    /// The address that refuses connections.
    gone: String,
    admin: SocketAddr,
}

impl Asked {
    #[track_caller]
    fn start() -> Self {
        let server = Setup::new().start_guira();
        let gone = refusing_address().to_string();
        let config = format!(
            r#"{{
                "pools": {{
                    "good": {{"servers": ["{0}"]}}, "bad": {{"servers": ["{gone}", "{0}"]}},
                    "unused": {{"servers": ["127.0.0.1:1"]}}
                }},
                "route": {{"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|good", "policies": {{
                    "bad:": {{"type": "HashRoute", "hash_func": "ConstShard", "children": "Pool|bad"}}
                }}}}
            }}"#,
            name(&server)
        );
        let (router, admin) = with_admin(&["--config-str", &config, "--service-name", "shop"]);
        let mut client = router.connect();
        client.talk(&[
            ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("get a b\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
            ("get bad:0:a\r\n", "SERVER_ERROR connection error\r\n"),
            ("get bad:0:a\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n"),
            ("get bad:1:a\r\n", "END\r\n"),
        ]);
        Asked { client, _router: router, server, gone, admin }
    }
}

#[test]
fn figures_of_requests_are_those_of_stats() {
    let mut it = Asked::start();
    let metrics = scrape(it.admin);
    let one = |name: &str| metrics.value(name, &[]);
    assert_eq!(
        (one("guira_router_up"), one("guira_router_ready"), one("guira_router_config_ok")),
        (1.0, 1.0, 1.0)
    );
    let info = metrics.named("guira_router_info").next().unwrap().0;
    assert_eq!((info["service"].as_str(), info["router"].as_str()), ("shop", "unknown"));
    let op = |op| metrics.value("guira_router_requests_total", &[("op", op)]);
    assert_eq!((op("get"), op("set"), op("delete")), (5.0, 1.0, 0.0));
    let outcome = |outcome| metrics.value("guira_router_replies_total", &[("outcome", outcome)]);
    assert_eq!(
        ["found", "notfound", "stored", "connect_error", "tko"].map(outcome),
        [1.0, 2.0, 1.0, 1.0, 1.0]
    );
    let stats = it.client.stats("");
    assert_eq!(one("guira_router_clients"), stats["num_client_connections"].parse::<f64>().unwrap());
    assert_eq!(stats["request_sent_count"], "5");
    let measured =
        |command| metrics.value("guira_router_server_duration_seconds_count", &[("command", command)]);
    assert_eq!((measured("get"), measured("update"), measured("delete")), (2.0, 1.0, 0.0), "one of a batch");
    let old = HttpClient::connect(it.admin).get("/metrics", "Accept: text/plain\r\n");
    let old = Scrape::read(&old.body, Form::Classic).unwrap_or_else(|why| panic!("{why}"));
    assert!(metrics.samples.keys().eq(old.samples.keys()), "the same samples in both forms");
}

#[test]
fn servers_and_pools_have_figures_of_their_own() {
    let it = Asked::start();
    let metrics = scrape(it.admin);
    let one = |name: &str| metrics.value(name, &[]);
    let (good, gone_name) = (name(&it.server), it.gone.clone());
    let of = |name: &str, server: &str| {
        metrics.value(&format!("guira_router_server_{name}"), &[("server", server)])
    };
    assert_eq!((of("requests_total", &good), of("requests_total", &gone_name)), (4.0, 1.0));
    assert!(of("latency_seconds", &good) > 0.0 && of("bytes_received_total", &good) > 20.0);
    assert_eq!((of("hard_tkos_total", &gone_name), of("soft_tkos_total", &gone_name)), (1.0, 0.0));
    let tko = |server: &str, reason| {
        metrics.value("guira_router_server_tko", &[("server", server), ("reason", reason)])
    };
    assert_eq!((tko(&gone_name, "hard"), tko(&gone_name, "soft"), tko(&good, "hard")), (1.0, 0.0, 0.0));
    let reply = |server: &str, outcome| {
        metrics.value("guira_router_server_replies_total", &[("server", server), ("outcome", outcome)])
    };
    assert_eq!((reply(&good, "notfound"), reply(&gone_name, "tko")), (2.0, 1.0));
    let pool = |what: &str, pool| metrics.value(&format!("guira_router_pool_{what}"), &[("pool", pool)]);
    assert_eq!(
        (pool("servers", "good"), pool("servers", "bad"), pool("tko_servers", "bad")),
        (1.0, 2.0, 1.0)
    );
    assert_eq!(
        (pool("errors_total", "bad"), pool("requests_total", "bad"), pool("errors_total", "good")),
        (2.0, 5.0, 0.0)
    );
    assert_eq!(metrics.named("guira_router_pool_servers").count(), 2, "those that routes name");
    assert_eq!(one("guira_router_servers"), 2.0);
    let connections = |state| metrics.value("guira_router_connections", &[("state", state)]);
    assert_eq!((connections("up"), connections("down")), (1.0, 1.0));
}

#[test]
fn everything_that_is_documented_is_shown_and_nothing_else() {
    let document = include_str!("../../../docs/reference/metrics.md");
    let (_, router_part) = document.split_once("# Metrics of the router").expect("a part about the router");
    let names = router_part.split('`').skip(1).step_by(2).filter(|name| name.starts_with("guira_router_"));
    let documented: BTreeSet<&str> = names.map(|name| name.split('{').next().unwrap_or(name)).collect();
    assert!(documented.len() > 40, "{documented:?}");
    let server = Setup::new().start_guira();
    let (router, address) = with_admin(&["--config-str", &config_of(&server)]);
    router.connect().exchange("get a\r\n", "END\r\n");
    let metrics = scrape(address);
    let shown: BTreeSet<&str> = metrics
        .samples
        .keys()
        .filter(|(name, _)| !name.ends_with("_bucket") && !name.ends_with("_sum"))
        .map(|(name, _)| name.strip_suffix("_count").unwrap_or(name))
        .collect();
    assert_eq!(documented, shown);
}

#[test]
fn a_wrong_configuration_is_told_and_the_one_before_stays() {
    let server = Setup::new().start_guira();
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &config_of(&server));
    let (router, address) = with_admin(&["-f", path.to_str().unwrap()]);
    let before = scrape(address);
    assert_eq!(before.value("guira_router_config_failures_total", &[]), 0.0);
    std::fs::write(&path, "{").unwrap();
    router.signal(Signal::HUP);
    let metrics = wait_for("a failure", || {
        let metrics = scrape(address);
        (metrics.value("guira_router_config_failures_total", &[]) > 0.0).then_some(metrics)
    });
    assert_eq!(metrics.value("guira_router_config_ok", &[]), 0.0);
    let digest = |scrape: &Scrape| scrape.named("guira_router_config_info").next().unwrap().0["md5"].clone();
    assert_eq!(digest(&metrics), digest(&before));
    let config = &status(address)["config"];
    assert!(config["error"].as_str().unwrap().contains("config.json:1"), "{config}");
    std::fs::write(&path, config_of(&server).replace("all", "every")).unwrap();
    router.signal(Signal::HUP);
    let metrics = wait_for("a right one", || {
        let metrics = scrape(address);
        (metrics.value("guira_router_config_ok", &[]) > 0.0).then_some(metrics)
    });
    assert_ne!(digest(&metrics), digest(&before));
}

#[test]
fn counters_of_a_pool_do_not_fall_when_it_loses_servers() {
    let (one, other, scratch) = (Setup::new().start_guira(), Setup::new().start_guira(), Scratch::new());
    let config = |servers: &[&Server]| {
        let servers: Vec<String> = servers.iter().map(|server| format!("\"{}\"", name(server))).collect();
        let pool = format!(r#"{{"servers": [{}]}}"#, servers.join(", "));
        format!(r#"{{"pools": {{"A": {pool}}}, "route": "PoolRoute|A"}}"#)
    };
    let path = scratch.write("config.json", &config(&[&one, &other]));
    let (router, address) = with_admin(&["-f", path.to_str().unwrap(), "--disable-reload-configs"]);
    let mut client = router.connect();
    // Until the thread that serves the client goes by it.
    let reload = |client: &mut Client, text: &str, expected: &[&Server]| {
        std::fs::write(&path, text).unwrap();
        router.signal(Signal::HUP);
        let expected: BTreeSet<String> = expected.iter().map(|server| name(server)).collect();
        wait_for("the new routes", || {
            let server = |number: u32| client.value(&format!("__mcrouter__.route(get,key{number})"));
            let servers = (0..10).filter_map(server).map(|value| String::from_utf8(value.data).unwrap());
            (servers.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>() == expected).then_some(())
        });
    };
    let counted =
        |what: &str| scrape(address).value(&format!("guira_router_pool_{what}_total"), &[("pool", "A")]);
    let get = |keys: std::ops::Range<u32>| {
        let keys: String = keys.map(|number| format!(" key{number}")).collect();
        format!("get{keys}\r\n")
    };
    client.exchange(get(0..100), "END\r\n");
    assert_eq!(counted("requests"), 100.0);
    reload(&mut client, &config(&[&one]), &[&one]);
    assert_eq!(counted("requests"), 100.0);
    client.exchange(get(0..10), "END\r\n");
    assert_eq!(counted("requests"), 110.0);
    reload(&mut client, r#"{"route": "NullRoute"}"#, &[]);
    reload(&mut client, &config(&[&one, &other]), &[&one, &other]);
    assert_eq!((counted("requests"), counted("errors")), (110.0, 0.0));
    client.exchange(get(0..10), "END\r\n");
    assert_eq!(counted("requests"), 120.0);
}

#[test]
fn counters_of_servers_and_pools_never_become_less() {
    let (one, other, scratch) = (Server::start(), Server::start(), Scratch::new());
    let (one, other) = (name(&one), name(&other));
    let config = |server: &str, timeout: u32| {
        format!(
            r#"{{"pools": {{"P": {{"servers": ["{server}"], "server_timeout": {timeout}}}}}, "route": "PoolRoute|P"}}"#
        )
    };
    let path = scratch.write("config.json", &config(&one, 1000));
    let file = format!("--config=file:{}", path.display());
    let (router, admin) = with_admin(&[&file, "--disable-reload-configs"]);
    let mut client = router.connect();
    client.exchange("get a\r\n", "END\r\n");
    // The timeout, then the server is another one, and in the end all is as it was.
    for (server, timeout, of_server, of_pool) in
        [(&one, 2000, 2.0, 2.0), (&other, 2000, 1.0, 3.0), (&one, 1000, 3.0, 4.0)]
    {
        std::fs::write(&path, config(server, timeout)).unwrap();
        router.signal(Signal::HUP);
        let way = format!("{server}, key a, {timeout} ms");
        wait_for("the worker to go over to it", || {
            let handles = client.value("__mcrouter__.explain(get,a)").expect("the router knows").data;
            String::from_utf8_lossy(&handles).contains(&way).then_some(())
        });
        client.exchange("get a\r\n", "END\r\n");
        let metrics = scrape(admin);
        let of = |name: &str, labels: &[(&str, &str)]| {
            metrics.value(&format!("guira_router_{name}_total"), labels)
        };
        assert_eq!(of("server_requests", &[("server", server)]), of_server);
        assert_eq!(of("server_replies", &[("server", server), ("outcome", "notfound")]), of_server);
        assert_eq!(of("pool_requests", &[("pool", "P")]), of_pool);
    }
}

#[test]
fn the_page_has_its_panels_and_the_status_what_they_show() {
    let server = Setup::new().start_guira();
    let (router, address) = with_admin(&["--config-str", &config_of(&server)]);
    router.connect().exchange("get a\r\n", "END\r\n");
    let page = HttpClient::connect(address).get("/", "");
    assert!(page.has("Content-Type: text/html; charset=utf-8"));
    for part in ["<h1>Guira router</h1>", "id=\"servers\"", "function drawServers", "id=\"problem\""] {
        assert!(page.body.contains(part), "{part}");
    }
    assert!(!page.body.contains("{{"), "everything is filled in");
    let status = status(address);
    assert_eq!((status["ready"].is_null(), status["server_count"].as_u64()), (true, Some(1)));
    let shown = &status["servers"][0];
    assert_eq!((shown["server"].as_str(), shown["notfound"].as_u64()), (Some(&*name(&server)), Some(1)));
    assert_eq!((shown["states"]["up"].as_u64(), shown["tko"].is_null()), (Some(1), true));
    assert!(shown["latency_us"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (status["stats"]["op_get"].as_u64(), status["pools"][0]["pool"].as_str()),
        (Some(1), Some("all"))
    );
    assert_eq!(status["latency"]["get"]["buckets"].as_array().unwrap().len(), 1);
    let unknown = HttpClient::connect(address).get("/topkeys", "");
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.body, "not found; use /, /status.json, /history.json, /metrics, /health or /ready\n");
}

#[test]
fn a_router_is_ready_until_it_stops_and_a_token_keeps_its_figures() {
    let (listener, scratch) = (TcpListener::bind("127.0.0.1:0").unwrap(), Scratch::new());
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "route": "PoolRoute|A"}}"#,
        listener.local_addr().unwrap()
    );
    let token = scratch.write("token", "s3cret\n");
    let (mut router, address) =
        with_admin(&["--config-str", &config, "--admin-token-file", token.to_str().unwrap(), "-t", "20000"]);
    let mut http = HttpClient::connect(address);
    assert_eq!(http.get("/health", "").body, "ok\n");
    assert_eq!(http.get("/ready", "").body, "ready\n");
    for path in ["/metrics", "/status.json"] {
        assert_eq!(http.get(path, "").status, 401, "{path}");
        assert_eq!(http.get(path, "Authorization: Bearer s3cret\r\n").status, 200, "{path}");
    }
    std::fs::write(&token, "other\n").unwrap();
    router.signal(Signal::HUP);
    wait_for("the new token", || {
        (http.get("/metrics", "Authorization: Bearer other\r\n").status == 200).then_some(())
    });
    // A request under way holds the end up.
    let mut client = router.connect();
    client.send("get a\r\n");
    let _server = listener.accept().expect("the router connects");
    wait_for("the request", || {
        let status = http.get("/status.json", "Authorization: Bearer other\r\n").body;
        status.contains("\"inflight\":1").then_some(())
    });
    router.signal(Signal::TERM);
    let stopping = wait_for("an end", || {
        let reply = HttpClient::connect(address).get("/ready", "");
        (reply.status != 200).then_some(reply)
    });
    assert_eq!((stopping.status, stopping.body.as_str()), (503, "the router stops\n"));
    assert!(router.process.wait(PATIENCE).unwrap().success());
    client.abandon();
}

#[test]
fn many_servers_are_shown_as_far_as_there_is_room() {
    let servers: Vec<String> = (1..=700).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let config = format!(
        r#"{{"pools": {{"all": {{"servers": [{}]}}}}, "route": "PoolRoute|all"}}"#,
        servers.join(",")
    );
    let scratch = Scratch::new();
    let (_router, address) = with_admin(&["-f", scratch.write("config.json", &config).to_str().unwrap()]);
    let metrics = scrape(address);
    assert_eq!(metrics.value("guira_router_servers", &[]), 700.0);
    assert_eq!(metrics.value("guira_router_pool_servers", &[("pool", "all")]), 700.0);
    assert_eq!(metrics.named("guira_router_server_requests_total").count(), 500);
    let status = status(address);
    assert_eq!(status["servers"].as_array().unwrap().len(), 500);
    assert_eq!(status["server_count"].as_u64(), Some(700));
}

#[test]
fn servers_with_long_names_are_shown_in_all_their_outcomes() {
    let path = "socket/".repeat(12);
    let servers: Vec<String> = (100..600).map(|number| format!("\"unix:/nowhere/{path}{number}\"")).collect();
    let config = format!(
        r#"{{"pools": {{"all": {{"servers": [{}]}}}}, "route": "PoolRoute|all"}}"#,
        servers.join(",")
    );
    let scratch = Scratch::new();
    let (router, address) = with_admin(&["-f", scratch.write("config.json", &config).to_str().unwrap()]);
    let keys: String = (0..5000).map(|number| format!(" key{number}")).collect();
    let mut client = router.connect();
    client.exchange(format!("get{keys}\r\n"), "SERVER_ERROR connection error\r\n");
    client.exchange(
        format!("get{keys}\r\n"),
        "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n",
    );
    let metrics = scrape(address);
    assert_eq!(metrics.named("guira_router_server_requests_total").count(), 500);
    assert_eq!(status(address)["servers"].as_array().unwrap().len(), 500);
}

#[test]
fn wrong_options_are_refused() {
    let config = r#"--config-str={"route": "NullRoute"}"#;
    for (options, code, expected) in [
        (&["--admin", "here"][..], 2, "--admin: must be IP:PORT, [v6]:PORT, PORT or unix:PATH, not here"),
        (&["--admin", "proto[ascii]:1"], 2, "must have no proto"),
        (&["--admin-token-file", "/nowhere"], 2, "--admin-token-file needs an admin listener"),
        (&["--admin", "0", "--admin-token-file", "/nowhere"], 1, "cannot read the token file /nowhere"),
        (&["--admin", "mtls:1"], 1, "needs TLS"),
    ] {
        let output = output(&[&[config, "--listen=127.0.0.1:0"], options].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{options:?}: {errors}");
        assert!(errors.contains(expected), "{options:?}: {errors}");
    }
}

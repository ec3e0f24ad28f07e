//! What a router is started with.

use crate::{Router, config_of, name, output};
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Server, Setup};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_configuration_comes_from_a_file_or_the_command_line() {
    let server = Setup::new().start_guira();
    let scratch = Scratch::new();
    let path = scratch.write("config.json", &config_of(&server));
    let path = path.to_str().unwrap();
    let prefixed = format!("file:{path}");
    let text = config_of(&server);
    for options in [
        ["--config", prefixed.as_str()],
        ["--config", path],
        ["-f", path],
        ["--config-file", path],
        ["--config-str", text.as_str()],
        ["--config", text.as_str()],
    ] {
        let router = Router::start(&options);
        router.connect().exchange("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn clients_are_limited_unless_it_is_left_to_the_system() {
    let start = |option: &str, most: &str| {
        Router::start(&["--config-str", r#"{"route": "NullRoute"}"#, option, most])
    };
    for (option, most) in [("--max-conns", "0"), ("--max-conns", "1"), ("--connection-limit", "0")] {
        let router = start(option, most);
        let mut clients: Vec<_> = (0..3).map(|_| router.connect()).collect();
        clients.iter_mut().for_each(|client| client.exchange("mn\r\n", "MN\r\n"));
    }
    let router = start("--max-conns", "2");
    let mut clients = [router.connect(), router.connect()];
    clients.iter_mut().for_each(|client| client.exchange("mn\r\n", "MN\r\n"));
    let mut refused = router.connect();
    assert_eq!(refused.line(), "ERROR Too many open connections");
    refused.expect_closed();
}

#[test]
fn names_are_refused_that_no_file_could_have() {
    let long = "x".repeat(81);
    for (name, expected) in [
        ("a/b", "'a/b' is not a valid name"),
        ("a\nb", "'a\\nb' is not a valid name"),
        ("", "'' is not a valid name"),
        ("..", "'..' is not a valid name"),
        (&long, "a name has at most 80 bytes"),
    ] {
        for option in ["--service-name", "--router-name"] {
            let output = output(&["--config-str", r#"{"route": "NullRoute"}"#, option, name]);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(told.contains(&format!("{option}: {expected}")), "{told}");
        }
    }
}

#[test]
fn mcrouters_command_line_is_taken() {
    let server = Setup::new().start_guira();
    let config = config_of(&server);
    let router = Router::start(&[
        "--config-str",
        &config,
        "--num-proxies=2",
        "-t",
        "500",
        "-R",
        "/here/there/",
        "--thread-affinity",
        "--asynclog-disable",
        "--fibers-max-pool-size=100",
        "--debug-fifo-root",
        "/nowhere",
    ]);
    let mut client = router.connect();
    client.exchange("set /here/there/a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    client
        .exchange("version\r\n", concat!("VERSION 1.0.0 mcrouter guira ", env!("CARGO_PKG_VERSION"), "\r\n"));
    let notes = || router.log().matches("note: ").count();
    wait_for("three notes", || (notes() >= 3).then_some(()));
    let log = router.log();
    assert!(notes() == 3 && log.contains("--thread-affinity has no effect"), "{log}");
}

#[test]
fn a_right_configuration_is_validated() {
    let valid =
        r#"{"pools": {"all": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|all", "surprise": 1}"#;
    let output = output(&["--config-str", valid, "--validate-config"]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("surprise"), "{output:?}");
}

#[test]
fn errors_of_a_configuration_name_file_and_line() {
    let scratch = Scratch::new();
    scratch.write("pool.json", "{\n\"servers\": [\n\"127.0.0.1:none\"]}\n");
    for (config, expected) in [
        ("{\n\"route\": \n}", "config.json:3"),
        ("{\n\"pools\": {},\n\"route\": \"NoSuchRoute|a\"}", "config.json:3: "),
        ("{\"pools\": {\"all\":\n \"@import(pool.json)\"}, \"route\": \"PoolRoute|all\"}", "pool.json:3: "),
        (
            "{\"route\":\n \"@import(missing.json)\"}",
            "config.json:2: \"route\": cannot import \"missing.json\"",
        ),
    ] {
        let path = scratch.write("config.json", config);
        let named = format!("file:{}", path.display());
        for more in [["--validate-config"], ["--listen=127.0.0.1:0"]] {
            let output = output(&[&["--config", named.as_str()], more.as_slice()].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(text(&output.stderr).contains(expected), "{expected}: {output:?}");
        }
    }
    let output = output(&["--config", "file:/nowhere/at/all.json", "--validate-config"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("Can not read config from file:/nowhere/at/all.json: "),
        "{output:?}"
    );
}

#[test]
fn wrong_options_are_refused_by_name() {
    let config = r#"--config-str={"route": "NullRoute"}"#;
    for (options, expected) in [
        (&["--no-such-option"][..], "--no-such-option"),
        (&["--ssl-port", "1"], "--server-pem-cert-path"),
        (&["--listen", "btls:127.0.0.1:0"], "--server-pem-cert-path"),
        (
            &["--ssl-port", "1", "--server-pem-cert-path", "/nowhere", "--ssl-require-peer-certs"],
            "--server-pem-ca-path",
        ),
        (&["-p", "1", "--ssl-verify-peers"], "--pem-ca-path"),
        (&["-p", "1", "--ssl-service-identity-authorization-enforce"], "--ssl-verify-peers"),
        (&["-p", "1", "--ssl-service-identity", "no name"], "'no name' is neither"),
        (&["-p", "1", "--no-network"], "NullRoute"),
        (&["--route-prefix", "/a/"], "/region/cluster/"),
        (&["--num-proxies", "0"], "auto"),
        (&["-p", "99999"], "not a port"),
        (&["-t", "soon"], "soon"),
        (&["--asynclog-sync", "soon"], "neither never nor always"),
        (&[], "no address"),
    ] {
        let output = output(&[&[config], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{options:?}: {output:?}");
    }
    let output = output(&["-p", "0"]);
    assert!(text(&output.stderr).contains("no configuration"), "{output:?}");
}

#[test]
fn a_pool_in_another_file_is_found_beside_the_configuration() {
    let server = Setup::new().start_guira();
    let scratch = Scratch::new();
    scratch.write("pool.json", &format!("{{\"servers\": [\"{}\"]}}", name(&server)));
    let config = r#"{"pools": {"all": "@import(pool.json)"}, "route": "PoolRoute|all"}"#;
    let path = scratch.write("config.json", config);
    let router = Router::start(&["-f", path.to_str().unwrap()]);
    router.connect().exchange("get a\r\n", "END\r\n");
}

#[test]
fn a_router_ends_by_a_signal_and_its_pid_file_goes() {
    let server: Server = Setup::new().start_guira();
    let scratch = Scratch::new();
    let pid_file = scratch.file("pid");
    let mut router =
        Router::start(&["--config-str", &config_of(&server), "--pid-file", pid_file.to_str().unwrap()]);
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    assert_eq!(pid.trim(), router.process.id().to_string());
    router.process.end().unwrap();
    assert!(!pid_file.exists());
}

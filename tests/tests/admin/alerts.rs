//! The rules of deploy/prometheus query metrics that exist. Each alert fires in a test of promtool,
//! and has its section in the runbook.

use guira_harness::server::ServerProcess;
use guira_tests::Setup;
use guira_tests::deadline::PATIENCE;
use guira_tests::http::HttpClient;
use guira_tests::openmetrics::{Form, Scrape};
use guira_tests::scratch::Scratch;
use guira_tests::server::{guira, spawn};
use guira_tests::skip;
use guira_tests::tls::Certificate;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The alerts of the file, with their expressions: the part of YAML that the file uses.
fn alerts(text: &str) -> BTreeMap<String, String> {
    let mut alerts = BTreeMap::new();
    let (mut name, mut folded) = (String::new(), false);
    for line in text.lines() {
        let (line, indent) = (line.trim(), line.len() - line.trim_start().len());
        if let Some(alert) = line.strip_prefix("- alert: ") {
            assert!(alerts.insert(alert.to_owned(), String::new()).is_none(), "{alert} is there twice");
            name = alert.to_owned();
        }
        let expression = alerts.get_mut(&name);
        if let Some(rest) = line.strip_prefix("expr: ") {
            folded = rest == ">-";
            if !folded {
                expression.expect("it belongs to an alert").push_str(rest);
            }
        } else if folded && indent > 8 {
            expression.expect("it belongs to an alert").push_str(&format!(" {line}"));
        } else {
            folded = false;
        }
    }
    alerts
}

/// The names of metrics in an expression.
fn metrics(expression: &str) -> Vec<&str> {
    let is_of_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let words = expression.split(|byte| !is_of_name(byte));
    words.filter(|word| word.starts_with("guira_") || word.starts_with("memcached_")).collect()
}

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn file(path: &str) -> String {
    let path = place(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const RULES: &str = "deploy/prometheus/guira.rules.yaml";
const RULE_TESTS: [&str; 2] =
    ["deploy/prometheus/guira.rules.test.yaml", "deploy/prometheus/guira.rules.week.test.yaml"];

/// The alerts that a test of promtool expects to fire, and those that it expects not to.
fn expected(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut firing, mut silent, mut name) = (BTreeSet::new(), BTreeSet::new(), "");
    for line in text.lines().map(str::trim) {
        if let Some((_, rest)) = line.split_once("alertname: ") {
            name = rest.split(',').next().unwrap_or(rest);
        }
        if line.starts_with("- exp_labels: ") {
            firing.insert(name);
        } else if line.contains("exp_alerts: []") {
            silent.insert(name);
        }
    }
    (firing, silent)
}

/// How `promtool COMMAND rules FILES` ends; nothing if it is not installed.
fn promtool(command: &str, files: &[&str]) -> Option<Result<(), String>> {
    let files = files.iter().map(|path| place(path));
    let output = match Command::new("promtool").args([command, "rules"]).args(files).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        output => output.unwrap_or_else(|error| panic!("promtool: {error}")),
    };
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(told) })
}

/// An invalidator that waits for somebody who sends events.
fn invalidator(scratch: &Scratch) -> ServerProcess {
    let text = format!(
        r#"
admin = "127.0.0.1:0"
spool = {:?}
[source.debezium]
listen = "unix:{}"
[[target]]
name = "east"
address = "127.0.0.1:1"
"#,
        scratch.file("spool"),
        scratch.file("events").display()
    );
    let mut command = guira(["invalidate", "--config"]);
    command.arg(scratch.write("invalidator.toml", &text));
    spawn(command)
}

/// A checker of one cluster that is away, with a database that is away.
fn checker(scratch: &Scratch) -> ServerProcess {
    let text = format!(
        r#"
listen = "unix:{}"
admin = "127.0.0.1:0"
[database.mariadb]
address = "127.0.0.1:1"
database = "shop"
user = "check"
[[check]]
key = "user:{{id}}"
query = "SELECT name FROM users WHERE id = {{id}}"
[[cluster]]
name = "east"
address = "127.0.0.1:1"
"#,
        scratch.file("hints").display()
    );
    let mut command = guira(["check", "--config"]);
    command.arg(scratch.write("checker.toml", &text));
    spawn(command)
}

/// A router of a pool whose server is down.
fn router() -> ServerProcess {
    spawn(guira([
        "router",
        "--listen=127.0.0.1:0",
        "--admin=127.0.0.1:0",
        r#"--config-str={"pools": {"caches": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|caches"}"#,
    ]))
}

#[test]
fn alerts_ask_for_metrics_that_there_are_and_the_runbook_has_a_section_for_each() {
    let rules = file(RULES);
    let runbook = file("docs/guide/runbook.md");
    let (scratch, certificate) = (Scratch::new(), Certificate::issue());
    let region = format!("--region={}", scratch.file("region").display());
    let setup = Setup::new().guira_argument("--admin=notls:127.0.0.1:0").guira_argument(&region);
    let mut server = certificate.given_to(setup).start_guira();
    let mut others = [invalidator(&scratch), checker(&scratch), router()];
    let admins = others.each_mut().map(|other| other.wait_for_address("admin", PATIENCE).unwrap());
    let admins: Vec<_> = std::iter::once(server.admin_address()).chain(admins).collect();
    let scrapes: Vec<_> = admins
        .into_iter()
        .map(|admin| {
            let body = HttpClient::connect(admin).get("/metrics", "").body;
            Scrape::read(&body, Form::Classic).unwrap_or_else(|why| panic!("{why}"))
        })
        .collect();
    let alerts = alerts(&rules);
    assert!(alerts.len() >= 20 && alerts.values().all(|expression| !expression.is_empty()), "{alerts:?}");
    for (alert, expression) in &alerts {
        for metric in metrics(expression) {
            let is_there = scrapes.iter().any(|scrape| scrape.named(metric).next().is_some());
            assert!(is_there, "{alert} asks for {metric}, which is not there");
        }
        let anchor = format!("runbook: \"docs/guide/runbook.md#{}\"", alert.to_lowercase());
        assert!(rules.contains(&anchor), "{alert} does not name its section of the runbook");
        assert!(runbook.contains(&format!("\n## {alert}\n")), "the runbook says nothing of {alert}");
    }
    let sections = runbook.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(sections, alerts.len(), "the runbook has a section for an alert that is not there");
}

#[test]
fn each_alert_fires_and_is_silent_when_all_is_well() {
    let rules = file(RULES);
    let tests = RULE_TESTS.map(file);
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for (fires, is_silent) in tests.iter().map(|text| expected(text)) {
        firing.extend(fires);
        silent.extend(is_silent);
    }
    let alerts = alerts(&rules);
    let names: BTreeSet<&str> = alerts.keys().map(String::as_str).collect();
    assert_eq!(firing, names, "each alert fires in a test, and no other");
    assert_eq!(silent, names, "each alert is silent in a test, and no other");
    let Some(checked) = promtool("check", &[RULES]) else {
        return skip::say("promtool is not installed (Debian: prometheus)");
    };
    checked.unwrap_or_else(|told| panic!("{told}"));
    let tested = promtool("test", &RULE_TESTS).expect("promtool was there a moment ago");
    tested.unwrap_or_else(|told| panic!("{told}"));
}

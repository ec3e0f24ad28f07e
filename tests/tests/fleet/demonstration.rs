//! `guira fleet up`: a region that is looked at, broken, and gone in the end.

use guira_harness::scratch::Scratch;
use guira_harness::server::ServerProcess;
use guira_tests::http::{HttpClient, HttpReply};
use guira_tests::server::{guira, guira_binary, spawn, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// How long a region may take to begin, and random faults to their end.
const START_MAX: Duration = Duration::from_secs(120);

/// A region without etcd and MariaDB, which begins at once.
struct Small {
    process: ServerProcess,
    page: SocketAddr,
    scratch: Scratch,
}

impl Small {
    fn start() -> Self {
        let scratch = Scratch::new();
        let programs = scratch.file("bin");
        fs::create_dir(&programs).expect("a folder");
        std::os::unix::fs::symlink("/bin/sh", programs.join("sh")).expect("a link");
        let mut command = Command::new(guira_binary());
        command.env("PATH", programs).args(["fleet", "up", "--folder"]).arg(scratch.file("region"));
        let mut process = spawn(command);
        let page = process.wait_for("page", START_MAX, |lines| {
            let place = lines.iter().find_map(|line| line.strip_prefix("page: http://"));
            place.and_then(|place| place.trim_end_matches('/').parse().ok())
        });
        Small { process, page: page.unwrap(), scratch }
    }

    fn status(&self) -> Value {
        let reply = HttpClient::connect(self.page).get("/status.json", "");
        assert_eq!(reply.status, 200);
        serde_json::from_str(&reply.body).expect("JSON")
    }

    fn post(&self, query: &str, host: &str, fields: &str) -> HttpReply {
        let mut client = HttpClient::connect(self.page);
        client.send(format!(
            "POST /break?{query} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: 0\r\n\r\n"
        ));
        client.hear()
    }

    fn break_by_command(&self, words: &[&str]) -> Output {
        let mut command = guira(["fleet", "break"]);
        command.args(words).arg("--folder").arg(self.scratch.file("region"));
        command.output().expect("guira can be run")
    }

    fn fault(&self) -> Value {
        self.status()["faults"][0].clone()
    }
}

fn reads(status: &Value) -> u64 {
    status["stats"]["reads"].as_u64().expect("a number")
}

fn descendants(root: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for entry in fs::read_dir("/proc").expect("processes").flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
            if parent.is_some_and(|parent| found.contains(&parent)) {
                found.insert(pid);
            }
        }
        if found.len() == before {
            found.remove(&root);
            return found;
        }
    }
}

fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    // One that has ended and that nobody has asked for is not there.
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_region_is_used_and_tells_what_it_leaves_out() {
    let mut region = Small::start();
    wait_for("reads and writes", || {
        let status = region.status();
        let stats = &status["stats"];
        (reads(&status) > 100 && stats["writes"].as_u64() > Some(0) && stats["judged"].as_u64() > Some(0))
            .then_some(())
    });
    let status = region.status();
    assert_eq!((&status["stats"]["wrong"], &status["ready"]), (&Value::from(0), &Value::Null));
    assert_eq!(status["left_out"].as_array().map(Vec::len), Some(2), "{}", status["left_out"]);
    assert_eq!(status["slots"], serde_json::json!(["node-0", "node-1", "node-2", "node-3"]));
    let metrics = HttpClient::connect(region.page).get("/metrics", "").body;
    for line in ["guira_demo_wrong_total 0\n", "guira_demo_part_up{part=\"gutter\"} 1\n"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let page = HttpClient::connect(region.page).get("/", "");
    assert!(page.body.contains("Guira region") && page.body.contains("Break something"));
    region.process.end().unwrap();
}

#[test]
fn a_part_that_is_killed_is_told_with_what_users_saw_and_comes_back() {
    let region = Small::start();
    let deliberate = "X-Guira: 1\r\n";
    let own = region.page.to_string();
    assert_eq!(region.post("kind=kill&what=node-1", &own, "").status, 403, "a page of another site");
    assert_eq!(region.post("kind=kill&what=node-1", "evil.example", deliberate).status, 403, "another name");
    for (query, why) in [
        ("kind=burn", "use one of kill, freeze"),
        ("kind=kill&what=node-9", "unknown part 'node-9'"),
        ("kind=fill&what=node-1", "fill cannot be applied to node-1"),
        ("kind=kill&for_ms=1", "a fault lasts from"),
        ("", "kind is missing"),
    ] {
        let reply = region.post(query, &own, deliberate);
        assert!(reply.status == 400 && reply.body.contains(why), "{query}: {reply:?}");
    }
    assert_eq!(region.status()["faults"], serde_json::json!([]), "nothing was done");
    let reply = region.post("kind=kill&what=node-1&for_ms=1000", &own, deliberate);
    assert!(reply.status == 200 && reply.body.contains("node-1"), "{reply:?}");
    wait_for("the fault", || (region.fault()["what"] == "kill node-1").then_some(()));
    wait_for("its end", || (region.fault()["is_over"] == true).then_some(()));
    let seen = region.fault()["seen"].clone();
    assert!(seen["requests"].as_u64() > Some(0), "{seen}");
    assert_eq!((&seen["failed"], &seen["wrong"]), (&Value::from(0), &Value::from(0)), "{seen}");
    wait_for("the node", || (region.status()["ready"] == Value::Null).then_some(()));
}

#[test]
fn each_part_can_be_broken_from_the_command_line() {
    let region = Small::start();
    for words in [
        ["freeze", "router-0"],
        ["slow", "node-0"],
        ["cut", "gutter"],
        ["empty", "node-2"],
        ["fill", "router-1"],
    ] {
        let said = region.break_by_command(&[words[0], words[1], "--for", "300ms"]);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success() && text.starts_with(&words.join(" ")), "{said:?}");
        wait_for("its end", || {
            let fault = region.fault();
            (fault["what"] == words.join(" ") && fault["is_over"] == true).then_some(())
        });
    }
    // Of a role it is one that serves, and which one is said.
    let said = region.break_by_command(&["freeze", "node", "--for", "100ms"]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.starts_with("freeze node-") && text.contains(" (slot "), "{said:?}");
    let before = reads(&region.status());
    wait_for("users who go on", || (reads(&region.status()) > before + 100).then_some(()));
    assert_eq!(region.status()["wrong"], serde_json::json!([]));
    let refused = region.break_by_command(&["kill", "etcd"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("unknown part 'etcd'"), "{refused:?}");
    let listed = region.break_by_command(&["--list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("fills the disk"), "{listed:?}");
}

#[test]
fn nothing_is_left_of_a_region_that_is_killed() {
    let mut region = Small::start();
    // A part that is stopped ends as well.
    region.break_by_command(&["freeze", "node-0", "--for", "60s"]);
    wait_for("the fault", || (region.fault()["what"] == "freeze node-0").then_some(()));
    let children = descendants(region.process.id());
    assert!(children.len() >= 7, "four nodes, a gutter and two routers: {children:?}");
    region.process.kill();
    wait_for("the end of all", || (!children.iter().any(|child| is_there(*child))).then_some(()));
}

#[test]
fn random_faults_leave_nothing_old() {
    let command = guira(["fleet", "up", "--chaos", "4s", "--seed", "1"]);
    let mut process = spawn(command);
    let status = process.wait(START_MAX * 2).unwrap();
    let said = process.lines().join("\n");
    assert!(status.success(), "seed 1: {status}: {said}");
    assert!(said.contains("reads were verified") && said.contains("faults: "), "{said}");
    let folder = said.lines().find_map(|line| line.strip_prefix("region in ")).expect("a folder");
    assert!(!Path::new(folder).exists(), "a temporary folder is removed");
}

#[test]
fn random_faults_that_cannot_be_are_refused_before_anything_starts() {
    let said = Command::new(guira_binary())
        .args(["fleet", "up", "--chaos", "0s"])
        .output()
        .expect("guira can be run");
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&said.stdout), "");
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("random faults last from 100ms to 600s"),
        "{said:?}"
    );
}

#[test]
fn whoever_breaks_nothing_is_told() {
    let scratch = Scratch::new();
    let mut command = guira(["fleet", "break", "kill", "node", "--folder"]);
    command.arg(scratch.path());
    let said = command.output().expect("guira can be run");
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("does not reply"), "{said:?}");
}

//! Servers are taken over by their successors, one after the other.

use crate::Region;
use crate::region::{LEASE_S, Node, POOL, fill, misses, name};
use guira_tests::Client;
use guira_tests::Setup;
use guira_tests::server::{Server, guira, run_guira, spawn, wait_for};
use std::process::Command;

/// A node that can be taken over, and its member, which has it taken over by what `kill -USR2` starts.
fn join(region: &mut Region, command: &str) {
    let number = region.nodes.len();
    let takeover = region.scratch.file(&format!("takeover{number}"));
    let memory = region.scratch.file(&format!("memory{number}"));
    let server = Setup::new()
        .guira_argument(&format!("--takeover={}", takeover.display()))
        .guira_argument(&format!("--region={}", memory.display()))
        .start_guira();
    let command = command.replace("PID", &server.process_id().to_string());
    let mut member = guira(["fleet", "--etcd", &region.etcd.url(), "join", "--pool", POOL, "-v"]);
    member.args(["--server", &name(&server), &format!("--lease={LEASE_S}s"), "--upgrade-command", &command]);
    let member = spawn(member);
    region.nodes.push(Node { server, member });
    region.wait_for_state(&region.nodes[number].name(), "serves");
}

fn process(server: &Server) -> String {
    Client::connect(server.address()).stats("")["pid"].clone()
}

/// Ends successors, which are nobody's children.
struct Successors(Vec<String>);

impl Drop for Successors {
    fn drop(&mut self) {
        for process in &self.0 {
            let _ = Command::new("kill").arg(process).status();
        }
    }
}

#[test]
fn servers_are_taken_over_one_after_the_other_and_keep_their_items() {
    let Some(mut region) = Region::start(2) else { return };
    let refused = |region: &Region, arguments: &[&str], what: &str| {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(said.contains(what), "{arguments:?}: {said}");
        said
    };
    let mark = region.scratch.file("good");
    join(&mut region, "kill -USR2 PID");
    join(&mut region, &format!("test -e {} && kill -USR2 PID", mark.display()));
    region.fleet(&["rules", POOL, "--minimum", "2"]);
    refused(&region, &["upgrade", POOL], "the minimum is 2");
    region.fleet(&["rules", POOL, "--minimum", "1"]);
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let before: Vec<String> = region.nodes.iter().map(|node| process(&node.server)).collect();
    let said = region.fleet(&["upgrade", POOL, "--dry-run"]);
    assert!(names.iter().all(|name| said.contains(&format!("{name}: would be upgraded"))), "{said}");
    // The second one fails: the first one is done, and not done again.
    let said = refused(&region, &["upgrade", POOL], "the upgrade command failed: exit status: 1");
    assert!(said.contains(&names[1]), "{said}");
    let mut successors = Successors(vec![process(&region.nodes[0].server)]);
    assert_eq!(process(&region.nodes[1].server), before[1]);
    std::fs::write(&mark, "").expect("a scratch folder can be written");
    // Somebody else's command was killed: the order is still there, and its end is waited for.
    let key = format!("/guira/orders/{POOL}/{}", names[1]);
    region.etcd.control(&["put", &key, r#"{"state":"done"}"#]);
    let url = region.etcd.url();
    let mut upgrade = spawn(guira(["fleet", "--etcd", &url, "upgrade", POOL]));
    wait_for("a word about the order", || (upgrade.line_count() > 0).then_some(()));
    assert!(upgrade.ended().is_none(), "{}", upgrade.errors());
    // As its lease does.
    region.etcd.control(&["del", &key]);
    let status = wait_for("the end of the upgrade", || upgrade.ended());
    assert!(status.success(), "{}", upgrade.errors());
    let said = upgrade.lines().join("\n");
    successors.0.push(process(&region.nodes[1].server));
    assert!(said.contains(&format!("{}: already upgraded before", names[0])), "{said}");
    assert!(
        said.contains(&format!("{}: upgraded, version", names[1]))
            && said.contains("all servers are upgraded"),
        "{said}"
    );
    for (before, after) in before.iter().zip(&successors.0) {
        assert_ne!(before, after);
    }
    assert_eq!((region.slots(), misses(&mut client)), (names, vec![]), "no item is lost");
}

#[test]
fn an_upgrade_without_a_command_or_without_a_successor_is_refused_and_fails() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(1);
    let url = region.etcd.url();
    let upgrade = |more: &[&str]| {
        let output = run_guira(&[&["fleet", "--etcd", &url, "upgrade", POOL], more].concat());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(upgrade(&[]).contains("has no upgrade command: run `guira fleet join` with --upgrade-command"));
    let server = region.nodes.remove(0).server;
    let mut member = guira(["fleet", "--etcd", &url, "join", "--pool", POOL, "--server", &name(&server)]);
    let _member = spawn({
        member.args(["--upgrade-command", "true", &format!("--lease={LEASE_S}s")]);
        member
    });
    wait_for("a member with a command", || upgrade(&["--dry-run"]).is_empty().then_some(()));
    let said = upgrade(&["--within=3s"]);
    assert!(said.contains("still the previous process"), "{said}");
}

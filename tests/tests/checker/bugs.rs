//! Bugs that make caches inconsistent, one at a time, and none.

use crate::{OWN, System, address, examples, key, wait_until};
use guira_harness::server::ServerProcess;
use guira_tests::Client;
use guira_tests::server::{Address, guira, listening};
use std::net::SocketAddr;
use std::time::Duration;

const SEED: u64 = 7;

/// The value of the own key, as the look-aside client stores it with a version.
fn store(system: &System, node: usize, name: &str, version: u64) {
    let mut client = system.nodes[node].connect();
    let flags = 1 << 30;
    let data = [&version.to_be_bytes()[..], name.as_bytes()].concat();
    let request =
        [format!("set {} {flags} 0 {}\r\n", key(OWN), data.len()).as_bytes(), &data, b"\r\n"].concat();
    client.exchange(request, "STORED\r\n");
}

fn has_own(system: &System, node: usize) -> bool {
    system.nodes[node].connect().value(&key(OWN)).is_some()
}

/// Whether the report says that west has the old value of the own key instead of the new one.
#[track_caller]
fn assert_own_is_found(report: &[String]) {
    let found = examples(report);
    let own = found.iter().find(|line| line.contains(&format!("{} in west", key(OWN))));
    let own = own.unwrap_or_else(|| panic!("{report:?}"));
    assert!(own.contains("'old' (3 bytes, version 0) instead of 'new' (3 bytes, version 1)"), "{own}");
    assert!(found.iter().all(|line| line.contains(" in west: ")), "{found:?}");
}

/// A router before the second node, with this policy for deletes.
fn router(system: &System, deletes: &str) -> (ServerProcess, SocketAddr) {
    let config = format!(
        r#"--config-str={{"pools": {{"all": {{"servers": ["{}"]}}}}, "route": {{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|all", "operation_policies": {{"delete": "{deletes}"}}}}}}"#,
        address(&system.nodes[1])
    );
    listening(guira(["router", "--listen", "127.0.0.1:0", &config]), "")
}

#[test]
fn nothing_is_found_where_there_is_no_bug() {
    let Some(system) = System::start() else { return };
    let (_router, west) = router(&system, "PoolRoute|all");
    let clusters = [system.addresses()[0], west];
    let checker = system.checker(clusters);
    let _invalidator = system.good_invalidator(clusters, &checker);
    store(&system, 1, "old", 0);
    system.with_load(SEED, || {
        system.set_own("new");
        wait_until("looks at the last delay", || {
            ["east", "west"].iter().all(|cluster| checker.looks("4", cluster, "consistent") > 20)
        });
    });
    wait_until("the end of all samples", || checker.metric("guira_checker_under_way") == 0);
    let late = checker.looks("1", "", "inconsistent");
    let report = checker.end();
    println!("seed {SEED}: {late} late after 1 s\n{}", report.join("\n"));
    let after_4_s = |line: &&String| !line.contains("after 1s to 1s the cache");
    assert_eq!(examples(&report).into_iter().find(after_4_s), None, "seed {SEED}");
}

#[test]
fn each_query_sees_what_is_committed_also_where_sessions_do_not_commit_by_themselves() {
    let Some(system) = System::start() else { return };
    // Root, who changes rows here, is spared.
    system.database.execute("SET GLOBAL init_connect = 'SET autocommit = 0'");
    let checker = system.checker(system.addresses());
    let path = checker.hints.strip_prefix("unix:").expect("a socket");
    let mut hints = Client::connect(&Address::Unix(path.into()));
    for (version, name) in [(0, "old"), (1, "new")] {
        if version > 0 {
            system.set_own(name);
        }
        (0..2).for_each(|node| store(&system, node, name, version));
        hints.exchange(format!("md {}\r\n", key(OWN)), "NF\r\n");
        wait_until("the end of the sample", || checker.metric("guira_checker_under_way") == 0);
    }
    drop(hints);
    let report = checker.end();
    assert_eq!(examples(&report), [""; 0], "{report:?}");
}

#[test]
fn a_lost_delete_is_found() {
    let Some(system) = System::start() else { return };
    let [east, west] = system.addresses();
    let checker = system.checker([east, west]);
    let east = &east.to_string();
    let targets = [("east", &**east, ""), ("checker", &checker.hints, "again-after-ms = 0")];
    let _invalidator = system.invalidator("lossy", "user:{id}", &targets);
    store(&system, 0, "old", 0);
    store(&system, 1, "old", 0);
    system.with_load(SEED, || {
        system.set_own("new");
        assert_own_is_found(&checker.find("west"));
    });
}

#[test]
fn a_delete_before_the_commit_is_found() {
    let Some(system) = System::start() else { return };
    let clusters = system.addresses();
    let checker = system.checker(clusters);
    // The application deletes, and hints come from the log.
    let _invalidator =
        system.invalidator("hints", "user:{id}", &[("checker", &checker.hints, "again-after-ms = 0")]);
    store(&system, 1, "old", 0);
    let mut writer = system.database.session();
    writer.row(&format!(
        "BEGIN; UPDATE shop.users SET name = 'new', version = version + 1 WHERE id = {OWN}; SELECT 1"
    ));
    system.nodes[1].connect().exchange(format!("delete {}\r\n", key(OWN)), "DELETED\r\n");
    // A reader misses, and reads the row as it was.
    let row = system.database.execute(&format!("SELECT name FROM shop.users WHERE id = {OWN}"));
    store(&system, 1, row.trim(), 0);
    writer.row("COMMIT; SELECT 1");
    assert_own_is_found(&checker.find("west"));
}

#[test]
fn a_store_that_ignores_its_lease_is_found() {
    let Some(system) = System::start() else { return };
    let clusters = system.addresses();
    let checker = system.checker(clusters);
    let _invalidator = system.good_invalidator(clusters, &checker);
    store(&system, 1, "old", 0);
    system.with_load(SEED, || {
        // Somebody reads the row, and stores it when the delete has come twice.
        let row = system.database.execute(&format!("SELECT name FROM shop.users WHERE id = {OWN}"));
        system.set_own("new");
        wait_until("the delete", || !has_own(&system, 1));
        std::thread::sleep(Duration::from_secs(1));
        store(&system, 1, row.trim(), 0);
        assert_own_is_found(&checker.find("west"));
    });
}

#[test]
fn a_wrong_template_is_found_if_hints_do_not_come_of_it() {
    let Some(system) = System::start() else { return };
    let [east, west] = system.addresses();
    let checker = system.checker([east, west]);
    let hints = ("checker", &*checker.hints, "again-after-ms = 0");
    let [east, west] = &[east, west].map(|address| address.to_string());
    let _wrong = system.invalidator("wrong", "usr:{id}", &[("east", east, ""), ("west", west, ""), hints]);
    store(&system, 1, "old", 0);
    system.set_own("newer");
    // Of its own hints only that they have no check is seen.
    wait_until("a hint without a check", || checker.metric("guira_checker_unmatched_hints_total") > 0);
    assert_eq!(checker.metric("guira_checker_sampled_total"), 0);
    let _hints = system.invalidator("templates", "user:{id}", &[hints]);
    system.set_own("new");
    let report = checker.find("west");
    assert!(report.iter().any(|line| line == "example of a key without a check: usr:1000"), "{report:?}");
    let found = examples(&report);
    assert!(
        matches!(&found[..], [line] if line.starts_with("  user:1000 in west: hint at ")
            && line.contains("had 'old' (3 bytes, version 0) instead of 'new' (3 bytes, version 2)")),
        "{report:?}"
    );
}

#[test]
fn a_router_that_drops_deletes_is_found() {
    let Some(system) = System::start() else { return };
    let (_router, west) = router(&system, "NullRoute");
    let clusters = [system.addresses()[0], west];
    let checker = system.checker(clusters);
    let _invalidator = system.good_invalidator(clusters, &checker);
    store(&system, 0, "old", 0);
    store(&system, 1, "old", 0);
    system.with_load(SEED, || {
        system.set_own("new");
        assert_own_is_found(&checker.find("west"));
    });
}

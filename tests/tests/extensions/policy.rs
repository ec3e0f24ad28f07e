//! `policy`: another replacement policy takes over while the server runs. memcached has no such command.

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::deadline::SetAtEnd;
use guira_tests::server::wait_for;
use guira_tests::{Client, Setup};

fn settled(client: &mut Client, policy: &str) {
    wait_for("the policy to take over", || {
        let settings = client.stats("settings");
        (settings["policy"] == policy && settings["policy_next"] == "NULL").then_some(())
    });
}

#[test]
fn a_policy_takes_over_while_items_are_there() {
    let server = Setup::new().not_with("fleec").not_with("mica").start_guira();
    let mut client = server.connect();
    for key in 0..1000 {
        client.set(&format!("key{key}"), "value");
    }
    for policy in ["lru", "klru:samples=8,priority=recency", "sieve", "clock:bits=1", "clock:bits=2"] {
        let words = policy.replace([':', ','], " ");
        client.exchange(format!("policy {words}\r\n"), "OK\r\n");
        settled(&mut client, policy);
        client.exchange("policy\r\n", format!("POLICY {policy}\r\n"));
        assert_eq!(client.stats("settings")["policy_auto"], "no");
        for key in 0..1000 {
            client.expect_value(&format!("key{key}"), "value");
        }
        // What is left of the one before is given back a moment later.
        wait_for("the server to be ready for another", || {
            (client.ask(format!("policy {words}\r\n")) == "OK").then_some(())
        });
    }
}

#[test]
fn an_unknown_policy_is_refused_with_a_list_of_those_there_are() {
    let server = Setup::new().not_with("fleec").not_with("mica").start_guira();
    let mut client = server.connect();
    let answer = client.ask("policy random\r\n");
    assert!(answer.starts_with("CLIENT_ERROR unknown policy 'random'; use one of: clock, "), "{answer}");
    let answer = client.ask("policy lru speed=9\r\n");
    assert!(answer.starts_with("CLIENT_ERROR unknown option 'speed'"), "{answer}");
    let answer = client.ask("policy lru speed\r\n");
    assert!(answer.starts_with("CLIENT_ERROR lru: 'speed' is not of the form key=value"), "{answer}");
}

/// Whatever the order of the two is.
#[test]
fn a_policy_that_is_refused_undoes_no_other_command() {
    let server = Setup::new().not_with("fleec").not_with("mica").start_guira();
    let (mut client, mut other) = (server.connect(), server.connect());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = SetAtEnd(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(other.ask("policy clock nonsense=1\r\n").starts_with("CLIENT_ERROR"));
            }
        });
        for round in 0..5_000 {
            client.ask("policy clock\r\n");
            client.ask("policy auto\r\n");
            let answer = client.ask("policy\r\n");
            assert!(answer.ends_with(", auto"), "in round {round}: {answer}");
        }
        drop(end);
    });
}

/// Has a server of 12 MiB, which chooses its policy, choose another one than `first`. Returns why it did.
pub(crate) fn change_by_requests(client: &mut Client, first: &str) -> String {
    // However slow the machine is, it has chosen after so many rounds.
    const ROUNDS_MOST: usize = 300;
    // More keys than there is room for, one after the other and again: of these, what was used last is what is not used next.
    const KEYS: usize = 12_000;
    // So few of the sample that it does not choose twice among them.
    const PART: usize = KEYS / 10;
    let mut parts = (0..ROUNDS_MOST).flat_map(|_| (0..KEYS).step_by(PART));
    let changed = parts.any(|from| {
        read_through(client, from..from + PART);
        client.stats("settings")["policy"] != first
    });
    assert!(changed, "{:?}", client.stats("mrc"));
    client.stats("settings")["policy_reason"].clone()
}

/// Reads keys one after the other, and stores those that are missing.
fn read_through(client: &mut Client, keys: std::ops::Range<usize>) {
    const AT_ONCE: usize = 100;
    let value = "v".repeat(1000);
    for first in keys.step_by(AT_ONCE) {
        let batch = first..first + AT_ONCE;
        client.send(batch.clone().map(|key| format!("mg loop{key}\r\n")).collect::<String>());
        let missing: Vec<usize> = batch.filter(|_| client.line() == "EN").collect();
        let set = |key: usize| format!("ms loop{key} {} q\r\n{value}\r\n", value.len());
        client.exchange(missing.into_iter().map(set).collect::<String>() + "mn\r\n", "MN\r\n");
    }
}

#[test]
fn the_server_changes_to_a_policy_that_misses_less_and_says_why() {
    let server = Setup::new()
        .not_with("fleec")
        .not_with("mica")
        .guira_argument("--policy=auto")
        .guira_argument("--memory=12MiB")
        .start_guira();
    let mut client = server.connect();
    let line = client.ask("policy\r\n");
    assert!(line.starts_with("POLICY ") && line.ends_with(", auto"), "{line}");
    let first = client.stats("settings")["policy"].clone();
    // Nothing is read yet.
    let value = "v".repeat(1000);
    client.send_many((0..20_000).map(|key| format!("ms fill{key} 1000 q\r\n{value}\r\n")));
    client.exchange("mn\r\n", "MN\r\n");
    let mut changes = 1;
    if first.starts_with("clock") {
        settled(&mut client, "s3-fifo:small_pct=10,skip_pct=30,promote=1");
        let full = "memory is full for the first time, and s3-fifo:small_pct=10,skip_pct=30,promote=1 misses less of most requests than ";
        assert_eq!(client.stats("settings")["policy_reason"], format!("{full}{first}"));
        changes += 1;
    }
    // In a loop, `lru` has nothing of what is asked for next, and each of some others has a part of it.
    client.exchange("policy lru\r\n", "OK\r\n");
    settled(&mut client, "lru");
    wait_for("the server to be ready for another", || (client.ask("policy lru\r\n") == "OK").then_some(()));
    client.exchange("policy auto\r\n", "OK\r\n");
    let reason = change_by_requests(&mut client, "lru");
    assert!(reason.contains(" sampled reads, lru "), "{reason}");
    assert_eq!(client.stats("settings")["policy_auto"], "yes");
    assert_eq!(client.stats("mrc")["policy_changes"], changes.to_string());
    // Who names one has it stay.
    wait_for("the server to be ready for another", || (client.ask("policy lru\r\n") == "OK").then_some(()));
    settled(&mut client, "lru");
    assert_eq!(client.stats("settings")["policy_auto"], "no");
    client.exchange("policy\r\n", "POLICY lru\r\n");
    client.exchange("policy auto\r\n", "OK\r\n");
    client.exchange("policy\r\n", "POLICY lru, auto\r\n");
    assert!(client.ask("policy auto bits=1\r\n").starts_with("CLIENT_ERROR unknown option 'bits'"));
}

#[test]
fn a_server_that_learns_nothing_cannot_be_left_the_policy() {
    let server =
        Setup::new().not_with("fleec").not_with("mica").guira_argument("--disable-advice").start_guira();
    let mut client = server.connect();
    let line = client.ask("policy auto\r\n");
    assert!(line.starts_with("CLIENT_ERROR nothing is learnt from requests"), "{line}");
    let settings = client.stats("settings");
    client.exchange("policy\r\n", format!("POLICY {}\r\n", settings["policy"]));
    assert_eq!(settings["policy_auto"], "no");
}

#[test]
fn memcacheds_words_set_the_segmented_policy() {
    let server =
        Setup::new().not_with("fleec").not_with("mica").guira_argument("--policy=seg-lru").start_guira();
    let mut client = server.connect();
    let usual = "seg-lru:hot_pct=20,warm_pct=40,hot_factor=0.2,warm_factor=2";
    client.exchange("policy\r\n", format!("POLICY {usual}\r\n"));
    client.exchange("lru tune 10 25 0.1 2.5\r\n", "OK\r\n");
    client.exchange("lru temp_ttl 60\r\n", "OK\r\n");
    client.exchange(
        "policy\r\n",
        "POLICY seg-lru:hot_pct=10,warm_pct=25,hot_factor=0.1,warm_factor=2.5,temp_ttl=60\r\n",
    );
    let settings = client.stats("settings");
    let names = [
        "lru_segmented",
        "hot_lru_pct",
        "warm_lru_pct",
        "hot_max_factor",
        "warm_max_factor",
        "temp_lru",
        "temporary_ttl",
    ];
    assert_eq!(names.map(|name| settings[name].as_str()), ["yes", "10", "25", "0.10", "2.50", "yes", "60"]);
    client.exchange("lru temp_ttl -1\r\n", "OK\r\n");
    client.exchange("lru mode flat\r\n", "OK\r\n");
    client.exchange(
        "policy\r\n",
        "POLICY seg-lru:hot_pct=10,warm_pct=25,hot_factor=0.1,warm_factor=2.5,mode=flat\r\n",
    );
    assert_eq!(client.stats("settings")["lru_segmented"], "no");
    client.exchange("lru tune 50 50 1 1\r\n", "ERROR hot and warm pcts must not exceed 80\r\n");
    client.exchange("lru tune 5 5 0 1\r\n", "ERROR hot/warm age factors must be greater than 0\r\n");
}

#[test]
fn memcacheds_words_change_no_other_policy() {
    let server =
        Setup::new().not_with("fleec").not_with("mica").guira_argument("--policy=klru").start_guira();
    let mut client = server.connect();
    client.exchange("lru tune 10 25 0.1 2.5\r\n", "OK\r\n");
    client.exchange("policy\r\n", "POLICY klru:samples=16,priority=recency\r\n");
    assert_eq!(client.stats("settings")["hot_lru_pct"], "0");
}

#[test]
fn the_engine_without_locks_has_a_policy_of_its_own() {
    let server = Setup::new()
        .not_with("classic")
        .not_with("fleec")
        .not_with("mica")
        .guira_argument("--engine=fleec")
        .start_guira();
    let mut client = server.connect();
    client.exchange("policy\r\n", "POLICY bucket-clock:bits=2\r\n");
    client.exchange("policy bucket-clock bits=3\r\n", "OK\r\n");
    settled(&mut client, "bucket-clock:bits=3");
    let answer = client.ask("policy lru\r\n");
    assert_eq!(answer, "CLIENT_ERROR unknown policy 'lru'; use one of: bucket-clock");
}

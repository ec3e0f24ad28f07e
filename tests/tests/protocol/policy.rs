//! `policy`: another replacement policy takes over while the server runs. memcached has no such command.

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
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    for key in 0..1000 {
        client.set(&format!("key{key}"), "value");
    }
    for policy in ["lru", "klru:samples=8,priority=recency", "sieve", "clock"] {
        let words = policy.replace([':', ','], " ");
        client.exchange(format!("policy {words}\r\n"), "OK\r\n");
        settled(&mut client, policy);
        client.exchange("policy\r\n", format!("POLICY {policy}\r\n"));
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
fn what_there_is_is_told_to_whoever_asks_for_something_else() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    let answer = client.ask("policy random\r\n");
    assert!(answer.starts_with("CLIENT_ERROR unknown policy 'random'; there are: clock, "), "{answer}");
    let answer = client.ask("policy lru speed=9\r\n");
    assert!(answer.starts_with("CLIENT_ERROR unknown option 'speed'"), "{answer}");
    let answer = client.ask("policy lru speed\r\n");
    assert!(answer.starts_with("CLIENT_ERROR lru: 'speed' is not of the form key=value"), "{answer}");
}

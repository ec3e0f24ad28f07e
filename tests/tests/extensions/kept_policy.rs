//! A server whose options leave the replacement policy to it goes on with the policy of the server before, as it does with the items.

use crate::policy::change_by_requests;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup};
use std::fs::File;
use std::io::Read as _;

const ITEMS: usize = 300;
/// The notes are in this part of a region's file.
const HEAD_BYTES: u64 = 64 << 10;

fn start(engine: &'static str, scratch: &Scratch, policy: &str) -> Server {
    setup(engine, scratch, policy).start_guira()
}

fn setup(engine: &'static str, scratch: &Scratch, policy: &str) -> Setup {
    let region = format!("--region={}", scratch.path().join("region").display());
    let takeover = format!("--takeover={}", scratch.path().join("takeover").display());
    let setup = Setup::new().engine(engine).guira_argument(&region).guira_argument(&takeover);
    setup.guira_argument("--memory=12MiB").guira_argument(&format!("--policy={policy}"))
}

/// The policy, or the one that takes over, and whether the server chooses it.
fn policy_of(client: &mut Client) -> (String, String) {
    let settings = client.stats("settings");
    let next = &settings["policy_next"];
    let policy = if next == "NULL" { &settings["policy"] } else { next };
    (policy.clone(), settings["policy_auto"].clone())
}

fn pair(policy: &str, auto: &str) -> (String, String) {
    (policy.to_owned(), auto.to_owned())
}

fn switch(client: &mut Client, policy: &str) {
    wait_for("the server to be ready for another", || {
        (client.ask(format!("policy {policy}\r\n")) == "OK").then_some(())
    });
}

/// The policy that a server begins with which knows of none before, having filled it with items.
fn fill(client: &mut Client) -> String {
    (0..ITEMS).for_each(|item| client.set(&format!("key{item}"), format!("value{item}")));
    let (first, auto) = policy_of(client);
    assert_eq!(auto, "yes");
    first
}

fn expect_items(client: &mut Client) {
    (0..ITEMS).for_each(|item| client.expect_value(&format!("key{item}"), format!("value{item}")));
}

/// Stops a server in order, and starts another.
fn restart(
    server: Server,
    client: Client,
    engine: &'static str,
    scratch: &Scratch,
    policy: &str,
) -> (Server, Client) {
    client.abandon();
    server.stop("TERM");
    let server = start(engine, scratch, policy);
    let client = server.connect();
    (server, client)
}

fn check_commands(engine: &'static str) {
    let scratch = Scratch::new();
    let server = start(engine, &scratch, "auto");
    let mut client = server.connect();
    let first = fill(&mut client);
    switch(&mut client, "klru samples=8");
    let chosen = policy_of(&mut client);
    assert_eq!(chosen.1, "no");
    let (server, mut client) = restart(server, client, engine, &scratch, "auto");
    assert_eq!(policy_of(&mut client), chosen, "{engine}: a command has chosen it");
    expect_items(&mut client);
    wait_for("the policy to take over", || (client.stats("settings")["policy"] == chosen.0).then_some(()));
    client.exchange("policy auto\r\n", "OK\r\n");
    let (server, mut client) = restart(server, client, engine, &scratch, "auto");
    assert_eq!(policy_of(&mut client), pair(&chosen.0, "yes"), "{engine}: the server may choose another");
    // What the options say holds, and is not what a server is left that may choose.
    let (server, mut client) = restart(server, client, engine, &scratch, "sieve");
    assert_eq!(policy_of(&mut client), pair("sieve", "no"), "{engine}");
    expect_items(&mut client);
    let (server, mut client) = restart(server, client, engine, &scratch, "auto");
    assert_eq!(policy_of(&mut client), pair(&first, "yes"), "{engine}");
    // Nothing is left of a server that was killed.
    switch(&mut client, "lru");
    client.abandon();
    server.stop("KILL");
    let server = start(engine, &scratch, "auto");
    let mut client = server.connect();
    assert_eq!(policy_of(&mut client), pair(&first, "yes"), "{engine}");
    client.exchange("get key0\r\n", "END\r\n");
}

fn check_choice(engine: &'static str) {
    let scratch = Scratch::new();
    let server = start(engine, &scratch, "auto");
    let mut client = server.connect();
    let first = fill(&mut client);
    change_by_requests(&mut client, &first);
    let (chosen, auto) = policy_of(&mut client);
    assert_eq!(auto, "yes");
    let (server, mut client) = restart(server, client, engine, &scratch, "auto");
    assert_eq!(policy_of(&mut client), pair(&chosen, "yes"), "{engine}, after a restart");
    client.abandon();
    let next = start(engine, &scratch, "auto");
    server.wait();
    let mut client = next.connect();
    assert_eq!(policy_of(&mut client), pair(&chosen, "yes"), "{engine}, after a takeover");
    client.abandon();
    let last = start(engine, &scratch, "fifo");
    next.wait();
    let mut client = last.connect();
    assert_eq!(policy_of(&mut client), pair("fifo", "no"), "{engine}, by the options");
}

/// The lines of the advisor's conclusions in the region of a server that was stopped.
fn learnt(scratch: &Scratch) -> Vec<String> {
    // The head of the file has the notes; the file has the size of all memory that there can ever be.
    let (mut region, file) = (Vec::new(), File::open(scratch.path().join("region")).unwrap());
    file.take(HEAD_BYTES).read_to_end(&mut region).unwrap();
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|part| part == what);
    let Some(at) = find(&region, b"learnt-policy ") else { return Vec::new() };
    let text = String::from_utf8_lossy(&region[at..region.len().min(at + 4096)]).into_owned();
    text.lines().take_while(|line| line.starts_with("learnt-")).map(str::to_owned).collect()
}

#[test]
fn what_a_server_has_learnt_outlives_a_server_without_requests() {
    let scratch = Scratch::new();
    let server = start("memc3", &scratch, "auto");
    let mut client = server.connect();
    let first = fill(&mut client);
    change_by_requests(&mut client, &first);
    client.abandon();
    server.stop("TERM");
    let written = learnt(&scratch);
    assert!(written.len() > 2 && written[0].starts_with("learnt-policy "), "{written:?}");
    start("memc3", &scratch, "auto").stop("TERM");
    assert_eq!(learnt(&scratch), written);
}

#[test]
fn what_a_command_has_chosen_stays_though_the_server_learns_nothing_meanwhile() {
    let scratch = Scratch::new();
    let server = setup("memc3", &scratch, "auto").guira_argument("--disable-advice").start_guira();
    let mut client = server.connect();
    switch(&mut client, "lru");
    let (server, mut client) = restart(server, client, "memc3", &scratch, "auto");
    assert_eq!(policy_of(&mut client), pair("lru", "no"));
    // What is left to the server is left to it again.
    client.exchange("policy auto\r\n", "OK\r\n");
    client.abandon();
    server.stop("TERM");
    let server = setup("memc3", &scratch, "auto").guira_argument("--disable-advice").start_guira();
    let client = server.connect();
    let (_server, mut client) = restart(server, client, "memc3", &scratch, "auto");
    assert_eq!(policy_of(&mut client), pair("lru", "yes"));
}

#[test]
fn memc3_goes_on_with_the_policy_that_a_command_has_chosen() {
    check_commands("memc3");
}

#[test]
fn classic_goes_on_with_the_policy_that_a_command_has_chosen() {
    check_commands("classic");
}

#[test]
fn memc3_goes_on_with_the_policy_that_the_server_has_chosen() {
    check_choice("memc3");
}

#[test]
fn classic_goes_on_with_the_policy_that_the_server_has_chosen() {
    check_choice("classic");
}

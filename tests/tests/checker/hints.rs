//! What is said to those who send hints, and what reads leave as it was.

use crate::{Checker, address, wait_until};
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, guira, guira_binary};
use guira_tests::{Client, Server, Setup};
use std::io::Write;
use std::process::{Command, Stdio};

/// A configuration that compares two clusters with each other, with these lines before.
fn configuration(nodes: &[Server; 2], lines: &str) -> String {
    let [east, west] = nodes.each_ref().map(address);
    format!(
        "sample = 1\ndelays-ms = [200, 900]\n{lines}\n[[cluster]]\nname = \"east\"\naddress = \"{east}\"\n\
         [[cluster]]\nname = \"west\"\naddress = \"{west}\"\n"
    )
}

fn nodes() -> [Server; 2] {
    [(); 2].map(|()| Setup::new().start_guira())
}

fn connect(checker: &Checker) -> Client {
    Client::connect(&Address::Unix(checker.hints.strip_prefix("unix:").expect("a socket").into()))
}

fn listening(scratch: &Scratch) -> String {
    format!("listen = \"unix:{}\"\nadmin = \"127.0.0.1:0\"", scratch.file("hints").display())
}

#[test]
fn deletes_are_acknowledged_as_a_cache_without_items_does() {
    let (nodes, scratch) = (nodes(), Scratch::new());
    let lines = listening(&scratch);
    let checker = Checker::start(&scratch.write("checker.toml", &configuration(&nodes, &lines)));
    connect(&checker).talk(&[
        ("md a\r\n", "NF\r\n"),
        ("md b q\r\nmd c q H2\r\nmn\r\n", "MN\r\n"),
        ("md d k O77\r\n", "NF O77 kd\r\n"),
        ("delete e\r\n", "NOT_FOUND\r\n"),
        ("delete f 2 noreply\r\nversion\r\n", &format!("VERSION guira {}\r\n", env!("CARGO_PKG_VERSION"))),
        ("flush_all\r\n", "OK\r\n"),
        ("md YQ== b\r\n", "CLIENT_ERROR keys in base64 are not known here\r\n"),
        (&format!("delete {}\r\n", "k".repeat(251)), "CLIENT_ERROR bad command line format\r\n"),
        ("get a\r\n", "ERROR\r\n"),
    ]);
    assert_eq!(checker.metric("guira_checker_hints_total"), 6);
    assert_eq!(checker.metric("guira_checker_refused_hints_total"), 3);
    assert_eq!(checker.metric("guira_checker_flushes_total"), 1);
    let mut long = connect(&checker);
    long.exchange("x".repeat(4000), "CLIENT_ERROR line too long\r\n");
    long.expect_closed();
}

#[test]
fn the_connections_of_those_who_send_hints_are_bounded() {
    let (nodes, scratch) = (nodes(), Scratch::new());
    let checker =
        Checker::start(&scratch.write("checker.toml", &configuration(&nodes, &listening(&scratch))));
    let mut open: Vec<Client> = (0..64).map(|_| connect(&checker)).collect();
    open.iter_mut().for_each(|client| client.exchange("mn\r\n", "MN\r\n"));
    connect(&checker).expect_closed();
    assert_eq!(checker.metric("guira_checker_crowded_connections_total"), 1);
    drop(open.pop());
    wait_until("a place", || {
        let mut client = connect(&checker);
        client.send_until_closed("md a\r\n");
        let is_taken = checker.metric("guira_checker_hints_total") > 0;
        client.abandon();
        is_taken
    });
}

#[test]
fn clusters_are_compared_with_each_other_where_there_is_no_database() {
    let (nodes, scratch) = (nodes(), Scratch::new());
    // West is asked by `get`, and its keys have a prefix.
    for (node, prefix, values) in [(0, "", ["same", "one", ""]), (1, "p:", ["same", "other", "alone"])] {
        let mut client = nodes[node].connect();
        for (key, value) in ["a", "b", "c"].into_iter().zip(values).filter(|(_, value)| !value.is_empty()) {
            client.set(&format!("{prefix}{key}"), value);
        }
    }
    let text = configuration(&nodes, "") + "protocol = \"classic\"\nprefix = \"p:\"\n";
    let mut command = guira(["check", "--stdin", "--config"]);
    command.arg(scratch.write("checker.toml", &text));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
    process.stdin.take().expect("it was piped").write_all(b"a\nb\nc\nd\nno key\n").expect("it reads");
    let output = process.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success()
            && text.starts_with("4 hints: 0 without a check, 4 sampled, 0 dropped, 0 in progress;"),
        "{text}"
    );
    let squeezed: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "200ms all clusters 1 2 1 0 0 75.0000% 0.6",
        "900ms all clusters 1 2 1 0 0 75.0000% 0.6",
        "west 1 2 1 0 0 75.0000% 0.6",
    ] {
        assert!(squeezed.iter().any(|shown| shown == line), "{line}: {text}");
    }
    assert!(
        text.contains("  b in west: hint at ")
            && text.contains("had 'other' (5 bytes) instead of 'one' (3 bytes)"),
        "{text}"
    );
}

#[test]
fn it_ends_by_itself_if_a_time_was_given() {
    let (nodes, scratch) = (nodes(), Scratch::new());
    let mut command = guira(["check", "--stdin", "--for", "300ms", "--config"]);
    command.arg(scratch.write("checker.toml", &configuration(&nodes, "")));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
    // More keys may come.
    let input = process.stdin.take();
    let output = process.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stdout.starts_with(b"0 hints:"), "{output:?}");
    drop(input);
}

#[test]
fn reads_take_no_win_and_make_no_item_more_recent() {
    let (nodes, scratch) = (nodes(), Scratch::new());
    let mut client = nodes[0].connect();
    client.talk(&[
        ("set plain 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("set stale 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("md stale I T300\r\n", "HD\r\n"),
        ("mg taken N30\r\n", "HD W\r\n"),
    ]);
    nodes[1].connect().talk(&[("set stale 0 0 1\r\ny\r\n", "STORED\r\n")]);
    let lines = listening(&scratch);
    let checker = Checker::start(&scratch.write("checker.toml", &configuration(&nodes, &lines)));
    connect(&checker).talk(&[("md plain q\r\nmd stale q\r\nmd taken q\r\nmn\r\n", "MN\r\n")]);
    wait_until("the end of all samples", || checker.metric("guira_checker_under_way") == 0);
    assert_eq!(checker.looks("0.9", "", "inconsistent"), 0, "what says itself that it is stale is none");
    assert_eq!(checker.looks("0.9", "", "missing"), 3);
    let given = "guira_checker_wins_given_back_total{cluster=\"east\"}";
    assert_eq!(checker.metric(given), 2, "at both delays");
    // Neither was it fetched, nor has anybody else won what there was to win.
    client.talk(&[
        ("mg plain h\r\n", "HD h0\r\n"),
        ("mg stale v t\r\n", "VA 1 t~300 X W\r\nx\r\n"),
        ("mg taken\r\n", "HD Z\r\n"),
    ]);
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let (nodes, scratch) = (nodes(), Scratch::new());
    let refused = |text: &str| {
        let file = scratch.write("checker.toml", text);
        let output = Command::new(guira_binary()).args(["check", "--check", "--config"]).arg(file).output();
        let output = output.expect("it can be run");
        assert_eq!(output.status.code(), Some(2), "{text}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let query = "[[check]]\nkey = \"user:{id}\"\nquery = \"SELECT {name}\"\n";
    let database = "[database.mariadb]\naddress = \"db:3306\"\nuser = \"u\"\ndatabase = \"shop\"\n";
    for (lines, error) in [
        (query.to_owned(), "[database] is missing"),
        (database.to_owned(), "no check has a query"),
        (format!("{database}{query}"), "has no {name}"),
        ("[[check]]\nkey = \"{a}{b}\"\n".to_owned(), "need a text between them"),
        ("surprise = 1".to_owned(), "unknown field"),
    ] {
        let told = refused(&configuration(&nodes, &lines));
        assert!(told.contains(error), "{lines}: {told}");
    }
    let none = configuration(&nodes, "").replace("[200, 900]", "[]");
    assert!(refused(&none).contains("delays-ms must have 1 to 16 delays"));
    let one = configuration(&nodes, "").replace("west", "east");
    assert!(refused(&one).contains("two clusters have the name east"));
    let alone =
        configuration(&nodes, "").split("[[cluster]]\nname = \"west\"").next().expect("a part").to_owned();
    assert!(refused(&alone).contains("add a second cluster"));
}

use guira_harness::scratch::Scratch;
use guira_harness::server::Signal;

use super::terminal::Terminal;
use super::{guira, node};

#[test]
fn panels_follow_keys_and_the_terminal_is_given_back() {
    let (_node, address) = node("127.0.0.1:0", &[]);
    let mut screen = Terminal::run(guira(&["top", &address, "--interval", "100ms"]), 80, 24);
    screen.wait_for("policy clock:bits=2");
    screen.wait_for("hit ratio");
    assert!(screen.is_taken_over());
    // A rate: so there were two readings.
    screen.wait_until("rate", |screen| {
        screen.lines().any(|line| line.starts_with("gets    ") && line.contains(" 0"))
    });
    screen.press("4");
    screen.wait_for("conn_listening");
    screen.press("5");
    screen.wait_for("top keys by requests");
    screen.press("s");
    screen.wait_for("top keys by bytes");
    screen.press("p");
    screen.wait_for("PAUSED");
    screen.press("?");
    screen.wait_for("┌ help");
    screen.press("x");
    screen.wait_until("end of help", |screen| !screen.contains("┌ help"));
    screen.press("p1");
    screen.wait_for("hit ratio");
    screen.press("q");
    assert!(screen.wait().success());
    screen.wait_until_restored();
}

#[test]
fn a_terminal_that_changes_its_size_is_drawn_anew() {
    let (_node, address) = node("127.0.0.1:0", &[]);
    let mut screen = Terminal::run(guira(&["top", &address, "--interval", "100ms"]), 120, 40);
    screen.wait_until("wide screen", |screen| screen.lines().count() == 40 && screen.contains("every 100ms"));
    screen.resize(60, 12);
    screen.wait_until("small screen", |screen| {
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() == 12 && lines[11].contains("q quit") && lines[11].trim_end().len() <= 60
    });
    screen.signal(Signal::TERM);
    assert!(screen.wait().success());
    screen.wait_until_restored();
}

#[test]
fn a_node_that_goes_away_is_seen_and_found_again() {
    let folder = Scratch::new();
    let listen = format!("unix:{}", folder.path().join("s").display());
    let (mut first, _) = node(&listen, &[]);
    let (_other, address) = node("127.0.0.1:0", &[]);
    let mut screen = Terminal::run(guira(&["top", &listen, &address, "--interval", "100ms"]), 100, 24);
    screen.wait_for("nodes: 2 of 2 answer");
    first.kill();
    screen.wait_for("nodes: 1 of 2 answer");
    screen.wait_for("DOWN for");
    let (_second, _) = node(&listen, &[]);
    screen.wait_for("nodes: 2 of 2 answer");
    screen.wait_until("no complaint", |screen| !screen.contains("DOWN"));
    screen.press("\x03");
    assert!(screen.wait().success());
    screen.wait_until_restored();
}

#[test]
fn it_ends_when_its_terminal_goes_away() {
    let (_node, address) = node("127.0.0.1:0", &[]);
    Terminal::run_and_hang_up(guira(&["top", &address, "--interval", "100ms"]));
}

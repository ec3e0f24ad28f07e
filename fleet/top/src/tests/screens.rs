use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{SECOND, app, receive, received, stock};
use crate::app::{App, Panel, Sort};
use crate::once;
use crate::reading::{Group, Reading};
use crate::screen::draw;

/// The screen in lines, 20 s after the start.
fn drawn(app: &App, width: u16, height: u16) -> Vec<String> {
    drawn_at(app, width, height, 20 * SECOND)
}

fn drawn_at(app: &App, width: u16, height: u16, now: Duration) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, now)).unwrap();
    let cells = terminal.backend().buffer().content();
    cells.chunks(usize::from(width)).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

/// One blank in place of several: how wide columns are is of no interest here.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_shows(lines: &[String], texts: &[&str]) {
    for text in texts {
        assert!(
            lines.iter().any(|line| squeezed(line).contains(&squeezed(text))),
            "no {text:?} in\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn the_overview_fits_a_small_terminal() {
    let lines = drawn_at(&app(1), 80, 24, 12 * SECOND);
    assert_shows(&lines[..1], &["a:1  1.6.45-guira-0.2.0  up 00:00:12  memc3  policy clock:bits=2"]);
    assert_shows(
        &lines,
        &[
            "1 overview   2 commands   3 classes   4 connections   5 keys   6 servers",
            "hit ratio             gets/s, 0–1.0k",
            "now          90.00%   █",
            "gets               1.0k   12.0k         since start  90.00%   hit ratio, 0–100 %",
            "misses              100    1.2k   ▇",
            "evictions 7 84",
            "items, index    28.6MiB (50.00%)",
            "connections    10B of 1.0MiB",
            "get       29   3.5  3.5  12.3  13.1",
            "processors         1.00",
            "q quit  p pause  1-6 tab panels  ? help",
        ],
    );
}

#[test]
fn an_interval_without_gets_has_no_hit_ratio_and_one_without_hits_has_zero() {
    let mut app = app(1);
    for (seconds, gets, hits) in [(13, 12_000, 10_800), (14, 12_500, 10_800), (15, 12_500, 10_800)] {
        let mut reading = received(seconds);
        let misses = gets - hits;
        let text = format!("STAT cmd_get {gets}\nSTAT get_hits {hits}\nSTAT get_misses {misses}");
        receive(&mut reading, Group::General, &text);
        app.update(0, Ok(reading), seconds as u32 * SECOND);
    }
    let lines = drawn(&app, 80, 24);
    let below = |label: &str| {
        let row = lines.iter().position(|line| line.contains(label)).unwrap();
        let column = lines[row].split(label).next().unwrap().chars().count();
        lines[row + 1].chars().skip(column).take(4).collect::<String>()
    };
    assert_eq!((below("gets/s, 0–1.0k").as_str(), below("hit ratio, 0–100 %").as_str()), ("█ ▄ ", "▇· ·"));
}

#[test]
fn the_gets_of_a_router_are_drawn_too() {
    let mut app = App::new(&["a:1".to_owned()], SECOND, Sort::Requests);
    for (seconds, gets) in [(1, 0), (2, 300), (3, 500)] {
        let mut reading = Reading::new(Duration::from_secs(seconds));
        let text = format!(
            "STAT pid 1\nSTAT uptime {seconds}\nSTAT cmd_get_count {gets}\nSTAT cmd_gets_count {gets}"
        );
        receive(&mut reading, Group::General, &text);
        app.update(0, Ok(reading), seconds as u32 * SECOND);
    }
    assert_shows(&drawn(&app, 80, 24), &["gets/s, 0–600", "█▅"]);
    app.panel = Panel::Nodes;
    assert_shows(&drawn(&app, 80, 24), &["a:1 up 400 -"]);
}

#[test]
fn every_panel_shows_its_figures_on_a_small_terminal() {
    let mut app = app(2);
    for (panel, texts) in [
        (Panel::Commands, &["get            1.0k", "delete"][..]),
        (Panel::Classes, &["5     56      2    200  8.8KiB  25.00%     900", "01:01:40"]),
        (
            Panel::Connections,
            &["connections: 3 of 1.0k", "conn_read       2", "up to 10 s   1", "longer       1"],
        ),
        (
            Panel::Keys,
            &[
                "top keys by requests in the last minute (60 s), of one request in 16",
                "user:1",
                "\\x1b[2Jbad",
            ],
        ),
        (
            Panel::Servers,
            &[
                "servers: 2 of 3 in service",
                "10.0.0.1:11211:ascii:plain:notcompressed-1000",
                "10.0.0.2:11211:ascii:plain:notcompressed-1000",
            ],
        ),
        (Panel::Nodes, &["nodes: 2 of 2 answer", "a:1", "total", "2.0k     100  90.00%"]),
    ] {
        app.panel = panel;
        assert_shows(&drawn(&app, 80, 24), texts);
    }
}

#[test]
fn the_total_has_what_each_node_tells_a_memcached_among_them() {
    let mut app = app(2);
    let mut other = stock(20);
    receive(&mut other, Group::General, "STAT bytes 10485760\n");
    app.update(1, Ok(other), 20 * SECOND);
    app.panel = Panel::Nodes;
    let lines = drawn(&app, 100, 24);
    assert_shows(&lines, &["28.6MiB", "10.0MiB", "38.6MiB"]);
}

#[test]
fn any_size_can_be_drawn_and_scrolled() {
    for panel in Panel::ALL {
        let mut app = app(3);
        app.panel = panel;
        app.has_help = true;
        for (width, height) in [(1, 1), (2, 5), (20, 3), (40, 10), (76, 8), (79, 24), (300, 100)] {
            for scroll in [0, 5, usize::MAX] {
                app.scroll = scroll;
                assert_eq!(drawn(&app, width, height).len(), usize::from(height));
            }
        }
    }
    let mut narrow = app(1);
    assert_shows(&drawn(&narrow, 40, 12), &["rates", "gets"]);
    narrow.scroll = usize::MAX;
    let lines = drawn(&narrow, 40, 12);
    assert_shows(&lines, &["connections  3 of 1.0k"]);
    assert!(!lines.iter().any(|line| line.contains("rates")), "{lines:?}");
}

#[test]
fn a_node_that_does_not_answer_and_a_pause_are_seen() {
    let mut app = app(2);
    app.panel = Panel::Overview;
    app.update(0, Err("cannot connect: no".to_owned()), 15 * SECOND);
    assert_shows(&drawn(&app, 80, 24)[..1], &["a:1  DOWN for 00:00:05: cannot connect: no"]);
    app.update(0, Ok(received(17)), 17 * SECOND);
    assert_shows(&drawn(&app, 80, 24)[..1], &["a:1  silent for 00:00:03  1.6.45"]);
    app.update(0, Ok(received(18)), 18 * SECOND);
    assert!(!drawn(&app, 80, 24)[0].contains("silent"));
    app.update(0, Err("cannot connect: no".to_owned()), 18 * SECOND);
    app.panel = Panel::Nodes;
    assert_shows(&drawn(&app, 80, 24), &["nodes: 1 of 2 answer", "DOWN", "total       1.0k"]);
    app.is_paused = true;
    app.update(0, Ok(received(19)), 19 * SECOND);
    assert_shows(&drawn(&app, 80, 24), &["PAUSED", "DOWN"]);
    let connecting = App::new(&["a:1".to_owned()], SECOND, Sort::Bytes);
    assert_shows(&drawn(&connecting, 80, 24), &["connecting", "waiting for the node"]);
}

#[test]
fn a_stock_memcached_shows_what_it_tells() {
    let mut app = App::new(&["a:1".to_owned()], SECOND, Sort::Requests);
    app.update(0, Ok(stock(1)), SECOND);
    app.update(0, Ok(stock(2)), 2 * SECOND);
    assert_shows(
        &drawn(&app, 80, 24),
        &["1.6.18", "this server does not report latencies: ERROR", "100.00%"],
    );
    app.panel = Panel::Keys;
    assert_shows(&drawn(&app, 80, 24), &["this server does not report its top keys: ERROR"]);
    app.panel = Panel::Servers;
    assert_shows(&drawn(&app, 80, 24), &["this server does not report servers behind it: ERROR"]);
    app.panel = Panel::Classes;
    assert_shows(&drawn(&app, 80, 24), &["no class has a page"]);
}

#[test]
fn servers_behind_a_router_are_told_with_what_happens_to_them() {
    let mut app = app(1);
    app.panel = Panel::Servers;
    let lines = drawn(&app, 160, 10);
    assert_shows(
        &lines,
        &[
            "10.0.0.2:11211:ascii:plain:notcompressed-1000 hard_tko 0/4 0 10 - 0 0 4 120",
            "10.0.0.1:11211:ascii:plain:notcompressed-1000 3/4 100 0 303 1 2 4 0",
            "10.0.0.3:11211:ascii:plain:notcompressed-1000 4/4 0 0 5 0 0 0 0",
        ],
    );
    let place = |server: &str| lines.iter().position(|line| line.contains(server)).unwrap();
    assert!(place("10.0.0.2") < place("10.0.0.1"), "what is out of service comes first");
}

/// A reading in which every name and every value that is text would act on a terminal.
fn hostile(seconds: u64) -> Reading {
    const EVIL: &str = "\x1b]0;x\x07\u{9b}2J\u{202e}";
    let mut reading = received(seconds);
    receive(&mut reading, Group::General, &format!("STAT version {EVIL}\nSTAT {EVIL} 1"));
    receive(
        &mut reading,
        Group::Settings,
        &format!("STAT engine {EVIL}\nSTAT policy {EVIL}\nSTAT policy_next {EVIL}"),
    );
    receive(&mut reading, Group::Latency, &format!("STAT {EVIL}:samples 5"));
    receive(&mut reading, Group::Connections, &format!("STAT 9:state {EVIL}"));
    receive(&mut reading, Group::Keys, &format!("STAT topkeys:minute:requests:3:key {EVIL}%1b%0a"));
    if seconds.is_multiple_of(2) {
        reading.refused(Group::Slabs, EVIL.as_bytes());
    }
    reading
}

#[test]
fn nothing_that_a_server_sends_acts_on_the_terminal() {
    let mut app = App::new(&["\x1b[2Jx".to_owned(), "b:1".to_owned()], SECOND, Sort::Requests);
    for seconds in [10, 11, 12] {
        app.update(0, Ok(hostile(seconds)), seconds as u32 * SECOND);
        app.update(1, Err("\x1b[2J\u{202e}".to_owned()), seconds as u32 * SECOND);
    }
    let is_evil = |c: char| c.is_control() || c == '\u{202e}';
    for panel in Panel::ALL {
        app.panel = panel;
        let lines = drawn(&app, 200, 50);
        assert!(!lines.iter().any(|line| line.contains(is_evil)), "{}", lines.join("\n"));
        assert!(lines.iter().any(|line| line.contains("\\x1b")), "{}", lines.join("\n"));
    }
    let text = once::text(&app);
    assert!(!text.contains(|c| is_evil(c) && c != '\n'), "{text:?}");
    assert!(text.contains("\\x1b]0;x\\x07"), "{text}");
}

#[test]
fn plain_text_has_all_panels_of_all_nodes() {
    let text = once::text(&app(2));
    for part in [
        "nodes: 2 of 2 answer",
        "== a:1  1.6.45",
        "== b:1  1.6.45",
        "gets             1.0k   12.0k",
        "hit ratio",
        "user:1",
    ] {
        assert!(squeezed(&text).contains(&squeezed(part)), "no {part:?} in\n{text}");
    }
    assert!(!once::text(&app(1)).contains("nodes:"));
}

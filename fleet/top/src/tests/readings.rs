use std::time::Duration;

use super::{SECOND, receive, received, stock};
use crate::change::Change;
use crate::node::{Link, Node};
use crate::reading::{ClassFigure, Group, Listing, Part, Ranking, Reading, Subject, Window};

#[test]
fn statistics_are_read_and_what_is_no_statistic_is_left_out() {
    let reading = received(10);
    assert_eq!(
        (reading.number("cmd_get"), reading.number("version"), reading.number("none")),
        (Some(10_000), None, None)
    );
    assert_eq!(reading.setting("policy"), Some("clock:bits=2"));
    let classes = reading.classes.received().unwrap();
    assert_eq!(classes.numbers().collect::<Vec<_>>(), [5]);
    assert_eq!(classes.of(5, ClassFigure::UsedChunks), Some(250));
    assert_eq!(classes.of(5, ClassFigure::Age), Some(3700));
    let series = reading.latency.received().unwrap().series();
    assert_eq!((series.len(), series[0].name.as_str(), series[0].p999_us), (1, "get", Some(13.1)));
    let connections = reading.connections.received().unwrap();
    let states: Vec<_> = connections.by_state().collect();
    assert_eq!(states, [("conn_listening", 1), ("conn_parse_cmd", 1), ("conn_read", 2)]);
    // The listener is none.
    assert_eq!(connections.by_idle(), [1, 1, 0, 0, 1]);
}

/// A preload must not count for ever.
#[test]
fn latencies_are_those_between_two_readings_where_buckets_are_told() {
    let reading = |seconds: u64, text: &str| {
        let mut reading = received(seconds);
        reading.latency = Part::NotRequested;
        receive(&mut reading, Group::Latency, text);
        reading
    };
    let plain = "STAT get:samples 3\nSTAT get:p50_us 900\nSTAT get:p99_us 900\n";
    let before = reading(10, &format!("{plain}STAT get:sum_ns 2700000\nSTAT get:below_ns:1000000 3\n"));
    let text = "STAT get:sum_ns 2900000\nSTAT get:below_ns:2048 98\nSTAT get:below_ns:4096 2\nSTAT get:below_ns:1000000 3\n";
    let after = reading(11, &format!("{plain}{text}"));
    let lately = Change::between(&before, &after).unwrap().latencies().unwrap();
    let gets = lately.of("get").unwrap();
    assert_eq!((gets.samples, gets.mean_us), (Some(100.0), Some(2.0)));
    assert_eq!((gets.p50_us, gets.p99_us, gets.p999_us), (Some(2.048), Some(4.096), Some(4.096)));
    // No samples in between, a server without buckets, and one that has restarted its counts.
    let again = reading(12, &format!("{plain}{text}"));
    let lately = Change::between(&after, &again).unwrap().latencies().unwrap();
    assert_eq!((lately.of("get").unwrap().samples, lately.of("get").unwrap().p99_us), (Some(0.0), None));
    let older = reading(13, plain);
    assert_eq!(Change::between(&after, &older).unwrap().latencies(), None);
    assert_eq!(Change::between(&after, &before).map(Change::latencies), None);
    let less = reading(14, "STAT get:sum_ns 1\nSTAT get:below_ns:2048 1\n");
    assert_eq!(Change::between(&after, &less).unwrap().latencies(), None);
}

#[test]
fn top_keys_are_read_by_list_and_unknown_lines_left_out() {
    let reading = received(10);
    let keys = reading.keys.received().unwrap();
    let list = |window, subject, ranking| {
        let entries = keys.list(Listing { window, subject, ranking });
        entries.map(|(rank, entry)| (rank, entry.key.as_str(), entry.count, entry.error)).collect::<Vec<_>>()
    };
    assert_eq!(
        (keys.sampling, keys.seconds(Window::Minute), keys.seconds(Window::Total)),
        (Some(16), Some(60), Some(3600))
    );
    let requests = [(1, "user:1", 6000, Some(16)), (2, "\\x1b[2Jbad", 120, None)];
    assert_eq!(list(Window::Minute, Subject::Keys, Ranking::Requests), requests);
    assert_eq!(list(Window::Minute, Subject::Prefixes, Ranking::Bytes), [(1, "user:", 61440, None)]);
    assert_eq!(list(Window::Total, Subject::Keys, Ranking::Misses), [(1, "gone", 3, None)]);
    assert!(list(Window::Total, Subject::Keys, Ranking::Requests).is_empty());
}

#[test]
fn what_a_server_does_not_tell_has_a_note() {
    let reading = stock(1);
    assert_eq!(reading.keys, Part::Refused("ERROR".to_owned()));
    assert_eq!(reading.latency.note("latencies").unwrap(), "this server does not report latencies: ERROR");
    assert!(reading.connections.note("x").unwrap().contains("waiting"));
    assert!(reading.classes.note("x").is_none());
}

#[test]
fn an_answer_without_end_does_not_fill_memory() {
    let mut reading = Reading::new(Duration::ZERO);
    for number in 0..10_000_u32 {
        let name = number.to_string();
        reading.line(Group::General, name.as_bytes(), b"1");
        reading.line(Group::Connections, format!("{name}:state").as_bytes(), name.as_bytes());
        reading.line(Group::Latency, format!("{name}:samples").as_bytes(), b"1");
        reading.line(Group::Slabs, format!("{name}:total_pages").as_bytes(), b"1");
        reading.line(Group::Keys, format!("topkeys:minute:requests:{name}:count").as_bytes(), b"1");
    }
    assert!(reading.number("4095").is_some() && reading.number("4096").is_none());
    assert_eq!(reading.connections.received().unwrap().by_state().count(), 64);
    assert_eq!(reading.latency.received().unwrap().series().len(), 64);
    assert_eq!(reading.classes.received().unwrap().numbers().count(), 1001);
    let listing = Listing { window: Window::Minute, subject: Subject::Keys, ranking: Ranking::Requests };
    assert_eq!(reading.keys.received().unwrap().list(listing).count(), 1000);
}

#[test]
fn rates_are_by_the_time_between_two_readings() {
    let (before, after) = (received(10), received(12));
    let change = Change::between(&before, &after).unwrap();
    assert_eq!((change.rate("cmd_get"), change.rate("none")), (Some(1000.0), None));
    assert_eq!(change.rates(&["delete_hits", "delete_misses", "none"]), Some(1.0));
    assert_eq!((change.processors(), change.hit_ratio()), (Some(1.0), Some(0.9)));
    assert_eq!(change.of_class(5, ClassFigure::GetHits), Some(900.0));
    assert_eq!(change.of_class(6, ClassFigure::GetHits), None);
    assert!(Change::between(&after, &after.clone()).is_none(), "no time has passed");
    assert!(Change::between(&after, &before).is_none());
}

#[test]
fn a_reset_and_a_restart_are_not_taken_for_rates() {
    let (before, mut reset) = (received(10), received(12));
    receive(&mut reset, Group::General, "STAT cmd_get 3\nSTAT get_hits 3\nSTAT get_misses 0");
    let change = Change::between(&before, &reset).unwrap();
    assert_eq!(
        (change.rate("cmd_get"), change.hit_ratio(), change.rate("cmd_set")),
        (None, None, Some(50.0))
    );
    let mut restarted = received(12);
    receive(&mut restarted, Group::General, "STAT pid 8");
    assert!(Change::between(&before, &restarted).is_none());
    let mut node = Node::new("a:1");
    node.update(Ok(before), SECOND, SECOND);
    node.update(Ok(received(11)), SECOND, SECOND);
    assert_eq!((node.change().is_some(), node.history(9).count()), (true, 1));
    node.update(Ok(restarted), SECOND, SECOND);
    assert_eq!((node.change().is_some(), node.history(9).count()), (false, 0));
}

#[test]
fn a_reading_too_soon_replaces_the_last_and_keeps_the_interval() {
    let mut node = Node::new("a:1");
    let mut read = |reading: Reading, at_ms: u64| {
        let reading = Reading { at: Duration::from_millis(at_ms), ..reading };
        node.update(Ok(reading), SECOND / 2, SECOND);
        node.change().and_then(|change| change.rate("cmd_get"))
    };
    assert_eq!(read(received(0), 0), None);
    assert_eq!(read(received(1), 1000), Some(1000.0));
    // 0 to 1.25 s, in which 2000 were counted.
    assert_eq!(read(received(2), 1250), Some(1600.0));
    assert_eq!(read(received(4), 2250), Some(2000.0));
}

#[test]
fn a_node_that_does_not_answer_keeps_its_last_figures_and_shows_no_rates() {
    let mut node = Node::new("a\x1b:1");
    assert_eq!((node.name(), node.link()), ("a\\x1b:1", &Link::Connecting));
    node.update(Ok(received(10)), SECOND, 10 * SECOND);
    node.update(Ok(received(12)), SECOND, 12 * SECOND);
    node.update(Err("re\x1bfused".to_owned()), SECOND, 13 * SECOND);
    node.update(Err("refused".to_owned()), SECOND, 14 * SECOND);
    assert_eq!(node.link(), &Link::Down { why: "refused".to_owned(), since: 13 * SECOND });
    assert!(node.change().is_none() && node.last().is_some());
    node.update(Ok(received(15)), SECOND, 15 * SECOND);
    assert_eq!((node.link(), node.change().unwrap().rate("cmd_get")), (&Link::Up, Some(1000.0)));
    for step in 16..1000 {
        node.update(Ok(received(step)), SECOND, SECOND);
    }
    assert_eq!((node.history(9999).count(), node.history(3).count()), (512, 3));
}

//! Requests and replies through the tree, without a server.

use super::*;
use crate::pools::error::{Error, ErrorKind};
use crate::pools::plan::Builder;
use crate::pools::window::Window;
use guira_routing::Request;

/// A core with a clock in milliseconds.
struct Bench {
    core: Core,
    plan: Plan,
}

const TWO: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

fn bench(builder: Builder) -> Bench {
    let plan = Plan::new(&builder.timeout(Duration::from_millis(50))).unwrap();
    let counts = Arc::default();
    let mut core = Core::new(&plan, plan.tree().unwrap(), 1, counts, Window::default().era());
    core.set_time(1_800_000_000, 100);
    Bench { core, plan }
}

fn failover() -> Builder {
    Builder::config(
        r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}, "b": {"servers": ["127.0.0.1:2"]}},
            "route": {"type": "FailoverRoute", "children": ["PoolRoute|a", "PoolRoute|b"]}}"#,
    )
}

impl Bench {
    /// Starts a get of these keys.
    fn get(&mut self, keys: &[&str]) -> u32 {
        let call = self.core.begin(keys.len());
        for (part, key) in keys.iter().enumerate() {
            let ticket = Ticket { call, part: part as u32 };
            self.core.start(ticket, &Request::classic(Op::Get, key.as_bytes()), Window::default().era());
        }
        call
    }

    /// The requests to each server, by its number.
    fn sent(&mut self) -> Vec<(u32, String)> {
        let mut all = Vec::new();
        for server in self.core.take_dirty() {
            let text = String::from_utf8(self.core.unsent(server).to_vec()).unwrap();
            self.core.note_sent(server, text.len());
            self.core.connected(server);
            all.push((server, text));
        }
        all
    }

    fn values(&mut self, call: u32) -> Vec<Result<Option<Vec<u8>>, ErrorKind>> {
        assert_eq!(self.core.take_done(), [call]);
        let replies = self.core.take(call);
        let value = |reply: Reply| Ok(reply.map_err(Error::into_kind)?.item.map(|(value, _)| value));
        replies.into_iter().map(value).collect()
    }

    /// The errors of a call as texts.
    fn errors(&mut self, call: u32) -> Vec<String> {
        assert_eq!(self.core.take_done(), [call]);
        self.core.take(call).into_iter().filter_map(|reply| Some(reply.err()?.to_string())).collect()
    }

    fn at(&mut self, now_ms: u64) {
        self.core.set_time(1_800_000_000, now_ms);
    }
}

/// The replies of a server that has all keys; each value is the name of its key.
fn found(requests: &str) -> Vec<u8> {
    let lines = requests.lines().map(|line| {
        let mut words = line.split(' ');
        let (key, opaque) = (words.nth(1).unwrap(), words.next_back().unwrap());
        format!("VA {} f0 {opaque}\r\n{key}\r\n", key.len())
    });
    lines.collect::<String>().into_bytes()
}

#[test]
fn each_server_is_asked_once_for_all_of_its_keys_and_answers_are_in_the_order_of_the_keys() {
    let mut bench = bench(Builder::servers(&TWO));
    let keys: Vec<String> = (0..24).map(|number| format!("key{number}")).collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let call = bench.get(&names);
    let mut sent = bench.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent.iter().map(|(_, text)| text.lines().count()).sum::<usize>(), 24);
    sent.reverse();
    for (server, text) in sent {
        assert!(bench.core.take_done().is_empty());
        let reply = found(&text);
        assert_eq!(bench.core.receive(server, &reply), Input::Valid { taken: reply.len(), wanted: 0 });
    }
    let values = bench.values(call);
    assert!(values.iter().zip(&names).all(|(value, name)| *value == Ok(Some(name.as_bytes().to_vec()))));
    let leaving = bench.core.take_leaving();
    assert_eq!((leaving.answered, leaving.put_back, leaving.lost.len()), (24, 0, 0));
}

#[test]
fn a_server_that_does_not_answer_is_passed_over_and_its_window_shrinks() {
    let mut bench = bench(failover());
    let call = bench.get(&["k"]);
    assert_eq!(bench.sent(), [(0, "mg k v f O0\r\n".to_owned())]);
    assert_eq!(bench.core.deadline(), Some(150));
    bench.at(150);
    assert_eq!(bench.core.expire(), []);
    assert_eq!(bench.sent(), [(1, "mg k v f O0\r\n".to_owned())]);
    bench.core.receive(1, b"VA 1 f0 O0\r\nx\r\n");
    assert_eq!(bench.values(call), [Ok(Some(b"x".to_vec()))]);
    let leaving = bench.core.take_leaving();
    assert_eq!((leaving.answered, leaving.lost.len()), (1, 1));
    // The reply to a request that was given up is dropped.
    let call = bench.get(&["l"]);
    assert_eq!(bench.sent(), [(0, "mg l v f O1\r\n".to_owned())]);
    bench.core.receive(0, b"VA 1 f0 O0\r\nx\r\n");
    assert!(bench.core.take_done().is_empty());
    bench.core.receive(0, b"EN\r\n");
    assert_eq!(bench.values(call), [Ok(None)]);
}

#[test]
fn a_server_is_out_after_three_batches_without_an_answer_and_in_once_it_answers() {
    let mut bench = bench(failover());
    for round in 0..3 {
        let keys = ["a", "b", "c", "d"];
        bench.get(&keys);
        assert_eq!(bench.sent().len(), 1, "round {round}");
        bench.at(100 + 50 * (round + 1));
        let closed = bench.core.expire();
        assert_eq!(closed.len(), usize::from(round == 2), "round {round}");
        closed.into_iter().for_each(|(server, fault)| bench.core.close(server, fault));
        let second = bench.sent();
        assert_eq!(second.len(), 1, "round {round}");
        bench.core.receive(1, &found(&second[0].1));
        bench.core.take_done();
    }
    let call = bench.get(&["k"]);
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].0), (1, 1), "it is out");
    bench.core.receive(1, &found(&sent[0].1));
    assert_eq!(bench.values(call), [Ok(Some(b"k".to_vec()))]);
    bench.at(250 + 999);
    bench.core.probe();
    assert!(bench.sent().is_empty());
    bench.at(250 + 1000);
    bench.core.probe();
    assert_eq!(bench.sent(), [(0, "mn\r\n".to_owned())]);
    bench.core.receive(0, b"MN\r\n");
    bench.get(&["k"]);
    assert_eq!(bench.sent()[0].0, 0);
}

#[test]
fn a_server_that_cannot_be_connected_to_is_down_at_once_for_all_threads() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    let call = bench.get(&["a", "b"]);
    bench.core.connecting(0);
    bench.at(150);
    assert_eq!(bench.core.expire(), [(0, Fault::ConnectTimeout)]);
    bench.core.close(0, Fault::ConnectTimeout);
    assert_eq!(bench.values(call), [Err(ErrorKind::Unreachable), Err(ErrorKind::Unreachable)]);
    let tree = bench.plan.tree().unwrap();
    bench.core = Core::new(&bench.plan, tree, 2, Arc::default(), Window::default().era());
    let call = bench.get(&["a"]);
    assert_eq!(bench.values(call), [Err(ErrorKind::Down)]);
    let leaving = bench.core.take_leaving();
    assert_eq!((leaving.answered, leaving.put_back, leaving.lost.len()), (0, 1, 0));
}

#[test]
fn an_error_names_the_server_that_has_failed_and_why() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    let call = bench.get(&["k"]);
    bench.sent();
    bench.at(150);
    assert!(bench.core.expire().is_empty());
    assert_eq!(bench.errors(call), ["no reply from 127.0.0.1:1: timeout after 50 ms"]);
    let call = bench.get(&["k"]);
    bench.sent();
    bench.core.receive(0, b"MN\r\n");
    bench.core.close(0, Fault::Invalid);
    assert_eq!(bench.errors(call), ["the connection to 127.0.0.1:1 was lost: the reply is invalid"]);
    let call = bench.get(&["k"]);
    bench.core.close(0, Fault::ConnectTimeout);
    assert_eq!(bench.errors(call), ["cannot connect to 127.0.0.1:1: timeout after 50 ms"]);
    let call = bench.get(&["k"]);
    assert_eq!(bench.errors(call), ["127.0.0.1:1 is marked as failed: timeout after 50 ms"]);
}

#[test]
fn an_error_names_the_last_server_of_a_failover_and_none_that_has_not_failed_so() {
    let mut both = bench(failover());
    let call = both.get(&["k"]);
    both.core.close(0, Fault::ConnectTimeout);
    both.sent();
    both.core.close(1, Fault::Invalid);
    assert_eq!(both.errors(call), ["the connection to 127.0.0.1:2 was lost: the reply is invalid"]);
    let text =
        r#"{"pools": {"a": {"servers": ["127.0.0.1:1", "127.0.0.1:2"]}}, "route": "AllSyncRoute|Pool|a"}"#;
    let mut all = bench(Builder::config(text));
    let call = all.get(&["k"]);
    all.sent();
    all.core.close(0, Fault::Invalid);
    all.core.close(1, Fault::ConnectTimeout);
    assert_eq!(all.errors(call), ["the connection to the server was lost"], "the worst is not the last");
    let mut all = bench(Builder::config(text));
    let call = all.get(&["k"]);
    all.sent();
    all.core.receive(0, b"SERVER_ERROR out of memory\r\n");
    all.core.close(1, Fault::Invalid);
    assert_eq!(
        all.errors(call),
        ["the request was refused: SERVER_ERROR out of memory"],
        "it is not the last one's"
    );
}

#[test]
fn what_a_server_refuses_is_in_its_error() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    for (line, text) in [
        (
            "SERVER_ERROR object too large for cache",
            "the value is too large for 127.0.0.1:1: SERVER_ERROR object too large for cache",
        ),
        ("CLIENT_ERROR no", "127.0.0.1:1 refused the request: CLIENT_ERROR no"),
    ] {
        let call = bench.get(&["k"]);
        bench.sent();
        bench.core.receive(0, format!("{line}\r\n").as_bytes());
        assert_eq!(bench.errors(call), [text]);
    }
}

#[test]
fn nonsense_fails_what_is_outstanding_and_nothing_else() {
    for nonsense in
        ["\0\0\0\0\r\n", "VALUE a 0 1\r\nx\r\n", "VA -1 f0\r\n", "HD O9\r\n", "VA 99999999999999 f0 O0\r\n"]
    {
        let mut bench = bench(Builder::servers(&TWO[..1]));
        let call = bench.get(&["a", "b"]);
        bench.sent();
        assert_eq!(bench.core.receive(0, nonsense.as_bytes()), Input::Invalid, "{nonsense:?}");
        bench.core.close(0, Fault::Invalid);
        assert_eq!(bench.values(call), [Err(ErrorKind::Broken), Err(ErrorKind::Broken)], "{nonsense:?}");
        let call = bench.get(&["a"]);
        let text = bench.sent().remove(0).1;
        bench.core.receive(0, &found(&text));
        assert_eq!(bench.values(call), [Ok(Some(b"a".to_vec()))], "{nonsense:?}");
    }
}

#[test]
fn gets_by_udp_fail_over_as_others_do_and_stores_go_by_tcp() {
    let mut bench = bench(failover().udp_gets());
    let call = bench.get(&["k"]);
    let set = Request { value: b"v", ..Request::classic(Op::Set, b"k") };
    let stored = bench.core.begin(1);
    bench.core.start(Ticket { call: stored, part: 0 }, &set, Window::default().era());
    assert_eq!(bench.core.take_datagrams(0), [b"\0\0\0\0\0\x01\0\0mg k v f O0\r\n".to_vec()]);
    assert_eq!(bench.core.unsent(0), b"ms k 1 F0 O0\r\nv\r\n");
    bench.core.receive_datagram(0, b"\0\0\0\x01\0\x02\0\0the second of two\r\n");
    assert_eq!(bench.core.take_datagrams(1), [b"\0\0\0\0\0\x01\0\0mg k v f O0\r\n".to_vec()]);
    bench.core.receive_datagram(1, b"\0\0\0\0\0\x01\0\0EN O0\r\n");
    assert_eq!(bench.values(call), [Ok(None)]);
    assert_eq!(bench.core.take_leaving().lost.len(), 1);
}

/// Arbitrary bytes from a server cause no panic, answer no call twice, and give no key the value of
/// another.
#[test]
fn any_bytes_are_dealt_with() {
    const SEED: u64 = 1;
    // No damage of one byte turns one of these keys into another.
    const KEYS: [&str; 3] = ["aaaa", "bbbb", "cccc"];
    let mut state = SEED;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for round in 0..2000 {
        let mut bench = bench(Builder::servers(&TWO[..1]));
        let call = bench.get(&KEYS);
        let text = bench.sent().remove(0).1;
        let mut reply = found(&text);
        for _ in 0..below(4) {
            let at = below(reply.len());
            match below(3) {
                0 => reply[at] = b" \r\nVAEO019"[below(10)],
                1 => drop(reply.remove(at)),
                _ => reply.truncate(at),
            }
            if reply.is_empty() {
                break;
            }
        }
        let (mut rest, mut kept) = (reply.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(1 + below(rest.len()));
            kept.extend_from_slice(now);
            rest = later;
            match bench.core.receive(0, &kept) {
                Input::Valid { taken, .. } => drop(kept.drain(..taken)),
                Input::Invalid | Input::Untrusted => break,
            }
        }
        bench.core.close(0, Fault::Closed);
        for (value, key) in bench.values(call).iter().zip(KEYS) {
            if let Ok(Some(value)) = value {
                let is_other = KEYS.iter().any(|other| *other != key && value == other.as_bytes());
                assert!(!is_other, "seed {SEED}, round {round}: {key} {value:?}");
            }
        }
    }
}

#[test]
fn another_configuration_leaves_what_is_under_way_and_closes_what_it_has_no_use_for() {
    let mut bench = bench(failover());
    let call = bench.get(&["k"]);
    assert_eq!(bench.sent(), [(0, "mg k v f O0\r\n".to_owned())]);
    let next = bench.plan.after(
        &r#"{"pools": {"b": {"servers": ["127.0.0.1:2"]}, "c": {"servers": ["127.0.0.1:3"]}},
        "route": {"type": "FailoverRoute", "children": ["PoolRoute|c", "PoolRoute|b"]}}"#
            .into(),
    );
    let next = next.unwrap();
    bench.core.adopt(&next, next.tree().unwrap());
    assert_eq!(bench.core.take_unused(), [], "somebody waits for its answer");
    // New requests go to the new server; open ones continue on their old route.
    let new = bench.get(&["n"]);
    assert_eq!(bench.sent(), [(2, "mg n v f O0\r\n".to_owned())]);
    bench.core.receive(2, b"EN\r\n");
    assert_eq!(bench.values(new), [Ok(None)]);
    bench.at(150);
    assert_eq!(bench.core.expire(), []);
    assert_eq!(bench.sent(), [(1, "mg k v f O0\r\n".to_owned())]);
    bench.core.receive(1, b"VA 1 f0 O0\r\nx\r\n");
    assert_eq!(bench.values(call), [Ok(Some(b"x".to_vec()))]);
    assert_eq!(bench.core.take_unused(), [0], "nobody waits for it any more");
    // A server that comes back keeps its number.
    let texts = bench.plan.texts().clone();
    let last = next.after(&texts).unwrap();
    bench.core.adopt(&last, last.tree().unwrap());
    assert_eq!(bench.core.take_unused(), [2]);
    let call = bench.get(&["l"]);
    assert_eq!(bench.sent(), [(0, "mg l v f O1\r\n".to_owned())]);
    bench.core.receive(0, b"EN\r\nEN O1\r\n");
    assert_eq!(bench.values(call), [Ok(None)]);
}

#[test]
fn what_was_asked_for_nobody_does_not_go_on_after_a_pause() {
    let mut bench = bench(Builder::config(
        r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}, "b": {"servers": ["127.0.0.1:2"]}, "c": {"servers": ["127.0.0.1:3"]}},
            "route": {"type": "AllInitialRoute", "children": ["PoolRoute|a",
                {"type": "WarmUpRoute", "cold": "PoolRoute|b", "warm": "PoolRoute|c", "exptime": 9}]}}"#,
    ));
    let call = bench.get(&["k"]);
    assert_eq!(bench.sent().len(), 2);
    bench.core.receive(0, b"EN O0\r\n");
    assert_eq!(bench.values(call), [Ok(None)]);
    bench.core.receive(1, b"EN O0\r\n");
    assert_eq!(bench.sent(), [(2, "mg k v f O0\r\n".to_owned())]);
    bench.at(200);
    assert_eq!(bench.core.fail_overdue(), [], "all was sent");
    bench.core.receive(2, b"VA 1 f0 O0\r\nx\r\n");
    assert_eq!(bench.sent(), [], "what was found long ago is not stored");
}

#[test]
fn a_connection_ends_with_a_store_that_was_refused_before_its_value_was_read() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    for (refused, understood) in [
        ("ERROR\r\n", Input::Untrusted),
        ("CLIENT_ERROR line too long\r\n", Input::Untrusted),
        ("SERVER_ERROR object too large for cache\r\n", Input::Valid { taken: 41, wanted: 0 }),
        ("CLIENT_ERROR invalid flag\r\n", Input::Valid { taken: 27, wanted: 0 }),
    ] {
        let call = bench.core.begin(1);
        let set = Request { value: b"flush_all", ..Request::classic(Op::Set, b"k") };
        bench.core.start(Ticket { call, part: 0 }, &set, Window::default().era());
        bench.sent();
        assert_eq!(bench.core.receive(0, refused.as_bytes()), understood, "{refused}");
        assert!(bench.values(call)[0].is_err(), "{refused}");
        if understood == Input::Untrusted {
            bench.core.close(0, Fault::Untrusted);
        }
    }
}

#[test]
fn a_server_that_left_while_a_request_was_to_fail_over_to_it_is_let_go_again_afterwards() {
    let mut bench = bench(failover());
    let call = bench.get(&["k"]);
    bench.sent();
    let texts = "{\"pools\": {\"a\": {\"servers\": [\"127.0.0.1:1\"]}}, \"route\": \"PoolRoute|a\"}".into();
    let next = bench.plan.after(&texts).unwrap();
    bench.core.adopt(&next, next.tree().unwrap());
    assert_eq!(bench.core.take_unused(), [1], "nothing is under way to it yet");
    bench.core.close(1, Fault::Unused);
    bench.at(150);
    bench.core.expire();
    assert_eq!(bench.sent(), [(1, "mg k v f O0\r\n".to_owned())]);
    assert_eq!(bench.core.take_unused(), [] as [u32; 0]);
    bench.core.receive(1, b"VA 1 f0 O0\r\nx\r\n");
    assert_eq!(bench.values(call), [Ok(Some(b"x".to_vec()))]);
    assert_eq!(bench.core.take_unused(), [1]);
}

/// A route that replies with the first server's reply, and fails over from the second to the third
/// without it.
const ON_ITS_OWN: &str = r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}, "b": {"servers": ["127.0.0.1:2"]}, "c": {"servers": ["127.0.0.1:3"]}},
    "route": {"type": "AllInitialRoute", "children": ["PoolRoute|a",
        {"type": "FailoverRoute", "children": ["PoolRoute|b", "PoolRoute|c"]}]}}"#;

#[test]
fn after_a_pause_a_delete_that_nobody_waits_for_goes_on_and_a_store_does_not() {
    let goes_on = |op, reply: &[u8]| {
        let mut bench = bench(Builder::config(ON_ITS_OWN));
        let call = bench.core.begin(1);
        let request = Request { value: b"old", ..Request::classic(op, b"k") };
        bench.core.start(Ticket { call, part: 0 }, &request, Window::default().era());
        assert_eq!(bench.sent().len(), 2, "{op:?}");
        bench.core.receive(0, reply);
        assert_eq!(bench.core.take_done(), [call], "{op:?}");
        bench.at(200);
        assert_eq!(bench.core.fail_overdue(), [], "{op:?}: all was sent");
        bench.sent()
    };
    assert_eq!(goes_on(Op::Set, b"HD O0\r\n"), [], "what is stored might be outdated");
    assert_eq!(goes_on(Op::Incr, b"VA 1 O0\r\n5\r\n"), []);
    assert_eq!(goes_on(Op::Delete, b"HD O0\r\n"), [(2, "md k O0\r\n".to_owned())]);
    // Later requests are routed as usual.
    let mut bench = bench(Builder::config(ON_ITS_OWN));
    bench.core.fail_overdue();
    bench.get(&["k"]);
    assert_eq!(bench.sent().len(), 2);
}

#[test]
fn what_was_delayed_for_nobody_does_not_go_on_after_a_pause_either() {
    let delayed = r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}, "b": {"servers": ["127.0.0.1:2"]}},
        "route": {"type": "AllInitialRoute", "children": ["PoolRoute|a",
            {"type": "LatencyInjectionRoute", "before_latency_ms": 30, "child": "PoolRoute|b"}]}}"#;
    let sent_later = |op, later_ms| {
        let mut bench = bench(Builder::config(delayed));
        let call = bench.core.begin(1);
        let request = Request { value: b"old", ..Request::classic(op, b"k") };
        bench.core.start(Ticket { call, part: 0 }, &request, Window::default().era());
        assert_eq!(bench.sent().len(), 1, "{op:?}");
        bench.core.receive(0, b"HD O0\r\n");
        assert_eq!(bench.core.take_done(), [call], "{op:?}");
        bench.at(later_ms);
        bench.core.fail_overdue();
        bench.core.expire();
        bench.sent().len()
    };
    assert_eq!((sent_later(Op::Set, 129), sent_later(Op::Set, 131), sent_later(Op::Set, 10_000)), (0, 1, 0));
    assert_eq!(sent_later(Op::Delete, 10_000), 1);
}

#[test]
fn what_was_asked_by_udp_for_nobody_does_not_go_on_after_a_pause() {
    let config = r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}, "b": {"servers": ["127.0.0.1:2"]}, "c": {"servers": ["127.0.0.1:3"]}},
        "route": {"type": "AllInitialRoute", "children": ["PoolRoute|a",
            {"type": "WarmUpRoute", "cold": "PoolRoute|b", "warm": "PoolRoute|c", "exptime": 9}]}}"#;
    for pause in [0, 200] {
        let mut bench = bench(Builder::config(config).udp_gets());
        let call = bench.get(&["k"]);
        let sent = |bench: &mut Bench, server| bench.core.take_datagrams(server).len();
        assert_eq!((sent(&mut bench, 0), sent(&mut bench, 1)), (1, 1));
        bench.core.receive_datagram(0, b"\0\0\0\0\0\x01\0\0EN O0\r\n");
        assert_eq!(bench.values(call), [Ok(None)]);
        bench.core.receive_datagram(1, b"\0\0\0\0\0\x01\0\0EN O0\r\n");
        assert_eq!(sent(&mut bench, 2), 1);
        bench.at(100 + pause);
        bench.core.fail_overdue();
        bench.core.receive_datagram(2, b"\0\0\0\0\0\x01\0\0VA 1 f0 O0\r\nx\r\n");
        let is_stored = bench.core.unsent(1).starts_with(b"ms k ");
        assert_eq!(is_stored, pause == 0, "{:?}", bench.core.unsent(1).escape_ascii().to_string());
        // The server gets no failure for a pause of this thread.
        let health = &bench.plan.servers()[2].health;
        assert_eq!((bench.core.expire().len(), health.failures_in_a_row()), (0, 0));
    }
}

#[test]
fn a_server_that_replied_to_another_thread_as_it_was_taken_out_of_service_is_probed() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    // The server is out of service, and no probe is scheduled: an earlier reply has removed the
    // schedule.
    bench.plan.servers()[0].health.record_hard_failure(&HEALTH);
    assert!(bench.plan.servers()[0].probes().is_none());
    bench.core.probe();
    assert_eq!(bench.sent(), []);
    bench.at(100 + 1000);
    bench.core.probe();
    assert_eq!(bench.sent(), [(0, "mn\r\n".to_owned())]);
}

#[test]
fn a_probe_that_ends_an_old_connection_is_sent_again_at_once_over_a_new_one() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    let call = bench.get(&["a"]);
    let sent = bench.sent();
    bench.core.receive(0, &found(&sent[0].1));
    assert!(bench.values(call)[0].is_ok());
    // Other threads take the server out of service; it restarts.
    bench.plan.servers()[0].health.record_hard_failure(&HEALTH);
    bench.core.probe();
    let probe = [(0, "mn\r\n".to_owned())];
    for is_old in [true, false] {
        bench.at(bench.core.now_ms() + 20_000);
        bench.core.probe();
        assert_eq!(bench.sent(), probe);
        bench.core.close(0, Fault::Closed);
        bench.core.probe();
        assert_eq!(bench.sent().len(), usize::from(is_old));
        bench.core.close(0, Fault::Closed);
    }
}

#[test]
fn a_connection_without_replies_is_replaced_before_a_probe() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    bench.get(&["a"]);
    bench.sent();
    bench.at(1000);
    bench.core.fail_overdue();
    assert_eq!(bench.core.unanswered(), [], "the server is in service");
    bench.plan.servers()[0].health.record_hard_failure(&HEALTH);
    bench.core.probe();
    assert_eq!(bench.core.unanswered(), [], "no probe is due");
    bench.at(1990);
    // For other threads the server was in service for a moment.
    bench.plan.servers()[0].health.record_success();
    bench.get(&["b"]);
    bench.sent();
    bench.plan.servers()[0].health.record_hard_failure(&HEALTH);
    bench.at(2000);
    assert_eq!(bench.core.unanswered(), [], "a request may still have its reply");
    bench.at(2100);
    bench.core.fail_overdue();
    assert_eq!(bench.core.unanswered(), [0]);
    bench.core.close(0, Fault::Closed);
    assert_eq!(bench.core.unanswered(), []);
    bench.core.probe();
    assert_eq!(bench.sent(), [(0, "mn\r\n".to_owned())]);
}

#[test]
fn one_thread_of_all_asks_a_server_that_is_out_and_none_asks_one_that_is_in() {
    let mut bench = bench(Builder::servers(&TWO[..1]));
    let tree = bench.plan.tree().unwrap();
    let mut other = Core::new(&bench.plan, tree, 2, Arc::default(), Window::default().era());
    bench.core.close(0, Fault::Unreachable);
    other.set_time(1_800_000_000, 1100);
    bench.at(1100);
    bench.core.probe();
    other.probe();
    assert_eq!(bench.sent(), [(0, "mn\r\n".to_owned())]);
    assert_eq!(other.take_dirty(), [], "the first core has sent the probe");
    bench.core.receive(0, b"MN\r\n");
    assert!(bench.plan.servers()[0].health.is_up() && bench.plan.servers()[0].probes().is_none());
    bench.at(1_000_000);
    bench.core.probe();
    assert_eq!(bench.sent(), []);
    // The next failure starts with the first probe interval.
    bench.core.close(0, Fault::Unreachable);
    other.set_time(1_800_000_000, 1_001_000);
    other.probe();
    assert_eq!(other.take_dirty(), [0]);
}

/// Prints the rate at which one core routes, writes and matches keys: `cargo test --release -p
/// guira-client --lib -- rate_of_keys --ignored --nocapture`.
#[test]
#[ignore = "it measures"]
fn rate_of_keys() {
    const ROUNDS: usize = 4000;
    const BATCH: usize = 24;
    const PASSES: usize = 15;
    let servers: Vec<String> = (1..=16).map(|port| format!("127.0.0.1:{port}")).collect();
    let keys: Vec<String> =
        (0..ROUNDS * BATCH).map(|number| format!("user:{}:name", number * 7919 % 100_000)).collect();
    let value = "v".repeat(100);
    let send_gets = |bench: &mut Bench, round: usize| {
        let call = bench.core.begin(BATCH);
        for (part, key) in (0..).zip(&keys[round * BATCH..(round + 1) * BATCH]) {
            let ticket = Ticket { call, part };
            bench.core.start(ticket, &Request::classic(Op::Get, key.as_bytes()), Window::default().era());
        }
        call
    };
    // The replies are prepared by a second core that sends the same requests.
    let mut twin = bench(Builder::servers(&servers));
    let mut replies: Vec<Vec<(u32, Vec<u8>)>> = Vec::new();
    for round in 0..ROUNDS {
        let call = send_gets(&mut twin, round);
        let mut of_round = Vec::new();
        for (server, text) in twin.sent() {
            let opaques = text.lines().filter_map(|line| line.split(' ').next_back());
            let reply: String = opaques.map(|opaque| format!("VA 100 f0 {opaque}\r\n{value}\r\n")).collect();
            twin.core.receive(server, reply.as_bytes());
            of_round.push((server, reply.into_bytes()));
        }
        assert_eq!(twin.core.take_done(), [call]);
        twin.core.take(call);
        replies.push(of_round);
    }
    let mut rates: Vec<f64> = (0..PASSES)
        .map(|_| {
            let mut bench = bench(Builder::servers(&servers));
            let begin = worked();
            let mut found = 0;
            for (round, replies) in replies.iter().enumerate() {
                let call = send_gets(&mut bench, round);
                for server in bench.core.take_dirty() {
                    let bytes = bench.core.unsent(server).len();
                    bench.core.note_sent(server, bytes);
                }
                for (server, reply) in replies {
                    bench.core.receive(*server, reply);
                }
                bench.core.take_done();
                let all = bench.core.take(call);
                found += all
                    .iter()
                    .filter(|reply| matches!(reply, Ok(answered) if answered.item.is_some()))
                    .count();
            }
            assert_eq!(found, ROUNDS * BATCH);
            found as f64 / (worked() - begin) / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{:.2} million keys in a second of a core ({:.2} to {:.2} in {PASSES} passes), {BATCH} at once over {} servers",
        rates[PASSES / 2],
        rates[0],
        rates[PASSES - 1],
        servers.len()
    );
}

/// The CPU time of this thread in seconds, since other threads use the processor too.
fn worked() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

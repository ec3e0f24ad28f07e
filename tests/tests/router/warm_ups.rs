//! A cold cluster that is filled from a warm one, of Guira's nodes and of memcached's servers: nothing comes back that was deleted.

use crate::deletes::lines;
use crate::reload::AT_ONCE;
use crate::upstream::scripted;
use crate::{Router, name, stop};
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::scratch::Scratch;
use guira_tests::server::{wait_for, wait_for_log};
use guira_tests::{Client, Server, Setup};
use std::fs;

const NATIVE: &str = r#""enable_metaget": true, "hold_off": "native", "hold_off_s": 60"#;
/// Long enough, and it is waited for.
const SENTINEL: &str = r#""enable_metaget": true, "hold_off": "sentinel", "hold_off_s": 4"#;

/// Two servers of the same kind.
struct Clusters {
    cold: Server,
    warm: Server,
    /// How the cold one holds keys off.
    hold_off: &'static str,
    leases: &'static str,
}

/// Nodes, whose clock a test can move, and memcached's servers, if they are installed.
fn clusters() -> Vec<Clusters> {
    let node = || Setup::new().guira_argument("--test-commands").start_guira();
    let mut all = vec![Clusters { cold: node(), warm: node(), hold_off: NATIVE, leases: "native" }];
    let peers = Setup::new().start_peer().zip(Setup::new().start_peer());
    all.extend(peers.map(|(cold, warm)| Clusters { cold, warm, hold_off: SENTINEL, leases: "meta" }));
    all
}

impl Clusters {
    fn config(&self, more: &str) -> String {
        let Clusters { cold, warm, leases, .. } = self;
        format!(
            r#"{{"pools": {{"cold": {{"servers": ["{}"], "leases": "{leases}"}}, "warm": {{"servers": ["{}"], "leases": "{leases}"}}}},
                "route": {{"type": "WarmUpRoute", "cold": "PoolRoute|cold", "warm": "PoolRoute|warm", {more}}}}}"#,
            name(cold),
            name(warm)
        )
    }

    #[track_caller]
    fn router(&self) -> Router {
        Router::start(&["--config-str", &self.config(self.hold_off), "--num-proxies", "2"])
    }

    /// What a delete of an item that is not there is answered.
    fn of_a_missing_item(&self) -> &'static str {
        if self.hold_off == NATIVE { "NOT_FOUND" } else { "DELETED" }
    }

    /// Until the cold server holds the key off no more.
    fn wait_until_over(&self, key: &str) {
        let mut cold = self.cold.connect();
        if self.hold_off == NATIVE {
            return cold.exchange("debugtime 62\r\n", "OK\r\n");
        }
        wait_for("the end of a hold-off", || (cold.ask(format!("mg {key}\r\n")) == "EN").then_some(()));
    }
}

fn counts(client: &mut Client, names: [&str; 3]) -> [u64; 3] {
    let stats = client.stats("");
    names.map(|name| stats[&format!("warm_up_{name}_count")].parse().expect("a number"))
}

#[test]
fn what_was_deleted_does_not_come_back_from_the_warm_cluster() {
    for clusters in clusters() {
        let router = clusters.router();
        let (mut client, mut warm) = (router.connect(), clusters.warm.connect());
        for key in ["k", "l"] {
            warm.set(key, "old");
            client.expect_value(key, "old");
        }
        clusters.cold.connect().expect_value("k", "old");
        // The database was changed, and the warm cluster does not know it yet.
        client.exchange("delete k\r\nmd l O1 k\r\n", "DELETED\r\nHD O1 kl\r\n");
        for request in ["get k\r\n", "gets k\r\n", "gat 1000 k\r\n", "get k l\r\n"] {
            client.exchange(request, "END\r\n");
        }
        client.exchange("mg l v\r\nmg k t v f\r\nmg k\r\nmg k v T1000\r\n", "EN\r\nEN\r\nEN\r\nEN\r\n");
        client.exchange(
            "touch k 1000\r\nincr k 1\r\nadd k 0 0 1\r\nx\r\n",
            "NOT_FOUND\r\nNOT_FOUND\r\nNOT_STORED\r\n",
        );
        let [refused, fills, hits] = counts(&mut client, ["refused", "fills", "hits"]);
        assert!(refused >= 9 && (fills, hits) == (2, 0), "{refused} {fills} {hits}");
        // Who has asked the database stores what is true now.
        client.exchange("set l 0 0 3\r\nnew\r\nget l\r\n", "STORED\r\nVALUE l 0 3\r\nnew\r\nEND\r\n");
        warm.exchange("delete k\r\n", "DELETED\r\n");
        client.exchange("get k\r\n", "END\r\n");
        clusters.wait_until_over("k");
        warm.set("k", "newer");
        client.expect_value("k", "newer");
        client.expect_value("l", "new");
        assert_eq!(counts(&mut client, ["hold_offs", "plain_deletes", "failed"]), [2, 0, 0]);
    }
}

#[test]
fn a_copy_lives_as_long_as_its_item() {
    for clusters in clusters() {
        let router = clusters.router();
        let (mut client, mut warm) = (router.connect(), clusters.warm.connect());
        let (mut cold, now_s) = (clusters.cold.connect(), guira_sync::clock::wall_clock());
        warm.exchange("set a 7 500 1\r\n1\r\nset b 0 0 1\r\n2\r\n", "STORED\r\nSTORED\r\n");
        warm.exchange(format!("set c 0 {} 1\r\n3\r\n", now_s + 4_000_000), "STORED\r\n");
        client
            .exchange("get a b c\r\n", "VALUE a 7 1\r\n1\r\nVALUE b 0 1\r\n2\r\nVALUE c 0 1\r\n3\r\nEND\r\n");
        cold.exchange("mg a t f v\r\n", "VA 1 t~500 f7\r\n1\r\n");
        cold.exchange("mg b t\r\n", "HD t-1\r\n");
        let left = cold.ask("mg c t\r\n");
        let left: u64 = left.strip_prefix("HD t").and_then(|left| left.parse().ok()).expect("a time");
        assert!((3_999_900..=4_000_010).contains(&left), "{left}");
    }
}

#[track_caller]
fn token(client: &mut Client, key: &str) -> String {
    let line = client.ask(format!("lease-get {key}\r\n"));
    client.hear("\r\nEND\r\n");
    line.strip_prefix(&format!("LVALUE {key} "))
        .and_then(|rest| rest.split(' ').next())
        .expect(&line)
        .to_owned()
}

#[test]
fn a_lease_is_no_way_round_a_hold_off() {
    for clusters in clusters() {
        let router = clusters.router();
        let (mut client, mut warm) = (router.connect(), clusters.warm.connect());
        warm.exchange("set k 5 500 3\r\nold\r\n", "STORED\r\n");
        client.exchange("lease-get k\r\n", "VALUE k 5 3\r\nold\r\nEND\r\n");
        clusters.cold.connect().exchange("mg k t v\r\n", "VA 3 t~500\r\nold\r\n");
        // A miss of both clusters has a token that is good.
        let given = token(&mut client, "absent");
        client.exchange(format!("lease-set absent {given} 0 0 1\r\nx\r\n"), "STORED\r\n");
        client.exchange("delete k\r\n", "DELETED\r\n");
        let given = token(&mut client, "k");
        client.exchange(format!("lease-set k {given} 0 0 3\r\nold\r\n"), "NOT_STORED\r\n");
        client.exchange("get k\r\n", "END\r\n");
    }
}

#[test]
fn what_holds_a_key_off_is_not_made_to_live_longer() {
    let Some(cold) = Setup::new().start_peer() else {
        return guira_tests::skip::say("memcached is not installed");
    };
    let clusters = Clusters { cold, warm: Server::start(), hold_off: SENTINEL, leases: "meta" };
    let router = clusters.router();
    let mut client = router.connect();
    client.exchange("delete k\r\n", "DELETED\r\n");
    client.exchange("gat 1000 k\r\ntouch k 1000\r\nmg k T1000 v\r\n", "END\r\nNOT_FOUND\r\nEN\r\n");
    client.sync();
    let line = clusters.cold.connect().ask("mg k t\r\n");
    let left: u64 = line.strip_prefix("HD t").and_then(|left| left.parse().ok()).expect("it is there");
    assert!(left <= 5, "{line}");
    clusters.wait_until_over("k");
    client.exchange("add k 0 0 1\r\nx\r\n", "STORED\r\n");
}

#[test]
fn a_time_that_is_over_does_not_end_a_hold_off() {
    for clusters in clusters() {
        let router = clusters.router();
        let (mut client, mut warm) = (router.connect(), clusters.warm.connect());
        for (request, reply) in [
            ("touch k -1", "NOT_FOUND"),
            ("touch k 1000000000", "NOT_FOUND"),
            ("gat -1 k", "END"),
            ("gats -1 k", "END"),
            ("mg k T-1 v", "EN"),
            ("mg k T-1", "EN"),
        ] {
            warm.set("k", "old");
            client.exchange("delete k\r\n", format!("{}\r\n", clusters.of_a_missing_item()));
            client.exchange(format!("{request}\r\nget k\r\n"), format!("{reply}\r\nEND\r\n"));
        }
        // Items that are there end at once.
        for (flags, reply) in [("", "HD"), (" v", "VA 0\r\n")] {
            client.exchange("set e 0 0 0\r\n\r\n", "STORED\r\n");
            client.exchange(format!("mg e T-1{flags}\r\n"), format!("{reply}\r\n"));
            client.exchange("get e\r\n", "END\r\n");
        }
        client.exchange("set l 0 0 1\r\nx\r\ntouch l -1\r\nget l\r\n", "STORED\r\nTOUCHED\r\nEND\r\n");
        client.exchange(
            "set m 0 0 1\r\nx\r\ngat -1 m\r\nget m\r\n",
            "STORED\r\nVALUE m 0 1\r\nx\r\nEND\r\nEND\r\n",
        );
    }
}

#[test]
fn what_stands_for_no_item_in_the_warm_cluster_is_not_copied() {
    for clusters in clusters() {
        let router = clusters.router();
        let mut client = router.connect();
        // Another route holds off there.
        clusters.warm.connect().exchange("set k 2115768095 60 0\r\n\r\n", "STORED\r\n");
        client.exchange("get k\r\ngets k\r\nmg k v s\r\n", "END\r\nEND\r\nEN\r\n");
        token(&mut client, "k");
        client.exchange("delete k\r\n", format!("{}\r\n", clusters.of_a_missing_item()));
        assert_eq!(counts(&mut client, ["warm_misses", "fills", "hits"])[1..], [0, 0]);
    }
}

/// A route whose cold server answers what `reply` makes of its requests, and whose warm one has nothing.
fn before_scripted(reply: impl FnMut(usize, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> (Router, Server) {
    let (cold, _server) = scripted(reply, 1);
    let warm = Server::start();
    let config = format!(
        r#"{{"pools": {{"cold": {{"servers": ["{cold}"]}}, "warm": {{"servers": ["{}"]}}}},
            "route": {{"type": "WarmUpRoute", "cold": "PoolRoute|cold", "warm": "PoolRoute|warm", {SENTINEL}}}}}"#,
        name(&warm)
    );
    (Router::start(&["--server-timeout-ms=300", "--config-str", &config]), warm)
}

#[test]
fn an_empty_value_that_is_gone_when_it_is_looked_at_is_not_told() {
    let mut asked = 0;
    let (router, _warm) = before_scripted(move |_, request| {
        asked += 1;
        let reply = match (asked, request) {
            (1 | 3 | 6, _) => "VA 0\r\n\r\n",
            (2, b"mg k f s\r\n") => "EN\r\n",
            (4, b"mg k f s\r\n") => "HD f0 s3\r\n",
            (5, b"mg k v\r\n") => "VA 3\r\nnew\r\n",
            (7, b"mg k f s\r\n") => "SERVER_ERROR busy\r\n",
            _ => return None,
        };
        Some(reply.into())
    });
    let mut client = router.connect();
    client.exchange("mg k v\r\n", "EN\r\n");
    client.exchange("mg k v\r\n", "VA 3\r\nnew\r\n");
    let line = client.ask("mg k v\r\n");
    assert!(line.starts_with("SERVER_ERROR"), "{line}");
}

#[test]
fn a_delete_whose_hold_off_is_late_holds_off_after_all_or_fails() {
    let mut asked = 0;
    let (router, _warm) = before_scripted(move |_, request| {
        asked += 1;
        let reply = match (asked, request.starts_with(b"set k 2115768095 "), request) {
            (1 | 4 | 6, true, _) => "",
            // What was given up was stored before.
            (2 | 5, _, b"delete k\r\n") => "STORED\r\nDELETED\r\n",
            (3, true, _) => "STORED\r\n",
            _ => return None,
        };
        Some(reply.into())
    });
    let mut client = router.connect();
    client.exchange("delete k\r\n", "DELETED\r\n");
    client.exchange("delete k\r\n", "SERVER_ERROR Reply timeout\r\n");
    assert_eq!(counts(&mut client, ["hold_offs", "plain_deletes", "failed"]), [1, 2, 0]);
}

#[test]
fn a_server_that_does_not_know_hold_off_is_sent_plain_deletes() {
    let Some(cold) = Setup::new().start_peer() else {
        return guira_tests::skip::say("memcached is not installed");
    };
    let clusters = Clusters { cold, warm: Server::start(), hold_off: NATIVE, leases: "meta" };
    let router = clusters.router();
    let mut client = router.connect();
    client.set("k", "x");
    client.exchange("delete k\r\ndelete k\r\nmd k O7\r\n", "DELETED\r\nNOT_FOUND\r\nNF O7\r\n");
    assert_eq!(counts(&mut client, ["hold_offs", "plain_deletes", "failed"]), [0, 3, 0]);
    assert_eq!(wait_for_log(|| router.log(), "sending plain deletes"), 1, "{}", router.log());
}

#[test]
fn no_warm_value_stands_in_for_a_cold_server_that_is_down() {
    for clusters in clusters() {
        clusters.warm.connect().set("k", "old");
        let options =
            ["--server-timeout-ms=300", "--timeouts-until-tko=1", "--probe-timeout-initial-ms=60000"];
        let start = |config: &str| Router::start(&[&["--config-str", config], &options[..]].concat());
        let (strict, plain) =
            (start(&clusters.config(clusters.hold_off)), start(&clusters.config(r#""exptime": 0"#)));
        stop(&clusters.cold);
        let mut client = strict.connect();
        client.exchange("get k\r\n", "SERVER_ERROR Reply timeout\r\n");
        client.exchange("get k\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_timeout\r\n");
        // Without hold-off nothing is promised: mcrouter's route answers so.
        plain.connect().exchange("get k\r\n", "VALUE k 0 3\r\nold\r\nEND\r\n");
        clusters.cold.signal("CONT");
    }
}

#[test]
fn metaget_tells_of_the_warm_item_and_copies_nothing() {
    for clusters in clusters() {
        let router = Router::start(&[
            "--config-str",
            &clusters.config(r#""enable_metaget": true"#),
            "--num-proxies",
            "2",
        ]);
        let (mut client, mut warm) = (router.connect(), clusters.warm.connect());
        client.exchange("metaget k\r\nme k\r\n", "END\r\nEN\r\n");
        warm.set("k", "v");
        let of_k = "META k age: unknown; exptime: 0; from: unknown; is_transient: 0\r\n";
        client.exchange("metaget none k\r\n", format!("{of_k}END\r\n"));
        assert!(client.ask("me k\r\n").starts_with("ME k exp=-1 "));
        clusters.cold.connect().exchange("get k\r\n", "END\r\n");
        assert_eq!(counts(&mut client, ["fills", "hits", "warm_misses"]), [0; 3]);
        warm.exchange("delete k\r\n", "DELETED\r\n");
        client.exchange("metaget k\r\n", "END\r\n");
        // Where deletes hold keys off, the warm item may be the deleted one.
        warm.set("k", "v");
        clusters.router().connect().exchange("metaget k\r\n", "END\r\n");
    }
}

#[test]
fn a_delete_that_fails_is_logged() {
    for clusters in clusters() {
        let scratch = Scratch::new();
        let router = crate::deletes::start(scratch.path(), &clusters.config(clusters.hold_off), &[]);
        stop(&clusters.cold);
        let mut client = router.connect();
        client.exchange("delete k\r\n", "NOT_FOUND\r\n");
        assert_eq!(lines(scratch.path()).len(), 1);
        clusters.cold.signal("CONT");
        let is_delivered = || (client.stats("")["asynclog_replay_delivered"] == "1").then_some(());
        wait_for("the delivery", is_delivered);
    }
}

#[test]
fn a_warm_up_ends_and_begins_again_with_another_configuration() {
    for clusters in clusters() {
        let scratch = Scratch::new();
        let with = |more: &str| clusters.config(&format!("{}, {more}", clusters.hold_off));
        let end = r#""name": "one", "end": {"share": 0.9, "for_s": 1, "min_requests": 50}"#;
        let path = scratch.write("config.json", &with(end));
        let router = Router::start(&[&["-f", path.to_str().expect("a path of ours")], &AT_ONCE[..]].concat());
        let (mut client, mut warm) = (router.connect(), clusters.warm.connect());
        (0..100).for_each(|number| warm.set(&format!("k{number}"), "v"));
        assert_eq!(client.stats("")["warm_ups_running"], "1");
        let keys: String = (0..100).map(|number| format!(" k{number}")).collect();
        let values: String = (0..100).map(|number| format!("VALUE k{number} 0 1\r\nv\r\n")).collect();
        let deadline = Deadline::after(PATIENCE);
        let ended = deadline.poll(|| {
            client.exchange(format!("get{keys}\r\n"), format!("{values}END\r\n"));
            (client.stats("")["warm_ups_ended"] == "1").then_some(())
        });
        ended.expect("the cold cluster is warm");
        assert_eq!(wait_for_log(|| router.log(), "WarmUpRoute one: the cold cluster is warm"), 1);
        warm.set("late", "v");
        client.exchange("get late\r\n", "END\r\n");
        // Read again, with something else in it: it stays as it is.
        fs::write(&path, with(end).replace(r#""pools": {"#, r#""pools": {"other": {"servers": []}, "#))
            .expect("written");
        wait_for("another configuration", || (client.stats("")["config_attempts"] != "1").then_some(()));
        client.exchange("get late\r\n", "END\r\n");
        fs::write(&path, with(&end.replace("one", "two"))).expect("written");
        wait_for("the value", || client.value("late"));
        assert_eq!(client.stats("")["warm_ups_running"], "1");
        // Nothing is asked of it where that is switched off.
        fs::write(&path, with(r#""fill": false"#)).expect("written");
        wait_for("another route", || (client.stats("")["warm_ups_running"] == "0").then_some(()));
        wait_for("no fill", || {
            let key = format!("later{}", client.stats("")["cmd_get_count"]);
            warm.set(&key, "v");
            client.value(&key).is_none().then_some(())
        });
    }
}

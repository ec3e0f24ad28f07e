//! The settings that are measured.

use super::trial::{Readers, Setting, Writers};
use guira_client::lookaside::StaleValues;
use guira_regions::Region;
use std::time::Duration;

pub(super) struct Knob {
    pub(super) about: &'static str,
    pub(super) settings: Vec<Setting>,
}

/// The event comes after a quarter of the time, and has healed after three quarters.
fn during(length: Duration, begin: impl FnOnce(), end: impl FnOnce()) {
    std::thread::sleep(length / 4);
    begin();
    std::thread::sleep(length / 2);
    end();
}

fn without_invalidator(region: &Region, _: Duration) {
    region.invalidator.kill();
}

fn invalidator_away(region: &Region, length: Duration) {
    during(length, || region.invalidator.kill(), || region.invalidator.start_again());
}

fn neighbour_away(region: &Region, length: Duration) {
    let neighbour = region.clusters[1].entrance();
    during(length, || neighbour.kill(), || neighbour.start_again());
}

fn node_frozen(region: &Region, length: Duration) {
    let node = &region.clusters[0].nodes()[0];
    during(length / 2, || node.freeze(), || node.thaw());
}

fn node_away(region: &Region, length: Duration) {
    let node = &region.clusters[0].nodes()[0];
    during(length, || node.kill(), || node.start_again());
}

/// A setting of the invalidator's target, and nothing else.
fn target(line: &'static str) -> Setting {
    Setting { targets: line, ..Setting::named(line) }
}

pub(super) fn all() -> Vec<Knob> {
    [deletes(), invalidator(), router(), nodes(), clients()].into_iter().flatten().collect()
}

fn deletes() -> Vec<Knob> {
    let nobody = Setting { event: without_invalidator, ..Setting::named("nobody, values live for 1 h") };
    let expiry = |seconds: u64, client| Setting {
        client,
        event: without_invalidator,
        ..Setting::named(&format!("nobody, values live for {seconds} s"))
    };
    let writers =
        Setting { event: without_invalidator, writers: Writers::Delete, ..Setting::named("the writer") };
    let both = Setting { writers: Writers::Delete, ..Setting::named("the writer, and the invalidator") };
    Vec::from([Knob {
        about: "Who deletes what was written; `expiry`:",
        settings: vec![
            nobody,
            expiry(1, |client| client.expiry(Duration::from_secs(1)).jitter(0)),
            expiry(3, |client| client.expiry(Duration::from_secs(3)).jitter(0)),
            writers,
            Setting::named("the invalidator"),
            both,
        ],
    }])
}

fn invalidator() -> Vec<Knob> {
    let late = |line| Setting { readers: Readers::Plain("set", 300), between_ms: 100, ..target(line) };
    let held = Setting { readers: Readers::Plain("add", 300), between_ms: 100, ..target("hold-off-s = 2") };
    let held = Setting { name: "hold-off-s = 2, and readers add".to_owned(), ..held };
    let away = |writers, name| Setting { writers, event: invalidator_away, ..Setting::named(name) };
    let spool = |process, name| Setting {
        process,
        targets: "again-after-ms = 0",
        has_neighbour: true,
        event: neighbour_away,
        ..Setting::named(name)
    };
    const QUEUE: &str = "batch-keys = 5\nqueue-batches = 1";
    Vec::from([
        Knob {
            about: "`linger-ms` of the invalidator, which alone deletes:",
            settings: ["linger-ms = 0", "linger-ms = 10", "linger-ms = 100", "linger-ms = 1000"]
                .map(target)
                .to_vec(),
        },
        Knob {
            about: "`again-after-ms` and `hold-off-s`, when readers store by get and set without leases, up to 300 ms after they have read the database, and a row is written every 100 to 200 ms:",
            settings: vec![
                late("again-after-ms = 0"),
                late("again-after-ms = 100"),
                late("again-after-ms = 500"),
                late("again-after-ms = 2000"),
                held,
            ],
        },
        Knob {
            about: "The invalidator is away for half of the time:",
            settings: vec![
                away(Writers::Leave, "it alone deletes"),
                away(Writers::Delete, "writers delete too"),
            ],
        },
        Knob {
            about: "`spool`, when the router of another cluster is away for half of the time, and a queue has room for 5 keys:",
            settings: vec![
                spool(QUEUE, "no spool"),
                spool("batch-keys = 5\nqueue-batches = 1\nspool = \"SPOOL\"", "spool-after-ms = 1000"),
                spool(
                    "batch-keys = 5\nqueue-batches = 1\nspool = \"SPOOL\"\nspool-after-ms = 100",
                    "spool-after-ms = 100",
                ),
            ],
        },
    ])
}

fn router() -> Vec<Knob> {
    let frozen = |name: &str, router: &[&'static str]| Setting {
        router: router.to_vec(),
        writers: Writers::Delete,
        event: node_frozen,
        ..Setting::named(name)
    };
    const OUT: &str = "--server-timeout=100";
    let gutter = |route, name| Setting {
        route,
        nodes: 2,
        router: vec![OUT, "--probe-timeout-initial-ms=200"],
        event: node_away,
        ..Setting::named(name)
    };
    Vec::from([
        Knob {
            about: "Deletes that the router logs: its node stands still for a quarter of the time, `--server-timeout` is 100 ms:",
            settings: vec![
                frozen(
                    "probed after 200 ms, 10,000 deletes a second",
                    &[OUT, "--probe-timeout-initial-ms=200"],
                ),
                frozen(
                    "probed after 1000 ms, 10,000 deletes a second",
                    &[OUT, "--probe-timeout-initial-ms=1000"],
                ),
                frozen(
                    "probed after 200 ms, 10 deletes a second",
                    &[OUT, "--probe-timeout-initial-ms=200", "--asynclog-replay-rate=10"],
                ),
                frozen(
                    "probed after 200 ms, never out (--timeouts-until-tko 1000)",
                    &[OUT, "--probe-timeout-initial-ms=200", "--timeouts-until-tko=1000"],
                ),
                frozen(
                    "probed after 200 ms, no log (--asynclog-disable)",
                    &[OUT, "--probe-timeout-initial-ms=200", "--asynclog-disable"],
                ),
            ],
        },
        Knob {
            about: "`failover_exptime` of a gutter: the node is away for half of the time, and writers leave deletes to the invalidator:",
            settings: vec![
                gutter(
                    r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|n0", "failover": ["PoolRoute|n1"], "failover_exptime": 1}"#,
                    "1 s",
                ),
                gutter(
                    r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|n0", "failover": ["PoolRoute|n1"], "failover_exptime": 10}"#,
                    "10 s",
                ),
                gutter(r#""PoolRoute|n0""#, "no gutter"),
            ],
        },
    ])
}

fn nodes() -> Vec<Knob> {
    let stale = |name: &str, node: &[&'static str], client| Setting {
        node: node.to_vec(),
        client,
        writers: Writers::Delete,
        rows: 2,
        between_ms: 100,
        query_ms: 50,
        ..Setting::named(name)
    };
    let interval = |name: &str, node| Setting {
        node: vec![node],
        client: |client| client.wait(Duration::from_secs(5)),
        rows: 2,
        between_ms: 500,
        query_ms: 300,
        ..Setting::named(name)
    };
    Vec::from([
        Knob {
            about: "Stale values, when a query takes 50 ms, and one of two rows is written every 100 to 200 ms by writers who delete:",
            settings: vec![
                stale("none", &[], |client| client),
                stale("--stale-values 2, and clients refuse them", &["--stale-values", "2"], |client| client),
                stale("--stale-values 2, used", &["--stale-values", "2"], |client| {
                    client.stale_values(StaleValues::Use)
                }),
                stale("--stale-values 10, used", &["--stale-values", "10"], |client| {
                    client.stale_values(StaleValues::Use)
                }),
            ],
        },
        Knob {
            about: "`--lease-interval`, when a query takes 300 ms, clients wait for 5 s, and one of two rows is written every 500 to 1000 ms:",
            settings: vec![
                interval("100 ms", "--lease-interval=100"),
                interval("1000 ms", "--lease-interval=1000"),
                interval("10,000 ms", "--lease-interval=10000"),
            ],
        },
    ])
}

fn clients() -> Vec<Knob> {
    let wait = |name: &str, client| Setting {
        client,
        writers: Writers::Delete,
        rows: 2,
        between_ms: 250,
        query_ms: 100,
        ..Setting::named(name)
    };
    Vec::from([Knob {
        about: "`wait` of clients, when a query takes 100 ms, and one of two rows is written every 250 to 500 ms by writers who delete:",
        settings: vec![
            wait("0", |client| client.wait(Duration::ZERO)),
            wait("50 ms", |client| client.wait(Duration::from_millis(50))),
            wait("250 ms", |client| client.wait(Duration::from_millis(250))),
        ],
    }])
}

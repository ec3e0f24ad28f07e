use super::{Binaries, Delayed, Forwarded, Round, Routed, Router, is_there, loads, named, table};
use crate::bench::idle::{Case, Idle};
use crate::server::Wire;

#[test]
fn routers_are_named_or_given_by_path() {
    let binaries = Binaries {
        guira: "/guira".into(),
        floor: "/floor".into(),
        nutcracker: "/nutcracker".into(),
        proxy: "/memcached".into(),
    };
    let named = |text| named(text, &binaries);
    let guira = Router::Guira { label: "guira".to_owned(), binary: "/guira".into() };
    assert_eq!(named("guira"), Ok(guira));
    assert_eq!(named("relay"), Ok(Router::Relay { binary: "/floor".into() }));
    assert_eq!(named("nutcracker"), Ok(Router::Nutcracker { binary: "/nutcracker".into() }));
    let proxy = Router::MemcachedProxy { binary: "/memcached".into() };
    assert_eq!(named("memcached-proxy"), Ok(proxy));
    let before = Router::Guira { label: "before".to_owned(), binary: "/old/guira".into() };
    assert_eq!(named("before=/old/guira"), Ok(before));
    for wrong in ["mcrouter", "guira=/x", "=/x"] {
        let error = named(wrong).unwrap_err();
        assert!(error.contains("memcached-proxy, relay"), "{error}");
    }
}

#[test]
fn a_router_that_is_not_installed_is_left_out_with_a_line() {
    let mut lines = Vec::new();
    let mut log = |line: &str| lines.push(line.to_owned());
    assert!(!is_there(&Router::Nutcracker { binary: "/nowhere/nutcracker".into() }, &mut log));
    assert!(is_there(&Router::Guira { label: "sh".to_owned(), binary: "/bin/echo".into() }, &mut log));
    // A program whose help does not mention a proxy.
    assert!(!is_there(&Router::MemcachedProxy { binary: "/bin/echo".into() }, &mut log));
    let expected =
        ["nutcracker", "memcached-proxy"].map(|name| format!("routers: skipped {name}: not installed"));
    assert_eq!(lines, expected);
}

#[test]
fn loads_differ_in_connections_and_requests_in_flight() {
    let all = loads();
    let shape = |at: usize| (all[at].name, all[at].connections, all[at].pipeline, all[at].data.keys);
    assert_eq!(shape(0), ("router-get1", 50, 1, 10_000));
    assert_eq!(shape(1), ("router-get32", 16, 32, 10_000));
    assert_eq!(shape(2), ("router-mget100", 16, 1, 10_000));
}

#[test]
fn routers_have_their_tables() {
    let round = |keys_per_cpu_s, behind_us| Round {
        keys_per_cpu_s,
        keys_per_s: 0.5e6,
        behind_us,
        p50_us: 10.0,
        p99_us: 20.0,
        misses: 1,
    };
    let forwarded =
        |router: &str, rounds| Forwarded { load: "router-get1", router: router.to_owned(), rounds };
    let loads = vec![
        forwarded("guira", vec![round(2e6, 1.5), round(3e6, 1.5), round(4e6, 1.5)]),
        forwarded("floor", vec![round(6e6, 0.0)]),
    ];
    let delayed = |router: &str, rounds: &[[f64; 2]]| Delayed {
        router: router.to_owned(),
        rate_per_s: 9.0,
        rounds: rounds.to_vec(),
    };
    // The added latency is relative to the same round, not to the median round.
    let latency = vec![
        delayed("directly", &[[10.0, 20.0], [30.0, 40.0], [20.0, 30.0]]),
        delayed("guira", &[[15.0, 40.0], [31.0, 50.0], [40.0, 30.0]]),
    ];
    let case = Case { name: "router-idle", connections: 10, wire: Wire::Tcp };
    let idle = vec![Idle::new(case, "relay", 1 << 20, 3 << 19)];
    let text = table(&Routed { loads, latency, idle });
    for row in [
        "| router-get1 | guira | 3.00 ±33.3 % | 1.00 | 0.500 | 1.50 | 10 | 20 | 3 |",
        "| router-get1 | floor | 6.00 ±0.0 % | 2.00 | 0.500 | – | 10 | 20 | 1 |",
        "| directly | 9 | 20 | 30 | – | – |",
        "| guira | 9 | 31 | 40 | +5 | +10 |",
        "| router-idle | relay | 10 | 1.0 | 1.5 | 52429 |",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    assert_eq!(table(&Routed::default()), "");
}

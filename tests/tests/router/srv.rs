//! Pools whose servers come from an SRV record.

use crate::reload::AT_ONCE;
use crate::{Router, output};
use guira_harness::server::Signal;
use guira_tests::Client;
use guira_tests::dns::Dns;
use guira_tests::scratch::Scratch;
use guira_tests::server::{wait_for, wait_for_log};
use std::path::Path;

const RECORD: &str = "_memcached._tcp.cache.test";
const CONFIG: &str =
    r#"{"pools": {"A": {"servers": "srv:_memcached._tcp.cache.test"}}, "route": "PoolRoute|A"}"#;

fn targets(ordinals: &[u16]) -> Vec<(String, u16)> {
    ordinals.iter().map(|ordinal| (format!("cache-{ordinal}.cache.test"), 11211)).collect()
}

fn start(dns: &Dns, hold_down_ms: u32, options: &[&str]) -> Router {
    let hold_down = format!("--srv-hold-down-ms={hold_down_ms}");
    Router::start(&[&["--config-str", CONFIG, &dns.option(), &hold_down], options].concat())
}

/// The ordinals of the servers, in their order.
fn ordinals(client: &mut Client) -> String {
    let all = client.stats("servers");
    let mut found: Vec<&str> =
        all.keys().filter_map(|name| name.strip_prefix("cache-")?.split('.').next()).collect();
    found.sort_unstable();
    found.join(" ")
}

#[track_caller]
fn wait_for_ordinals(client: &mut Client, expected: &str) {
    wait_for(expected, || (ordinals(client) == expected).then_some(()));
}

fn routes(client: &mut Client) -> Vec<String> {
    let route = |number: u32| {
        let value = client.value(&format!("__mcrouter__.route(get,key{number})"));
        String::from_utf8(value.expect("a route").data).expect("an address")
    };
    (0..100).map(route).collect()
}

fn counter(client: &mut Client, name: &str) -> u64 {
    client.stats("")[name].parse().expect("a number")
}

#[test]
fn ordinals_are_slots_whatever_the_order_of_the_record_and_the_addresses() {
    let dns = Dns::start();
    dns.service(RECORD, &targets(&[2, 0, 1]));
    let router = start(&dns, 600_000, &[]);
    let mut client = router.connect();
    assert_eq!(ordinals(&mut client), "0 1 2");
    let before = routes(&mut client);
    let all = r#"["cache-0.cache.test:11211", "cache-1.cache.test:11211", "cache-2.cache.test:11211"]"#;
    let written = CONFIG.replace(r#""srv:_memcached._tcp.cache.test""#, all);
    let fixed = Router::start(&["--config-str", &written, &dns.option()]);
    assert_eq!(routes(&mut fixed.connect()), before, "as if they were written so");
    // One in the middle leaves, and the one at the end: both are kept.
    dns.service(RECORD, &targets(&[0]));
    wait_for("two that are held", || (counter(&mut client, "srv_held_servers") == 2).then_some(()));
    assert_eq!((ordinals(&mut client), routes(&mut client)), ("0 1 2".to_owned(), before.clone()));
    // Another one comes.
    dns.service(RECORD, &targets(&[0, 1, 2, 3]));
    wait_for_ordinals(&mut client, "0 1 2 3");
    assert_eq!(counter(&mut client, "srv_held_servers"), 0);
    let after = routes(&mut client);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    assert!(moved.clone().all(|(_, after)| after.starts_with("cache-3.")));
    assert!((1..60).contains(&moved.count()));
}

#[test]
fn who_leaves_at_the_end_goes_after_the_hold_down_one_by_one_and_who_leaves_in_the_middle_stays() {
    let dns = Dns::start();
    dns.service(RECORD, &targets(&[0, 1, 2, 3, 4]));
    let router = start(&dns, 200, &[]);
    let mut client = router.connect();
    assert_eq!(ordinals(&mut client), "0 1 2 3 4");
    dns.service(RECORD, &targets(&[0, 2]));
    // Both of the end have gone; 1 is still there.
    wait_for_ordinals(&mut client, "0 1 2");
    assert_eq!(counter(&mut client, "srv_held_servers"), 1);
    let lookups = counter(&mut client, "dns_lookups");
    wait_for("more lookups", || (counter(&mut client, "dns_lookups") > lookups + 8).then_some(()));
    assert_eq!(ordinals(&mut client), "0 1 2");
}

#[test]
fn an_empty_record_or_none_keeps_the_last_servers() {
    let dns = Dns::start();
    dns.service(RECORD, &targets(&[0, 1]));
    let router = start(&dns, 1, &[]);
    let mut client = router.connect();
    let breaks: [&dyn Fn(); 4] = [
        &|| dns.service::<&str>(RECORD, &[]),
        // There is no such service.
        &|| dns.service(RECORD, &[("", 0)]),
        &|| dns.remove(RECORD),
        &|| dns.fail(),
    ];
    for broken in breaks {
        let failures = counter(&mut client, "dns_failures");
        broken();
        // Hosts fail too: they have no addresses.
        wait_for("failures", || (counter(&mut client, "dns_stale_names") > 0).then_some(()));
        assert!(counter(&mut client, "dns_failures") > failures);
        assert_eq!(ordinals(&mut client), "0 1");
        dns.recover();
        dns.service(RECORD, &targets(&[0, 1]));
        wait_for("a success", || (counter(&mut client, "dns_stale_names") == 0).then_some(()));
    }
    wait_for_log(|| router.log(), "cannot update the pool's servers; keeping the last known ones");
}

#[test]
fn a_router_starts_with_the_list_that_was_kept_when_dns_is_down() {
    let (dns, scratch) = (Dns::start(), Scratch::new());
    let path = scratch.write("config.json", CONFIG);
    let kept = format!("--config-dump-root={}", scratch.file("kept").display());
    let start = |path: &Path, hold_down: &str| {
        let path = path.to_str().expect("a path");
        Router::start(&[&["-f", path, &kept, &dns.option(), hold_down], &AT_ONCE[..]].concat())
    };
    // Without a list there is no configuration.
    let refused = output(&["-f", path.to_str().expect("a path"), "-p", "0", &dns.option()]);
    let message = String::from_utf8_lossy(&refused.stderr);
    let expected = format!("config.json:1: pool \"A\": SRV record {RECORD}: ");
    assert!(!refused.status.success() && message.contains(&expected), "{message}");
    dns.service(RECORD, &targets(&[0, 1, 2]));
    let before = routes(&mut start(&path, "--srv-hold-down-ms=600000").connect());
    dns.fail();
    let router = start(&path, "--srv-hold-down-ms=600000");
    let mut client = router.connect();
    assert_eq!((ordinals(&mut client), routes(&mut client)), ("0 1 2".to_owned(), before.clone()));
    drop(client);
    drop(router);
    // DNS is back without one of them: the hold-down goes on, whoever was restarted meanwhile.
    dns.recover();
    dns.service(RECORD, &targets(&[0, 1]));
    let router = start(&path, "--srv-hold-down-ms=600000");
    let mut client = router.connect();
    assert_eq!((ordinals(&mut client), routes(&mut client)), ("0 1 2".to_owned(), before));
    // What is read again by a signal is the same.
    router.signal(Signal::HUP);
    wait_for_log(|| router.log(), "the configuration file is unchanged");
}

#[test]
fn wrong_records_are_refused_with_line_and_member() {
    let dns = Dns::start();
    let pool =
        |members: &str| format!("{{\"pools\": {{\"A\":\n{{{members}}}}}, \"route\": \"PoolRoute|A\"}}");
    for (members, expected) in [
        (
            r#""servers": "srv:""#,
            "config-str:2: pool \"A\": 'servers' is \"srv:\": the name of an SRV record is missing",
        ),
        (r#""servers": "srv:a b""#, "config-str:2: pool \"A\": 'servers' is \"srv:a b\": a name has letters"),
        (r#""servers": "cache.test:11211""#, "config-str:2: pool \"A\": 'servers' is a string, an array, or"),
        (r#""servers": "srv:gone.test""#, "config-str:2: pool \"A\": SRV record gone.test: "),
    ] {
        let refused = output(&["--config-str", &pool(members), "--validate-config", &dns.option()]);
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && message.contains(expected), "{members}: {message}");
    }
}

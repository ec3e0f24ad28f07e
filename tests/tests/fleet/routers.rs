//! What routers do with pools of etcd.

use crate::Region;
use crate::region::{POOL, fill, kept, misses, put, routes};
use guira_tests::server::{guira, wait_for, wait_for_log};

#[test]
fn a_pool_that_is_gone_or_broken_changes_nothing() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(2);
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let (good, before) = (kept(&region), routes(&mut client));
    let faults = |client: &mut guira_tests::Client| {
        client.stats("")["etcd_pool_faults"].parse::<u64>().expect("a number")
    };
    for broken in ["nonsense", r#"{"slots": []}"#, r#"{"slots": [{"server": "a:1"}, {"server": "a:1"}]}"#, ""]
    {
        let so_far = faults(&mut client);
        if broken.is_empty() {
            region.etcd.control(&["del", "/guira/pools/cache"]);
        } else {
            put(&region, broken);
        }
        wait_for("a fault", || (faults(&mut client) > so_far).then_some(()));
        assert_eq!((routes(&mut client), misses(&mut client)), (before.clone(), vec![]), "{broken}");
    }
    put(&region, &good.replace(r#""slots":[{"#, r#""slots":[{"server":"127.0.0.1:1"},{"#));
    wait_for("the next good one", || (routes(&mut client) != before).then_some(()));
}

#[test]
fn what_is_wrong_with_a_pool_is_told_once_however_often_etcd_is_asked() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(1);
    let router = region.router(&[]);
    let mut client = router.connect();
    let good = kept(&region);
    let faults = |client: &mut guira_tests::Client| {
        client.stats("")["etcd_pool_faults"].parse::<u64>().expect("a number")
    };
    let told = |what: &str, times: usize| {
        let count = || router.process.errors().matches(what).count();
        wait_for(what, || (count() >= times).then_some(()));
        assert_eq!(count(), times, "{what}: {}", router.process.errors());
    };
    let mut look_on = |broken: Option<&str>| {
        match broken {
            Some(text) => put(&region, text),
            None => drop(region.etcd.control(&["del", "/guira/pools/cache"])),
        }
        let so_far = faults(&mut client);
        wait_for("faults", || (faults(&mut client) > so_far + 2).then_some(()));
    };
    look_on(Some("nonsense"));
    told("keeping the last valid pool", 1);
    look_on(None);
    told("was removed from etcd", 1);
    // Another fault, and one that comes again, are told.
    look_on(Some(r#"{"slots": []}"#));
    told("keeping the last valid pool", 2);
    put(&region, &good);
    look_on(Some(r#"{"slots": []}"#));
    told("was removed from etcd", 1);
}

#[test]
fn a_pool_is_followed_while_the_configuration_in_the_file_is_wrong() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(2);
    let file = region.scratch.file("router.json");
    std::fs::write(&file, format!(r#"{{"route": "PoolRoute|etcd:{POOL}"}}"#)).expect("a file");
    let router = region.router_of_file(&file, &["--reconfiguration-delay-ms=0"]);
    let mut client = router.connect();
    let error = |client: &mut guira_tests::Client| {
        let name = "__mcrouter__.config_error";
        client.value(name).map(|error| String::from_utf8_lossy(&error.data).into_owned()).unwrap_or_default()
    };
    std::fs::write(&file, "{").expect("a file");
    wait_for("a refusal", || error(&mut client).contains("router.json").then_some(()));
    let before = routes(&mut client);
    put(&region, &format!(r#"{{"slots": [{{"server": "{}"}}]}}"#, region.nodes[1].name()));
    wait_for("the other server", || (routes(&mut client) != before).then_some(()));
    assert!(error(&mut client).contains("router.json"), "it is still told that the file is wrong");
}

#[test]
fn a_server_that_no_address_can_be_is_refused_and_nobody_is_flushed_for_it() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(1);
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    put(&region, r#"{"slots": [{"server": "nonsense:port"}]}"#);
    wait_for_log(|| router.process.errors(), "'nonsense:port' is not a server");
    wait_for("a refusal by the member", || region.said("'nonsense:port' is not a server").then_some(()));
    assert_eq!(misses(&mut client), [""; 0]);
}

#[test]
fn slots_have_weights_and_empty_ones_are_as_servers_that_are_down() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(1);
    let name = region.nodes[0].name();
    let router = region.router(&[]);
    let mut client = router.connect();
    let replies: Vec<String> =
        (0..50).map(|number| client.ask(format!("set key{number} 0 0 1\r\nx\r\n"))).collect();
    let failed = "SERVER_ERROR Server unavailable";
    assert!(replies.iter().any(|reply| reply == "STORED"), "{replies:?}");
    assert!(replies.iter().any(|reply| reply.starts_with(failed)), "{replies:?}");
    // With no weight at all, a slot has no keys: only what a hash by weight knows.
    let config = format!(
        r#"{{"pools": {{"{POOL}": {{"inherit": "etcd:{POOL}"}}}}, "route": {{"type": "PoolRoute", "pool": "{POOL}", "hash": {{"hash_func": "WeightedCh3"}}}}}}"#
    );
    put(
        &region,
        &format!(
            r#"{{"slots": [{{"server": "{name}", "weight": 1}}, {{"server": "127.0.0.1:1", "weight": 0}}]}}"#
        ),
    );
    let weighted = region.router_of(&config, &[]);
    let mut client = weighted.connect();
    assert!(routes(&mut client).iter().all(|at| *at == name));
}

#[test]
fn a_router_that_starts_with_a_broken_file_uses_the_file_it_has_kept_with_the_pool_as_it_is_now() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let (root, file) = (region.scratch.file("kept"), region.scratch.file("router.json"));
    let keep = format!("--config-dump-root={}", root.display());
    std::fs::write(&file, format!(r#"{{"route": "PoolRoute|etcd:{POOL}"}}"#)).expect("a file");
    let mut first = region.router_of_file(&file, &[&keep]);
    assert!(routes(&mut first.connect()).iter().all(|at| *at == names[0]));
    first.process.kill();
    std::fs::write(&file, "{").expect("a file");
    put(&region, &format!(r#"{{"slots": [{{"server": "{}"}}]}}"#, names[1]));
    let second = region.router_of_file(&file, &[&keep]);
    assert!(routes(&mut second.connect()).iter().all(|at| *at == names[1]), "{}", second.process.errors());
}

#[test]
fn a_router_that_starts_while_etcd_is_down_uses_the_pool_it_has_kept() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(2);
    let root = region.scratch.file("kept");
    let keep = format!("--config-dump-root={}", root.display());
    let mut first = region.router(&[&keep]);
    fill(&mut first.connect());
    let before = routes(&mut first.connect());
    first.process.kill();
    region.etcd.kill();
    let second = region.router(&[&keep]);
    let mut client = second.connect();
    assert_eq!((routes(&mut client), misses(&mut client)), (before, vec![]));
    // Without what was kept there is nothing to start with, and it says why.
    let config = r#"{"route": "PoolRoute|etcd:cache"}"#;
    let mut refused =
        guira(["router", "--listen", "127.0.0.1:0", "--etcd", &region.etcd.url(), "--config-str", config]);
    let refused = refused.output().expect("guira can be run");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("no endpoint of etcd answers"), "{said}");
}

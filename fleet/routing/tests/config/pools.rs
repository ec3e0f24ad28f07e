//! Pools: their members, warnings and errors.

use std::sync::Arc;
use std::time::Duration;

use guira_routing::config::{
    Address, ConfigError, FailureDomain, Json, Leases, Pool, Pools, PoolsRead, Qos, Security, Server, Target,
    TkoThresholds,
};

use crate::{Files, read};

/// The pool that `asked` names in a configuration with these pools, and the warnings.
fn pool_of(files: &Files, pools: &str, wanted: &str) -> Result<(Arc<Pool>, PoolsRead), ConfigError> {
    let config = read(&format!("{{\"pools\": {pools},\n\"asked\": {wanted}}}"))?.json;
    let mut pools = Pools::new(&config, files)?;
    let pool = pools.pool(config.get("asked").unwrap())?;
    Ok((pool, pools.finish()))
}

fn only_pool(definition: &str) -> Result<(Arc<Pool>, Vec<String>), ConfigError> {
    let (pool, read) = pool_of(&Files::default(), &format!("{{\"A\":\n{definition}}}"), "\"A\"")?;
    Ok((pool, shown(&read.warnings)))
}

fn shown(warnings: &[ConfigError]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

fn address(server: &Server) -> String {
    match &server.target {
        Target::Server { address, .. } => address.to_string(),
        Target::Route(json) => json.to_string(),
    }
}

fn security(server: &Server) -> Security {
    match &server.target {
        Target::Server { security, .. } => *security,
        Target::Route(json) => panic!("{json} is a route"),
    }
}

#[test]
fn every_option_is_read() {
    let (pool, warnings) = only_pool(
        r#"{"name": "A", "servers": ["a:1", "b:2:ascii:ssl", {"type": "NullRoute"}, "unix:/s"], "protocol": "ascii",
            "server_timeout": 250, "connect_timeout": 1000000, "region": "r", "cluster": "c", "keep_routing_prefix": true,
            "qos": {"class": 4, "path": 3}, "tko_tracker": {"num_tko_threshold_upper": 3, "num_tko_threshold_lower": 2},
            "error_on_empty": false, "disable_request_deadline_check": false, "max_outstanding": 7, "leases": "meta", "tags": ["w", "x", "y", "z"],
            "weights": [1, 0.25, 0, 1.0], "hostnames": ["ha", "hb", "hc", "hd"], "failure_domains": [1, "rack", null, -1],
            "names": ["na", "nb", "nc", "nd"], "slots": [0, 5, 2, 8388607], "enable_compression": false, "use_ssl": false}"#,
    )
    .unwrap();
    assert_eq!(
        pool.servers.iter().map(address).collect::<Vec<_>>(),
        ["a:1", "b:2", r#"{"type":"NullRoute"}"#, "unix:/s"]
    );
    assert_eq!(security(&pool.servers[0]), Security::Plain);
    assert_eq!(security(&pool.servers[1]), Security::Tls);
    assert_eq!(
        (pool.server_timeout, pool.connect_timeout),
        (Some(Duration::from_millis(250)), Some(Duration::from_secs(1000)))
    );
    assert_eq!((pool.region.as_deref(), pool.cluster.as_deref()), (Some("r"), Some("c")));
    assert!(pool.keep_routing_prefix && !pool.error_on_empty);
    assert_eq!(pool.qos, Qos { class: Some(4), path: Some(3) });
    assert_eq!(pool.tko_thresholds, Some(TkoThresholds { upper: 3, lower: 2 }));
    assert_eq!((pool.disable_request_deadline_check, pool.max_outstanding), (Some(false), Some(7)));
    assert_eq!(pool.leases, Leases::Meta);
    assert_eq!(pool.tags.as_ref().unwrap().join(""), "wxyz");
    let column = |of: fn(&Server) -> String| pool.servers.iter().map(of).collect::<Vec<_>>().join(" ");
    assert_eq!(column(|server| format!("{:?}", server.weight.unwrap())), "1.0 0.25 0.0 1.0");
    assert_eq!(column(|server| server.hostname.as_deref().unwrap().into()), "ha hb hc hd");
    assert_eq!(column(|server| server.name.as_deref().unwrap().into()), "na nb nc nd");
    assert_eq!(column(|server| server.slot.unwrap().to_string()), "0 5 2 8388607");
    let domains: Vec<_> = pool.servers.iter().map(|server| server.failure_domain.clone()).collect();
    let (number, name) = (FailureDomain::Number, FailureDomain::Name("rack".into()));
    assert_eq!(domains, [Some(number(1)), Some(name), None, Some(number(-1))]);
    assert_eq!(
        warnings,
        [
            "main:4: 'tko_tracker' has no effect: a server is marked as failed no matter how many of its pool have failed",
            "main:6: a failure domain is null: the server has none",
        ]
    );
    assert_eq!((&*pool.name, pool.place.line), ("A", 2));
}

#[test]
fn what_is_not_given_is_up_to_the_router() {
    let (pool, warnings) = only_pool(r#"{"servers": []}"#).unwrap();
    assert!(pool.servers.is_empty() && warnings.is_empty());
    assert!(
        pool.server_timeout.is_none()
            && pool.connect_timeout.is_none()
            && pool.region.is_none()
            && pool.cluster.is_none()
    );
    assert!(
        !pool.keep_routing_prefix && pool.error_on_empty && pool.disable_request_deadline_check.is_none()
    );
    assert!(pool.qos == Qos::default() && pool.tko_thresholds.is_none() && pool.tags.is_none());
    assert_eq!(pool.leases, Leases::Native);
    // 0 is no limit, as in mcrouter.
    assert!(
        pool.max_outstanding.is_none()
            && only_pool(r#"{"servers": [], "max_outstanding": 0}"#).unwrap().0.max_outstanding.is_none()
    );
    let (pool, _) = only_pool(r#"{"servers": ["a:1"]}"#).unwrap();
    let server = &pool.servers[0];
    assert!(
        server.weight.is_none()
            && server.failure_domain.is_none()
            && server.name.is_none()
            && server.slot.is_none()
    );
}

#[test]
fn security_and_ports_of_a_pool_are_those_of_its_servers() {
    let securities = |options: &str| {
        let servers = r#"["a:1", "b:2:ascii:plain", "c:3:ascii:ssl", "unix:/s"]"#;
        let (pool, _) = only_pool(&format!(r#"{{"servers": {servers}, {options}}}"#)).unwrap();
        pool.servers
            .iter()
            .map(|server| if security(server) == Security::Tls { 't' } else { 'p' })
            .collect::<String>()
    };
    assert_eq!(securities(r#""use_ssl": true"#), "tptp");
    assert_eq!(securities(r#""use_ssl": true, "security_mech": "plain""#), "pptp");
    assert_eq!(securities(r#""security_mech": "ssl""#), "tptp");
    assert_eq!(securities(r#""security_mech_cross_dc": "ssl""#), "tttp");
    assert_eq!(securities(r#""security_mech": "ssl", "security_mech_cross_dc": "plain""#), "pppp");
    let ports = |options: &str| {
        let (pool, _) =
            only_pool(&format!(r#"{{"servers": ["a:1", "[::1]:2", "unix:/s"], {options}}}"#)).unwrap();
        pool.servers.iter().map(address).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ports(r#""port_override": 9"#), "a:9 [::1]:9 unix:/s");
    assert_eq!(ports(r#""port_override": 9, "port_override_cross_dc": 8"#), "a:8 [::1]:8 unix:/s");
}

#[test]
fn what_has_no_effect_warns() {
    let (_, warnings) = only_pool(
        r#"{"servers": ["a:1",
            "a:1:ascii:ssl"], "additional_fanout": 2, "services": {}, "service_id_override": "x",
            "security_mech_within_dc": "fizz", "port_override_within_dc": 1,
            "qos": {"class": 1, "level": 2}, "tko_tracker": {"num_tko_threshold_upper": 1, "num_tko_threshold_lower": 1, "x": 1},
            "Server_timeout": 5}"#,
    )
    .unwrap();
    assert_eq!(
        warnings,
        [
            "main:5: \"level\" is not known in 'qos' and has no effect",
            "main:5: 'tko_tracker' has no effect: a server is marked as failed no matter how many of its pool have failed",
            "main:5: \"x\" is not known in 'tko_tracker' and has no effect",
            "main:3: server a:1 is already in this pool, on line 2; it receives two shares of the keys",
            "main:3: 'additional_fanout' has no effect: each worker has one connection to a server",
            "main:3: 'services' has no effect: services of Meta's scheduler are not supported",
            "main:3: 'service_id_override' has no effect: service identities are not supported",
            "main:4: 'security_mech_within_dc' has no effect: this router does not know which servers are in its datacenter",
            "main:4: 'port_override_within_dc' has no effect: this router does not know which servers are in its datacenter",
            "main:6: \"Server_timeout\" is not known in 'pool' and has no effect",
        ]
    );
}

#[test]
fn protocols_of_mcrouter_are_replaced_with_a_warning() {
    for (pool, place, name) in [
        ("{\"servers\": [\"a:1\",\n\"b:1:caret\", \"c:1:thrift\"]}", 3, "caret"),
        ("{\"servers\": [\"a:1\", \"b:1:caret\"],\n\"protocol\": \"Thrift\"}", 3, "Thrift"),
    ] {
        let (pool, warnings) = only_pool(pool).unwrap();
        assert!(pool.servers.len() > 1);
        let warning = format!(
            "main:{place}: the protocol {name:?} is replaced by \"ascii\": a server that does not know the text protocol fails"
        );
        assert_eq!(warnings, [warning]);
    }
}

#[test]
fn weights_of_another_length_are_taken_as_mcrouter_takes_them() {
    for (weights, expected, warning) in [
        ("[0.25]", [0.25, 0.5], "main:2: 'weights' has 1 items, 'servers' 2: the others have the weight 0.5"),
        (
            "[1, 0, 1]",
            [1.0, 0.0],
            "main:2: 'weights' has 3 items, 'servers' 2: the last weights have no effect",
        ),
    ] {
        let (pool, warnings) =
            only_pool(&format!(r#"{{"servers": ["a:1", "b:1"], "weights": {weights}}}"#)).unwrap();
        assert_eq!(pool.servers.iter().map(|server| server.weight.unwrap()).collect::<Vec<_>>(), expected);
        assert_eq!(warnings, [warning]);
    }
}

#[test]
fn thresholds_may_be_percentages_of_the_servers() {
    let thresholds = |upper: u32, lower: u32| {
        let tracker =
            format!(r#"{{"percent_tko_threshold_upper": {upper}, "percent_tko_threshold_lower": {lower}}}"#);
        only_pool(&format!(r#"{{"servers": ["a:1", "b:1", "c:1", "d:1", "e:1"], "tko_tracker": {tracker}}}"#))
    };
    assert_eq!(thresholds(50, 20).unwrap().0.tko_thresholds, Some(TkoThresholds { upper: 2, lower: 1 }));
    assert_eq!(
        thresholds(50, 19).unwrap_err().reason,
        "pool \"A\": 'tko_tracker' has no lower threshold above 0"
    );
    assert_eq!(
        thresholds(20, 60).unwrap_err().reason,
        "pool \"A\": the lower threshold of 'tko_tracker' is 3, the upper one 1"
    );
}

/// Definitions of a pool, and the error.
const REFUSED: &[(&str, &str)] = &[
    ("{}", "main:2: pool \"A\": has no 'servers'"),
    (
        r#"{"servers": "a:1"}"#,
        "main:2: pool \"A\": 'servers' is a string, an array, or \"srv:NAME\" of an SRV record expected",
    ),
    (
        "{\"servers\": [\"a:1\",\n5]}",
        "main:3: pool \"A\": a server is an integer, a string or a route expected",
    ),
    (
        "{\"servers\": [\"a:1\",\n\"b\"]}",
        "main:3: pool \"A\": server \"b\" has the port \"\", 0 to 65535 expected",
    ),
    (
        "{\"servers\": [\"a:1:umbrella\"]}",
        "main:2: pool \"A\": server \"a:1:umbrella\" has the protocol \"umbrella\", which only servers inside Meta support: \"ascii\" expected",
    ),
    (
        "{\"servers\": [\"a:1:ascii:ktls12\"]}",
        "main:2: pool \"A\": server \"a:1:ascii:ktls12\" has the security \"ktls12\", which needs mcrouter's libraries: \"plain\" or \"ssl\" expected",
    ),
    (
        "{\"servers\": [],\n\"protocol\": \"xdp\"}",
        "main:3: pool \"A\": has the protocol \"xdp\", which only servers inside Meta support: \"ascii\" expected",
    ),
    (
        "{\"servers\": [],\n\"protocol\": 1}",
        "main:3: pool \"A\": 'protocol' is an integer, a string expected",
    ),
    (
        "{\"servers\": [],\n\"security_mech\": \"fizz\"}",
        "main:3: pool \"A\": 'security_mech' has the security \"fizz\", which needs mcrouter's libraries: \"plain\" or \"ssl\" expected",
    ),
    (
        "{\"servers\": [],\n\"enable_compression\": true}",
        "main:3: pool \"A\": has compression, which needs mcrouter's own protocol and dictionaries",
    ),
    (
        r#"{"servers": [], "server_timeout": 0}"#,
        "main:2: pool \"A\": 'server_timeout' is 0, 1 to 1000000 expected",
    ),
    (
        r#"{"servers": [], "server_timeout": "5"}"#,
        "main:2: pool \"A\": 'server_timeout' is a string, an integer expected",
    ),
    (
        r#"{"servers": [], "connect_timeout": 1000001}"#,
        "main:2: pool \"A\": 'connect_timeout' is 1000001, 1 to 1000000 expected",
    ),
    (r#"{"servers": [], "region": 1}"#, "main:2: pool \"A\": 'region' is an integer, a string expected"),
    (
        r#"{"servers": [], "keep_routing_prefix": 1}"#,
        "main:2: pool \"A\": 'keep_routing_prefix' is an integer, true or false expected",
    ),
    (r#"{"servers": [], "qos": 1}"#, "main:2: pool \"A\": 'qos' is an integer, an object expected"),
    (r#"{"servers": [], "qos": {"class": 5}}"#, "main:2: pool \"A\": 'class' is 5, 0 to 4 expected"),
    (r#"{"servers": [], "qos": {"path": 4}}"#, "main:2: pool \"A\": 'path' is 4, 0 to 3 expected"),
    (
        r#"{"servers": [], "port_override": 65536}"#,
        "main:2: pool \"A\": 'port_override' is 65536, 1 to 65535 expected",
    ),
    (
        r#"{"servers": [], "tko_tracker": {"num_tko_threshold_upper": 1}}"#,
        "main:2: pool \"A\": 'tko_tracker' has no lower threshold above 0",
    ),
    (r#"{"servers": ["a:1"], "hostnames": []}"#, "main:2: pool \"A\": 'hostnames' has 0 items, 'servers' 1"),
    (
        r#"{"servers": ["a:1"], "failure_domains": [1, 2]}"#,
        "main:2: pool \"A\": 'failure_domains' has 2 items, 'servers' 1",
    ),
    (r#"{"servers": ["a:1"], "tags": [1]}"#, "main:2: pool \"A\": 'tags' is an integer, a string expected"),
    (
        r#"{"servers": ["a:1"], "weights": [1.5]}"#,
        "main:2: pool \"A\": 'weights' is 1.5, 0.0 to 1.0 expected",
    ),
    (
        r#"{"servers": ["a:1"], "weights": ["1"]}"#,
        "main:2: pool \"A\": 'weights' is a string, a number expected",
    ),
    (
        "{\"servers\": [\"a:1\", \"b:1\"], \"names\": [\"x\",\n\"x\"]}",
        "main:3: pool \"A\": two servers have the name \"x\"; the other is on line 2",
    ),
    (
        "{\"servers\": [\"a:1\", \"b:1\"], \"slots\": [3,\n3]}",
        "main:3: pool \"A\": two servers have the slot 3; the other is on line 2",
    ),
    (
        r#"{"servers": ["a:1"], "slots": [8388608]}"#,
        "main:2: pool \"A\": 'slots' is 8388608, 0 to 8388607 expected",
    ),
    (
        r#"{"servers": [], "leases": "none"}"#,
        "main:2: pool \"A\": 'leases' is \"none\", \"native\" or \"meta\" expected",
    ),
    (
        r#"{"servers": [], "max_outstanding": -1}"#,
        "main:2: pool \"A\": 'max_outstanding' is -1, 0 to 9223372036854775807 expected",
    ),
];

#[test]
fn what_is_wrong_is_refused_with_line_and_member() {
    for &(definition, error) in REFUSED {
        let found = only_pool(definition).map(|(pool, _)| format!("{pool:?}")).expect_err(definition);
        assert_eq!(found.to_string(), error, "{definition}");
    }
    let refused = |pools: &str| pool_of(&Files::default(), pools, "\"A\"").unwrap_err().to_string();
    assert_eq!(refused("[]"), "main:1: 'pools' is an array, an object expected");
    assert_eq!(refused("{\"A\": []}"), "main:1: 'A' is an array, an object expected");
    assert_eq!(refused("{}"), "main:2: no pool \"A\" and no file of this name: no such file");
}

#[test]
fn pools_inherit_from_pools_and_files() {
    let files = Files::default()
        .with("file:base", "// of the operators\n{\"servers\": [\"f:1\"], \"server_timeout\": 5, \"region\": \"r\", \"odd\": 1}")
        .with("file:middle", r#"{"inherit": "file:base", "server_timeout": 6}"#);
    let pools = r#"{"A": {"inherit": "B", "cluster": "a"}, "B": {"inherit": "file:middle", "cluster": "b", "connect_timeout": 9}}"#;
    let (pool, read) = pool_of(&files, pools, "\"A\"").unwrap();
    assert_eq!(pool.servers.iter().map(address).collect::<Vec<_>>(), ["f:1"]);
    assert_eq!(&*pool.servers[0].place.source, "file:base");
    assert_eq!(
        (pool.server_timeout, pool.connect_timeout),
        (Some(Duration::from_millis(6)), Some(Duration::from_millis(9)))
    );
    assert_eq!((pool.region.as_deref(), pool.cluster.as_deref()), (Some("r"), Some("a")));
    assert_eq!(read.imports.iter().map(|name| &**name).collect::<Vec<_>>(), ["file:middle", "file:base"]);
    assert_eq!(shown(&read.warnings), ["file:base:2: \"odd\" is not known in 'pool' and has no effect"]);
    // Of several heirs, one warning.
    let heirs = r#"{"A": {"inherit": "file:base"}, "B": {"inherit": "file:base"}}"#;
    assert_eq!(pool_of(&files, heirs, "\"A\"").unwrap().1.warnings.len(), 1);
    // A file alone is a pool.
    assert_eq!(&*pool_of(&files, "{}", "\"file:base\"").unwrap().0.name, "file:base");

    for (pools, error) in [
        (r#"{"A": {"inherit": "A"}}"#, "main:1: pool \"A\" inherits from itself"),
        (
            "{\"A\": {\"inherit\": \"B\"},\n\"B\": {\"inherit\": \"A\"}}",
            "main:2: pool \"A\" inherits from itself",
        ),
        (r#"{"A": {"inherit": 1}}"#, "main:1: 'inherit' is an integer, a string expected"),
        (
            "{\"A\": {\n\"inherit\": \"file:no\"}}",
            "main:2: no pool \"file:no\" and no file of this name: no such file",
        ),
    ] {
        assert_eq!(pool_of(&files, pools, "\"A\"").unwrap_err().to_string(), error);
    }
    let chain: String = (0..40).map(|at| format!("\"p{at}\": {{\"inherit\": \"p{}\"}},", at + 1)).collect();
    let error = pool_of(&files, &format!("{{{chain}}}"), "\"p0\"").unwrap_err();
    assert_eq!(error.reason, "more than 32 pools inherit from each other");
}

#[test]
fn routes_name_or_define_pools() {
    let files = Files::default();
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}},
        "list": ["A", {"name": "A"}, {"type": "Pool", "name": "A"},
            {"name": "A", "servers": ["b:1"]},
            {"name": "C", "servers": ["c:1"]}, "C"]}"#;
    let config = read(config).unwrap().json;
    let mut pools = Pools::new(&config, &files).unwrap();
    let wanted: Vec<Json> = config.get("list").unwrap().list("list").unwrap().to_vec();
    let found: Vec<String> =
        wanted.iter().map(|json| address(&pools.pool(json).unwrap().servers[0])).collect();
    assert_eq!(found, ["a:1", "a:1", "a:1", "a:1", "c:1", "c:1"]);
    let warnings = shown(&pools.finish().warnings);
    assert_eq!(warnings, ["main:3: pool \"A\" is defined at main:1 already; this definition has no effect"]);
    for (wanted, reason) in
        [("1", "'pool' is an integer, an object expected"), ("{}", "'pool' has no 'name'")]
    {
        assert_eq!(pool_of(&files, "{}", wanted).unwrap_err().reason, reason);
    }
}

/// mcrouter never reads them; a mistake in one of them should show all the same.
#[test]
fn pools_that_nobody_asked_for_only_warn() {
    let pools = r#"{"A": {"servers": ["a:1"]}, "B": {"servers": 1}, "C": {"servers": [], "x": 1}}"#;
    let (_, read) = pool_of(&Files::default(), pools, "\"A\"").unwrap();
    assert_eq!(
        shown(&read.warnings),
        [
            "main:1: pool \"B\": 'servers' is an integer, an array expected",
            "main:1: \"x\" is not known in 'pool' and has no effect"
        ]
    );
}

#[test]
fn addresses_are_equal_when_they_lead_to_the_same_place() {
    let (pool, warnings) = only_pool(r#"{"servers": ["a:1", "a:1:ascii:plain", "a:2", "unix:a"]}"#).unwrap();
    let Target::Server { address, .. } = &pool.servers[1].target else { panic!("a route") };
    assert_eq!(*address, Address::Tcp { host: "a".into(), port: 1 });
    assert_eq!(warnings.len(), 1);
}

#[test]
fn servers_come_from_an_srv_record() {
    let files = Files::default().with("srv:_m._tcp.cache", r#"["cache-0:1", "cache-1:2"]"#);
    let pools = r#"{"A": {"inherit": "B", "security_mech": "ssl"}, "B": {"servers": "srv:_m._tcp.cache"}}"#;
    let (pool, read) = pool_of(&files, pools, "\"A\"").unwrap();
    assert_eq!(pool.servers.iter().map(address).collect::<Vec<_>>(), ["cache-0:1", "cache-1:2"]);
    assert!(pool.servers.iter().all(|server| security(server) == Security::Tls));
    assert!(read.warnings.is_empty() && read.imports.is_empty(), "nothing is watched: {read:?}");
}

#[test]
fn wrong_srv_records_are_refused_where_they_stand() {
    let files = Files::default().with("srv:good", r#"["a:1"]"#).with("srv:odd", "[7]");
    let long = format!("srv:{}", "a".repeat(64));
    let cases = [
        ("srv:", "the name of an SRV record is missing"),
        ("srv:.", "the name of an SRV record is missing"),
        ("srv:cache:11211", "remove the port: the SRV record has the ports"),
        ("srv:a b", "a name has letters, digits, hyphens, underscores and dots"),
        ("srv:a..b", "a name has up to 253 bytes, and 1 to 63 between two dots"),
        (&long, "a name has up to 253 bytes, and 1 to 63 between two dots"),
    ];
    for (servers, reason) in cases {
        let pools = format!("{{\"A\":\n{{\"servers\":\n{servers:?}}}}}");
        let error = pool_of(&files, &pools, "\"A\"").unwrap_err().to_string();
        assert_eq!(error, format!("main:3: pool \"A\": 'servers' is {servers:?}: {reason}"));
    }
    for (members, error) in [
        (r#""servers": "srv:gone""#, "main:1: pool \"A\": no such file"),
        (
            r#""servers": "srv:odd""#,
            "srv:odd:1: pool \"A\": a server is an integer, a string or a route expected",
        ),
        (
            r#""servers": "srv:good", "weights": [1]"#,
            "main:1: pool \"A\": 'weights' has an item for each server, and which servers an SRV record has changes",
        ),
    ] {
        assert_eq!(
            pool_of(&files, &format!("{{\"A\": {{{members}}}}}"), "\"A\"").unwrap_err().to_string(),
            error
        );
    }
}

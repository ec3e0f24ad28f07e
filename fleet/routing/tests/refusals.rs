//! What cannot be hashed over is refused, and the error says why.

use guira_routing::hash::{HashKind, KeyHash, Selector, ServerIdentity};

fn refused(hash: &str, servers: &[ServerIdentity<'_>], expected: &str) {
    let error = Selector::new(HashKind::from_name(hash).unwrap(), servers, "").unwrap_err();
    assert_eq!(error.to_string(), expected, "{hash}");
}

fn named(name: &str) -> ServerIdentity<'_> {
    ServerIdentity::named(name)
}

#[test]
fn numbers_of_servers() {
    for hash in
        ["Ch3", "Crc32", "WeightedCh3", "ConstShard", "Rendezvous", "KetamaTwemproxy", "Modula", "Jump"]
    {
        refused(hash, &[], "no servers");
    }
    let many = vec![named("a"); (1 << 16) + 1];
    refused("KetamaTwemproxy", &many, "65537 servers are too many for this hash: at most 65536");
}

#[test]
fn weights() {
    for (hash, weight, expected) in [
        ("WeightedCh3", 1.5, "weight 1.5 of server a: must be from 0 to 1"),
        ("WeightedCh3", f64::NAN, "weight NaN of server a: must be from 0 to 1"),
        ("WeightedRendezvous", -1.0, "weight -1 of server a: must be a number from 0 on"),
        ("WeightedRendezvous", f64::INFINITY, "weight inf of server a: must be a number from 0 on"),
        ("Modula", 0.5, "weight 0.5 of server a: must be a whole number from 1 to 4294967295"),
        ("KetamaTwemproxy", 0.0, "weight 0 of server a: must be a whole number from 1 to 4294967295"),
        (
            "KetamaLibmemcached",
            2.0,
            "server a has weight 2, but KetamaLibmemcached has no weights: use KetamaLibmemcachedWeighted",
        ),
    ] {
        refused(hash, &[named("a").weighing(weight), named("b")], expected);
    }
    let heavy = f64::from(u32::MAX);
    let expected =
        "weight 4294967295 of server b: must be less: the sum of all weights is at most 4294967295";
    refused("Modula", &[named("a"), named("b").weighing(heavy)], expected);
}

#[test]
fn names() {
    let expected = "two servers are named a: by this hash, one of them would get no keys";
    for hash in ["Rendezvous", "WeightedRendezvous", "KetamaLibmemcached", "KetamaTwemproxy"] {
        refused(hash, &[named("a"), named("b"), named("a")], expected);
    }
    let same_points = [ServerIdentity::at("a:11211"), ServerIdentity::at("b:11211"), ServerIdentity::at("a")];
    refused("KetamaTwemproxy", &same_points, expected);
}

#[test]
fn slots() {
    let missing = "server b has no slot but others have: set a slot for all or none";
    refused("Ch3", &[named("a").in_slot(0), named("b")], missing);
    refused("Ch3", &[named("a").in_slot(1), named("b").in_slot(1)], "two servers have slot 1");
    let gap = "slot 2 of server b: 2 servers have the slots 0 to 1";
    refused("Rendezvous", &[named("a").in_slot(0), named("b").in_slot(2)], gap);
}

#[test]
fn salts() {
    let error = Selector::new(HashKind::Ch3, &[named("a")], &"s".repeat(257)).unwrap_err();
    assert_eq!(error.to_string(), "the salt has 257 bytes: at most 256");
}

#[test]
fn key_hashes() {
    let error = KeyHash::from_name("md4").unwrap_err().to_string();
    assert!(error.starts_with("unknown key hash md4; use one of one_at_a_time, md5, "), "{error}");
}

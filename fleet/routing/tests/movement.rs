//! What moves when servers come, go, and are replaced, and how evenly keys are spread.

use guira_routing::hash::{HashKind, MOST_CHOICES, Selector, ServerIdentity};

const ALL: [&str; 11] = [
    "Ch3",
    "Crc32",
    "WeightedCh3",
    "ConstShard",
    "Rendezvous",
    "WeightedRendezvous",
    "KetamaLibmemcached",
    "KetamaLibmemcachedWeighted",
    "KetamaTwemproxy",
    "Modula",
    "Jump",
];
const BY_NAME: [&str; 5] = [
    "Rendezvous",
    "WeightedRendezvous",
    "KetamaLibmemcached",
    "KetamaLibmemcachedWeighted",
    "KetamaTwemproxy",
];

fn names(servers: usize) -> Vec<String> {
    (0..servers).map(|number| format!("cache{number}.example")).collect()
}

fn identities(names: &[String]) -> Vec<ServerIdentity<'_>> {
    names.iter().map(|name| ServerIdentity::named(name).weighing(1.0)).collect()
}

fn selector(hash: &str, names: &[String]) -> Selector {
    Selector::new(HashKind::from_name(hash).unwrap(), &identities(names), "").unwrap()
}

fn keys(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| format!("user:{number}:profile").into_bytes())
}

fn share(hits: usize, all: usize) -> f64 {
    hits as f64 / all as f64
}

#[test]
fn a_server_that_leaves_moves_its_own_keys_only() {
    const KEYS: usize = 100_000;
    const SERVERS: usize = 20;
    for hash in BY_NAME {
        let before = names(SERVERS);
        let old = selector(hash, &before);
        for gone in [0, 7, SERVERS - 1] {
            let mut after = before.clone();
            after.remove(gone);
            let new = selector(hash, &after);
            let mut moved = 0;
            for key in keys(KEYS) {
                let (was, is) = (old.pick(&key), new.pick(&key));
                let moves = before[was] != after[is];
                assert_eq!(moves, was == gone, "{hash} without server {gone}: a key went from {was} to {is}");
                moved += usize::from(moves);
            }
            // Rendezvous hashing is even; how much of the ring a server has depends on its points.
            let most = if hash.contains("Rendezvous") { 1.1 } else { 1.35 };
            let moved = share(moved, KEYS) * SERVERS as f64;
            assert!(moved < most, "{hash} without server {gone}: {moved} of its fair share");
        }
    }
}

/// On a ring the share of one server is what its points happen to cover: with 100 to 160 points it may have a third more or less than 1/N of the
/// keys, and so much moves when just that one leaves. Over all servers that is 1/N, if no other key moves: then each key moves once in N removals.
#[test]
fn a_server_that_leaves_a_ring_moves_its_own_keys_only_and_on_average_no_more_than_its_share() {
    const KEYS: usize = 100_000;
    for (hash, sizes) in [
        ("KetamaLibmemcached", [10, 50, 100].as_slice()),
        ("KetamaLibmemcachedWeighted", &[10]),
        ("KetamaTwemproxy", &[10]),
    ] {
        for servers in sizes.iter().copied() {
            let before = names(servers);
            let old = selector(hash, &before);
            let owners: Vec<_> = keys(KEYS).map(|key| old.pick(&key)).collect();
            let (mut sum, mut most) = (0, 0);
            for gone in 0..servers {
                let mut after = before.clone();
                after.remove(gone);
                let new = selector(hash, &after);
                let mut moved = 0;
                for (key, was) in keys(KEYS).zip(&owners) {
                    let is = new.pick(&key);
                    let moves = before[*was] != after[is];
                    assert!(
                        !moves || *was == gone,
                        "{hash}, {servers} servers, without {gone}: a key went from {was} to {is}"
                    );
                    moved += usize::from(moves);
                }
                (sum, most) = (sum + moved, most.max(moved));
            }
            let of_fair_share = |moved: f64| moved / KEYS as f64 * servers as f64;
            let mean = of_fair_share(sum as f64 / servers as f64);
            println!(
                "{hash}, {servers} servers: {mean:.3} of 1/N move on average, {:.3} at most",
                of_fair_share(most as f64)
            );
            assert!(mean <= 1.1, "{hash}, {servers} servers: {mean} of 1/N move on average");
        }
    }
}

/// With weights, libmemcached and twemproxy compute the points of a server in f32: at some numbers of servers all have 156 of them, at others 160.
/// One server less may thus take points from all, or give some to all, whose keys move besides.
#[test]
fn rings_with_weights_move_the_keys_of_four_points_in_160_besides_at_some_sizes() {
    const KEYS: usize = 100_000;
    for hash in ["KetamaLibmemcachedWeighted", "KetamaTwemproxy"] {
        for servers in [50, 100] {
            let before = names(servers);
            let old = selector(hash, &before);
            for gone in [0, servers / 2] {
                let mut after = before.clone();
                after.remove(gone);
                let new = selector(hash, &after);
                let others = keys(KEYS).filter(|key| {
                    let was = old.pick(key);
                    was != gone && before[was] != after[new.pick(key)]
                });
                let others = share(others.count(), KEYS);
                println!("{hash}, {servers} servers, without {gone}: {others:.4} of the keys move besides");
                assert!(others < 0.04, "{hash}, {servers} servers, without {gone}: {others}");
            }
        }
    }
}

#[test]
fn a_server_appended_takes_its_share_and_no_other_key_moves() {
    const KEYS: usize = 100_000;
    for hash in ["Ch3", "WeightedCh3", "ConstShard", "Jump", "Rendezvous", "WeightedRendezvous"] {
        for servers in [1, 2, 7, 8, 31, 100] {
            let (old, new) = (selector(hash, &names(servers)), selector(hash, &names(servers + 1)));
            let mut moved = 0;
            for key in keys(KEYS) {
                let (was, is) = (old.pick(&key), new.pick(&key));
                assert!(
                    was == is || is == servers,
                    "{hash}, {servers} servers: a key went from {was} to {is}"
                );
                moved += usize::from(was != is);
            }
            let moved = share(moved, KEYS) * (servers + 1) as f64;
            assert!((0.85..1.15).contains(&moved), "{hash}, {servers} servers: {moved} of its fair share");
        }
    }
}

/// Bounds for the least and the most loaded of ten servers: a million keys deviate by 1 % at most where only chance decides; on a ring, points do.
#[test]
fn keys_are_spread_evenly() {
    const KEYS: usize = 1_000_000;
    const SERVERS: usize = 10;
    for hash in ALL {
        let selector = selector(hash, &names(SERVERS));
        let mut counts = [0; SERVERS];
        for key in keys(KEYS) {
            counts[selector.pick(&key)] += 1;
        }
        let deviation = |count: &usize| (share(*count, KEYS) * SERVERS as f64 - 1.0).abs();
        let worst = counts.iter().map(deviation).fold(0.0, f64::max);
        let most = if hash.starts_with("Ketama") { 0.25 } else { 0.02 };
        assert!(worst < most, "{hash}: {worst}, {counts:?}");
    }
}

#[test]
fn weights_are_shares() {
    const KEYS: usize = 200_000;
    let names = names(4);
    for (hash, weights) in [
        ("WeightedRendezvous", [0.2, 0.4, 0.6, 0.8]),
        ("WeightedCh3", [0.2, 0.4, 0.6, 0.8]),
        ("KetamaLibmemcachedWeighted", [1.0, 2.0, 3.0, 4.0]),
        ("KetamaTwemproxy", [1.0, 2.0, 3.0, 4.0]),
        ("Modula", [1.0, 2.0, 3.0, 4.0]),
    ] {
        let servers: Vec<_> = identities(&names);
        let servers: Vec<_> =
            servers.iter().zip(weights).map(|(server, weight)| server.weighing(weight)).collect();
        let selector = Selector::new(HashKind::from_name(hash).unwrap(), &servers, "").unwrap();
        let mut counts = [0; 4];
        for key in keys(KEYS) {
            counts[selector.pick(&key)] += 1;
        }
        let total: f64 = weights.iter().sum();
        let most = if hash.starts_with("Ketama") { 0.25 } else { 0.05 };
        for (count, weight) in counts.iter().zip(weights) {
            let relative = share(*count, KEYS) / (weight / total);
            assert!((relative - 1.0).abs() < most, "{hash}: weight {weight} has {relative} of its share");
        }
    }
}

/// By name, the order of the list does not matter; by slot neither the order nor the names do.
#[test]
fn a_replaced_address_moves_no_key() {
    let stable = names(12);
    let rotated: Vec<_> = (0..12).map(|place| (place * 5 + 3) % 12).collect();
    for hash in ALL {
        let kind = HashKind::from_name(hash).unwrap();
        let by_name = BY_NAME.contains(&hash);
        let addresses: Vec<_> = (0..12).map(|number| format!("10.1.2.{number}:11211")).collect();
        let name = |number: usize| if by_name { &stable[number] } else { &addresses[number] };
        let before: Vec<_> =
            (0..12).map(|number| ServerIdentity::named(&stable[number]).in_slot(number as u32)).collect();
        let after: Vec<_> = rotated
            .iter()
            .map(|number| ServerIdentity::named(name(*number)).in_slot(*number as u32))
            .collect();
        let without_slots: Vec<_> =
            rotated.iter().map(|number| ServerIdentity::named(name(*number))).collect();
        let [before, after, without_slots] =
            [before, after, without_slots].map(|servers| Selector::new(kind, &servers, "").unwrap());
        let mut unchanged = true;
        for key in keys(10_000) {
            assert_eq!(before.pick(&key), rotated[after.pick(&key)], "{hash}");
            unchanged &= before.pick(&key) == rotated[without_slots.pick(&key)];
        }
        assert_eq!(unchanged, by_name, "{hash}: names are enough, or they are not");
    }
}

#[test]
fn further_choices_are_where_keys_go_when_the_first_are_gone() {
    let all = names(6);
    for hash in ALL {
        let full = selector(hash, &all);
        for key in keys(300) {
            let choices: Vec<_> = full.choices(&key).collect();
            assert_eq!(choices[0], full.pick(&key), "{hash}");
            if !BY_NAME.contains(&hash) {
                assert_eq!(choices.len(), 1, "{hash}");
                continue;
            }
            assert_eq!(choices.len(), 6, "{hash}: {choices:?}");
            let mut left = all.clone();
            for choice in choices {
                let now = selector(hash, &left);
                assert_eq!(left[now.pick(&key)], all[choice], "{hash}");
                left.retain(|name| *name != all[choice]);
            }
        }
    }
}

#[test]
fn choices_are_bounded_and_different() {
    for hash in BY_NAME {
        let selector = selector(hash, &names(100));
        for key in keys(100) {
            let mut choices: Vec<_> = selector.choices(&key).collect();
            assert_eq!(choices.len(), MOST_CHOICES, "{hash}");
            choices.sort_unstable();
            choices.dedup();
            assert_eq!(choices.len(), MOST_CHOICES, "{hash}");
        }
    }
}

/// A server of so little weight that it has no point on the ring.
#[test]
fn choices_end_without_servers_that_get_no_keys() {
    let names = names(3);
    let servers: Vec<_> = identities(&names);
    let weights = [1.0, 1_000_000.0, 1_000_000.0];
    let servers: Vec<_> =
        servers.iter().zip(weights).map(|(server, weight)| server.weighing(weight)).collect();
    let selector = Selector::new(HashKind::from_name("KetamaTwemproxy").unwrap(), &servers, "").unwrap();
    for key in keys(100) {
        let mut choices: Vec<_> = selector.choices(&key).collect();
        choices.sort_unstable();
        assert_eq!(choices, [1, 2]);
    }
}

#[test]
fn a_salt_is_hashed_as_the_end_of_the_key() {
    let names = names(50);
    for hash in ALL {
        let kind = HashKind::from_name(hash).unwrap();
        let salted = Selector::new(kind, &identities(&names), "salt").unwrap();
        let plain = selector(hash, &names);
        let mut same = 0;
        for key in keys(1000).chain([vec![b'k'; 250], vec![b'k'; 1000], Vec::new()]) {
            assert_eq!(salted.pick(&key), plain.pick(&[&key[..], b"salt"].concat()), "{hash}");
            assert_eq!(salted.choices(&key).next(), Some(salted.pick(&key)), "{hash}");
            same += usize::from(salted.pick(&key) == plain.pick(&key));
        }
        // ConstShard finds the number of the server in 50 of them.
        assert!(same < 100, "{hash}: {same} keys stay where they are without the salt");
    }
}

/// Keys of all lengths and bytes, also longer ones than the protocol has.
#[test]
fn every_key_has_a_server() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for hash in ALL {
        for servers in [1, 2, 3, 17] {
            for salt in ["", "salt"] {
                let names = names(servers);
                let kind = HashKind::from_name(hash).unwrap();
                let selector = Selector::new(kind, &identities(&names), salt).unwrap();
                for length in 0..600 {
                    let key: Vec<_> = (0..length).map(|_| random() as u8).collect();
                    assert!(selector.pick(&key) < servers, "{hash}, {servers} servers, key {key:?}");
                }
            }
        }
    }
}

/// As in mcrouter, what has no weight weighs 0.5; the ketamas and modula count it as 1.
#[test]
fn missing_weights() {
    let names = names(3);
    for (hash, missing) in
        [("WeightedCh3", 0.5), ("WeightedRendezvous", 0.5), ("KetamaTwemproxy", 1.0), ("Modula", 1.0)]
    {
        let kind = HashKind::from_name(hash).unwrap();
        let [mut short, mut full] = [identities(&names), identities(&names)];
        short[2] = ServerIdentity::named(&names[2]);
        full[2] = short[2].weighing(missing);
        let [short, full] = [short, full].map(|servers| Selector::new(kind, &servers, "").unwrap());
        assert!(keys(1000).all(|key| short.pick(&key) == full.pick(&key)), "{hash}");
    }
}

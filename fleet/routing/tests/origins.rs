//! Keys go where twemproxy and libmemcached send them. `vectors/make.py` asked them.

use guira_routing::hash::{HashKind, HashTag, KeyHash, Selector, ServerIdentity};

const KEYS: usize = 400;

/// The keys of `make.py`: of all lengths modulo 4 and 12, some with bytes from 0x80 on.
fn key(number: usize, tag: Option<&str>) -> Vec<u8> {
    let accent = if number.is_multiple_of(5) { "é" } else { "" };
    let text = format!("{}{number}{accent}{}", "k".repeat(number % 13), "x".repeat(number % 4));
    match tag {
        Some(tag) if number.is_multiple_of(2) => {
            format!("a{}{}{}{text}", &tag[..1], number % 7, &tag[1..]).into_bytes()
        }
        _ => text.into_bytes(),
    }
}

fn server(text: &str) -> ServerIdentity<'_> {
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["named", name, weight] => ServerIdentity::named(name).weighing(weight.parse().unwrap()),
        ["at", address, weight] => ServerIdentity::at(address).weighing(weight.parse().unwrap()),
        _ => panic!("not a server: {text}"),
    }
}

/// How many lines were as expected.
fn check(vectors: &str) -> usize {
    for line in vectors.lines() {
        let [hash, key_hash, servers, tag, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not a vector: {line}");
        };
        let kind =
            HashKind::from_name(hash).unwrap().by_key_hash(KeyHash::from_name(key_hash).unwrap()).unwrap();
        let servers: Vec<_> = servers.split(',').map(server).collect();
        let selector = Selector::new(kind, &servers, "").unwrap();
        let tag = (tag != "-").then_some(tag);
        let part = |key: &[u8]| match tag {
            Some(tag) => HashTag::new(tag).unwrap().part(key).to_vec(),
            None => key.to_vec(),
        };
        let picked: String = (0..KEYS)
            .map(|number| selector.pick(&part(&key(number, tag))))
            .map(|server| char::from_digit(server as u32, 36).unwrap())
            .collect();
        assert_eq!(picked, expected, "{hash} by {key_hash}, tag {tag:?}, servers {servers:?}");
    }
    vectors.lines().count()
}

#[test]
fn twemproxy() {
    assert_eq!(check(include_str!("vectors/twemproxy.tsv")), 58);
}

#[test]
fn libmemcached() {
    assert_eq!(check(include_str!("vectors/libmemcached.tsv")), 64);
}

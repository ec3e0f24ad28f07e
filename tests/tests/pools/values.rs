//! Values and keys as they may be.

use crate::{builder, name, servers};
use guira_client::pools::{COMPRESSED, Cas, Client, Error, ErrorKind, KeyProblem, Store};
use guira_tests::Setup;

#[test]
fn values_of_a_mebibyte_go_and_come() {
    let servers = servers(&Setup::new().max_item_mib(4));
    let client = Client::new(&builder(&servers)).unwrap();
    let values: Vec<Vec<u8>> = (0..8_u8)
        .map(|number| (0..1 << 20).map(|at: u32| (at.wrapping_mul(31) >> 8) as u8 ^ number).collect())
        .collect();
    let keys: Vec<String> = (0..8).map(|number| format!("long{number}")).collect();
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(client.set(&Store::new(key.as_bytes(), value)), Ok(true), "{key}");
    }
    for (found, value) in client.get_many(&keys).into_iter().zip(&values) {
        assert!(found.unwrap().unwrap().value == *value);
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_next_call_is_not() {
    let servers = servers(&Setup::new());
    let client = Client::new(&builder(&servers)).unwrap();
    let value = vec![b'x'; 2 << 20];
    for number in 0..12 {
        let key = format!("key{number}");
        let error = client.set(&Store::new(key.as_bytes(), &value)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::TooLarge, "{key}");
        assert!(servers.iter().any(|server| Some(&*name(server)) == error.server()), "{error}");
        assert_eq!(client.set(&Store::new(key.as_bytes(), b"short")), Ok(true), "{key}");
        assert_eq!(client.get(key.as_bytes()).unwrap().unwrap().value, b"short", "{key}");
    }
    let value = vec![0; (64 << 20) + 1];
    let error = client.set(&Store::new(b"k", &value)).unwrap_err();
    assert_eq!((error.kind(), error.server()), (&ErrorKind::TooLarge, None));
}

#[test]
fn keys_that_are_no_word_are_not_sent() {
    let servers = servers(&Setup::new());
    let client = Client::new(&builder(&servers)).unwrap();
    let long = "x".repeat(251);
    let is_bad = |error: Error| matches!(error.kind(), ErrorKind::BadKey(_));
    for key in ["", "a b", "a\r\nflush_all", "a\n", "\t", "a\0", "\u{7f}", &long] {
        let key = key.as_bytes();
        assert!(client.get(key).is_err_and(is_bad));
        assert!(client.set(&Store::new(key, b"v")).is_err_and(is_bad));
        assert!(client.delete(key).is_err_and(is_bad));
    }
    client.set(&Store::new("Zoë:😀".as_bytes(), b"v")).unwrap();
    let found = client.get_many(&["Zoë:😀", "a b", "none"]);
    assert!(matches!(&found[..], [Ok(Some(_)), Err(error), Ok(None)] if is_bad(error.clone())), "{found:?}");
}

#[test]
fn a_binary_key_is_sent_in_base64() {
    let servers = servers(&Setup::new());
    let client = Client::new(&builder(&servers)).unwrap();
    let keys = [&b"a b"[..], b"a\r\nflush_all", &[0; 186], b"word", b"/a/b/c"];
    let stores = keys.map(|key| Store::new(key, b"v").flags(7).expiry(500).binary_key());
    // The last begins like a routing prefix, which only a client of whole keys sends.
    let added = client.add_many(&stores);
    assert_eq!(added[..4], [const { Ok(true) }; 4]);
    assert!(added[4].as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::NoRoute(_))));
    let whole = Client::new(&builder(&servers).whole_keys()).unwrap();
    assert_eq!(whole.add_many(&stores)[..], [Ok(false), Ok(false), Ok(false), Ok(false), Ok(true)]);
    assert_eq!(whole.replace(&stores[0]), Ok(true));
    assert_eq!(whole.set_many(&stores[..2]), [Ok(true), Ok(true)]);
    assert_eq!(whole.cas(&stores[0], 1), Ok(Cas::Changed));
    let found = servers.iter().filter(|server| {
        let mut connection = server.connect();
        connection.ask("mg YSBi b f s\r\n") == "HD f7 s1"
    });
    assert_eq!(found.count(), 1, "one server has the key");
    assert_eq!(client.get(b"word").unwrap().map(|item| item.flags), Some(7));
    let long = [0; 187];
    let error = client.add(&Store::new(&long, b"v").binary_key()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::BadKey(KeyProblem::TooLongInBase64(187)));
}

#[test]
fn long_values_are_stored_shorter_and_who_does_not_compress_sees_the_flag() {
    let servers = servers(&Setup::new());
    let client = Client::new(&builder(&servers).compress_from(100)).unwrap();
    let plain = Client::new(&builder(&servers)).unwrap();
    let text = b"all work and no play ".repeat(100);
    client.set(&Store::new(b"long", &text).flags(5)).unwrap();
    client.set(&Store::new(b"short", &text[..99]).flags(5)).unwrap();
    for (key, value) in [("long", &text[..]), ("short", &text[..99])] {
        let item = client.get(key.as_bytes()).unwrap().unwrap();
        assert!(item.value == value && item.flags == 5, "{key}");
    }
    let seen = plain.get(b"long").unwrap().unwrap();
    assert!(seen.flags == 5 | COMPRESSED && seen.value.len() < text.len() / 10);
    plain.set(&Store::new(b"broken", b"nothing of the kind").flags(COMPRESSED)).unwrap();
    assert_eq!(client.get(b"broken"), Err(ErrorKind::Damaged.into()));
    assert!(client.append(b"long", b"x").is_err_and(|error| matches!(error.kind(), ErrorKind::Refused(_))));
    assert_eq!(client.counters().compressed, 1);
}

#[test]
fn a_configuration_says_who_has_a_key() {
    let servers = servers(&Setup::new());
    let text = format!(
        r#"{{"pools": {{"one": {{"servers": ["{}"]}}, "two": {{"servers": ["{}"]}}}},
            "route": {{"type": "PrefixSelectorRoute", "policies": {{"a:": "PoolRoute|one"}}, "wildcard": "PoolRoute|two"}}}}"#,
        name(&servers[0]),
        name(&servers[1])
    );
    let client = Client::from_config(&text).unwrap();
    client.set(&Store::new(b"a:k", b"1")).unwrap();
    client.set(&Store::new(b"b:k", b"2")).unwrap();
    client.set(&Store::new(b"/././b:l", b"3")).unwrap();
    let has = |server: usize, key: &str| {
        servers[server].connect().exchange(format!("mg {key}\r\n"), "HD\r\n");
    };
    has(0, "a:k");
    has(1, "b:k");
    has(1, "b:l");
    let error = client.get(b"/other/place/k").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoRoute(_)), "{error}");
    let wrong = Client::from_config("{\"route\": \"PoolRoute|none\"}").unwrap_err();
    assert!(wrong.to_string().contains("none"), "{wrong}");
}

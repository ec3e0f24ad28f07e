//! How long what is stored lives.

use crate::{caches, client, hit, read, value};
use guira_client::lookaside::{Value, Wanted};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

#[test]
fn what_was_filled_together_does_not_expire_together() {
    for (name, server) in caches::all() {
        let cache = client(&server).expiry(Duration::from_secs(1000)).absent_expiry(Duration::from_secs(100));
        let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for (of_database, times) in [(value("x"), 899..=1100), (None, 89..=110)] {
            let fill = |wanted: &[Wanted<'_>]| Ok::<_, Infallible>(vec![of_database.clone(); wanted.len()]);
            cache.get_many(&keys, fill).expect("no fill fails");
            let mut direct = server.connect();
            let mut drawn = BTreeSet::new();
            for key in &keys {
                let line = direct.ask(format!("mg {key} t\r\n"));
                let left = line.strip_prefix("HD t").and_then(|left| left.parse::<u64>().ok());
                let left = left.unwrap_or_else(|| panic!("{name}: {line}"));
                assert!(times.contains(&left), "{name}: {left} s are not within {times:?}");
                drawn.insert(left);
            }
            assert!(drawn.len() > 10, "{name}: {drawn:?}");
            assert!(cache.delete(&keys), "{name}");
        }
    }
}

#[test]
fn that_there_is_nothing_is_remembered() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        assert_eq!(read(&cache, "k", None), None, "{name}");
        assert_eq!(hit(&cache, "k"), None, "{name}");
        assert!(cache.delete(&["k"]), "{name}");
        // An empty value is something else, and so is one with flags and a version.
        for row in
            [Value::new(""), Value::new("").with_version(3), Value::new("x").with_flags(9).with_version(4)]
        {
            assert_eq!(read(&cache, "k", Some(row.clone())), Some(row.clone()), "{name}");
            assert_eq!(hit(&cache, "k"), Some(row), "{name}");
            assert!(cache.delete(&["k"]), "{name}");
        }
    }
}

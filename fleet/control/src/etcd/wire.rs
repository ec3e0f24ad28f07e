//! Values of the gateway: numbers of 64 bits are texts, bytes are base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A key and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    /// When it was last changed.
    pub(crate) revision: i64,
    /// 0 if it has none.
    pub(crate) lease: i64,
}

impl Entry {
    pub(super) fn of(entry: &Value) -> Option<Self> {
        let bytes = |name: &str| STANDARD.decode(entry.get(name).map_or(Some(""), Value::as_str)?).ok();
        Some(Entry {
            key: String::from_utf8(bytes("key")?).ok()?,
            value: bytes("value")?,
            revision: number(entry, "mod_revision")?,
            lease: number(entry, "lease").unwrap_or_default(),
        })
    }
}

/// A number, which is left out if it is 0.
pub(super) fn number(value: &Value, name: &str) -> Option<i64> {
    value.get(name)?.as_str()?.parse().ok()
}

pub(super) fn revision(answer: &Value) -> Option<i64> {
    number(answer.get("header")?, "revision")
}

/// The error text of an answer.
pub(super) fn reason(text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let said = ["message", "error"].iter().find_map(|name| answer.get(name)?.as_str());
    said.map_or_else(|| text.trim().chars().take(200).collect(), str::to_owned)
}

/// Whether the reason is a missing login.
pub(super) fn is_about_login(reason: &str) -> bool {
    ["invalid auth token", "user name is empty", "authentication is not enabled"]
        .iter()
        .any(|known| reason.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_is_read_as_the_gateway_writes_it() {
        let written = json!({"key": "L2E=", "create_revision": "3", "mod_revision": "17", "version": "2", "value": "aGk="});
        let expected = Entry { key: "/a".to_owned(), value: b"hi".to_vec(), revision: 17, lease: 0 };
        assert_eq!(Entry::of(&written), Some(expected));
        let with_lease = json!({"key": "L2E=", "mod_revision": "17", "lease": "7587869134655424271"});
        assert_eq!(
            Entry::of(&with_lease).map(|entry| (entry.lease, entry.value)),
            Some((7_587_869_134_655_424_271, vec![]))
        );
        for broken in
            [json!({}), json!({"key": "?", "mod_revision": "1"}), json!({"key": "L2E=", "mod_revision": 1})]
        {
            assert_eq!(Entry::of(&broken), None, "{broken}");
        }
    }

    #[test]
    fn a_reason_is_what_the_gateway_calls_a_message() {
        assert_eq!(
            reason(r#"{"error":"x","code":5,"message":"etcdserver: requested lease not found"}"#),
            "etcdserver: requested lease not found"
        );
        assert_eq!(reason("404 page not found\n"), "404 page not found");
        assert!(is_about_login("etcdserver: invalid auth token") && !is_about_login("etcdserver: no leader"));
    }
}

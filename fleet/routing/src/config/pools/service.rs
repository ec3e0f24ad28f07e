//! A pool whose servers an SRV record names: `"servers": "srv:_memcached._tcp.cache.default.svc"`.

use super::super::json::{ConfigError, Json, Value};

/// The prefix of an SRV record's name.
pub const SRV: &str = "srv:";

/// The longest name in DNS, and the longest label, in bytes.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// The name of the record with [`SRV`] in front, if `servers` is no list.
pub(super) fn record(servers: &Json) -> Result<Option<(&str, &Json)>, ConfigError> {
    let Value::Text(text) = &servers.value else { return Ok(None) };
    let expected = "an array, or \"srv:NAME\" of an SRV record expected";
    let Some(name) = text.strip_prefix(SRV) else {
        return Err(servers.error(format!("'servers' is a string, {expected}")));
    };
    match fault(name) {
        None => Ok(Some((text, servers))),
        Some(fault) => Err(servers.error(format!("'servers' is {text:?}: {fault}"))),
    }
}

/// The fault of a name, if it has one.
fn fault(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() {
        Some("the name of an SRV record is missing")
    } else if name.contains(':') {
        Some("remove the port: the SRV record has the ports")
    } else if !name.bytes().all(is_good) {
        Some("a name has letters, digits, hyphens, underscores and dots")
    } else if name.len() > NAME_MAX
        || name.split('.').any(|label| label.is_empty() || label.len() > LABEL_MAX)
    {
        Some("a name has up to 253 bytes, and 1 to 63 between two dots")
    } else {
        None
    }
}

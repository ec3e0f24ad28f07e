//! Parses a server: `host:port`, `[v6]:port` or `unix:path`, and after it protocol, security and
//! compression.

use std::fmt;
use std::sync::Arc;

/// Bytes of a path that a socket's address has room for.
const PATH_MAX: usize = 107;

/// Bytes of a host's name.
const HOST_MAX: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `host` is a name, or an address without brackets.
    Tcp {
        host: Arc<str>,
        port: u16,
    },
    Unix(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Security {
    Plain,
    Tls,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// Splits a server into its address and the rest: protocol, security and compression.
fn split(text: &str, port_override: Option<u16>) -> Result<(Address, &str), String> {
    let (path, rest) = match text.strip_prefix("unix:") {
        Some(rest) => {
            let (path, rest) = rest.split_once(':').unwrap_or((rest, ""));
            (Some(path), rest)
        }
        None => (None, text),
    };
    match path {
        Some(path) => Ok((unix(path)?, rest)),
        None => tcp(rest, port_override),
    }
}

/// The address, and its security if it is written there.
pub(super) fn parse(text: &str, port_override: Option<u16>) -> Result<(Address, Option<Security>), String> {
    let (address, rest) = split(text, port_override)?;
    let mut parts = rest.split(':');
    let [protocol, secured, compression] =
        [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    if parts.next().is_some() {
        return Err("has too many parts: use HOST:PORT:PROTOCOL:SECURITY:COMPRESSION".into());
    }
    if !protocol.is_empty() {
        self::protocol(protocol)?;
    }
    let secured = if secured.is_empty() { None } else { Some(security(secured)?) };
    if matches!(address, Address::Unix(_)) && secured == Some(Security::Tls) {
        return Err("is a UNIX socket, which does not support TLS".into());
    }
    match compression {
        "" | "notcompressed" => Ok((address, secured)),
        "compressed" => Err(NO_COMPRESSION.into()),
        other => Err(format!("has the compression {other:?}, \"compressed\" or \"notcompressed\" expected")),
    }
}

pub(super) const NO_COMPRESSION: &str =
    "has compression, which needs mcrouter's own protocol and dictionaries";

fn unix(path: &str) -> Result<Address, String> {
    match path.len() {
        0 => Err("has no path".into()),
        1..=PATH_MAX => Ok(Address::Unix(path.into())),
        length => Err(format!("has a path of {length} bytes, at most {PATH_MAX} expected")),
    }
}

/// The address, and what comes after the port.
fn tcp(text: &str, port_override: Option<u16>) -> Result<(Address, &str), String> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or("has a '[' without ']'")?;
            // A zone may follow the address.
            let address = host.split('%').next().unwrap_or_default();
            if host.contains(':') && address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("has {host:?} in brackets, an IPv6 address expected"));
            }
            if !rest.is_empty() && !rest.starts_with(':') {
                return Err("has text between ']' and ':'".into());
            }
            (host, rest.strip_prefix(':').unwrap_or(rest))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty()
        || host.len() > HOST_MAX
        || host.contains(|c: char| c.is_control() || c.is_whitespace())
    {
        return Err("has no valid host name; write IPv6 addresses in brackets".into());
    }
    let (written, rest) = rest.split_once(':').unwrap_or((rest, ""));
    // As in mcrouter, port 0 is no reason to refuse a configuration, though nothing can connect to it.
    let port = port_override.or_else(|| written.parse().ok());
    let port = port.ok_or_else(|| format!("has the port {written:?}, 0 to 65535 expected"))?;
    Ok((Address::Tcp { host: host.into(), port }, rest))
}

/// The protocol of a server that was read, if it is one in whose place the text protocol is sent.
pub(super) fn replaced_protocol(text: &str) -> Option<&str> {
    // A port that comes from the pool makes no difference.
    let (_, rest) = split(text, Some(1)).ok()?;
    rest.split(':').next().filter(|name| is_replaced(name))
}

/// Whether the router uses the text protocol in place of this protocol, which servers of mcrouter
/// detect by the first bytes.
pub(super) fn is_replaced(protocol: &str) -> bool {
    ["caret", "thrift"].iter().any(|known| protocol.eq_ignore_ascii_case(known))
}

/// Whether this protocol can be configured.
pub(super) fn protocol(name: &str) -> Result<(), String> {
    match name.to_ascii_lowercase().as_str() {
        "ascii" => Ok(()),
        name if is_replaced(name) => Ok(()),
        "umbrella" | "xdp" | "metaroce" => Err(format!(
            "has the protocol {name:?}, which only servers inside Meta support: \"ascii\" expected"
        )),
        _ => Err(format!("has the protocol {name:?}, \"ascii\" expected")),
    }
}

pub(super) fn security(name: &str) -> Result<Security, String> {
    match name {
        "plain" => Ok(Security::Plain),
        "ssl" | "tls" => Ok(Security::Tls),
        "fizz" | "tls13_fizz" | "ktls" | "ktls12" | "tls_to_plain" => Err(format!(
            "has the security {name:?}, which needs mcrouter's libraries: \"plain\" or \"ssl\" expected"
        )),
        _ => Err(format!("has the security {name:?}, \"plain\" or \"ssl\" expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    #[test]
    fn servers_are_read_and_written() {
        let cases = [
            ("localhost:11211", tcp("localhost", 11211), None),
            ("10.0.0.1:1:ascii", tcp("10.0.0.1", 1), None),
            ("10.0.0.1:1:ASCII:plain:notcompressed", tcp("10.0.0.1", 1), Some(Security::Plain)),
            ("a:65535::ssl", tcp("a", 65535), Some(Security::Tls)),
            ("a:1:::", tcp("a", 1), None),
            ("[::1]:11211", tcp("::1", 11211), None),
            ("[127.0.0.1]:11211", tcp("127.0.0.1", 11211), None),
            ("[fe80::1%eth0]:11211", tcp("fe80::1%eth0", 11211), None),
            ("[2001:db8::1]:5:ascii:ssl", tcp("2001:db8::1", 5), Some(Security::Tls)),
            ("unix:/run/m.sock", Address::Unix("/run/m.sock".into()), None),
            ("unix:/run/m.sock:ascii:plain", Address::Unix("/run/m.sock".into()), Some(Security::Plain)),
        ];
        for (text, address, security) in cases {
            assert_eq!(parse(text, None), Ok((address.clone(), security)), "{text}");
            // The output is parsed to the same address.
            assert_eq!(parse(&address.to_string(), None), Ok((address, None)), "{text}");
        }
    }

    #[test]
    fn some_protocols_are_replaced() {
        for (text, protocol) in [
            ("a:1:caret", Some("caret")),
            ("a:Thrift", None),
            ("a:1:Thrift:plain", Some("Thrift")),
            ("[::1]:1:caret", Some("caret")),
            ("unix:/run/caret:ascii", None),
            ("unix:p:caret", Some("caret")),
            ("caret:1", None),
        ] {
            assert_eq!(replaced_protocol(text), protocol, "{text}");
        }
        assert_eq!(parse("a:1:caret:ssl", None), Ok((tcp("a", 1), Some(Security::Tls))));
    }

    #[test]
    fn a_port_is_replaced_or_filled_in() {
        for text in ["a:1", "a", "a:", "a:0", "a:x"] {
            assert_eq!(parse(text, Some(7)), Ok((tcp("a", 7), None)), "{text}");
        }
        assert_eq!(parse("[::1]", Some(7)), Ok((tcp("::1", 7), None)));
        assert_eq!(parse("unix:p", Some(7)), Ok((Address::Unix("p".into()), None)));
    }

    #[test]
    fn what_cannot_be_talked_to_is_refused() {
        let long = format!("unix:{}", "p".repeat(108));
        let cases = [
            ("", "has no valid host name"),
            (":1", "has no valid host name"),
            ("::1:11211", "has no valid host name; write IPv6 addresses in brackets"),
            ("a b:1", "has no valid host name"),
            ("a", "has the port \"\", 0 to 65535 expected"),
            ("a:65536", "has the port \"65536\", 0 to 65535 expected"),
            ("a:x", "has the port \"x\", 0 to 65535 expected"),
            ("[::1", "has a '[' without ']'"),
            ("[::1]x:1", "has text between ']' and ':'"),
            ("[a:b]:1", "has \"a:b\" in brackets, an IPv6 address expected"),
            ("[]:1", "has no valid host name"),
            ("unix:", "has no path"),
            (&long, "has a path of 108 bytes, at most 107 expected"),
            ("unix:p:ascii:ssl", "is a UNIX socket, which does not support TLS"),
            ("a:1:Umbrella", "has the protocol \"Umbrella\", which only servers inside Meta support"),
            ("a:1:xdp", "has the protocol \"xdp\""),
            ("a:1:http", "has the protocol \"http\", \"ascii\" expected"),
            ("a:1:ascii:fizz", "has the security \"fizz\", which needs mcrouter's libraries"),
            ("a:1:ascii:tls13_fizz", "has the security \"tls13_fizz\""),
            ("a:1:ascii:ktls12", "has the security \"ktls12\""),
            ("a:1:ascii:tls_to_plain", "has the security \"tls_to_plain\""),
            ("a:1:ascii:no", "has the security \"no\", \"plain\" or \"ssl\" expected"),
            ("a:1:ascii:ssl:compressed", NO_COMPRESSION),
            ("a:1:::zip", "has the compression \"zip\""),
            ("a:1:ascii:ssl:notcompressed:x", "has too many parts"),
        ];
        for (text, reason) in cases {
            let found = parse(text, None).expect_err(text);
            assert!(found.starts_with(reason), "{text}: {found}");
        }
    }
}

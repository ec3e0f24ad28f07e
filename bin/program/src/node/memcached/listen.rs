//! -l, -p, -U and -s: what memcached listens on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use guira_server::{Address, Listen, ListenTraits};

use super::flags::Flags;
use guira_cli::failure::Failure;

const PORT: i32 = 11211;

/// The port that a number stands for: -1 for any that is free, 0 for none.
fn port(number: i32) -> Result<Option<u16>, Failure> {
    match number {
        0 => Ok(None),
        -1 => Ok(Some(0)),
        number => u16::try_from(number).map(Some).map_err(|_| {
            Failure::usage(format!(
                "{number} is not a port: use 1 to 65535, 0 for none, -1 for any free port"
            ))
        }),
    }
}

/// The items of all -l, each of which may be a list.
fn items(flags: &Flags) -> impl Iterator<Item = &str> {
    flags
        .values("listen")
        .flat_map(|list| list.split([',', ';']))
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

pub(super) fn listeners(flags: &Flags) -> Result<Vec<Listen>, Failure> {
    if let Some(path) = flags.value("unix-socket") {
        let address = Address::Unix(path.into());
        return Ok(vec![Listen { traits: ListenTraits::default(), address, optional: false }]);
    }
    // A UDP port that is given alone is that of TCP as well.
    let udp_port = flags.number("udp-port").filter(|port| *port != 0);
    let number = flags.number("port").or(udp_port).unwrap_or(PORT);
    let Some(port) = port(number)? else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    if flags.value("listen").is_none() {
        all.extend(
            everywhere(port).map(|(address, optional)| tcp(ListenTraits::default(), address, optional)),
        );
    }
    for item in items(flags) {
        let (traits, host) =
            ListenTraits::parse(item).map_err(|error| Failure::usage(format!("-l: {error}")))?;
        for (address, optional) in resolve(host, port)? {
            // As in memcached, an address that is named twice is listened on once.
            let is_new = |other: &Listen| address.port() == 0 || other.address != Address::Tcp(address);
            if all.iter().all(is_new) {
                all.push(tcp(traits.clone(), address, optional));
            }
        }
    }
    Ok(all)
}

fn tcp(traits: ListenTraits, address: SocketAddr, optional: bool) -> Listen {
    Listen { traits, address: Address::Tcp(address), optional }
}

pub(super) fn datagram_addresses(flags: &Flags) -> Result<Vec<SocketAddr>, Failure> {
    let Some(port) =
        port(flags.number("udp-port").unwrap_or(0))?.filter(|_| flags.value("unix-socket").is_none())
    else {
        return Ok(Vec::new());
    };
    if flags.value("listen").is_none() {
        return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)]);
    }
    let mut all = Vec::new();
    for item in items(flags) {
        let (_, host) = ListenTraits::parse(item).map_err(|error| Failure::usage(format!("-l: {error}")))?;
        // A port in -l is that of TCP.
        all.extend(resolve(host, port)?.into_iter().map(|(address, _)| SocketAddr::new(address.ip(), port)));
    }
    all.dedup();
    Ok(all)
}

/// All addresses of the machine; a machine may do without IPv6.
fn everywhere(port: u16) -> impl Iterator<Item = (SocketAddr, bool)> {
    let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    let v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    [(v4, false), (v6, true)].into_iter()
}

/// The addresses that `host[:port]` stands for, and whether one may be missing. IPv6 addresses with a port are in brackets.
fn resolve(text: &str, port: u16) -> Result<Vec<(SocketAddr, bool)>, Failure> {
    let usage = |problem: String| Failure::usage(format!("-l {text}: {problem}"));
    let bad_port = |port: &str| usage(format!("{port} is not a port"));
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| usage("a bracket is not closed".to_owned()))?;
        match rest.strip_prefix(':') {
            Some(port) => (host, port.parse().map_err(|_| bad_port(port))?),
            None => (host, port),
        }
    } else {
        match text.split_once(':') {
            // Several colons: an IPv6 address without brackets.
            Some((host, rest)) if !rest.contains(':') => (host, rest.parse().map_err(|_| bad_port(rest))?),
            _ => (text, port),
        }
    };
    if host == "*" || host.is_empty() {
        return Ok(everywhere(port).collect());
    }
    let found: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| usage(format!("the name cannot be resolved: {error}")))?
        .collect();
    // A name may stand for several addresses, not all of which this machine has.
    let optional = found.len() > 1;
    let mut addresses: Vec<(SocketAddr, bool)> =
        found.into_iter().map(|address| (address, optional)).collect();
    addresses.dedup();
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Result<Vec<String>, String> {
        let found = resolve(text, 7).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|(address, _)| address.to_string()).collect())
    }

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        let one = |text: &str| addresses(text).unwrap().concat();
        assert_eq!(one("127.0.0.1"), "127.0.0.1:7");
        assert_eq!(one("127.0.0.1:9"), "127.0.0.1:9");
        assert_eq!(one("::1"), "[::1]:7");
        assert_eq!(one("[::1]"), "[::1]:7");
        assert_eq!(one("[::1]:9"), "[::1]:9");
        assert_eq!(addresses("*").unwrap(), ["0.0.0.0:7", "[::]:7"]);
        assert!(addresses("127.0.0.1:x").unwrap_err().contains("x is not a port"));
        assert!(addresses("[::1").unwrap_err().contains("not closed"));
    }

    #[test]
    fn an_address_that_is_named_twice_is_listened_on_once() {
        let listeners = |words: &str| {
            let words = format!("memcached {words}");
            let flags = Flags::read(words.split(' ').map(std::ffi::OsString::from)).unwrap();
            listeners(&flags).unwrap().iter().map(Listen::to_string).collect::<Vec<_>>()
        };
        let once = ["127.0.0.1:7"];
        assert_eq!(listeners("-p 7 -l 127.0.0.1 -l 127.0.0.1"), once);
        assert_eq!(listeners("-p 7 -l 127.0.0.1,127.0.0.1:7,notls:127.0.0.1"), once);
        assert_eq!(listeners("-p 7 -l 127.0.0.1,127.0.0.1:8"), ["127.0.0.1:7", "127.0.0.1:8"]);
        assert_eq!(listeners("-p -1 -l 127.0.0.1,127.0.0.1").len(), 2, "each takes a port that is free");
    }

    #[test]
    fn ports_are_numbers_none_or_any() {
        assert_eq!(port(0).unwrap(), None);
        assert_eq!(port(-1).unwrap(), Some(0));
        assert_eq!(port(11211).unwrap(), Some(11211));
        assert!(port(65536).is_err() && port(-2).is_err());
    }
}

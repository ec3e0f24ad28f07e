//! Addresses of a router: its listeners, cluster nodes and DNS server.

use super::flags::Flags;
use guira_cli::failure::Failure;
use guira_serving::{ClusterNode, ClusterNodeError, Listen, ListenTraits, Security};
use guira_transport::{Address, Listener, TlsOptions};
use rustix::fd::RawFd;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// All addresses; only those with btls: or mtls:, and --ssl-port, use TLS.
pub(super) fn addresses(flags: &Flags, tls: Option<&TlsOptions>) -> Result<Vec<Listen>, Failure> {
    let mut all = Vec::new();
    for text in flags.texts("listen") {
        let listen: Listen = text.parse().map_err(|error| Failure::usage(format!("--listen: {error}")))?;
        all.push(listen);
    }
    all.extend(ports(flags, "port")?.map(plain));
    all.extend(flags.text("unix-domain-sock").map(|path| plain(Address::Unix(path.into()))));
    // Without TLS, all listeners are plain anyway.
    let unspecified =
        all.iter_mut().filter(|listen| tls.is_some() && listen.traits.security == Security::Default);
    unspecified.for_each(|listen| listen.traits.security = Security::Plain);
    if flags.has("ssl-require-peer-certs") {
        let basic = all.iter_mut().filter(|listen| listen.traits.security == Security::Basic);
        basic.for_each(|listen| listen.traits.security = Security::Mutual);
    }
    all.extend(ports(flags, "ssl-port")?.map(plain));
    Ok(all)
}

pub(super) fn datagrams(flags: &Flags) -> Result<Vec<SocketAddr>, Failure> {
    let wrong =
        |text: &str| Failure::usage(format!("--udp: '{text}' is not an address: use IP:PORT or [v6]:PORT"));
    flags.texts("udp").map(|text| text.parse().map_err(|_| wrong(text))).collect()
}

/// The nodes in the reply to `config get cluster`.
pub(super) fn nodes(flags: &Flags) -> Result<Vec<ClusterNode>, Failure> {
    let wrong = |error: ClusterNodeError| Failure::usage(format!("--cluster-nodes: {error}"));
    flags.texts("cluster-nodes").map(|text| text.parse().map_err(wrong)).collect()
}

pub(super) fn dns_server(flags: &Flags) -> Result<Option<SocketAddr>, Failure> {
    let wrong = |text: &str| {
        Failure::usage(format!("--dns-server: '{text}' is not an address: use IP:PORT or [v6]:PORT"))
    };
    flags.text("dns-server").map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// The socket of --listen-sock-fd: a copy, so that the router owns it.
pub(super) fn inherited(flags: &Flags) -> Result<Option<Listener>, Failure> {
    let option = "listen-sock-fd";
    let Some(text) = flags.text(option).filter(|text| *text != "-1") else { return Ok(None) };
    let number: RawFd = match text.parse() {
        Ok(number @ 0..) => number,
        _ => return Err(Failure::usage(format!("--{option}: '{text}' is not a descriptor"))),
    };
    let own = pidfd_open(getpid(), PidfdFlags::empty());
    let copy = own.and_then(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty()));
    let listener = copy.map_err(std::io::Error::from).and_then(Listener::adopt);
    let listener =
        listener.map_err(|error| Failure::caused(format!("cannot take over --{option} {number}"), error))?;
    Ok(Some(listener))
}

/// The addresses of ports: those of --listen-addresses, or all of the host.
fn ports(flags: &Flags, option: &str) -> Result<impl Iterator<Item = Address> + use<>, Failure> {
    let hosts: Vec<IpAddr> = hosts(flags)?;
    let has_v6 = Path::new("/proc/net/if_inet6").exists();
    let mut addresses = Vec::new();
    for text in flags.texts(option) {
        let port: u16 =
            text.parse().map_err(|_| Failure::usage(format!("--{option}: '{text}' is not a port")))?;
        if !hosts.is_empty() {
            addresses.extend(hosts.iter().map(|host| Address::Tcp((*host, port).into())));
            continue;
        }
        addresses.push(Address::Tcp((Ipv4Addr::UNSPECIFIED, port).into()));
        // With port 0, the system would choose two different ports.
        if port != 0 && has_v6 {
            addresses.push(Address::Tcp((Ipv6Addr::UNSPECIFIED, port).into()));
        }
    }
    Ok(addresses.into_iter())
}

fn hosts(flags: &Flags) -> Result<Vec<IpAddr>, Failure> {
    let wrong = |text: &str| Failure::usage(format!("--listen-addresses: '{text}' is not an IP address"));
    let hosts = flags.texts("listen-addresses").filter(|text| !text.is_empty());
    hosts.map(|text| text.trim_matches(['[', ']']).parse().map_err(|_| wrong(text))).collect()
}

fn plain(address: Address) -> Listen {
    Listen { traits: ListenTraits::default(), address, optional: false }
}

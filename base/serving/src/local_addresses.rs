//! The addresses of this machine.

use std::net::{IpAddr, Ipv6Addr};

/// All addresses of all interfaces, sorted, as the system lists them.
pub fn local_addresses() -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut last: Option<IpAddr> = None;
    for line in guira_disk::read_to_string("/proc/net/fib_trie").unwrap_or_default().lines() {
        match line.trim().strip_prefix("|-- ") {
            Some(address) => last = address.parse().ok(),
            None if line.trim() == "/32 host LOCAL" => addresses.extend(last.take()),
            None => {}
        }
    }
    for line in guira_disk::read_to_string("/proc/net/if_inet6").unwrap_or_default().lines() {
        let digits = line.split(' ').next().and_then(|digits| u128::from_str_radix(digits, 16).ok());
        addresses.extend(digits.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))));
    }
    addresses.sort();
    addresses.dedup();
    addresses
}

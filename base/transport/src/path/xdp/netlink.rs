//! The kernel's interfaces, routes and neighbours (`rtnetlink(7)`).

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

pub(super) type Mac = [u8; 6];

const ERROR: u16 = 2;
const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const GET_NEIGHBOUR: u16 = 30;
const FLAG_REQUEST: u16 = 1;
/// Bytes of a message's header, and of an attribute's.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

const LINK_ADDRESS: u16 = 1;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_SOURCE: u16 = 7;
const ROUTE_VIA: u16 = 18;
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;

/// A timeout against a kernel that does not answer at all; it normally answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&FLAG_REQUEST.to_ne_bytes());
        bytes.extend_from_slice(body);
        Request(bytes)
    }

    /// Adds an attribute, of a multiple of 4 bytes.
    fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self
    }

    /// Sends the request, and returns the answer without its header.
    fn ask(mut self) -> Result<Vec<u8>, Errno> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let socket = open()?;
        send(&socket, &self.0, SendFlags::empty())?;
        let mut answer = vec![0; 32 << 10];
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        answer.truncate(length);
        let kind = answer.get(4..6).ok_or(Errno::PROTO)?;
        if kind == ERROR.to_ne_bytes() {
            let code = answer.get(HEADER..HEADER + 4).ok_or(Errno::PROTO)?;
            let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
            return Err(Errno::from_raw_os_error(-code));
        }
        // There may be more messages behind the first.
        let end = u32::from_ne_bytes([answer[0], answer[1], answer[2], answer[3]]) as usize;
        Ok(answer.get(HEADER..end).ok_or(Errno::PROTO)?.to_vec())
    }
}

fn open() -> Result<OwnedFd, Errno> {
    // No protocol number but NETLINK_ROUTE is 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let head = attributes.get(..ATTRIBUTE)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = attributes.get(ATTRIBUTE..length)?;
        if u16::from_ne_bytes([head[2], head[3]]) == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(IpAddr::V4(Ipv4Addr::from(octets)));
    }
    <[u8; 16]>::try_from(octets).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
}

pub(super) fn mac(interface: u32) -> Result<Mac, Errno> {
    // struct ifinfomsg: the interface is its second word.
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let answer = Request::new(GET_LINK, &body).ask()?;
    let attributes = answer.get(16..).ok_or(Errno::PROTO)?;
    attribute(attributes, LINK_ADDRESS).and_then(|mac| mac.try_into().ok()).ok_or(Errno::NODEV)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) source: IpAddr,
    pub(super) next_hop: IpAddr,
}

/// The route to an address by an interface.
pub(super) fn route(destination: IpAddr, interface: u32) -> Result<Route, Errno> {
    let (family, octets) = octets(destination);
    // struct rtmsg: the family, and the number of bits of the destination.
    let mut body = [0; 12];
    body[..2].copy_from_slice(&[family, octets.len() as u8 * 8]);
    let request = Request::new(GET_ROUTE, &body)
        .with(ROUTE_DESTINATION, &octets)
        .with(ROUTE_INTERFACE, &interface.to_ne_bytes());
    let answer = request.ask()?;
    let attributes = answer.get(12..).ok_or(Errno::PROTO)?;
    if attribute(attributes, ROUTE_INTERFACE) != Some(&interface.to_ne_bytes()) {
        return Err(Errno::NETUNREACH);
    }
    let source = attribute(attributes, ROUTE_SOURCE).and_then(address).ok_or(Errno::ADDRNOTAVAIL)?;
    // A gateway of the other family is written with its family in front.
    let via = attribute(attributes, ROUTE_VIA).and_then(|via| via.get(2..));
    let gateway = attribute(attributes, ROUTE_GATEWAY).or(via).and_then(address);
    Ok(Route { source, next_hop: gateway.unwrap_or(destination) })
}

/// The MAC address of a neighbour, if the kernel knows it.
pub(super) fn neighbour(address: IpAddr, interface: u32) -> Result<Option<Mac>, Errno> {
    let (family, octets) = octets(address);
    // struct ndmsg: the family and, as its second word, the interface.
    let mut body = [0; 12];
    body[0] = family;
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let answer = match Request::new(GET_NEIGHBOUR, &body).with(NEIGHBOUR_ADDRESS, &octets).ask() {
        Ok(answer) => answer,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    // Discovery is not complete, or has failed: there is no address then.
    let attributes = answer.get(12..).ok_or(Errno::PROTO)?;
    Ok(attribute(attributes, NEIGHBOUR_MAC).and_then(|mac| mac.try_into().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_those_cut_short_are_none() {
        let attributes = [6, 0, 3, 0, 7, 8, 0, 0, 8, 0, 1, 0, 1, 2, 3, 4];
        assert_eq!(attribute(&attributes, 3), Some(&[7, 8][..]));
        assert_eq!(attribute(&attributes, 1), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&attributes, 2), None);
        assert_eq!(attribute(&attributes[..15], 1), None);
        assert_eq!(attribute(&[0; 8], 1), None, "a length of nothing ends it");
    }

    #[test]
    fn the_loopback_interface_is_known() {
        assert_eq!(mac(1), Ok([0; 6]));
        assert_eq!(mac(u32::MAX >> 1), Err(Errno::NODEV));
    }
}

//! Headers of Ethernet, IP and UDP: checked on receipt, written before a payload.

use super::XdpChecksums;

const ETHERNET: usize = 14;
const UDP: usize = 8;
const UDP_PROTOCOL: u8 = 17;
const HOPS: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    const fn ip_header(self) -> usize {
        match self {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }

    const fn ethertype(self) -> [u8; 2] {
        match self {
            Family::V4 => [0x08, 0x00],
            Family::V6 => [0x86, 0xdd],
        }
    }

    /// Bytes of all headers together.
    pub(super) const fn headers(self) -> usize {
        ETHERNET + self.ip_header() + UDP
    }

    /// The offset of the source address; the destination follows.
    const fn source(self) -> usize {
        match self {
            Family::V4 => ETHERNET + 12,
            Family::V6 => ETHERNET + 8,
        }
    }

    const fn address(self) -> usize {
        match self {
            Family::V4 => 4,
            Family::V6 => 16,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends<'a> {
    pub(super) family: Family,
    /// 6 bytes.
    pub(super) source_mac: &'a [u8],
    pub(super) destination_mac: &'a [u8],
    /// 4 or 16 bytes.
    pub(super) source: &'a [u8],
    pub(super) destination: &'a [u8],
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

impl Ends<'_> {
    pub(super) fn swapped(self) -> Self {
        Ends {
            family: self.family,
            source_mac: self.destination_mac,
            destination_mac: self.source_mac,
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

/// A packet that is a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) family: Family,
    /// Bytes of the payload, behind the headers.
    pub(super) length: usize,
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(port(bytes, at))
}

fn port(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Checks that a packet is a datagram; `None` if its headers are inconsistent: it is truncated, longer or shorter
/// than they say, or has a wrong checksum. The XDP program's checks are repeated, since they cost next to nothing
/// here.
pub(super) fn parse(packet: &[u8], checksums: XdpChecksums) -> Option<Datagram> {
    let family = match packet.get(12..ETHERNET)? {
        [0x08, 0x00] => Family::V4,
        [0x86, 0xdd] => Family::V6,
        _ => return None,
    };
    if packet.len() < family.headers() {
        return None;
    }
    let ip_payload = match family {
        Family::V4 => v4_payload(packet)?,
        Family::V6 => v6_payload(packet)?,
    };
    // Behind the IP packet there may be padding, to Ethernet's minimum of 60 bytes.
    let udp = ETHERNET + family.ip_header();
    let length = half(packet, udp + 4);
    if length < UDP || length > ip_payload || udp + ip_payload > packet.len() {
        return None;
    }
    let checksum = half(packet, udp + 6);
    // A missing checksum is allowed with IPv4 only (RFC 8200, section 8.1).
    if checksum == 0 && family == Family::V6 {
        return None;
    }
    if checksums == XdpChecksums::Verify && checksum != 0 && udp_sum(packet, family, length) != 0xffff {
        return None;
    }
    Some(Datagram { family, length: length - UDP })
}

/// Bytes behind the header of IPv4.
fn v4_payload(packet: &[u8]) -> Option<usize> {
    let header = &packet[ETHERNET..ETHERNET + 20];
    let whole = header[0] == 0x45 && half(header, 6) & 0x3fff == 0;
    if !whole || header[9] != UDP_PROTOCOL || fold(sum(header)) != 0xffff {
        return None;
    }
    half(header, 2).checked_sub(20)
}

/// Bytes behind the header of IPv6.
fn v6_payload(packet: &[u8]) -> Option<usize> {
    let header = &packet[ETHERNET..ETHERNET + 40];
    let plain = header[0] >> 4 == 6 && header[6] == UDP_PROTOCOL;
    plain.then(|| half(header, 4))
}

/// The addresses of a packet that [`parse`] has accepted.
pub(super) fn ends(packet: &[u8], family: Family) -> Ends<'_> {
    let (source, address) = (family.source(), family.address());
    let udp = ETHERNET + family.ip_header();
    Ends {
        family,
        source_mac: &packet[6..12],
        destination_mac: &packet[..6],
        source: &packet[source..source + address],
        destination: &packet[source + address..source + 2 * address],
        source_port: port(packet, udp),
        destination_port: port(packet, udp + 2),
    }
}

/// Writes the headers of a packet before its payload.
///
/// The UDP checksum is omitted with IPv4, which allows it: Ethernet has its own, and the payload need not be read
/// again.
///
/// # Panics
/// If the packet is shorter than the headers, or longer than the maximum.
pub(super) fn write_headers(packet: &mut [u8], ends: &Ends<'_>) {
    let (family, udp) = (ends.family, ETHERNET + ends.family.ip_header());
    let udp_length = u16::try_from(packet.len() - udp).expect("a packet is shorter than 64 KiB");
    packet[..6].copy_from_slice(ends.destination_mac);
    packet[6..12].copy_from_slice(ends.source_mac);
    packet[12..ETHERNET].copy_from_slice(&family.ethertype());
    let (source, address) = (family.source(), family.address());
    packet[source..source + address].copy_from_slice(ends.source);
    packet[source + address..source + 2 * address].copy_from_slice(ends.destination);
    packet[udp..udp + 2].copy_from_slice(&ends.source_port.to_be_bytes());
    packet[udp + 2..udp + 4].copy_from_slice(&ends.destination_port.to_be_bytes());
    packet[udp + 4..udp + 6].copy_from_slice(&udp_length.to_be_bytes());
    packet[udp + 6..udp + 8].fill(0);
    let header = &mut packet[ETHERNET..udp];
    match family {
        Family::V4 => {
            // No options, no identification since it may not be fragmented, and no checksum yet.
            let [high, low] = (udp_length + 20).to_be_bytes();
            header[..12].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0x40, 0, HOPS, UDP_PROTOCOL, 0, 0]);
            let checksum = !fold(sum(header));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Family::V6 => {
            let [high, low] = udp_length.to_be_bytes();
            header[..8].copy_from_slice(&[0x60, 0, 0, 0, high, low, UDP_PROTOCOL, HOPS]);
            // Zero would mean that there is none; the other zero is equivalent.
            let checksum = match !udp_sum(packet, family, usize::from(udp_length)) {
                0 => 0xffff,
                checksum => checksum,
            };
            packet[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// The sum of a UDP packet of this many bytes and of its pseudo-header (RFC 768).
fn udp_sum(packet: &[u8], family: Family, length: usize) -> u16 {
    let addresses = &packet[family.source()..family.source() + 2 * family.address()];
    let udp = ETHERNET + family.ip_header();
    let rest = (length + usize::from(UDP_PROTOCOL)) as u64;
    fold(sum(addresses) + sum(&packet[udp..udp + length]) + rest)
}

/// The sum of bytes taken as numbers of 32 bits. Modulo 0xffff it equals that of numbers of 16, and is faster.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.map(|word| u64::from(u32::from_be_bytes(*word))).sum()
}

/// Folds the sum to 16 bits, adding the carry until there is none (RFC 1071).
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4_ENDS: Ends<'static> = Ends {
        family: Family::V4,
        source_mac: &[2, 0, 0, 0, 0, 1],
        destination_mac: &[2, 0, 0, 0, 0, 2],
        source: &[192, 168, 0, 1],
        destination: &[192, 168, 0, 199],
        source_port: 40_000,
        destination_port: 11_211,
    };
    const V6_ENDS: Ends<'static> = Ends {
        family: Family::V6,
        source: &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        destination: &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        ..V4_ENDS
    };

    fn packet(ends: &Ends<'_>, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0xaa; ends.family.headers()];
        packet.extend_from_slice(payload);
        write_headers(&mut packet, ends);
        packet
    }

    #[test]
    fn written_headers_are_parsed() {
        for family_ends in [V4_ENDS, V6_ENDS] {
            for length in [0, 1, 2, 3, 4, 5, 100, 1452] {
                let payload: Vec<u8> = (0..length).map(|number| (number * 7) as u8).collect();
                let mut packet = packet(&family_ends, &payload);
                let datagram = parse(&packet, XdpChecksums::Verify).unwrap();
                assert_eq!(datagram, Datagram { family: family_ends.family, length });
                assert_eq!(ends(&packet, datagram.family), family_ends);
                assert_eq!(family_ends.swapped().swapped(), family_ends);
                assert_eq!(family_ends.swapped().source, family_ends.destination);
                packet.resize(packet.len().max(60), 0);
                assert_eq!(parse(&packet, XdpChecksums::Verify).unwrap().length, length, "with padding");
            }
        }
    }

    #[test]
    fn checksums_are_those_of_the_standards() {
        // The usual textbook example of a header.
        let mut header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 192, 168, 0, 1, 192, 168, 0, 199];
        assert_eq!(!fold(sum(&header)), 0xb861);
        header[10..12].copy_from_slice(&[0xb8, 0x61]);
        assert_eq!(fold(sum(&header)), 0xffff);
        assert_eq!(packet(&V4_ENDS, &[0; 0x73 - 28])[24..26], [0xb8, 0x61]);
        // RFC 1071, section 3.
        assert_eq!(fold(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
    }

    #[test]
    fn an_inconsistent_packet_is_rejected() {
        let change = |ends: &Ends<'_>, at: usize, value: &[u8]| {
            let mut packet = packet(ends, &[7; 32]);
            packet[at..at + value.len()].copy_from_slice(value);
            if ends.family == Family::V4 && (14..34).contains(&at) && at != 24 {
                packet[24..26].fill(0);
                let checksum = !fold(sum(&packet[14..34]));
                packet[24..26].copy_from_slice(&checksum.to_be_bytes());
            }
            parse(&packet, XdpChecksums::Trust)
        };
        for (at, value) in [
            (12, [0x81, 0x00]), // a VLAN tag
            (12, [0x08, 0x06]), // ARP
            (14, [0x46, 0x00]), // an option
            (14, [0x65, 0x00]), // another version
            (16, [0xff, 0xff]), // longer than the frame
            (16, [0x00, 0x13]), // shorter than its header
            (16, [0x00, 0x1b]), // shorter than UDP's
            (20, [0x20, 0x00]), // more fragments
            (20, [0x00, 0x01]), // not the first fragment
            (22, [0x40, 0x06]), // TCP
            (24, [0x12, 0x34]), // a wrong checksum
            (38, [0x00, 0x07]), // UDP shorter than its header
            (38, [0x00, 0x29]), // UDP longer than the packet
        ] {
            assert_eq!(change(&V4_ENDS, at, &value), None, "{at}: {value:x?}");
        }
        for (at, value) in [
            (14, [0x40, 0x00]), // another version
            (18, [0xff, 0xff]), // longer than the frame
            (18, [0x00, 0x07]), // shorter than UDP's header
            (20, [0x00, 0x40]), // an extension header
            (58, [0x00, 0x07]), // UDP shorter than its header
            (58, [0x00, 0x29]), // UDP longer than the packet
            (60, [0x00, 0x00]), // no checksum
        ] {
            assert_eq!(change(&V6_ENDS, at, &value), None, "{at}: {value:x?}");
        }
        assert!(change(&V4_ENDS, 38, &[0x00, 0x28]).is_some());
        for ends in [V4_ENDS, V6_ENDS] {
            let packet = packet(&ends, &[7; 32]);
            for length in 0..packet.len() {
                assert_eq!(parse(&packet[..length], XdpChecksums::Trust), None, "cut to {length}");
            }
        }
    }

    #[test]
    fn the_sum_of_a_payload_counts_where_it_is_verified() {
        let mut packet = packet(&V6_ENDS, &[7; 33]);
        packet[94] ^= 1;
        assert_eq!(parse(&packet, XdpChecksums::Verify), None);
        assert!(parse(&packet, XdpChecksums::Trust).is_some());
    }
}

//! Malformed packets, sent as raw frames.

use super::support::{Cable, INTERFACE};
use super::{DEADLINE, FIRST_PORT, Server, losses, reply, server_options};
use guira_sync::clock::Stopwatch;
use guira_transport::{Losses, PAYLOAD_MAX, XdpChecksums, XdpServerOptions};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with,
};

const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A socket for whole packets (`packet(7)`).
struct Wire(OwnedFd);

impl Wire {
    fn open() -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).unwrap();
        let index = netdevice::name_to_index(&socket, INTERFACE).unwrap();
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is readable for its length, and only read.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        assert_eq!(result, 0);
        Wire(socket)
    }

    fn send(&self, packet: &[u8]) {
        send(&self.0, packet, SendFlags::empty()).unwrap();
    }

    /// The payload of the next IPv4 UDP packet from the server's ports.
    fn receive(&self) -> Vec<u8> {
        let start = Stopwatch::start();
        let mut buffer = vec![0; 4096];
        loop {
            assert!(start.elapsed() < DEADLINE, "nothing comes");
            let length = match recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => continue,
                Err(errno) => panic!("{errno}"),
            };
            let packet = &buffer[..length];
            let udp = packet[12..15] == [8, 0, 0x45] && packet[23] == 17 && packet[6..12] == SERVER_MAC;
            if udp && packet[34..36] == FIRST_PORT.to_be_bytes() {
                assert_eq!((sum(&packet[14..34]), &packet[..6]), (0xffff, &CLIENT_MAC[..]));
                assert_eq!(packet[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
                assert_eq!(usize::from(u16::from_be_bytes([packet[16], packet[17]])), length - 14);
                return packet[42..].to_vec();
            }
        }
    }
}

fn sum(bytes: &[u8]) -> u16 {
    let pairs =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let sum: u32 = pairs.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A valid packet with this payload.
fn packet(payload: &[u8]) -> Vec<u8> {
    let mut packet = [SERVER_MAC, CLIENT_MAC].concat();
    packet.extend([8, 0]);
    let length = (28 + payload.len()) as u16;
    packet.extend([0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend([10, 0, 0, 2, 10, 0, 0, 1]);
    packet.extend(40_000u16.to_be_bytes());
    packet.extend(FIRST_PORT.to_be_bytes());
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    with_checksum(packet)
}

fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[24..26].fill(0);
    let checksum = !sum(&packet[14..34]);
    packet[24..26].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The same with some bytes changed, and the header's checksum corrected.
fn changed(at: usize, value: &[u8]) -> Vec<u8> {
    let mut packet = packet(b"forged, do not answer");
    packet[at..at + value.len()].copy_from_slice(value);
    with_checksum(packet)
}

/// Packets that reach the server and are dropped.
fn malformed() -> Vec<Vec<u8>> {
    let mut wrong_sum = packet(b"forged, do not answer");
    wrong_sum[24] ^= 1;
    vec![
        changed(16, &[0xff, 0xff]), // IP is longer than the frame
        changed(16, &[0, 51]),      // IP is longer than the frame by a few bytes
        changed(16, &[0, 19]),      // IP is shorter than its header
        changed(16, &[0, 27]),      // IP is shorter than the header of UDP
        changed(38, &[0, 7]),       // UDP is shorter than its header
        changed(38, &[0, 0]),
        changed(38, &[0, 30]), // UDP is longer than IP
        changed(38, &[0xff, 0xff]),
        wrong_sum,
    ]
}

/// Packets that the program passes to the kernel, which drops them.
fn not_ours() -> Vec<Vec<u8>> {
    let good = packet(b"forged, do not answer");
    let mut tagged = good.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let mut options = good.clone();
    options.splice(34..34, [1, 1, 1, 1]);
    options[14] = 0x46;
    let group = [&[0xff; 6], &good[6..]].concat();
    let elsewhere = [&[2, 0, 0, 0, 0, 9], &good[6..]].concat();
    let mut v6 = [SERVER_MAC, CLIENT_MAC].concat();
    v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 0, 64]);
    v6.resize(14 + 40 + 16, 0);
    vec![
        tagged,
        options,
        group,
        elsewhere,
        v6,                      // with an extension header
        changed(20, &[0x20, 0]), // the first fragment
        changed(20, &[0, 10]),   // another fragment
        changed(14, &[0x44]),    // IP's header is too short
        changed(14, &[0x65]),    // another version
        changed(30, &[10, 0, 0, 9]),
        good[..14].to_vec(),
        good[..30].to_vec(),
        good[..41].to_vec(),
    ]
}

#[test]
fn forged_packets_are_not_answered_and_do_no_harm() {
    let Some(cable) = Cable::new(1) else { return };
    let server = Server::open(&cable, &server_options(1));
    let wire = cable.client.run(Wire::open);
    let (malformed, not_ours) = (malformed(), not_ours());
    for (number, forged) in malformed.iter().chain(&not_ours).enumerate() {
        wire.send(forged);
        // The veth pair and the server keep the order: the first answer is that of this packet.
        let probe = format!("probe {number}");
        wire.send(&packet(probe.as_bytes()));
        assert_eq!(wire.receive(), reply(0, probe.as_bytes()), "behind {forged:x?}");
    }
    let losses = losses(&server.stop()[0]);
    assert_eq!(losses, Losses { unreadable: malformed.len() as u64, overrun: 0 });
}

#[test]
fn padded_empty_and_longest_datagrams_are_answered_and_longer_ones_are_not() {
    let Some(cable) = Cable::new(1) else { return };
    let server = Server::open(&cable, &server_options(1));
    let wire = cable.client.run(Wire::open);
    let mut padded = packet(b"");
    padded.resize(60, 0xee);
    for forged in [padded, packet(b"")] {
        wire.send(&forged);
        assert_eq!(wire.receive(), reply(0, b""));
    }
    // A datagram of IPv4 can be longer by the 20 bytes that its header is shorter.
    wire.send(&packet(&[7; PAYLOAD_MAX + 1]));
    wire.send(&packet(&[7; PAYLOAD_MAX]));
    assert_eq!(wire.receive(), reply(0, &[7; PAYLOAD_MAX])[..PAYLOAD_MAX]);
    assert_eq!(losses(&server.stop()[0]).unreadable, 1);
}

#[test]
fn checksums_are_verified_where_that_is_asked_for() {
    let Some(cable) = Cable::new(1) else { return };
    let options = XdpServerOptions { checksums: XdpChecksums::Verify, ..server_options(1) };
    let server = Server::open(&cable, &options);
    let wire = cable.client.run(Wire::open);
    let good = packet(b"summed up");
    let stands_for_ip = [&good[26..34], &[0, 17], &good[38..40], &good[34..]].concat();
    let checksum = !sum(&stands_for_ip);
    for (checksum, text) in
        [(checksum ^ 0x100, None), (checksum, Some(b"summed up")), (0, Some(b"summed up"))]
    {
        let mut packet = good.clone();
        packet[40..42].copy_from_slice(&checksum.to_be_bytes());
        wire.send(&packet);
        if let Some(text) = text {
            assert_eq!(wire.receive(), reply(0, text));
        }
    }
    assert_eq!(losses(&server.stop()[0]).unreadable, 1);
}

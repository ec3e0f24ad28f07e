//! The path through the kernel: UDP sockets.

use super::buffers::{BURST_BUFFERS_BYTES, BurstBuffers};
use super::losses::{LossMeter, SocketMeter, dropped};
use super::segments::{Intake, Outbound, Segmentation, receive_segmented, send};
use super::{BURST_MAX, ClientPath, Park, Sent, ServerPath};
use crate::datagram::{PortSharing, datagram_socket};
use crate::net::UdpSocket;
use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::time::Timespec;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The most memory of a [`UdpServerPath`], in bytes.
pub const UDP_PATH_BYTES: usize = (2 << 20) + BURST_BUFFERS_BYTES + (128 << 10);

/// A server's end: a UDP socket of its own.
#[derive(Debug)]
pub struct UdpServerPath {
    socket: Arc<UdpSocket>,
    intake: Intake,
    answers: BurstBuffers,
    burst: usize,
    segmentation: Segmentation,
}

impl UdpServerPath {
    /// Receives datagrams at `address`, which no other socket may have.
    ///
    /// # Errors
    /// An error of the system.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = datagram_socket(address, PortSharing::Alone)?;
        receive_segmented(socket.as_fd());
        let segmentation = Segmentation::On;
        Ok(UdpServerPath {
            socket: Arc::new(socket),
            intake: Intake::default(),
            answers: BurstBuffers::default(),
            burst: 0,
            segmentation,
        })
    }

    /// The local address.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl ServerPath for UdpServerPath {
    fn name(&self) -> &'static str {
        "UDP"
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.answers.clear(self.burst);
        // An error concerns a datagram sent before: its receiver is gone.
        self.burst = self.intake.advance(self.socket.as_fd()).unwrap_or(0);
        Ok(self.burst)
    }

    #[inline(always)]
    fn exchange(&mut self, index: usize) -> (&[u8], &mut [u8]) {
        (self.intake.get(index), self.answers.buffer(index))
    }

    #[inline(always)]
    fn answer(&mut self, index: usize, length: usize) {
        assert!(index < self.burst, "a datagram of the burst");
        self.answers.fill(index, length);
    }

    fn send(&mut self) -> Sent {
        let answered = (0..self.burst).filter(|index| self.answers.length(*index) > 0);
        let mut datagrams: ArrayVec<Outbound<'_>, BURST_MAX> =
            answered.map(|index| Outbound::answer(&self.intake, index, self.answers.get(index))).collect();
        let sent = send(self.socket.as_fd(), &mut datagrams, &mut self.segmentation);
        drop(datagrams);
        self.answers.clear(self.burst);
        sent
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn park(&mut self) -> Park {
        if self.intake.is_last() { Park::Quiet } else { Park::Pending }
    }

    fn meter(&self) -> Option<Arc<dyn LossMeter>> {
        let socket = std::iter::once(&self.socket);
        Some(Arc::new(SocketMeter::new(socket, self.intake.unreadable(), dropped)))
    }

    fn unpark(&mut self) {}
}

/// Datagrams to one thread of a server.
#[derive(Debug)]
struct Lane {
    socket: UdpSocket,
    buffers: BurstBuffers,
    posted: usize,
}

/// A client's end: a connected UDP socket for each thread of the server.
#[derive(Debug)]
pub struct UdpClientPath {
    /// The address of the first thread.
    server: SocketAddr,
    lanes: Vec<Lane>,
    intake: Intake,
    /// The lane of the last buffer.
    current: usize,
    /// The lane that is polled first for answers.
    first_lane: usize,
    segmentation: Segmentation,
}

impl UdpClientPath {
    /// A path to the first thread of a server, at this address; the others have the following ports.
    ///
    /// # Errors
    /// An error of the system.
    pub fn connect(server: SocketAddr) -> io::Result<Self> {
        let mut path = UdpClientPath {
            server,
            lanes: Vec::new(),
            intake: Intake::default(),
            current: 0,
            first_lane: 0,
            segmentation: Segmentation::On,
        };
        path.reach(1)?;
        Ok(path)
    }

    /// Opens the lane to a thread.
    fn lane(&self, core: usize) -> io::Result<Lane> {
        let mut server = self.server;
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = datagram_socket(any, PortSharing::Alone)?;
        server.set_port(server.port().wrapping_add(core as u16));
        socket.connect(server)?;
        receive_segmented(socket.as_fd());
        Ok(Lane { socket, buffers: BurstBuffers::default(), posted: 0 })
    }

    fn flush_lane(&mut self, core: usize) {
        let lane = &mut self.lanes[core];
        let mut datagrams: ArrayVec<Outbound<'_>, BURST_MAX> =
            (0..lane.posted).map(|index| Outbound { peer: None, bytes: lane.buffers.get(index) }).collect();
        send(lane.socket.as_fd(), &mut datagrams, &mut self.segmentation);
        lane.posted = 0;
    }
}

impl ClientPath for UdpClientPath {
    fn cores(&self) -> usize {
        self.lanes.len()
    }

    fn reach(&mut self, cores: usize) -> io::Result<()> {
        self.lanes.truncate(cores);
        for core in self.lanes.len()..cores {
            let lane = self.lane(core)?;
            self.lanes.push(lane);
        }
        self.first_lane = 0;
        Ok(())
    }

    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        if self.lanes[core].posted == BURST_MAX {
            self.flush_lane(core);
        }
        self.current = core;
        let lane = &mut self.lanes[core];
        Some(lane.buffers.buffer(lane.posted))
    }

    fn post(&mut self, length: usize) {
        let lane = &mut self.lanes[self.current];
        assert!(lane.posted < BURST_MAX, "a buffer was taken");
        lane.buffers.fill(lane.posted, length);
        lane.posted += 1;
    }

    fn flush(&mut self) -> io::Result<()> {
        for core in 0..self.lanes.len() {
            if self.lanes[core].posted > 0 {
                self.flush_lane(core);
            }
        }
        Ok(())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        for _ in 0..self.lanes.len() {
            let socket = self.lanes[self.first_lane].socket.as_fd();
            // An error concerns a datagram sent before: the server is not running.
            let count = self.intake.advance(socket).unwrap_or(0);
            (0..count).for_each(|index| take(self.intake.get(index)));
            if self.intake.is_last() {
                self.first_lane = (self.first_lane + 1) % self.lanes.len();
            }
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        if !self.intake.is_last() {
            return Ok(());
        }
        let mut sockets: Vec<PollFd<'_>> =
            self.lanes.iter().map(|lane| PollFd::new(&lane.socket, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PAYLOAD_MAX;
    use super::super::losses::Losses;
    use super::*;

    /// Answers every datagram with its bytes reversed, and returns their number.
    fn echo(server: &mut UdpServerPath) -> usize {
        let count = server.receive().unwrap();
        for index in 0..count {
            let (datagram, buffer) = server.exchange(index);
            let length = datagram.len();
            buffer[..length].copy_from_slice(datagram);
            buffer[..length].reverse();
            server.answer(index, length);
        }
        assert_eq!(server.send().datagrams, count);
        count
    }

    fn pair(address: &str) -> Option<(Vec<UdpServerPath>, UdpClientPath)> {
        // Two adjacent ports; another process may have taken the second.
        for _ in 0..100 {
            let first = UdpServerPath::bind(address.parse().unwrap()).ok()?;
            let mut address = first.address().unwrap();
            let mut client = UdpClientPath::connect(address).unwrap();
            client.reach(2).unwrap();
            address.set_port(address.port().wrapping_add(1));
            if let Ok(second) = UdpServerPath::bind(address) {
                return Some((vec![first, second], client));
            }
        }
        panic!("no two ports");
    }

    fn exchange_all(address: &str) {
        let Some((mut servers, mut client)) = pair(address) else {
            return println!("skipped: this machine does not have {address}");
        };
        let mut expected = Vec::new();
        for number in 0..500u32 {
            // Many of one length in a row, and some of others.
            let length = if number % 50 == 7 { PAYLOAD_MAX } else { 40 + (number as usize / 100) };
            let mut bytes = vec![number as u8; length];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            let buffer = client.buffer(number as usize % 2).unwrap();
            buffer[..length].copy_from_slice(&bytes);
            client.post(length);
            bytes.reverse();
            expected.push(bytes);
        }
        client.flush().unwrap();
        let mut received = Vec::new();
        while received.len() < 500 {
            servers.iter_mut().for_each(|server| _ = echo(server));
            client.receive(&mut |bytes| received.push(bytes.to_vec())).unwrap();
        }
        received.sort();
        expected.sort();
        assert!(received == expected);
    }

    #[test]
    fn answers_reach_their_clients_over_both_families() {
        exchange_all("127.0.0.1:0");
        exchange_all("[::1]:0");
    }

    #[test]
    fn long_datagrams_are_dropped() {
        let mut server = UdpServerPath::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(&[0; PAYLOAD_MAX + 1], server.address().unwrap()).unwrap();
        client.send_to(&[1; PAYLOAD_MAX], server.address().unwrap()).unwrap();
        let mut count = 0;
        while count == 0 {
            count = server.receive().unwrap();
        }
        assert_eq!((count, server.exchange(0).0), (1, &[1; PAYLOAD_MAX][..]));
        assert_eq!(server.send(), Sent::default(), "nothing was answered");
        let losses = Losses { unreadable: 1, overrun: 0 };
        assert_eq!(server.meter().unwrap().losses(), losses);
    }

    #[test]
    fn overruns_are_reported_even_when_the_path_is_gone() {
        let mut server = UdpServerPath::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let meter = server.meter().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sent = 0;
        while meter.losses().overrun < 10 {
            client.send_to(&[0; PAYLOAD_MAX], server.address().unwrap()).unwrap();
            sent += 1;
        }
        let mut received = 0;
        while received < sent - 10 {
            received += server.receive().unwrap();
        }
        assert_eq!(server.receive().unwrap(), 0);
        let losses = Losses { unreadable: 0, overrun: 10 };
        assert_eq!(meter.losses(), losses);
        drop(server);
        assert_eq!(meter.losses(), losses);
    }

    #[test]
    fn a_burst_has_an_end_and_the_rest_disturbs_sleep() {
        let mut server = UdpServerPath::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = UdpClientPath::connect(server.address().unwrap()).unwrap();
        for _ in 0..2 * BURST_MAX {
            client.buffer(0).unwrap()[0] = 1;
            client.post(100);
        }
        client.flush().unwrap();
        let mut total = 0;
        while total < 2 * BURST_MAX {
            let count = server.receive().unwrap();
            assert!(count <= BURST_MAX);
            total += count;
            let expected = if total < 2 * BURST_MAX { Park::Pending } else { Park::Quiet };
            assert_eq!(server.park(), expected);
            server.unpark();
        }
    }

    #[test]
    fn a_server_that_is_not_there_yet_is_no_error() {
        let gone = UdpServerPath::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = gone.address().unwrap();
        drop(gone);
        let mut client = UdpClientPath::connect(address).unwrap();
        let ask = |client: &mut UdpClientPath| {
            client.buffer(0).unwrap()[0] = 9;
            client.post(1);
            client.flush().unwrap();
        };
        ask(&mut client);
        client.wait(Duration::from_secs(5)).unwrap();
        assert_eq!(client.receive(&mut |_| panic!("no server")).unwrap(), 0);
        let mut server = UdpServerPath::bind(address).unwrap();
        ask(&mut client);
        while echo(&mut server) == 0 {}
        let mut received = 0;
        while received == 0 {
            client.wait(Duration::from_secs(5)).unwrap();
            received = client.receive(&mut |bytes| assert_eq!(bytes, [9])).unwrap();
        }
    }

    #[test]
    fn one_packet_from_port_0_does_not_end_segmentation() {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        let mut server = UdpServerPath::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address().unwrap();
        // SAFETY: a new socket.
        let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP) };
        if raw < 0 {
            return println!(
                "skipped: only root can send this packet from here; a remote client needs no privileges"
            );
        }
        // SAFETY: the descriptor is owned by nothing else.
        let raw = unsafe { OwnedFd::from_raw_fd(raw) };
        let payload = [7u8; 48];
        let mut packet = Vec::new();
        packet.extend(0u16.to_be_bytes());
        packet.extend(address.port().to_be_bytes());
        packet.extend((8 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        let to = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        // SAFETY: both live through the call.
        let sent = unsafe {
            libc::sendto(
                raw.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_in>() as u32,
            )
        };
        assert_eq!(sent, packet.len() as isize);
        while server.receive().unwrap() == 0 {}
        let (datagram, buffer) = server.exchange(0);
        buffer[..48].copy_from_slice(datagram);
        server.answer(0, 48);
        server.send();
        assert_eq!(server.segmentation, Segmentation::On, "segmentation is disabled for all clients");
    }
}

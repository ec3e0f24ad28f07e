//! AF_XDP: datagrams that bypass the kernel's network stack. A program at the interface selects the packets to the
//! server's ports, and the driver puts them into memory that this process shares with the kernel; all other packets
//! go to the kernel as before, including ARP and neighbour discovery.
//!
//! | module | |
//! |---|---|
//! | `program`, `bpf` | what the kernel runs for each packet, and how it gets there |
//! | `umem`, `ring`, `socket` | memory, rings and sockets that are shared with the kernel |
//! | `interface` | all of these at an interface, for several threads |
//! | `packet` | headers |
//! | `netlink`, `ethtool` | what the kernel and the card know of the network |
//! | `server`, `client` | the two ends of the path |
//!
//! # Threads and queues
//! Each thread has its own port (`first_port + core`) and its own socket at each queue that may deliver datagrams to
//! that port. An interface with one queue delivers the packets of all threads by it; the sockets of a queue share
//! memory and its rings of frames under a lock (see `socket`). A card with several queues distributes packets by a
//! hash of addresses and ports, so that any queue may deliver a thread's packets: the thread has a socket at every
//! queue.
//!
//! # What the program does not see
//! Only packets that reach the interface by the wire, addressed to its own MAC address. A client on the same machine
//! reaches the server by the loopback interface, and so only by a kernel socket. The same holds for datagrams in
//! VLANs, with IP options and in fragments.
//!
//! # What has been tested
//! Everything here has been tested on veth pairs, native and generic. Packets are always copied between the card's
//! memory and the shared memory; zero copy and a card's rules from ports to queues need a real card and do not exist.

mod bpf;
mod client;
mod error;
mod ethtool;
mod interface;
mod netlink;
mod packet;
mod program;
mod ring;
mod server;
mod socket;
mod sys;
mod umem;

pub use bpf::XdpMode;
pub use client::{XdpClientOptions, XdpClientPath};
pub use error::XdpError;
pub use interface::XdpFacts;
pub use server::{XdpServerOptions, XdpServerPath};

/// Where the XDP program may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpAttach {
    /// In the driver, or if that fails, in the kernel: [`XdpFacts::mode`] reports which.
    NativeFirst,
    /// Only in the driver.
    NativeOnly,
    /// In the kernel: works with any driver, but is slower.
    Generic,
}

/// Whether UDP checksums are verified. The checksum of the IPv4 header always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpChecksums {
    /// They are not: the card has verified them, or Ethernet's checksum suffices.
    Trust,
    /// They are, if present. Not usable for packets of another process on the same machine by a virtual interface:
    /// the kernel leaves the checksum to the card, and there is none.
    Verify,
}

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
//! | `rules` | rules of a card from ports to queues; not tested |
//!
//! # Threads and queues
//! Each thread has its own port (`first_port + core`) and its own socket at each queue that may deliver datagrams to
//! that port. An interface with one queue delivers the packets of all threads by it; the sockets of a queue share
//! memory and its rings of frames under a lock (see `socket`). A card with several queues distributes packets by a
//! hash of addresses and ports, so that any queue may deliver a thread's packets: the thread then has a socket at
//! every queue ([`XdpSteering::EveryQueue`]), or the card is given rules ([`XdpSteering::Rules`]).
//!
//! # What the program does not see
//! Only packets that reach the interface by the wire, addressed to its own MAC address. A client on the same machine
//! reaches the server by the loopback interface, and so only by a kernel socket. The same holds for datagrams in
//! VLANs, with IP options and in fragments.
//!
//! # What has been tested
//! Everything here has been tested on veth pairs, native and generic, which copy. Zero copy and steering rules need a
//! real card; they follow the kernel's documentation and have not been run.

mod bpf;
mod client;
mod error;
mod ethtool;
mod interface;
mod netlink;
mod packet;
mod program;
mod ring;
mod rules;
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

/// Whether packets are copied between the card's memory and the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpCopying {
    /// Always: works with any driver.
    Copy,
    /// Only if the driver does not support zero copy: [`XdpFacts::zero_copy`] reports it. Not tested on a real card.
    ZeroCopyFirst,
}

/// How datagrams reach the thread of their port, if the interface has several queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpSteering {
    /// Each thread listens to every queue. Always works; many threads and queues make many sockets, and a packet may
    /// arrive on another processor than its thread's.
    EveryQueue,
    /// The card is given rules from ports to queues (ethtool's n-tuple rules, for IPv4 and IPv6), and a thread
    /// listens only to its queue. Not tested on a real card.
    Rules,
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

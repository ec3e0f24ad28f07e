//! AF_XDP: datagrams that bypass the kernel's network stack. A program at the interface, put there by us, picks those of the server's
//! ports out of all packets, and has the driver put them into memory that this process shares with the kernel; everything else goes on
//! to the kernel as before, ARP and neighbour discovery among it.
//!
//! | module | |
//! |---|---|
//! | `program`, `bpf` | what the kernel runs for each packet, and how it gets there |
//! | `umem`, `ring`, `socket` | memory, rings and sockets that are shared with the kernel |
//! | `interface` | all of these at an interface, for several threads |
//! | `packet` | headers |
//! | `netlink`, `ethtool` | what the kernel and the card know of the network |
//! | `server`, `client` | the two ends of the path |
//! | `untried` | what needs a real card and has not been tried: zero copy, and steering by rules |
//!
//! # Threads and queues
//! Each thread has a port of its own (`first_port + core`) and a socket of its own at each queue by which datagrams to that port may
//! come. A card with one queue, and a virtual interface with one, brings the packets of all threads by it; the sockets of a queue share
//! memory and its rings of frames under a lock (see `socket`). A card with several queues spreads packets by a hash of addresses and
//! ports, so that a thread's may come by any queue: it then has a socket at every queue ([`XdpSteering::EveryQueue`]), or the card is
//! given rules ([`XdpSteering::Rules`]).
//!
//! # What does not come this way
//! Only what reaches the interface by the wire, addressed to its own MAC address, is seen here. A client on the same machine reaches the
//! server by the loopback interface, and so only a socket of the kernel's. The same goes for datagrams in VLANs, with IP options and in
//! fragments.

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
mod untried;

pub use bpf::XdpMode;
pub use client::{XdpClientOptions, XdpClientPath};
pub use error::XdpError;
pub use interface::XdpFacts;
pub use server::{XdpServerOptions, XdpServerPath};

/// Where the XDP program may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpAttach {
    /// In the driver, or if it cannot, in the kernel: [`XdpFacts::mode`] says which.
    NativeFirst,
    /// In the driver or not at all.
    NativeOnly,
    /// In the kernel: any driver will do, but it is slower.
    Generic,
}

/// Whether packets are copied between the card's memory and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpCopying {
    /// They are: any driver will do.
    Copy,
    /// They are not if the driver can do without: [`XdpFacts::zero_copy`] says. Not tried on a real card.
    ZeroCopyFirst,
}

/// How datagrams find the thread that their port belongs to, where the interface has several queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpSteering {
    /// Each thread listens to every queue. Always works; many threads at many queues are many sockets, and every packet may be another
    /// processor's than the thread's.
    EveryQueue,
    /// The card is told which port belongs to which queue (ethtool's n-tuple rules, for IPv4 and IPv6), and a thread listens to its queue
    /// only. Not tried on a real card.
    Rules,
}

/// Whether the checksums of UDP are verified. That of the header of IPv4 always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpChecksums {
    /// They are not: the card has looked at them, or Ethernet's own is enough.
    Trust,
    /// They are, if there is one. Not to be used where packets come from another process of the same machine by a virtual interface: a
    /// kernel that sends leaves the checksum to the card, and there is none.
    Verify,
}

//! Errors of opening an AF_XDP path.

use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// Why an AF_XDP path cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The interface does not exist in this network namespace.
    #[error("there is no network interface {interface}")]
    NoInterface { interface: String, source: io::Error },
    #[error(
        "no permission to {step}: AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and a sufficient limit \
             of locked memory"
    )]
    NoPrivileges { step: &'static str, source: io::Error },
    /// The kernel lacks AF_XDP, or is too old.
    #[error("this kernel cannot {step}: AF_XDP needs Linux 5.9 or later with CONFIG_XDP_SOCKETS")]
    NoKernelSupport { step: &'static str, source: io::Error },
    /// The driver has no native XDP, and generic mode was not allowed.
    #[error(
        "the driver of {interface} has no native XDP, or none with its current settings, such as its MTU"
    )]
    NoNativeMode { interface: String, source: io::Error },
    /// Another process has an XDP program at the interface, or AF_XDP sockets at one of its queues.
    #[error("another program already uses XDP on {interface}")]
    Occupied { interface: String, source: io::Error },
    #[error("the kernel refuses the XDP program: {log}")]
    ProgramRefused { log: String, source: io::Error },
    /// There is no route to the server by this interface.
    #[error("no route to {address} by {interface}")]
    NoRoute { address: IpAddr, interface: String, source: io::Error },
    #[error("cannot find the MAC address of {address} on {interface}: no ARP or neighbor reply")]
    NoNeighbour {
        /// The server, or the gateway to it.
        address: IpAddr,
        interface: String,
    },
    #[error("AF_XDP: {0}")]
    Options(&'static str),
    #[error("AF_XDP: cannot {step}")]
    System { step: &'static str, source: io::Error },
}

impl XdpError {
    /// The usual meaning of an error in this step.
    pub(super) fn at(step: &'static str) -> impl Fn(Errno) -> XdpError {
        move |errno| {
            let source = io::Error::from(errno);
            match errno {
                Errno::PERM | Errno::ACCESS | Errno::NOBUFS => XdpError::NoPrivileges { step, source },
                Errno::AFNOSUPPORT | Errno::NOSYS | Errno::NOPROTOOPT => {
                    XdpError::NoKernelSupport { step, source }
                }
                _ => XdpError::System { step, source },
            }
        }
    }

    /// Whether the interface is in use; this may last a moment after its last user has gone.
    pub(super) fn is_occupied(&self) -> bool {
        matches!(self, XdpError::Occupied { .. })
    }
}

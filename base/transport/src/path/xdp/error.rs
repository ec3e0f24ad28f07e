//! Why there is no AF_XDP path.

use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// Why an AF_XDP path cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The interface does not exist, in this network namespace.
    #[error("there is no network interface {interface}")]
    NoInterface {
        /// Its name.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// The process may not do it.
    #[error(
        "no privileges to {step}: CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed, and a limit of locked memory that allows it"
    )]
    NoPrivileges {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel was built without AF_XDP, or is older than it.
    #[error(
        "this kernel has no AF_XDP, or not what is needed of it, to {step} (Linux 5.9 and more with CONFIG_XDP_SOCKETS)"
    )]
    NoKernelSupport {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The driver has no native XDP, and nothing else was allowed.
    #[error("the driver of {interface} has no native XDP, or not with its present settings, such as its MTU")]
    NoNativeMode {
        /// The interface.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else has an XDP program at the interface, or AF_XDP sockets at one of its queues.
    #[error("another program uses XDP on {interface} already")]
    Occupied {
        /// The interface.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not take our program.
    #[error("the kernel refuses the XDP program: {log}")]
    ProgramRefused {
        /// The verifier's words.
        log: String,
        /// What the system said.
        source: io::Error,
    },
    /// The card has several queues, but does not let ports be assigned to them.
    #[error(
        "{interface} does not steer ports to queues (ethtool's n-tuple rules); let every thread listen to every queue"
    )]
    NoSteering {
        /// The interface.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no way to the server by this interface.
    #[error("no route to {address} by {interface}")]
    NoRoute {
        /// The server.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody at the interface has answered to an address.
    #[error("{address} does not answer on {interface}: its MAC address is unknown")]
    NoNeighbour {
        /// The server, or the gateway that leads to it.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
    /// The options make no sense.
    #[error("AF_XDP: {0}")]
    Options(&'static str),
    /// Something else.
    #[error("AF_XDP: cannot {step}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl XdpError {
    /// What most failures of a step mean.
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

    /// Whether the interface is taken; a moment after its last owner has gone it may still look so.
    pub(super) fn is_occupied(&self) -> bool {
        matches!(self, XdpError::Occupied { .. })
    }
}

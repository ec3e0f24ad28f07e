//! An interface with the program attached, and sockets for several threads.

use super::bpf::{self, SocketMap, XdpMode};
use super::error::XdpError;
use super::netlink::{self, Mac};
use super::program::{Filter, program};
use super::socket::{Kick, QueueBinding, Socket};
use super::{XdpAttach, ethtool};
use guira_sync::clock::Stopwatch;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpFacts {
    pub mode: XdpMode,
    pub queues: u32,
    /// Memory shared with the kernel, for all threads together, in bytes. It is committed from the start.
    pub bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct InterfaceOptions {
    pub(super) interface: String,
    pub(super) attach: XdpAttach,
}

/// The kernel tears sockets and programs down shortly after they were closed; opening an interface in use is retried
/// for this long.
const TEARDOWN: Duration = Duration::from_secs(3);

/// The attached program, and its resources. It is detached with the last thread's sockets.
#[derive(Debug)]
struct Attachment {
    _link: OwnedFd,
    map: SocketMap,
    facts: XdpFacts,
}

/// One thread's part of an interface.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) sockets: Vec<Socket>,
    /// An epoll descriptor for the sockets, if there are several.
    bell: Option<OwnedFd>,
    /// The keys of the sockets in the program's map.
    keys: Vec<u32>,
    attachment: Arc<Attachment>,
}

impl Endpoint {
    pub(super) fn facts(&self) -> XdpFacts {
        self.attachment.facts
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_ref().map_or_else(|| self.sockets[0].as_fd(), AsFd::as_fd)
    }

    /// Makes the kernel send pending packets of every socket.
    pub(super) fn kick(&mut self) -> Kick {
        let kicks = self.sockets.iter_mut().map(Socket::kick);
        kicks.fold(Kick::Done, |worst, kick| if worst == Kick::Done { kick } else { worst })
    }

    /// An asynchronous error of a socket.
    pub(super) fn error(&self) -> Option<Errno> {
        self.sockets.iter().find_map(Socket::error)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Other threads may go on: packets for this one go to the kernel again.
        self.keys.iter().for_each(|key| self.attachment.map.remove(*key));
        self.sockets.iter_mut().for_each(|socket| socket.abandon(&mut Vec::new()));
    }
}

pub(super) fn index(interface: &str) -> Result<u32, XdpError> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(XdpError::at("open a socket"))?;
    netdevice::name_to_index(socket, interface)
        .map_err(|errno| XdpError::NoInterface { interface: interface.to_owned(), source: errno.into() })
}

pub(super) fn mac(index: u32) -> Result<Mac, XdpError> {
    netlink::mac(index).map_err(XdpError::at("find the interface's MAC address"))
}

/// Opens an interface for as many threads as there are ports, for datagrams to these addresses.
pub(super) fn open(
    options: &InterfaceOptions,
    addresses: Vec<IpAddr>,
    first_port: u16,
    ports: u32,
) -> Result<Vec<Endpoint>, XdpError> {
    let (name, index) = (options.interface.as_str(), index(&options.interface)?);
    let mac = mac(index)?;
    let filter = Filter { mac, addresses, first_port, ports, queues: ethtool::queues(name) };
    let map = SocketMap::new(filter.queues * filter.ports)?;
    let (threads, bytes) = bind(options, &filter, index, &map)?;
    let program = bpf::load(&program(&filter, map.raw()))?;
    let (link, mode) = until_free(|| attach(&program, name, index, options.attach))?;
    let facts = XdpFacts { mode, queues: filter.queues, bytes };
    let attachment = Arc::new(Attachment { _link: link, map, facts });
    let endpoints = threads.into_iter().map(|(sockets, keys)| {
        let bell = if sockets.len() == 1 { None } else { Some(bell(&sockets)?) };
        Ok(Endpoint { sockets, bell, keys, attachment: attachment.clone() })
    });
    endpoints.collect()
}

/// The memory that sockets for this many ports share with the kernel, in bytes.
pub(super) fn memory(options: &InterfaceOptions, ports: u32) -> usize {
    let queues = ethtool::queues(&options.interface);
    let of_queue =
        |queue| QueueBinding { interface: &options.interface, index: 0, queue, sockets: ports }.bytes();
    if ports == 0 { 0 } else { (0..queues).map(of_queue).sum() }
}

/// One thread's sockets, and their keys in the map.
type Bound = (Vec<Socket>, Vec<u32>);

/// Opens sockets for all threads at all queues. Returns also their memory.
fn bind(
    options: &InterfaceOptions,
    filter: &Filter,
    index: u32,
    map: &SocketMap,
) -> Result<(Vec<Bound>, usize), XdpError> {
    let mut bytes = 0;
    let mut threads: Vec<Bound> = (0..filter.ports).map(|_| Bound::default()).collect();
    for queue in 0..filter.queues {
        let binding = QueueBinding { interface: &options.interface, index, queue, sockets: filter.ports };
        bytes += binding.bytes();
        for port in 0..filter.ports {
            let socket = if port == 0 {
                until_free(|| Socket::first(&binding))?
            } else {
                // The first thread's newest socket is the one at this queue.
                threads[0].0[queue as usize].beside(&binding)?
            };
            let key = queue * filter.ports + port;
            map.insert(key, &socket)?;
            let (sockets, keys) = &mut threads[port as usize];
            sockets.push(socket);
            keys.push(key);
        }
    }
    Ok((threads, bytes))
}

/// A descriptor to poll several sockets.
fn bell(sockets: &[Socket]) -> Result<OwnedFd, XdpError> {
    let at = XdpError::at("make something to poll for");
    let bell = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(&at)?;
    for socket in sockets {
        epoll::add(&bell, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(&at)?;
    }
    Ok(bell)
}

const ATTACH: &str = "attach the XDP program to the interface";

fn attach(
    program: &OwnedFd,
    name: &str,
    index: u32,
    wish: XdpAttach,
) -> Result<(OwnedFd, XdpMode), XdpError> {
    let interface = || name.to_owned();
    let native = match wish {
        XdpAttach::Generic => Err(Errno::OPNOTSUPP),
        XdpAttach::NativeFirst | XdpAttach::NativeOnly => bpf::attach(program, index, XdpMode::Native),
    };
    let result = match native {
        Ok(link) => return Ok((link, XdpMode::Native)),
        // Drivers also reject settings, such as an MTU of more than a page, with various codes.
        Err(errno @ (Errno::OPNOTSUPP | Errno::INVAL | Errno::RANGE)) => {
            if wish == XdpAttach::NativeOnly {
                return Err(XdpError::NoNativeMode { interface: interface(), source: errno.into() });
            }
            bpf::attach(program, index, XdpMode::Generic)
        }
        Err(errno) => Err(errno),
    };
    result.map(|link| (link, XdpMode::Generic)).map_err(|errno| match errno {
        Errno::BUSY | Errno::EXIST => XdpError::Occupied { interface: interface(), source: errno.into() },
        Errno::NODEV => XdpError::NoInterface { interface: interface(), source: errno.into() },
        Errno::INVAL => XdpError::NoKernelSupport { step: ATTACH, source: errno.into() },
        errno => XdpError::at(ATTACH)(errno),
    })
}

/// Retries while the interface is in use.
fn until_free<T>(mut open: impl FnMut() -> Result<T, XdpError>) -> Result<T, XdpError> {
    let stopwatch = Stopwatch::start();
    loop {
        match open() {
            Err(error) if error.is_occupied() && stopwatch.elapsed() < TEARDOWN => {
                // There is no notification; this is the pause between two attempts.
                guira_sync::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

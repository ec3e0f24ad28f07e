//! Two network namespaces joined by a veth pair. Neither has a name: they are removed with the last thread and
//! descriptor that refers to them, however the process ends.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::process::Command;

/// The interface's name at either end.
pub(crate) const INTERFACE: &str = "cable";

#[derive(Debug)]
pub(crate) struct Namespace(OwnedFd);

impl Namespace {
    fn new() -> io::Result<Self> {
        let make = || {
            // SAFETY: descriptors stay common to all threads.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(Namespace(File::open("/proc/thread-self/ns/net")?.into()))
        };
        guira_sync::thread::scope(|scope| scope.spawn(make).join()).expect("no panic")
    }

    /// Runs `work` in the namespace, in a thread of its own.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let result = guira_sync::thread::scope(|scope| {
            let inside = || {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            };
            scope.spawn(inside).join()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` with these arguments in the namespace.
    pub(crate) fn ip(&self, words: &str) {
        let output = self.run(|| Command::new("ip").args(words.split_whitespace()).output().unwrap());
        assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A veth pair with a namespace at either end. The server has 02:00:00:00:00:01, 10.0.0.1, 10.0.0.3 and fd00::1, the
/// client 02:00:00:00:00:02, 10.0.0.2 and fd00::2.
#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) server: Namespace,
    pub(crate) client: Namespace,
}

/// Why veth pairs or AF_XDP are not available here.
fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can make network namespaces".to_owned());
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Some("ip (iproute2) is not installed".to_owned());
    }
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
    socket.err().map(|errno| format!("this kernel has no AF_XDP: {errno}"))
}

impl Cable {
    /// A veth pair with this many queues at either end, or `None`, after printing the reason, if this machine cannot
    /// have one.
    pub(crate) fn new(queues: usize) -> Option<Self> {
        let why_not = obstacle();
        let made = || Ok::<_, io::Error>(Cable { server: Namespace::new()?, client: Namespace::new()? });
        let why_not = match (why_not, made) {
            (Some(why_not), _) => why_not,
            (None, made) => match made() {
                Ok(cable) => {
                    cable.set_up(queues);
                    return Some(cable);
                }
                Err(error) => format!("no network namespace can be made: {error}"),
            },
        };
        eprintln!("skipped: {why_not}");
        None
    }

    fn set_up(&self, queues: usize) {
        let there = format!("/proc/{}/fd/{}", std::process::id(), self.client.0.as_raw_fd());
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        self.server.ip(&format!(
            "link add {INTERFACE} address 02:00:00:00:00:01 {queues} type veth \
             peer name {INTERFACE} address 02:00:00:00:00:02 {queues} netns {there}"
        ));
        for (namespace, addresses) in [
            (&self.server, &["10.0.0.1/24", "10.0.0.3/24", "fd00::1/64"][..]),
            (&self.client, &["10.0.0.2/24", "fd00::2/64"]),
        ] {
            for address in addresses {
                let nodad = if address.contains(':') { "nodad" } else { "" };
                namespace.ip(&format!("addr add {address} dev {INTERFACE} {nodad}"));
            }
            namespace.ip("link set lo up");
        }
        for namespace in [&self.server, &self.client] {
            namespace.ip(&format!("link set {INTERFACE} up"));
        }
    }
}

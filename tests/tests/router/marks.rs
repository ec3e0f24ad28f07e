//! Marks of packets to servers, as the kernel has them for the router's sockets.

use crate::{Router, name};
use guira_harness::socket::Address;
use guira_tests::Server;
use rustix::net::sockopt::ip_tos;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::net::TcpStream;

/// The field of the service of the router's connection to a server; `None` if the system does not let a process look at another one's.
fn service(router: &Router, server: &Server) -> Option<u8> {
    let Address::Tcp(address) = server.address() else { unreachable!("it was started on a port") };
    let id = router.process.id();
    let process = pidfd_open(Pid::from_raw(id as i32).expect("it runs"), PidfdFlags::empty()).ok()?;
    let files = std::fs::read_dir(format!("/proc/{id}/fd")).expect("it runs");
    let numbers = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
    let mut is_allowed = false;
    for number in numbers {
        let Ok(file) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        is_allowed = true;
        let stream = TcpStream::from(file);
        if stream.peer_addr().is_ok_and(|peer| peer == *address) {
            return Some(ip_tos(&stream).expect("it is a socket of IPv4"));
        }
    }
    assert!(!is_allowed, "there is no connection to {address}");
    None
}

#[test]
fn packets_are_marked_as_pools_and_options_say() {
    let (one, other) = (Server::start(), Server::start());
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"], "qos": {{"class": 4, "path": 3}}}}, "B": {{"servers": ["{}"]}}}},
            "route": {{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#,
        name(&one),
        name(&other)
    );
    for (options, expected) in [
        (&["--enable-qos", "--default-qos-class", "1", "--default-qos-path", "2"][..], [0x8c, 0x28]),
        (&["--enable-qos"], [0x8c, 0]),
        (&[], [0, 0]),
    ] {
        let router = Router::start(&[&["--config-str", &configuration], options].concat());
        router.connect().exchange("set k 0 0 1\r\nv\r\n", "STORED\r\n");
        for (server, expected) in [&one, &other].into_iter().zip(expected) {
            assert!(service(&router, server).is_none_or(|service| service == expected), "{options:?}");
        }
    }
    let refused = crate::output(&["--config-str", &configuration, "--default-qos-class", "5"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("--default-qos-class must be 0 to 4, not 5"), "{told}");
}

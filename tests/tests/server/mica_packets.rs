//! MICA's datagrams as packets between two hosts, which are network namespaces joined by a veth pair: by the kernel's stack, past it
//! at either end (`--xdp`), and past it at both.

use guira_client::mica::{Client, ClientOptions};
use guira_harness::netns::Netns;
use guira_harness::server::ServerProcess;
use guira_tests::server::{guira_binary, spawn, wait_for, wait_for_log};
use guira_tests::skip::say;
use guira_transport::{ClientPath, UdpClientPath, XdpAttach, XdpClientOptions, XdpClientPath};
use std::net::SocketAddr;

/// A second host. `None` where there can be none.
fn second_host() -> Option<Netns> {
    Netns::create().inspect_err(|error| say(&error.to_string())).ok()
}

/// Starts a server on the second host.
fn start(netns: &Netns, more: &[&str]) -> ServerProcess {
    let [v4, v6] = netns.servers().map(|address| format!("--mica={address}"));
    let mut command = netns.command(guira_binary());
    command.args(["serve", "--engine=mica", "--access=erew", "--workers=2", "--memory=96MiB"]);
    command.args(["--listen=0.0.0.0:0", &v4, &v6]).args(more);
    spawn(command)
}

fn talk(path: impl ClientPath) {
    let mut client = Client::new(path, ClientOptions::default()).unwrap();
    assert_eq!(client.directory().cores, 2);
    for round in 0..2 {
        for number in 0..300u32 {
            let key = format!("key{number}");
            let value = vec![number as u8; number as usize * 4 + round];
            client.set(key.as_bytes(), &value, number, 0).unwrap();
            let found = client.get(key.as_bytes()).unwrap().unwrap();
            assert!(found.value == value && found.flags == number, "{key}");
        }
    }
    assert_eq!(client.get(b"nothing").unwrap(), None);
}

fn bypass(netns: &Netns, server: SocketAddr) -> XdpClientPath {
    let options = XdpClientOptions {
        interface: netns.interface(),
        server,
        cores: 2,
        threads: 1,
        attach: XdpAttach::NativeFirst,
    };
    XdpClientPath::open(&options).unwrap().remove(0)
}

/// Waits until the server answers, by the kernel's stack here.
fn ready(server: SocketAddr) -> UdpClientPath {
    wait_for("the server on the other host", || {
        let client = Client::new(UdpClientPath::connect(server).ok()?, ClientOptions::default());
        client.ok().and_then(|_| UdpClientPath::connect(server).ok())
    })
}

#[test]
fn by_the_kernels_stack() {
    let Some(netns) = second_host() else { return };
    let _server = start(&netns, &[]);
    for server in netns.servers() {
        talk(ready(server));
        talk(bypass(&netns, server));
    }
}

#[test]
fn past_the_kernels_stack() {
    let Some(netns) = second_host() else { return };
    for mode in ["--xdp=v0", "--xdp=v0:mode=generic"] {
        let _server = start(&netns, &[mode]);
        for server in netns.servers() {
            talk(ready(server));
            talk(bypass(&netns, server));
        }
    }
}

#[test]
fn a_server_restarted_under_clients_that_bypass_the_kernel_is_found_again() {
    let Some(netns) = second_host() else { return };
    let server = start(&netns, &["--xdp=v0"]);
    let [address, _] = netns.servers();
    drop(ready(address));
    let mut client = Client::new(bypass(&netns, address), ClientOptions::default()).unwrap();
    client.set(b"key", b"value", 0, 0).unwrap();
    drop(server);
    assert!(client.set(b"key", b"lost", 0, 0).is_err());
    let _server = start(&netns, &["--xdp=v0"]);
    wait_for("the next server", || client.get(b"key").ok());
    client.set(b"key", b"again", 0, 0).unwrap();
    assert_eq!(client.get(b"key").unwrap().unwrap().value, b"again");
}

#[test]
fn what_is_foreign_is_not_answered_past_the_kernels_stack() {
    let Some(netns) = second_host() else { return };
    let _server = start(&netns, &["--xdp=v0"]);
    let [address, _] = netns.servers();
    drop(ready(address));
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    for foreign in [&b"foreign"[..], b"", b"Gm\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        socket.send_to(foreign, address).unwrap();
        let answer = socket.recv_from(&mut [0; 2000]);
        assert!(answer.is_err(), "{foreign:?} is answered: {answer:?}");
    }
}

#[test]
fn an_interface_that_goes_takes_nothing_else_along() {
    use std::io::{Read, Write};
    let Some(netns) = second_host() else { return };
    let scratch = guira_tests::scratch::Scratch::new();
    let path = scratch.path().join("socket");
    let listen = format!("--listen=unix:{}", path.display());
    let mut server = start(&netns, &["--xdp=v0", &listen]);
    drop(ready(netns.servers()[0]));
    let ask = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).ok()?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).ok()?;
        stream.write_all(b"version\r\n").ok()?;
        let mut text = [0; 7];
        stream.read_exact(&mut text).ok()?;
        Some(())
    };
    assert!(ask().is_some());
    assert!(netns.disconnect());
    wait_for_log(|| server.errors(), "the datagram listener failed");
    assert!(ask().is_some());
    assert!(server.ended().is_none());
}

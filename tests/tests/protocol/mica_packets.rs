//! MICA's datagrams as packets between two hosts, which are network namespaces with a cable (veth) between them: by the kernel's stack, past it
//! at either end (`--xdp`), and past it at both.

use guira_client::mica::{Client, CourierOptions};
use guira_load::cable::Cable;
use guira_tests::server::{guira_binary, wait_for};
use guira_tests::skip::say;
use guira_transport::{ClientPath, UdpClientPath, XdpAttach, XdpClientOptions, XdpClientPath, XdpCopying};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

/// A cable to another host. `None` where there can be none.
fn lay(test: u32) -> Option<Cable> {
    Cable::lay(test).inspect_err(|error| say(&error.to_string())).ok()
}

/// A server on the other host.
struct Remote(Child);

impl Remote {
    fn start(cable: &Cable, more: &[&str]) -> Self {
        let [v4, v6] = cable.servers().map(|address| format!("--mica={address}"));
        let mut command = cable.command(guira_binary());
        command.args(["serve", "--engine=mica", "--access=erew", "--workers=2", "--memory=96MiB"]);
        command.args(["--listen=0.0.0.0:0", &v4, &v6]).args(more).stdout(Stdio::null());
        Remote(command.spawn().expect("guira can be run"))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stores and reads from here.
fn talk(path: impl ClientPath) {
    let mut client = Client::new(path, CourierOptions::default()).unwrap();
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

fn bypass(cable: &Cable, server: SocketAddr) -> XdpClientPath {
    let options = XdpClientOptions {
        interface: cable.interface(),
        server,
        cores: 2,
        threads: 1,
        attach: XdpAttach::NativeFirst,
        copying: XdpCopying::Copy,
    };
    XdpClientPath::open(&options).unwrap().remove(0)
}

/// Waits until the server answers, by the kernel's stack here.
fn ready(server: SocketAddr) -> UdpClientPath {
    wait_for("the server on the other host", || {
        let client = Client::new(UdpClientPath::connect(server).ok()?, CourierOptions::default());
        client.ok().and_then(|_| UdpClientPath::connect(server).ok())
    })
}

#[test]
fn by_the_kernels_stack() {
    let Some(cable) = lay(0) else { return };
    let _server = Remote::start(&cable, &[]);
    for server in cable.servers() {
        talk(ready(server));
        talk(bypass(&cable, server));
    }
}

#[test]
fn past_the_kernels_stack() {
    let Some(cable) = lay(1) else { return };
    for mode in ["--xdp=v0", "--xdp=v0:mode=generic"] {
        let _server = Remote::start(&cable, &[mode]);
        for server in cable.servers() {
            talk(ready(server));
            talk(bypass(&cable, server));
        }
    }
}

#[test]
fn a_server_restarted_under_clients_that_bypass_the_kernel_is_found_again() {
    let Some(cable) = lay(2) else { return };
    let server = Remote::start(&cable, &["--xdp=v0"]);
    let [address, _] = cable.servers();
    drop(ready(address));
    let mut client = Client::new(bypass(&cable, address), CourierOptions::default()).unwrap();
    client.set(b"key", b"value", 0, 0).unwrap();
    drop(server);
    assert!(client.set(b"key", b"lost", 0, 0).is_err());
    let _server = Remote::start(&cable, &["--xdp=v0"]);
    wait_for("the next server", || client.get(b"key").ok());
    client.set(b"key", b"again", 0, 0).unwrap();
    assert_eq!(client.get(b"key").unwrap().unwrap().value, b"again");
}

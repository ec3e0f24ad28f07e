//! MICA's datagrams as packets between two hosts, which are network namespaces with a cable (veth) between them: by the kernel's stack, past it
//! at either end (`--xdp`), and past it at both.

use guira_client::mica::{Client, CourierOptions};
use guira_tests::server::{guira_binary, is_root, wait_for};
use guira_tests::skip::say;
use guira_transport::{ClientPath, UdpClientPath, XdpAttach, XdpClientOptions, XdpClientPath, XdpCopying};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A cable between this host and another, which has nothing else.
struct Cable {
    number: u32,
}

fn ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split_whitespace()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Cable {
    /// `None` where there can be none.
    fn lay(test: u32) -> Option<Self> {
        if !is_root() {
            say("network namespaces are root's business");
            return None;
        }
        let number = std::process::id() % 16_000 * 4 + test;
        let cable = Cable { number };
        let (here, there) = (cable.here(), cable.there());
        let [a, b] = [number >> 8 & 0xff, number & 0xff];
        if !ip(&format!("netns add {there}")) {
            say("there is no iproute2, or it may not make network namespaces");
            return None;
        }
        let commands = [
            format!("link add {here} type veth peer name v0 netns {there}"),
            format!("addr add 10.213.{a}.{b}/32 dev {here}"),
            format!("addr add fd21::{number:x}:1/128 dev {here} nodad"),
            format!("link set {here} up"),
            format!("-n {there} addr add 10.214.{a}.{b}/32 dev v0"),
            format!("-n {there} addr add fd21::{number:x}:2/128 dev v0 nodad"),
            format!("-n {there} link set v0 up"),
            format!("route add 10.214.{a}.{b} dev {here} src 10.213.{a}.{b}"),
            format!("-6 route add fd21::{number:x}:2 dev {here} src fd21::{number:x}:1"),
            format!("-n {there} route add 10.213.{a}.{b} dev v0 src 10.214.{a}.{b}"),
            format!("-n {there} -6 route add fd21::{number:x}:1 dev v0 src fd21::{number:x}:2"),
        ];
        for command in commands {
            assert!(ip(&command), "ip {command}");
        }
        Some(cable)
    }

    fn here(&self) -> String {
        format!("gv{:x}", self.number)
    }

    fn there(&self) -> String {
        format!("guira-test-{:x}", self.number)
    }

    /// Where the first worker takes datagrams, over both families.
    fn servers(&self) -> [SocketAddr; 2] {
        let number = self.number;
        let v4 = format!("10.214.{}.{}:21300", number >> 8 & 0xff, number & 0xff);
        [v4, format!("[fd21::{number:x}:2]:21300")].map(|text| text.parse().unwrap())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The cable goes with its other end.
        ip(&format!("netns del {}", self.there()));
    }
}

/// A server on the other host.
struct Remote(Child);

impl Remote {
    fn start(cable: &Cable, more: &[&str]) -> Self {
        let [v4, v6] = cable.servers().map(|address| format!("--mica={address}"));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &cable.there()]).arg(guira_binary());
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
        interface: cable.here(),
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
    let Some(cable) = Cable::lay(0) else { return };
    let _server = Remote::start(&cable, &[]);
    for server in cable.servers() {
        talk(ready(server));
        talk(bypass(&cable, server));
    }
}

#[test]
fn past_the_kernels_stack() {
    let Some(cable) = Cable::lay(1) else { return };
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
    let Some(cable) = Cable::lay(2) else { return };
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

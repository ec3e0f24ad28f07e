//! Another user cannot take over; and what becomes of connections with TLS.

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, is_root, refused_guira};
use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Client, Server, Setup, skip};
use std::fs::{Permissions, set_permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

fn version(server: &Server) {
    assert!(server.connect().ask("version\r\n").starts_with("VERSION"));
}

#[test]
fn a_process_of_another_user_neither_takes_over_nor_is_taken_over_from() {
    if !is_root() {
        return skip::say("only root can start servers of two users");
    }
    let scratch = Scratch::new();
    set_permissions(scratch.path(), Permissions::from_mode(0o777)).expect("it is ours");
    let takeover = format!("--takeover={}", scratch.path().join("takeover").display());
    let server = Setup::new().guira_argument(&takeover).start_guira();
    let refused = |more: &[&str]| {
        let words = [&["serve", "--listen=127.0.0.1:0", "--memory=64MiB", &takeover], more].concat();
        let (status, said) = refused_guira(&words);
        assert_ne!(status, Some(0));
        said
    };
    let said = refused(&["--user=nobody"]);
    assert!(said.contains("takeover") && said.contains("ermission denied"), "{said}");
    version(&server);
    server.stop("TERM");

    let server = Setup::new().guira_argument(&takeover).guira_argument("--user=nobody").start_guira();
    let said = refused(&[]);
    assert!(said.contains("runs as another user"), "{said}");
    version(&server);
    server.stop("TERM");
}

/// Requests that a client sends at once, for values that are sent in one piece, in several, and from where they lie.
const REQUESTS: &str = "get small\r\nget medium\r\nget large\r\nget small\r\n";
const VALUES: [(&str, usize); 3] = [("small", 100), ("medium", 9_000), ("large", 200_000)];

fn reply(key: &str) -> String {
    let (_, length) = VALUES.iter().find(|(name, _)| *name == key).expect("its length");
    format!("VALUE {key} 0 {length}\r\n{}\r\nEND\r\n", "v".repeat(*length))
}

/// Where the replies to [`REQUESTS`] end, and all of them.
fn replies() -> (Vec<usize>, Vec<u8>) {
    let mut all = String::new();
    let ends = REQUESTS.lines().map(|line| {
        all += &reply(line.strip_prefix("get ").expect("a get"));
        all.len()
    });
    (ends.collect(), all.into_bytes())
}

/// Connects with TLS, asks until the server closes the connection, or so many times, and connects again, until it `is_over`. Returns how many
/// connections there were, and how many of them were closed before they were answered.
fn ask_by_tls(address: SocketAddr, certificate: &Certificate, most: u32, is_over: &AtomicBool) -> (u32, u32) {
    let (ends, expected) = replies();
    let (mut connections, mut unanswered) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let mut client = TlsClient::connect_to(address, certificate);
        connections += 1;
        let mut rounds = 0;
        while rounds < most && !is_over.load(Ordering::Relaxed) {
            client.send_until_closed(REQUESTS.as_bytes());
            let heard = client.hear(expected.len());
            assert!(expected.starts_with(&heard), "{} bytes of something else", heard.len());
            if heard.len() < expected.len() {
                assert!(
                    heard.is_empty() || ends.contains(&heard.len()),
                    "a reply ends after {}",
                    heard.len()
                );
                assert!(client.has_ended(), "it ends without a close_notify, in round {rounds}");
                unanswered += u32::from(rounds == 0);
                break;
            }
            rounds += 1;
        }
    }
    (connections, unanswered)
}

/// Asks by one connection for as long as one server follows the other. Returns how often.
fn ask_plainly(address: &Address, is_over: &AtomicBool) -> u32 {
    let (_, expected) = replies();
    let mut client = Client::connect(address);
    let mut rounds = 0;
    while !is_over.load(Ordering::Relaxed) {
        client.exchange(REQUESTS, &expected);
        rounds += 1;
    }
    rounds
}

#[test]
fn connections_with_tls_end_between_two_replies_and_nobody_is_refused() {
    const TAKEOVERS: usize = 8;
    let scratch = Scratch::new();
    let certificate = Certificate::issue();
    let plain = Address::Unix(scratch.path().join("plain"));
    let start = || {
        let names = [("takeover", "takeover"), ("region", "region"), ("listen", "plain")];
        let setup = names.into_iter().fold(certificate.given_to(Setup::new()), |setup, (option, name)| {
            let kind = if option == "listen" { "unix:" } else { "" };
            setup.guira_argument(&format!("--{option}={kind}{}", scratch.path().join(name).display()))
        });
        setup.start_guira()
    };
    let first = start();
    let Address::Tcp(address) = *first.address() else { panic!("a TCP address") };
    let mut client = Client::connect(&plain);
    VALUES.iter().for_each(|(key, length)| client.set(key, "v".repeat(*length)));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let by_tls = |most| {
            let (certificate, is_over) = (&certificate, &is_over);
            let ask = move || ask_by_tls(address, certificate, most, is_over);
            std::array::from_fn::<_, 3, _>(|_| scope.spawn(ask))
        };
        let (lasting, short) = (by_tls(u32::MAX), by_tls(1));
        let plainly = [(); 2].map(|()| scope.spawn(|| ask_plainly(&plain, &is_over)));
        let mut running = first;
        for _ in 0..TAKEOVERS {
            let next = start();
            assert!(
                matches!(next.address(), Address::Tcp(again) if *again == address),
                "the port is the same"
            );
            running.wait();
            running = next;
        }
        is_over.store(true, Ordering::Relaxed);
        for asking in lasting.into_iter().chain(short) {
            let (connections, unanswered) = asking.join().expect("all is in order");
            assert!(
                connections > 1 && unanswered == 0,
                "{unanswered} of {connections} connections were not answered"
            );
        }
        plainly.into_iter().for_each(|asking| assert!(asking.join().expect("all is answered") > 0));
        assert_eq!(client.stats("")["takeovers"], TAKEOVERS.to_string());
        drop(client);
        running.stop("TERM");
    });
}

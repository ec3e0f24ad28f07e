//! Another user cannot take over; and what becomes of connections with TLS.

use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::deadline::SetAtEnd;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, is_root, refused_guira};
use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Client, Server, Setup, skip};
use std::fs::{Permissions, set_permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

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
/// connections there were, and what was wrong with how they ended.
fn ask_by_tls(
    address: SocketAddr,
    certificate: &Certificate,
    most: u32,
    is_over: &AtomicBool,
) -> (u32, Vec<String>) {
    let (ends, expected) = replies();
    let (mut connections, mut wrong) = (0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        connections += 1;
        let Some(mut client) = TlsClient::try_to_connect(address, certificate, None) else {
            wrong.push("TLS was not agreed on".to_owned());
            continue;
        };
        let mut rounds = 0;
        while rounds < most && !is_over.load(Ordering::Relaxed) {
            client.send_until_closed(REQUESTS.as_bytes());
            let heard = client.hear(expected.len());
            assert!(expected.starts_with(&heard), "{} bytes of something else", heard.len());
            if heard.len() < expected.len() {
                let length = heard.len();
                let is_cut = !heard.is_empty() && !ends.contains(&length);
                wrong.extend(is_cut.then(|| format!("a reply was cut off after {length} bytes")));
                wrong.extend((!client.has_ended()).then(|| "there was no close_notify".to_owned()));
                wrong.extend((rounds == 0).then(|| "a connection was not answered".to_owned()));
                break;
            }
            rounds += 1;
        }
    }
    (connections, wrong)
}

/// How long the workers of a server that has let go took to end, by its log.
fn time_to_end(log: &str) -> Duration {
    let micros = log.split_once("us_workers=").map(|(_, rest)| {
        let digits = rest.trim_start_matches(|byte: char| !byte.is_ascii_digit());
        digits[..digits.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(digits.len())].parse()
    });
    Duration::from_micros(micros.expect("it has let go").expect("a number"))
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
    /// After this time a server closes whatever is under way, which may happen on a busy machine.
    const STRAGGLERS: Duration = Duration::from_millis(50);
    let scratch = Scratch::new();
    let certificate = Certificate::issue();
    let plain = Address::Unix(scratch.path().join("plain"));
    let start = || {
        let names = [("takeover", "takeover"), ("region", "region"), ("listen", "plain")];
        let setup = names.into_iter().fold(
            certificate.given_to(Setup::new().not_with("mica")),
            |setup, (option, name)| {
                let kind = if option == "listen" { "unix:" } else { "" };
                setup.guira_argument(&format!("--{option}={kind}{}", scratch.path().join(name).display()))
            },
        );
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
        let (mut running, mut was_late) = (first, false);
        let end = SetAtEnd(&is_over);
        for _ in 0..TAKEOVERS {
            let next = start();
            assert!(
                matches!(next.address(), Address::Tcp(again) if *again == address),
                "the port is the same"
            );
            was_late |= time_to_end(&running.wait()) >= STRAGGLERS;
            running = next;
        }
        drop(end);
        for asking in lasting.into_iter().chain(short) {
            let (connections, wrong) = asking.join().expect("it ends");
            assert!(connections > 1 && (wrong.is_empty() || was_late), "of {connections}: {wrong:?}");
        }
        plainly.into_iter().for_each(|asking| assert!(asking.join().expect("all is answered") > 0));
        assert_eq!(client.stats("")["takeovers"], TAKEOVERS.to_string());
        drop(client);
        running.stop("TERM");
    });
}

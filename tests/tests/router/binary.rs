//! Clients of the binary protocol.

use crate::{Router, config_of, name};
use guira_tests::binary::{
    EXISTS, NEVER_CREATE, NOT_FOUND, Request, Response, expect_quiet_commands, get, noop, set, step,
};
use guira_tests::random::Random;
use guira_tests::{Client, Server, Setup, skip};

/// A router in front of one server.
fn start() -> (Server, Router) {
    let server = Server::start();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    (server, router)
}

#[test]
fn what_is_set_is_got_with_flags_key_and_cas_unique() {
    let (server, router) = start();
    let mut client = router.connect();
    let stored = client.ask_binary(&set("key", 0xdead_beef, "value").opaque(7));
    assert_eq!((stored.outcome(), stored.opaque), ((0, ""), 7));
    assert_ne!(stored.cas, 0);
    let got = client.ask_binary(&get("key").opaque(8));
    assert_eq!((got.outcome(), got.opaque, got.cas), ((0, "value"), 8, stored.cas));
    assert_eq!((got.extras.as_slice(), got.key.len()), (&[0xde, 0xad, 0xbe, 0xef][..], 0));
    let got = client.ask_binary(&Request::new(0x0c).key("key"));
    assert_eq!((got.key.as_slice(), got.outcome()), (b"key".as_slice(), (0, "value")));
    server.connect().expect_value("key", "value");
    router.connect().expect_value("key", "value");
    let missed = client.ask_binary(&Request::new(0x0c).key("none"));
    assert_eq!((missed.status, missed.key.as_slice(), missed.value.len()), (1, b"none".as_slice(), 0));
    assert_eq!(client.ask_binary(&get("none")).outcome(), NOT_FOUND);
}

#[test]
fn keys_with_any_bytes_are_kept_apart() {
    let (_server, router) = start();
    let mut client = router.connect();
    // The last one is as long as one of base64 can be.
    let keys: [&[u8]; 7] =
        [b"a b", b"a\r\nb", b"a\r", b"\0", "\u{e4}".as_bytes(), &[0xff; 250], &[b' '; 186]];
    for (number, key) in keys.iter().enumerate() {
        let stored = Request::new(0x01).word(number as u32).word(0).key(key).value([b'0' + number as u8]);
        assert_eq!(client.ask_binary(&stored).outcome(), (0, ""), "{}", key.escape_ascii());
    }
    for (number, key) in keys.iter().enumerate() {
        for request in [Request::new(0x0c).key(key), Request::new(0x23).word(0).key(key)] {
            let got = client.ask_binary(&request);
            assert_eq!((got.key.as_slice(), got.value.as_slice()), (*key, &[b'0' + number as u8][..]));
            assert_eq!(got.extras, (number as u32).to_be_bytes(), "{}", key.escape_ascii());
            assert_ne!(got.cas, 0);
        }
        let touched = client.ask_binary(&Request::new(0x1c).word(100).key(key));
        assert_eq!(touched.outcome(), (0, ""), "{}", key.escape_ascii());
        let counted = step(0x05, "", 1, 5, 0).key(key);
        assert_eq!(
            client.ask_binary(&counted).value,
            (number as u64 + 1).to_be_bytes(),
            "{}",
            key.escape_ascii()
        );
        assert_eq!(
            client.ask_binary(&Request::new(0x04).key(key)).outcome(),
            (0, ""),
            "{}",
            key.escape_ascii()
        );
        assert_eq!(
            client.ask_binary(&Request::new(0x00).key(key)).outcome(),
            NOT_FOUND,
            "{}",
            key.escape_ascii()
        );
    }
}

#[test]
fn a_key_that_is_too_long_in_base64_reaches_no_server_and_its_value_is_no_command() {
    let peer = Setup::new().start_peer();
    if peer.is_none() {
        skip::say("memcached is not installed");
    }
    for server in [Some(Server::start()), peer].into_iter().flatten() {
        let prefix =
            r#"{"type": "ModifyKeyRoute", "ensure_key_prefix": "much-longer:", "target": "PoolRoute|A"}"#;
        let config = format!(
            r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "routes": [
                {{"aliases": ["/a/long/"], "route": {prefix}}}, {{"aliases": ["/a/b/"], "route": "PoolRoute|A"}}
            ]}}"#,
            name(&server)
        );
        let router = Router::start(&["--config-str", &config, "-R", "/a/b/"]);
        let mut client = router.connect();
        client.ask_binary(&set("y", 0, "Y"));
        let stored = |key: &[u8]| Request::new(0x01).word(0).word(0).key(key).value("delete y");
        assert_eq!(client.ask_binary(&stored(&[b' '; 186])).status, 0);
        assert_eq!(client.ask_binary(&stored(&[b' '; 187])).outcome(), (4, "Invalid arguments"));
        let quiet = [Request::new(0x09).key([b' '; 187]), Request::new(0x04).key([0; 250])];
        let statuses = client.ask_quietly(&quiet).iter().map(|it| it.status).collect::<Vec<_>>();
        assert_eq!(statuses, [4, 4]);
        // `/a/long/` and 178 blanks, which are longer with the prefix that they get.
        let mut lines = router.connect();
        let key = format!("L2EvbG9uZy8g{}", "ICAg".repeat(59));
        lines.exchange(
            format!("ms {key} 8 b\r\ndelete y\r\nmg {key} b v\r\n"),
            "CLIENT_ERROR malformed request\r\n".repeat(2),
        );
        server.connect().expect_value("y", "Y");
        let stats = lines.stats("");
        assert_eq!((&*stats["num_connections_closed"], &*stats["result_client_error_count"]), ("0", "5"));
    }
}

#[test]
fn quiet_commands_tell_the_unexpected_only_and_in_order() {
    let (_server, router) = start();
    expect_quiet_commands(&mut router.connect());
}

/// A request that servers answer in the same way whenever they are asked, without a cas unique.
fn random_request(random: &mut Random) -> Request {
    let key = format!("key{}", random.below(6));
    let opcode = random.pick(&[
        0x00, 0x09, 0x0c, 0x0d, 0x01, 0x11, 0x02, 0x12, 0x03, 0x13, 0x04, 0x14, 0x05, 0x15, 0x06, 0x16, 0x0e,
        0x19, 0x0f, 0x1a, 0x1c, 0x1d, 0x1e, 0x23, 0x24, 0x0a, 0x1b, 0x42,
    ]);
    let value = random.pick(&["7", "value", "", "18446744073709551615"]);
    let it = Request::new(opcode).opaque(random.bits() as u32);
    match opcode {
        0x01..=0x03 | 0x11..=0x13 => it.word(random.bits() as u32).word(0).key(key).value(value),
        0x05 | 0x06 | 0x15 | 0x16 => {
            let time = random.pick(&[0, NEVER_CREATE, 1000]);
            it.long(random.pick(&[1, 0, u64::MAX])).long(random.below(9)).word(time).key(key)
        }
        0x0e | 0x0f | 0x19 | 0x1a => it.key(key).value(value),
        0x1c..=0x1e | 0x23 | 0x24 => it.word(random.pick(&[0, 1000])).key(key),
        0x0a => it,
        _ => it.key(key),
    }
}

/// A server and a router, which are asked the same.
struct Pair {
    clients: [Client; 2],
    /// What each has told, for the same requests.
    uniques: Vec<[u64; 2]>,
}

impl Pair {
    fn ask(&mut self, request: &Request, chosen: Option<usize>) -> [Vec<Response>; 2] {
        let mut sides = 0..2;
        self.clients.each_mut().map(|client| {
            let side = sides.next().expect("there are two");
            let unique = chosen.map_or(0, |chosen| self.uniques[chosen][side]);
            client.ask_quietly(&[request.clone().cas(unique)])
        })
    }
}

#[test]
fn packets_are_answered_as_by_a_server() {
    for seed in 1..=4 {
        let mut random = Random::new(seed);
        let (direct, (_server, router)) = (Server::start(), start());
        let clients = [direct.connect(), router.connect()];
        let mut pair = Pair { clients, uniques: vec![[u64::MAX; 2]; 4] };
        for number in 0..3000 {
            let request = random_request(&mut random);
            // Of the last few, so that some are right: those of the two servers differ.
            let recent = pair.uniques.len() - 1 - random.below(4) as usize;
            let chosen = random.once_in(3).then_some(recent);
            let [expected, got] = pair.ask(&request, chosen);
            let comparable = |responses: &[Response]| -> Vec<Response> {
                let hidden = |it: &Response| Response { cas: u64::from(it.cas != 0), ..it.clone() };
                responses.iter().map(hidden).collect()
            };
            assert_eq!(
                comparable(&got),
                comparable(&expected),
                "seed {seed}, request {number}: {request:?} {chosen:?}"
            );
            if let (Some(one), Some(other)) = (expected.first(), got.first())
                && one.cas != 0
            {
                pair.uniques.push([one.cas, other.cas]);
            }
        }
    }
}

#[test]
fn numbers_are_created_and_expire() {
    let (server, router) = start();
    let mut client = router.connect();
    assert_eq!(client.ask_binary(&step(0x05, "n", 1, 10, NEVER_CREATE)).outcome(), NOT_FOUND);
    let created = client.ask_binary(&step(0x05, "n", 1, 10, 1500));
    assert_eq!((created.status, created.value.as_slice()), (0, 10u64.to_be_bytes().as_slice()));
    assert_ne!(created.cas, 0);
    server.connect().exchange("mg n t v\r\n", "VA 2 t~1500\r\n10\r\n");
    let counted = client.ask_binary(&step(0x05, "n", 90, 0, 0));
    assert_eq!(
        (counted.value.as_slice(), client.ask_binary(&get("n")).cas),
        (&100u64.to_be_bytes()[..], counted.cas)
    );
    assert_eq!(client.ask_binary(&step(0x06, "n", 98, 0, 0)).value, 2u64.to_be_bytes());
    assert_eq!(client.ask_binary(&step(0x05, "n", 1, 0, 0).cas(created.cas)).outcome(), EXISTS);
    let stored = Request::new(0x01).word(3).word(2500).key("n").value("x");
    client.ask_binary(&stored);
    server.connect().exchange("mg n t f v\r\n", "VA 1 t~2500 f3\r\nx\r\n");
    client.ask_binary(&Request::new(0x1c).word(3500).key("n"));
    server.connect().exchange("mg n t\r\n", "HD t~3500\r\n");
    client.ask_binary(&Request::new(0x1d).word(4500).key("n"));
    server.connect().exchange("mg n t\r\n", "HD t~4500\r\n");
}

#[test]
fn the_router_answers_for_itself() {
    let (_server, router) = start();
    let mut client = router.connect();
    assert_eq!(client.ask_binary(&noop()).outcome(), (0, ""));
    assert!(client.ask_binary(&Request::new(0x0b)).value.starts_with(b"1.0.0 mcrouter "));
    let stats = client.ask_quietly(&[Request::new(0x10).key("count")]);
    assert!(stats.iter().any(|stat| stat.key == b"cmd_gets_count"), "{stats:?}");
    assert_eq!(stats.iter().filter(|stat| stat.key.is_empty() && stat.value.is_empty()).count(), 1);
    assert_eq!(client.ask_binary(&Request::new(0x10).key("nonsense")).status, 1);
    assert_eq!(client.ask_binary(&Request::new(0x08)).outcome(), (0x83, "Command disabled"));
    assert_eq!(client.ask_binary(&Request::new(0x20)).status, 0x81, "there is nobody to log in to");
    assert!(client.ask_binary(&get("__mcrouter__.version")).value.starts_with(b"1.0.0 mcrouter "));
    assert_eq!(client.ask_binary(&Request::new(0x07)).outcome(), (0, ""));
    client.expect_closed();
    let mut client = router.connect();
    client.send([Request::new(0x09).key("none").bytes(), Request::new(0x17).bytes()].concat());
    client.expect_closed();
}

#[test]
fn failures_are_statuses() {
    let (server, router) = start();
    let mut client = router.connect();
    client.ask_binary(&set("key", 0, "x"));
    server.stop("KILL");
    let lost = client.ask_binary(&get("key"));
    assert_eq!(lost.outcome(), (0x86, "connection error"));
    client.ask_binary(&get("key"));
    for request in [Request::new(0x09).key("key"), Request::new(0x11).word(0).word(0).key("key").value("x")] {
        let replies = client.ask_quietly(&[request]);
        assert_eq!(
            replies.iter().map(Response::outcome).collect::<Vec<_>>(),
            [(0x86, "Server unavailable. Reason: mc_res_connect_error")]
        );
    }
}

#[test]
fn values_arrive_in_pieces_and_those_that_are_too_long_are_passed_over() {
    let server = Setup::new().start_guira();
    let router = Router::start(&["--config-str", &config_of(&server)]);
    let mut client = router.connect();
    let value = "0123456789".repeat(50_000);
    let request = set("key", 1, &value).bytes();
    for piece in request.chunks(70_001) {
        client.send(piece);
    }
    assert_eq!(client.hear_binary().outcome(), (0, ""));
    assert!(client.ask_binary(&get("key")).value == value.as_bytes());
    let long = set("key", 1, "2".repeat(2 << 20));
    assert_eq!(client.ask_binary(&long).outcome(), (3, "Too large."), "for the server");
    let endless = set("key", 1, "").pretending((65 << 20) + 8 + 3);
    client.send(&endless.bytes()[..24]);
    assert_eq!(client.hear_binary().outcome(), (3, "Too large."), "for the router");
    let rest = vec![b'x'; (65 << 20) + 8 + 3];
    client.send(rest);
    assert_eq!(client.ask_binary(&noop()).outcome(), (0, ""));
}

#[test]
fn what_is_no_packet_ends_the_connection() {
    let (_server, router) = start();
    let mut client = router.connect();
    client.ask_binary(&noop());
    client.send("get key\r\n");
    client.expect_closed();
    let mut client = router.connect();
    assert_eq!(client.ask_binary(&Request::new(0x00).key([b'k'; 251])).status, 4);
    client.expect_closed();
}

#[test]
fn gets_of_packets_and_lines_go_together_and_prefixes_are_cut_off() {
    let (server, router) = start();
    let mut client = router.connect();
    client.ask_binary(&set("/././key", 0, "x"));
    server.connect().expect_value("key", "x");
    let got = client.ask_binary(&Request::new(0x0c).key("/././key"));
    assert_eq!((got.key.as_slice(), got.value.as_slice()), (b"/././key".as_slice(), b"x".as_slice()));
    let many: Vec<Request> =
        (0..500).map(|number| Request::new(0x0d).key(format!("k{number}")).opaque(number)).collect();
    for number in [3, 77, 499] {
        client.ask_binary(&set(&format!("k{number}"), 0, "v"));
    }
    let opaque: Vec<u32> = client.ask_quietly(&many).iter().map(|it| it.opaque).collect();
    assert_eq!(opaque, [3, 77, 499]);
}

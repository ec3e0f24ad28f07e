//! Gets in datagrams.

use crate::{Router, config_of};
use guira_tests::deadline::PATIENCE;
use guira_tests::udp::UdpClient;
use guira_tests::{Server, Setup};
use std::net::SocketAddr;

const NO_GET: &str = "SERVER_ERROR only one get is taken in a datagram\r\n";

fn start(server: &Server, options: &[&str]) -> (Router, SocketAddr) {
    let config = config_of(server);
    let common = ["--udp", "127.0.0.1:0", "--config-str", &config];
    let mut router = Router::start(&[&common, options].concat());
    let address = router.listens_by("udp");
    (router, address)
}

#[test]
fn gets_of_one_key_and_of_several_are_answered_in_as_many_datagrams_as_it_takes() {
    let server = Server::start();
    for workers in ["1", "3"] {
        let (router, address) = start(&server, &["--num-proxies", workers]);
        let value = "0123456789".repeat(5_000);
        router.connect().set("long", &value);
        router.connect().exchange("set key 7 0 5\r\nvalue\r\n", "STORED\r\n");
        let client = UdpClient::connect(address);
        client.exchange(1, "get key\r\n", "VALUE key 7 5\r\nvalue\r\nEND\r\n");
        client.exchange(2, "get none\r\n", "END\r\n");
        let expected = format!("VALUE key 7 5\r\nvalue\r\nVALUE long 0 50000\r\n{value}\r\nEND\r\n");
        client.exchange(0xffff, "get key none long\r\n", expected);
        client.exchange(4, "mg key f v\r\n", "VA 5 f7\r\nvalue\r\n");
        client.exchange(5, "mg none v\r\n", "EN\r\n");
        client.exchange(6, "get __mcrouter__.hostid\r\n", {
            let own = router.connect().value("__mcrouter__.hostid").expect("the router knows").data;
            [format!("VALUE __mcrouter__.hostid 0 {}\r\n", own.len()).as_bytes(), &own, b"\r\nEND\r\n"]
                .concat()
        });
        client.exchange(7, "mn\r\n", "MN\r\n");
        // A quiet miss is not answered.
        client.request(8, "mg none v q\r\n");
        client.exchange(9, "get none\r\n", "END\r\n");
        assert_eq!(router.connect().stats("")["num_udp_requests"], "9");
    }
}

#[test]
fn many_clients_at_once_are_each_given_their_own() {
    let server = Server::start();
    let (router, address) = start(&server, &["--num-proxies", "2"]);
    let mut stored = router.connect();
    for number in 0..100 {
        stored.set(&format!("key{number}"), format!("value{number}"));
    }
    let clients: Vec<UdpClient> = (0..100).map(|_| UdpClient::connect(address)).collect();
    for round in 0..5u16 {
        for (number, client) in clients.iter().enumerate() {
            client.request(round, format!("get key{number}\r\n"));
        }
        for (number, client) in clients.iter().enumerate() {
            let value = format!("value{number}");
            client.hear(round, format!("VALUE key{number} 0 {}\r\n{value}\r\nEND\r\n", value.len()));
        }
    }
}

#[test]
fn other_commands_are_refused_and_what_is_no_request_is_dropped() {
    let server = Server::start();
    let (router, address) = start(&server, &[]);
    let client = UdpClient::connect(address);
    let refused: [&[u8]; 10] = [
        b"set key 0 0 1\r\nx\r\n",
        b"delete key\r\n",
        b"gat 1 key\r\n",
        b"mg key v N30\r\n",
        b"mg key v T30\r\n",
        b"get key\r\nget key\r\n",
        b"get key",
        b"nonsense\r\n",
        b"\x80\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0key",
        b"",
    ];
    for request in refused {
        client.exchange(3, request, NO_GET);
    }
    let dropped: [&[u8]; 5] = [
        b"get key\r\n",
        b"\0\x01\0\0\0\x02\0\0get key\r\n",
        b"\0\x01\0\0\0\x01\0\0ERROR\r\n",
        b"\0\x01\0\0\0\x01\0\0SERVER_ERROR x\r\n",
        b"\0",
    ];
    dropped.iter().for_each(|datagram| client.send(datagram));
    client.exchange(2, "get key\r\n", "END\r\n");
    router.connect().exchange("get key\r\n", "END\r\n");
}

#[test]
fn what_a_server_says_too_late_meets_nobody() {
    let server = Setup::new().start_guira();
    let options = ["--server-timeout-ms", "100", "--disable-tko-tracking"];
    let (router, address) = start(&server, &options);
    router.connect().set("a", "1");
    router.connect().set("b", "2");
    let client = UdpClient::connect(address);
    client.exchange(1, "get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    crate::stop(&server);
    client.exchange(2, "get a\r\n", "SERVER_ERROR Reply timeout\r\n");
    client.exchange(3, "get a b\r\n", "SERVER_ERROR Reply timeout\r\n");
    server.signal("CONT");
    let answered = || {
        client.request(4, "get b\r\n");
        let reply = client.reply(4);
        assert!(
            reply == b"VALUE b 0 1\r\n2\r\nEND\r\n" || reply == b"SERVER_ERROR Reply timeout\r\n",
            "{reply:?}"
        );
        (reply[0] == b'V').then_some(())
    };
    guira_tests::deadline::Deadline::after(PATIENCE).poll(answered).expect("it goes on");
}

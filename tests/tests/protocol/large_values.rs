//! Values from 100 KiB to nearly 1 MiB come back byte for byte, whole or extended.

use guira_tests::Server;
use guira_tests::random::Random;

const KIB: usize = 1024;

#[test]
fn large_values_round_trip() {
    let server = Server::start();
    let mut client = server.connect();
    let mut random = Random::new(1);
    for length in [100 * KIB, 128 * KIB - 1, 256 * KIB, 500 * KIB, 512 * KIB, 512 * KIB + 1, 1000 * KIB] {
        let value = random.bytes(length);
        client.set("key", &value);
        client.expect_value("key", &value);
        client.exchange("mg key s\r\n", format!("HD s{length}\r\n"));
    }
}

#[test]
fn sizes_around_powers_of_two_round_trip() {
    let server = Server::start();
    let mut client = server.connect();
    let mut random = Random::new(2);
    for power in 4..20 {
        for length in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
            let value = random.bytes(length);
            client.set(&format!("key{length}"), &value);
            client.expect_value(&format!("key{length}"), &value);
        }
    }
}

#[test]
fn a_large_value_arrives_in_pieces() {
    let server = Server::start();
    let mut client = server.connect();
    let value = Random::new(3).bytes(700 * KIB);
    client.send(format!("set key 0 0 {}\r\n", value.len()));
    for piece in value.chunks(9973) {
        client.send(piece);
    }
    client.exchange("\r\n", "STORED\r\n");
    client.expect_value("key", &value);
}

#[test]
fn large_values_are_appended_to() {
    let server = Server::start();
    let mut client = server.connect();
    let (first, second) = (Random::new(4).bytes(400 * KIB), Random::new(5).bytes(300 * KIB));
    client.set("key", &first);
    let mut append = format!("append key 0 0 {}\r\n", second.len()).into_bytes();
    append.extend_from_slice(&second);
    append.extend_from_slice(b"\r\n");
    client.exchange(append, "STORED\r\n");
    client.expect_value("key", [first, second].concat());
}

#[test]
fn a_large_value_stays_whole_while_it_is_replaced() {
    let server = Server::start();
    let values = [b'a', b'b', b'c'].map(|letter| vec![letter; 300 * KIB]);
    server.connect().set("key", &values[0]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.connect();
            for round in 0..60 {
                writer.set("key", &values[round % values.len()]);
            }
        });
        scope.spawn(|| {
            let mut reader = server.connect();
            for _ in 0..60 {
                let value = reader.value("key").expect("the key is always there");
                assert!(values.contains(&value.data), "a value mixed from two");
            }
        });
    });
}

#[test]
fn several_large_values_in_one_get() {
    let server = Server::start();
    let mut client = server.connect();
    let mut random = Random::new(6);
    let mut expected = Vec::new();
    for number in 0..8 {
        let value = random.bytes(600 * KIB + number);
        client.set(&format!("key{number}"), &value);
        expected.extend_from_slice(format!("VALUE key{number} 0 {}\r\n", value.len()).as_bytes());
        expected.extend_from_slice(&value);
        expected.extend_from_slice(b"\r\n");
    }
    expected.extend_from_slice(b"END\r\n");
    client.exchange("get key0 key1 key2 key3 key4 key5 key6 key7\r\n", expected);
}

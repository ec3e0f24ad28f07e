//! `set` stores, `get` and `gets` give back what was stored.

use guira_tests::Server;

#[test]
fn a_value_comes_back_with_its_flags() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 7 0 5\r\nhello\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 7 5\r\nhello\r\nEND\r\n"),
    ]);
}

#[test]
fn a_missing_key_is_left_out() {
    let server = Server::start();
    server.connect().talk(&[
        ("get missing\r\n", "END\r\n"),
        ("gets missing\r\n", "END\r\n"),
        ("set here 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get missing here absent\r\n", "VALUE here 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn an_empty_value_is_a_value() {
    let server = Server::start();
    server.connect().talk(&[
        ("set empty 3 0 0\r\n\r\n", "STORED\r\n"),
        ("get empty\r\n", "VALUE empty 3 0\r\n\r\nEND\r\n"),
    ]);
}

#[test]
fn values_hold_any_byte() {
    let server = Server::start();
    let mut client = server.connect();
    let every_byte = (0..=255).collect::<Vec<u8>>();
    client.set("bytes", &every_byte);
    client.expect_value("bytes", &every_byte);
    let deceptive = b"\r\nEND\r\nget bytes\r\n\0";
    client.set("deceptive", deceptive);
    client.expect_value("deceptive", deceptive);
}

#[test]
fn a_second_set_replaces_value_flags_and_expiry() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 1 500 5\r\nfirst\r\n", "STORED\r\n"),
        ("set key 2 0 6\r\nsecond\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 2 6\r\nsecond\r\nEND\r\n"),
        ("mg key t\r\n", "HD t-1\r\n"),
    ]);
}

#[test]
fn values_grow_and_shrink_under_one_key() {
    let server = Server::start();
    let mut client = server.connect();
    for length in [0, 1, 8, 63, 64, 65, 1000, 5, 70_000, 3, 0, 500_000, 1] {
        let value = vec![b'a' + (length % 26) as u8; length];
        client.set("key", &value);
        client.expect_value("key", &value);
    }
}

#[test]
fn keys_are_case_sensitive_and_independent() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\na\r\n", "STORED\r\n"),
        ("set KEY 0 0 1\r\nb\r\n", "STORED\r\n"),
        ("set key2 0 0 1\r\nc\r\n", "STORED\r\n"),
        (
            "get key KEY key2\r\n",
            "VALUE key 0 1\r\na\r\nVALUE KEY 0 1\r\nb\r\nVALUE key2 0 1\r\nc\r\nEND\r\n",
        ),
    ]);
}

#[test]
fn what_one_connection_stores_another_reads() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.connect(), server.connect());
    for round in 0..100 {
        let value = format!("round {round}");
        writer.set("shared", &value);
        reader.expect_value("shared", &value);
    }
}

#[test]
fn many_keys_keep_their_values() {
    let server = Server::start();
    let mut client = server.connect();
    let value = |number: u32| format!("value of {number} {}", "x".repeat((number % 90) as usize));
    client.send_many((0..20_000).map(|number| {
        let value = value(number);
        format!("set key{number} {number} 0 {} noreply\r\n{value}\r\n", value.len())
    }));
    client.sync();
    for number in (0..20_000).step_by(7) {
        let value = value(number);
        client.exchange(
            format!("get key{number}\r\n"),
            format!("VALUE key{number} {number} {}\r\n{value}\r\nEND\r\n", value.len()),
        );
    }
}

#[test]
fn blanks_between_and_after_words_do_not_matter() {
    let server = Server::start();
    server.connect().talk(&[
        ("set  key  0  0  1  \r\nx\r\n", "STORED\r\n"),
        ("get   key  \r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("delete  key \r\n", "DELETED\r\n"),
    ]);
}

#[test]
fn a_bare_newline_ends_a_command_but_not_a_value() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\nx\r\n", "STORED\r\n"),
        ("get key\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("delete key\n", "DELETED\r\n"),
    ]);
}

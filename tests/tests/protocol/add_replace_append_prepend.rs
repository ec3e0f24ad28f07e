//! `add` and `replace` look whether the key is there, `append` and `prepend` extend what is there.

use guira_tests::Server;

#[test]
fn add_stores_only_a_new_key() {
    let server = Server::start();
    server.connect().talk(&[
        ("add key 1 0 1\r\na\r\n", "STORED\r\n"),
        ("add key 2 0 1\r\nb\r\n", "NOT_STORED\r\n"),
        ("get key\r\n", "VALUE key 1 1\r\na\r\nEND\r\n"),
        ("delete key\r\n", "DELETED\r\n"),
        ("add key 3 0 1\r\nc\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 3 1\r\nc\r\nEND\r\n"),
    ]);
}

#[test]
fn add_stores_over_an_expired_item() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 -1 1\r\na\r\n", "STORED\r\n"),
        ("add key 0 0 1\r\nb\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nb\r\nEND\r\n"),
    ]);
}

#[test]
fn replace_stores_only_a_known_key() {
    let server = Server::start();
    server.connect().talk(&[
        ("replace key 0 0 1\r\na\r\n", "NOT_STORED\r\n"),
        ("get key\r\n", "END\r\n"),
        ("set key 1 0 1\r\na\r\n", "STORED\r\n"),
        ("replace key 2 0 2\r\nbb\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 2 2\r\nbb\r\nEND\r\n"),
        ("replace key 0 -1 1\r\nc\r\n", "STORED\r\n"),
        ("replace key 0 0 1\r\nd\r\n", "NOT_STORED\r\n"),
    ]);
}

#[test]
fn append_and_prepend_extend_and_keep_flags_and_expiry() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 5 500 2\r\nhi\r\n", "STORED\r\n"),
        ("append key 9 0 1\r\n!\r\n", "STORED\r\n"),
        ("prepend key 9 0 1\r\n>\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 5 4\r\n>hi!\r\nEND\r\n"),
        ("mg key t f\r\n", "HD t~500 f5\r\n"),
    ]);
}

#[test]
fn append_and_prepend_create_nothing() {
    let server = Server::start();
    server.connect().talk(&[
        ("append key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("prepend key 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("get key\r\n", "END\r\n"),
    ]);
}

#[test]
fn appending_nothing_is_allowed() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("append key 0 0 0\r\n\r\n", "STORED\r\n"),
        ("prepend key 0 0 0\r\n\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn a_value_grows_by_many_appends() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "");
    let mut expected = Vec::new();
    for round in 0..300_u32 {
        let piece = format!("<{round}>").repeat(5);
        if round % 2 == 0 {
            client.exchange(format!("append key 0 0 {}\r\n{piece}\r\n", piece.len()), "STORED\r\n");
            expected.extend_from_slice(piece.as_bytes());
        } else {
            client.exchange(format!("prepend key 0 0 {}\r\n{piece}\r\n", piece.len()), "STORED\r\n");
            expected.splice(..0, piece.bytes());
        }
    }
    client.expect_value("key", &expected);
}

#[test]
fn an_extended_item_is_a_new_item() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\nb\r\n", "STORED\r\n"),
        ("mg key\r\n", "HD\r\n"),
        ("append key 0 0 1\r\nc\r\n", "STORED\r\n"),
        ("mg key h u\r\n", "HD h0\r\n"),
        ("md key I\r\n", "HD\r\n"),
        ("prepend key 0 0 1\r\na\r\n", "STORED\r\n"),
        ("mg key v\r\n", "VA 3\r\nabc\r\n"),
        ("mg vivified N50\r\n", "HD W\r\n"),
        ("append vivified 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg vivified v t\r\n", "VA 1 t~50\r\nx\r\n"),
    ]);
}

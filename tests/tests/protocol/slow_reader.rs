//! A client that does not read its replies harms no other, and gets them all when it reads at last.

use guira_tests::Server;

const LENGTH: usize = 1_000_000;

#[test]
fn others_are_served_while_a_client_does_not_read() {
    let server = Server::start();
    let value = (0..LENGTH).map(|index| (index % 253) as u8).collect::<Vec<_>>();
    server.connect().set("large", &value);
    let mut slow = server.connect();
    slow.send("get large\r\n".repeat(100));
    let mut quick = server.connect();
    for number in 0..2000 {
        quick.set("small", format!("{number}"));
        quick.expect_value("small", format!("{number}"));
    }
    // More than the number of workers, so that each worker has one that does not read.
    let stuck = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.send("get large\r\n".repeat(100));
            client
        })
        .collect::<Vec<_>>();
    for _ in 0..20 {
        server.connect().expect_value("small", "1999");
    }
    stuck.into_iter().for_each(guira_tests::Client::abandon);
    let mut reply = format!("VALUE large 0 {LENGTH}\r\n").into_bytes();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(b"\r\nEND\r\n");
    for _ in 0..100 {
        slow.hear(&reply);
    }
}

#[test]
fn a_value_that_is_being_sent_may_be_deleted() {
    let server = Server::start();
    let value = vec![b'x'; LENGTH];
    let (mut slow, mut other) = (server.connect(), server.connect());
    other.set("large", &value);
    slow.send("get large\r\n".repeat(50));
    // The first replies fill the buffers of the kernel, so the server is in the middle of them.
    let mut first = format!("VALUE large 0 {LENGTH}\r\n").into_bytes();
    first.extend_from_slice(&value);
    first.extend_from_slice(b"\r\nEND\r\n");
    slow.hear(&first);
    other.exchange("delete large\r\n", "DELETED\r\n");
    for number in 0..60 {
        other.set(&format!("other{number}"), vec![b'y'; LENGTH]);
    }
    let mut answers = 1;
    while answers < 50 {
        let line = slow.line();
        if line != "END" {
            assert_eq!(line, format!("VALUE large 0 {LENGTH}"));
            assert!(slow.take(LENGTH) == value, "a value changed while it was sent");
            slow.hear("\r\nEND\r\n");
        }
        answers += 1;
    }
}

//! TLS, as far as it is about when a server reads on: what has arrived lies in a library, where no poller sees it.

use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Server, Setup};

fn with_tls() -> (Server, TlsClient) {
    let certificate = Certificate::issue();
    let server = certificate.given_to(Setup::new()).start_guira();
    let client = TlsClient::connect(&server, &certificate);
    (server, client)
}

/// Requests without replies and then this one, this many bytes in all.
fn padded(request: &str, length: usize) -> Vec<u8> {
    let mut bytes = b"mg x q\r\n".repeat((length - request.len()) / 8 - 1);
    let blanks = length - request.len() - bytes.len() - "mg xq\r\n".len();
    bytes.extend(format!("mg x{}q\r\n{request}", " ".repeat(blanks)).bytes());
    assert_eq!(bytes.len(), length);
    bytes
}

#[test]
fn what_follows_a_list_is_answered_although_it_has_arrived_already() {
    let (_server, mut client) = with_tls();
    // As much as is read at once, so that the rest stays in the library while the connection is away.
    let requests = padded("stats sizes\r\n", 16 << 10);
    let (first, second) = requests.split_at(10_000);
    client.send(&[first, &[second, b"mn\r\nmn\r\n"].concat()]);
    let reply = client.hear(13);
    assert_eq!(String::from_utf8_lossy(&reply), "END\r\nMN\r\nMN\r\n");
}

#[test]
fn a_client_that_says_goodbye_while_it_is_sent_a_list_is_closed_afterwards() {
    let (server, mut client) = with_tls();
    client.send_last(b"stats sizes\r\n");
    assert_eq!(String::from_utf8_lossy(&client.hear(100)), "END\r\n");
    assert!(client.has_ended(), "the server has said goodbye too");
    drop(server);
}

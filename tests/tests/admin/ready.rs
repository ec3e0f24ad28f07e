//! `guira ready`: whether a server stores a value and returns it.

use guira_tests::Setup;
use guira_tests::server::{Address, run_guira};
use guira_tests::tls::Certificate;

/// The exit code and the message of `guira ready` with these arguments.
fn ready(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run_guira(&[&["ready"], arguments].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn text(address: &Address) -> String {
    let Address::Tcp(address) = address else { panic!("a TCP address") };
    address.to_string()
}

#[test]
fn a_server_that_stores_and_returns_a_value_is_ready() {
    let server = Setup::new().start_guira();
    let address = text(server.address());
    assert_eq!(ready(&[&address]), (Some(0), String::new()));
    server.connect().expect_value("guira:ready", "ready");
    server.stop("TERM");
    let (code, message) = ready(&[&address]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains(&format!("{address} is not ready")), "{message}");
}

#[test]
fn a_server_that_does_not_reply_is_not_ready() {
    let server = Setup::new().start_guira();
    server.freeze();
    let (code, message) = ready(&[&text(server.address()), "--timeout=100ms"]);
    assert_eq!(code, Some(1), "{message}");
}

#[test]
fn it_uses_tls_and_a_login() {
    let certificate = Certificate::issue();
    let scratch = guira_tests::scratch::Scratch::new();
    let users = scratch.write("users", "me:secret\n").display().to_string();
    let setup = certificate.given_to(Setup::new()).guira_argument(&format!("--auth-file={users}"));
    let server = setup.start_guira();
    let Address::Tcp(address) = server.address() else { panic!("a TCP address") };
    let address = format!("localhost:{}", address.port());
    let authority = certificate.root().display().to_string();
    let access = [&address, "--tls", "--tls-ca", &authority];
    assert_eq!(ready(&[&access[..], &["--login-file", &users]].concat()), (Some(0), String::new()));
    let (code, message) = ready(&access);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("instead of 'STORED'"), "{message}");
}

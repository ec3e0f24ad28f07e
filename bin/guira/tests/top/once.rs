use std::net::TcpStream;
use std::process::Output;

use guira_harness::certificate::Authority;
use guira_harness::scratch::Scratch;

use super::{guira, node};

/// What `guira top … --once` prints.
fn once(arguments: &[&str]) -> (Output, String) {
    let output = guira(&["top", "--once", "--interval", "100ms"]).args(arguments).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn a_snapshot_has_the_figures_of_all_nodes_and_tells_who_is_silent() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let (_node, address) = node("127.0.0.1:0", &[]);
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\nmn\r\n").unwrap();
    let mut lines = BufReader::new(client).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "MN"));
    let (output, text) = once(&[&address]);
    assert!(output.status.success(), "{output:?}");
    let squeezed: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["gets 0 2", "sets 0 1", "since start 50.00%", "items 1", "conn_listening 1"] {
        assert!(squeezed.iter().any(|known| known == line), "no {line:?} in\n{text}");
    }
    let (output, text) = once(&[&format!("{address},127.0.0.1:1")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 2 nodes did not reply"), "{output:?}");
    assert!(
        text.contains("== 127.0.0.1:1  DOWN: cannot connect") && text.contains("nodes: 1 of 2 answer"),
        "{text}"
    );
}

#[test]
fn a_node_with_tls_and_users_is_asked_by_who_has_both() {
    let folder = Scratch::new();
    let authority = Authority::new().expect("an authority");
    let other = Authority::new().expect("an authority");
    let [certificate, key, ca, other] =
        [authority.certificate(), authority.key(), authority.root(), other.root()]
            .map(|path| path.display().to_string());
    let login = folder.write("users", "operator:secret\n").display().to_string();
    let wrong_login = folder.write("wrong", "operator:no\n").display().to_string();
    let more = ["--tls-cert", &certificate, "--tls-key", &key, "--auth-file", &login];
    let (_node, address) = node("127.0.0.1:0", &more);
    let (output, text) = once(&[&address, "--tls", "--tls-ca", &ca, "--login-file", &login]);
    assert!(output.status.success() && text.contains("hit ratio"), "{output:?}");
    for (wrong, why) in [
        (&["--tls", "--tls-ca", &ca][..], "refuses stats: CLIENT_ERROR unauthenticated"),
        (&["--tls", "--tls-insecure", "--login-file", &wrong_login][..], "the login was refused"),
        (&["--login-file", &login][..], "DOWN"),
        (&["--tls", "--tls-ca", &other][..], "DOWN: cannot connect: invalid peer certificate"),
    ] {
        let (output, text) = once(&[&[address.as_str()][..], wrong].concat());
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert!(text.contains(why), "{wrong:?}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_explained() {
    for (arguments, message) in [
        (&["top"][..], "use --once"),
        (&["top", "localhost"][..], "HOST:PORT"),
        (&["top", "--interval", "10ms"][..], "at least 100ms"),
        (&["top", "--tls"][..], "--tls-ca or --tls-insecure"),
        (&["top", "--sort", "age"][..], "requests, bytes, misses"),
    ] {
        let output = guira(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{arguments:?}: {output:?}");
    }
    let output = guira(&["top", "--once", "--login-file", "/nowhere/x"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read /nowhere/x"), "{output:?}");
}

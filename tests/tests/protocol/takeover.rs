//! Another user cannot take over.

use guira_tests::scratch::Scratch;
use guira_tests::server::{is_root, refused_guira};
use guira_tests::{Server, Setup, skip};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

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

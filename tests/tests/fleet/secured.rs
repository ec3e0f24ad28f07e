//! An etcd with TLS, certificates of clients, users and passwords.

use guira_tests::etcd::Etcd;
use guira_tests::scratch::Scratch;
use guira_tests::server::run_guira;
use guira_tests::skip;

/// Runs `guira fleet` with these options of etcd.
fn run(etcd: &Etcd, options: &[&str], task: &[&str]) -> Result<String, String> {
    let output = run_guira(&[&["fleet", "--etcd", &etcd.url()], options, task].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn etcd_is_asked_over_tls_with_a_certificate() {
    let Some(etcd) = Etcd::start_with_tls() else { return skip::say("etcd is not installed") };
    let certificate = etcd.certificate().expect("it speaks TLS");
    let [root, chain, key] =
        [certificate.root(), certificate.chain(), certificate.key()].map(|path| path.display().to_string());
    let options = ["--etcd-ca-cert", &root, "--etcd-cert", &chain, "--etcd-key", &key];
    run(&etcd, &options, &["create", "cache", "--slots", "1"]).expect("it is made");
    let status = run(&etcd, &options, &["status"]).expect("it may ask");
    assert!(status.contains("pool cache: 1 slots"), "{status}");
    run(&etcd, &options[..2], &["status"]).expect_err("etcd wants a certificate");
    run(&etcd, &options[2..], &["status"]).expect_err("the authority is not known");
}

#[test]
fn etcd_is_logged_in_to() {
    let Some(etcd) = Etcd::start() else { return skip::say("etcd is not installed") };
    let scratch = Scratch::new();
    let login = scratch.file("login");
    let options = ["--etcd-login-file", &login.display().to_string()];
    for command in ["user add root:secret", "user grant-role root root", "auth enable"] {
        etcd.control(&command.split(' ').collect::<Vec<_>>());
    }
    run(&etcd, &[], &["status"]).expect_err("nobody is logged in");
    std::fs::write(&login, "root:wrong\n").expect("a scratch folder can be written");
    let said = run(&etcd, &options, &["status"]).expect_err("the password is wrong");
    assert!(said.contains("authentication failed"), "{said}");
    std::fs::write(&login, "root:secret\n").expect("a scratch folder can be written");
    run(&etcd, &options, &["create", "cache", "--slots", "1"]).expect("it is made");
    let status = run(&etcd, &options, &["status"]).expect("it may ask");
    assert!(status.contains("pool cache: 1 slots"), "{status}");
}

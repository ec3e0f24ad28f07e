//! Databases and targets that ask who it is, over connections that nobody can listen to.

use super::{ARRIVAL_MAX, Fleet, Invalidator, metric};
use guira_tests::deadline::Deadline;
use guira_tests::server::{Address, wait_for_log};
use guira_tests::skip::say;
use guira_tests::tls::Certificate;
use guira_tests::{Server, Setup};
use std::fs;
use std::path::PathBuf;

/// A target that speaks TLS and wants a login.
struct North {
    server: Server,
    certificate: Certificate,
}

impl North {
    fn start(fleet: &Fleet) -> Self {
        let certificate = Certificate::issue();
        let users = fleet.scratch.write("users", "guira:good\n");
        let setup = Setup::new().guira_argument(&format!("--auth-file={}", users.display()));
        let server = certificate.given_to(setup).start_guira();
        North { server, certificate }
    }

    /// The configuration of a fleet that has this target too, trusts these authorities, and reaches its database by `database`.
    fn configuration(&self, fleet: &Fleet, authorities: &PathBuf, database: &str) -> PathBuf {
        let file = fleet.configuration("", "again-after-ms = 0");
        let Address::Tcp(address) = self.server.address() else { panic!("a TCP address") };
        let login = fleet.scratch.file("login");
        let target = format!(
            "[[target]]\nname = \"north\"\naddress = \"{address}\"\ntls = {{ ca = {authorities:?} }}\nlogin-file = {login:?}\n"
        );
        let text = fs::read_to_string(&file).expect("it was written");
        fs::write(&file, text.replace("server-id", &format!("{database}\nserver-id")) + &target)
            .expect("it can be written");
        file
    }
}

/// A database takes long to make, so what is tried with it is one test after the other.
#[test]
fn databases_and_targets_speak_tls_and_want_to_know_who_it_is() {
    let Some(fleet) = Fleet::start() else {
        say("MariaDB is not installed (Debian: mariadb-server)");
        return;
    };
    let north = North::start(&fleet);
    fleet.database.execute("ALTER USER guira@'127.0.0.1' REQUIRE SSL");
    fleet.scratch.write("login", "guira:wrong\n");
    let database = format!("tls = {{ ca = {:?} }}", fleet.database.authority());
    let file = north.configuration(&fleet, &north.certificate.root(), &database);
    let mut invalidator = Invalidator::start_by(&file);
    let mut admin = invalidator.wait_until_ready();
    fleet.catch_up("first");
    let deletes = "guira_invalidator_deletes_total{target=\"north\"}";
    wait_for_log(|| invalidator.process.errors(), "the login was refused");
    assert_eq!(metric(&mut admin, deletes), 0);
    // The file is read for each connection.
    fleet.scratch.write("login", "guira:good\n");
    let is_there = || (metric(&mut admin, deletes) > 0).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_there).expect("the target takes deletes");
    invalidator.end();
    who_is_not_trusted_is_told_nothing(&fleet, &north, &database);
}

fn who_is_not_trusted_is_told_nothing(fleet: &Fleet, north: &North, database: &str) {
    let stranger = Certificate::issue();
    let strange = format!("tls = {{ ca = {:?} }}", stranger.root());
    for (target, database) in [(north.certificate.root(), &*strange), (stranger.root(), database)] {
        let mut invalidator = Invalidator::start_by(&north.configuration(fleet, &target, database));
        fleet.database.execute("/* mc: a */ INSERT INTO shop.ends VALUES ()");
        wait_for_log(|| invalidator.process.errors(), "invalid peer certificate");
        invalidator.end();
    }
    fleet.database.execute("ALTER USER guira@'127.0.0.1' REQUIRE NONE");
    let open = "tls = { mode = \"require\" }";
    let mut invalidator = Invalidator::start_by(&north.configuration(fleet, &north.certificate.root(), open));
    invalidator.wait_until_ready();
    fleet.catch_up("second");
    invalidator.end();
}

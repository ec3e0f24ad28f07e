//! A MySQL of a test's own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mariadb::{MariaDb, Place, as_root};

/// Why a test is left out that needs one.
pub const MISSING: &str = "MySQL is not there (`cargo xtask soak mysql` fetches it)";

/// The folder that it was unpacked in: `GUIRA_MYSQL`, or where `cargo xtask soak mysql` puts it.
fn folder() -> Option<PathBuf> {
    let fetched = || {
        let test = env::current_exe().ok()?;
        // target/<profile>/deps/invalidator-<hash>
        Some(test.ancestors().nth(3)?.join("tools/mysql"))
    };
    let folder = env::var_os("GUIRA_MYSQL").map(PathBuf::from).or_else(fetched)?;
    folder.join("usr/sbin/mysqld").is_file().then_some(folder)
}

/// Its server, run with the libraries it was built for, which are not those of this host.
fn command(folder: &Path) -> Command {
    let place = |path: &str| folder.join(path).display().to_string();
    let mut command = Command::new(folder.join("usr/lib64/ld-linux-x86-64.so.2"));
    let libraries = [place("usr/lib/x86_64-linux-gnu"), place("usr/lib/mysql/private")].join(":");
    command.args(["--library-path", &libraries, &place("usr/sbin/mysqld"), "--no-defaults"]);
    command.args(["--secure-file-priv=NULL", &format!("--lc-messages-dir={}", place("usr/share/mysql"))]);
    command.arg(format!("--plugin-dir={}", place("usr/lib/mysql/plugin")));
    command
}

/// Starts one with these settings; `None` when it is not there. It writes a log of rows with the names of columns and the texts of statements, and is used like a MariaDB.
///
/// # Panics
/// If it does not start.
#[track_caller]
pub fn start(settings: &[&str]) -> Option<MariaDb> {
    let folder = folder()?;
    let place = Place::new();
    let mut install = command(&folder);
    install.args(place.folders()).arg("--initialize-insecure");
    as_root(&mut install);
    let installed = install.output().expect("mysqld can be run");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let mut server = command(&folder);
    server.args(["--mysqlx=OFF", "--performance-schema=OFF", "--server-id=1"]);
    server.args(["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-rows-query-log-events=ON"]);
    server.arg(format!("--pid-file={}", place.file("pid").display()));
    server.args(settings);
    Some(place.start(server))
}

/// The file with the key that encrypts passwords for it.
pub fn public_key(database: &MariaDb) -> PathBuf {
    database.file("data/public_key.pem")
}

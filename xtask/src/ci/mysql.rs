//! A MySQL, which Debian's stable release has not: that of the unstable one, with the libraries it was built for, in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::Work;
use super::soak::build_released;
use super::tools::{cargo, command, installed, target_folder, works};

const SOURCE: &str = "deb http://deb.debian.org/debian sid main\n";
const PACKAGE: &str = "mysql-server-core";

/// Fetches it, unless it is there, and runs the invalidator's tests with it.
pub(super) fn tests(root: &Path) -> Work {
    let prefix = match fetch(root) {
        Ok(prefix) => prefix,
        Err(reason) => return Work::Skip(reason),
    };
    let words = ["test", "--release", "--test", "invalidator", "--"];
    let mut test = cargo(&[&words[..], &["mysql", "--include-ignored", "--nocapture"]].concat());
    test.env("GUIRA_MYSQL", prefix);
    Work::Commands(vec![build_released(&["guira"]), test])
}

/// The folder that has it, or why there is none.
fn fetch(root: &Path) -> Result<PathBuf, String> {
    if std::env::consts::ARCH != "x86_64" {
        return Err("MySQL is fetched for x86-64 only".to_owned());
    }
    if !installed("apt-get") || !installed("dpkg") {
        return Err("apt-get or dpkg is not installed, so MySQL is not fetched".to_owned());
    }
    let folder = root.join(target_folder(root)).join("tools/mysql");
    if !runs(&folder) {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let apt = Apt::new(&folder.join("apt")).map_err(failed)?;
        if !apt.does(&["update"]) || !apt.does(&["--yes", "--download-only", "install", PACKAGE]) {
            return Err("MySQL cannot be fetched: no access to Debian's packages".to_owned());
        }
        for package in apt.packages().map_err(failed)? {
            let words = ["dpkg", "-x", &package.to_string_lossy(), &folder.to_string_lossy()];
            if !works(command(&words)) {
                return Err(format!("{} cannot be unpacked", package.display()));
            }
        }
        apt.remove().map_err(failed)?;
    }
    if runs(&folder) { Ok(folder) } else { Err("the MySQL that was fetched does not run here".to_owned()) }
}

/// Whether the server is there and can be run.
fn runs(folder: &Path) -> bool {
    let place = |path: &str| folder.join(path).to_string_lossy().into_owned();
    let (loader, server) = (place("usr/lib64/ld-linux-x86-64.so.2"), place("usr/sbin/mysqld"));
    let libraries = place("usr/lib/x86_64-linux-gnu");
    works(command(&[&loader, "--library-path", &libraries, &server, "--no-defaults", "--version"]))
}

/// apt-get with lists of its own, for which nothing is installed, so that it fetches whatever is needed.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path) -> std::io::Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("status"), "")?;
        fs::write(folder.join("sources.list"), SOURCE)?;
        Ok(Apt { folder: folder.to_owned() })
    }

    fn does(&self, words: &[&str]) -> bool {
        let mut apt = command(&["apt-get", "-qq"]);
        let place = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        for (option, value) in [
            ("Dir::State::status", place("status")),
            ("Dir::State", place("state")),
            ("Dir::Cache", place("cache")),
            ("Dir::Etc::SourceList", place("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            ("Dir::Etc::Preferences", "/dev/null".to_owned()),
            ("Dir::Etc::PreferencesParts", "/dev/null".to_owned()),
            ("APT::Install-Recommends", "false".to_owned()),
            ("APT::Sandbox::User", String::new()),
            ("Debug::NoLocking", "1".to_owned()),
        ] {
            apt.args(["-o", &format!("{option}={value}")]);
        }
        apt.args(words);
        works(apt)
    }

    fn packages(&self) -> std::io::Result<Vec<PathBuf>> {
        let files = fs::read_dir(self.folder.join("cache/archives"))?;
        let paths: Result<Vec<_>, _> = files.map(|file| file.map(|file| file.path())).collect();
        Ok(paths?.into_iter().filter(|path| path.extension().is_some_and(|it| it == "deb")).collect())
    }

    fn remove(self) -> std::io::Result<()> {
        fs::remove_dir_all(self.folder)
    }
}

//! Packages of Debian's unstable release, each set unpacked in a folder of its own: nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{command, installed, target_folder, works};

const SOURCE: &str = "deb http://deb.debian.org/debian sid main\n";

/// Where the programs of x86-64 have their loader and their libraries.
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A set of packages.
#[derive(Debug)]
pub(super) struct PackageSet {
    /// The name of the set in messages.
    pub(super) name: &'static str,
    /// Its folder in `target/tools`.
    pub(super) folder: &'static str,
    /// The architectures of its packages: that of this machine, and others.
    pub(super) architectures: &'static [&'static str],
    /// Packages that are fetched with all that they depend on.
    pub(super) whole: &'static [&'static str],
    /// Packages that are fetched alone.
    pub(super) alone: &'static [&'static str],
}

impl PackageSet {
    /// The folder of the set, which is fetched unless it `runs` already; or why there is none.
    pub(super) fn fetch(&self, root: &Path, runs: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
        let name = self.name;
        if std::env::consts::ARCH != "x86_64" {
            return Err(format!("{name} is fetched for x86-64 only"));
        }
        if !installed("apt-get") || !installed("dpkg") {
            return Err(format!("apt-get or dpkg is not installed, so {name} is not fetched"));
        }
        let folder = root.join(target_folder(root)).join("tools").join(self.folder);
        if !runs(&folder) {
            self.unpack(&folder)?;
        }
        if runs(&folder) { Ok(folder) } else { Err(format!("the {name} that was fetched does not run here")) }
    }

    fn unpack(&self, folder: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let apt = Apt::new(&folder.join("apt"), self.architectures).map_err(failed)?;
        let whole = [&["--yes", "--download-only", "install"], self.whole].concat();
        let alone = [&["download"], self.alone].concat();
        let is_fetched = apt.does(&["update"])
            && (self.whole.is_empty() || apt.does(&whole))
            && (self.alone.is_empty() || apt.does(&alone));
        if !is_fetched {
            return Err(format!("{} cannot be fetched: no access to Debian's packages", self.name));
        }
        for package in apt.packages().map_err(failed)? {
            let words = ["dpkg", "-x", &package.to_string_lossy(), &folder.to_string_lossy()];
            if !works(command(&words)) {
                return Err(format!("{} cannot be unpacked", package.display()));
            }
        }
        apt.remove().map_err(failed)
    }
}

/// The words by which a program of such a folder is started with the libraries that it was built for, whatever this system has.
pub(super) fn loaded(folder: &Path, program: &str) -> [String; 4] {
    let place = |path: &str| folder.join(path).to_string_lossy().into_owned();
    [place(LOADER), "--library-path".to_owned(), place(LIBRARIES), place(program)]
}

/// A program of such a folder with these words.
pub(super) fn program(folder: &Path, program: &str, words: &[&str]) -> Command {
    let loaded = loaded(folder, program);
    let mut command = command(&loaded.each_ref().map(String::as_str));
    command.args(words);
    command
}

/// apt-get with lists of its own, for which nothing is installed, so that it fetches whatever is needed.
struct Apt {
    folder: PathBuf,
    architectures: &'static [&'static str],
}

impl Apt {
    fn new(folder: &Path, architectures: &'static [&'static str]) -> std::io::Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("status"), "")?;
        fs::write(folder.join("sources.list"), SOURCE)?;
        Ok(Apt { folder: folder.to_owned(), architectures })
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
        for architecture in self.architectures {
            apt.args(["-o", &format!("APT::Architectures::={architecture}")]);
        }
        // `download` writes to the current folder.
        works({
            apt.args(words).current_dir(self.archives());
            apt
        })
    }

    fn archives(&self) -> PathBuf {
        self.folder.join("cache/archives")
    }

    fn packages(&self) -> std::io::Result<Vec<PathBuf>> {
        let files = fs::read_dir(self.archives())?;
        let paths: Result<Vec<_>, _> = files.map(|file| file.map(|file| file.path())).collect();
        Ok(paths?.into_iter().filter(|path| path.extension().is_some_and(|it| it == "deb")).collect())
    }

    fn remove(self) -> std::io::Result<()> {
        fs::remove_dir_all(self.folder)
    }
}

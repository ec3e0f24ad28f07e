//! The servers that a subcommand starts and compares.

use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

use guira_load::server::{FLOOR, GUIRA, Kind};

use guira_cli::failure::Failure;

/// Which servers, and where their binaries are.
#[derive(Debug, clap::Args)]
pub(crate) struct Peers {
    /// Servers to compare: guira, memcached, floor, or NAME=PATH of another binary with memcached's options.
    #[arg(long, value_name = "SERVERS", value_delimiter = ',', default_value = "guira,memcached,floor")]
    servers: Vec<Peer>,
    /// Path of guira [default: the one in the folder of this program, or in PATH]
    #[arg(long, value_name = "PATH")]
    guira_binary: Option<PathBuf>,
    /// Additional argument for `guira serve`; may be repeated.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    guira_arg: Vec<String>,
    /// Path of memcached.
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    memcached_binary: PathBuf,
    /// Additional argument for memcached; may be repeated.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    memcached_arg: Vec<String>,
}

/// A server on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Peer {
    Guira,
    Memcached,
    Floor,
    /// Another binary with memcached's options.
    Other {
        label: String,
        binary: PathBuf,
    },
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.split_once('=')) {
            (GUIRA, _) => Ok(Self::Guira),
            ("memcached", _) => Ok(Self::Memcached),
            (FLOOR, _) => Ok(Self::Floor),
            (_, Some((label, binary))) if !label.is_empty() && label != GUIRA && label != FLOOR => {
                Ok(Self::Other { label: label.to_owned(), binary: binary.into() })
            }
            _ => Err(format!("unknown server {text:?}; use guira, memcached, floor or NAME=PATH")),
        }
    }
}

pub(crate) fn this_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::system("cannot find this binary"))
}

/// The path of `guira`, in the folder of this binary or in PATH.
pub(crate) fn guira_binary() -> Result<PathBuf, Failure> {
    let beside = this_binary()?.with_file_name(GUIRA);
    Ok(if beside.exists() { beside } else { PathBuf::from(GUIRA) })
}

impl Peers {
    /// The binary that is measured as Guira.
    pub(crate) fn guira(&self) -> Result<PathBuf, Failure> {
        self.guira_binary.clone().map_or_else(guira_binary, Ok)
    }

    /// The installed servers. A missing memcached is skipped with a note.
    pub(crate) fn installed_kinds(&self) -> Result<Vec<Kind>, Failure> {
        let (installed, missing): (Vec<Kind>, Vec<Kind>) =
            self.kinds()?.into_iter().partition(Kind::is_installed);
        for kind in missing {
            match &kind {
                Kind::Memcached { label, binary, .. } if binary.as_os_str() == label.as_str() => {
                    eprintln!(
                        "skipped {label}: it is not installed (Debian package {label}); name other servers with --servers"
                    );
                }
                Kind::Guira { binary, .. } | Kind::Memcached { binary, .. } | Kind::Floor { binary } => {
                    let (name, path) = (kind.name(), binary.display());
                    return Err(Failure::usage(format!(
                        "cannot start the server {name}: {path} does not exist"
                    )));
                }
            }
        }
        Ok(installed)
    }

    /// The servers as the library takes them.
    pub(crate) fn kinds(&self) -> Result<Vec<Kind>, Failure> {
        let (this, guira) = (this_binary()?, self.guira()?);
        let memcached = |label: &str, binary: &PathBuf| Kind::Memcached {
            label: label.to_owned(),
            binary: binary.clone(),
            args: self.memcached_arg.clone(),
        };
        let kind = |peer: &Peer| match peer {
            Peer::Guira => Kind::Guira { binary: guira.clone(), args: self.guira_arg.clone() },
            Peer::Memcached => memcached("memcached", &self.memcached_binary),
            Peer::Other { label, binary } => memcached(label, binary),
            Peer::Floor => Kind::Floor { binary: this.clone() },
        };
        Ok(self.servers.iter().map(kind).collect())
    }
}

/// Either end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// The processors of one side: with two or more the server keeps to the first and the client to the second.
pub(crate) fn cores(side: Side) -> Vec<usize> {
    if thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
        return Vec::new();
    }
    match side {
        Side::Server => vec![0],
        Side::Client => vec![1],
    }
}

#[cfg(test)]
mod tests {
    use super::Peer;

    #[test]
    fn servers_are_named_or_given_by_path() {
        assert_eq!("memcached".parse(), Ok(Peer::Memcached));
        let other = Peer::Other { label: "1.6.45".to_owned(), binary: "/opt/memcached".into() };
        assert_eq!("1.6.45=/opt/memcached".parse(), Ok(other));
        assert!("guira=/x".parse::<Peer>().is_err(), "the name of the server under test stays its own");
        assert!("redis".parse::<Peer>().unwrap_err().contains("NAME=PATH"));
    }
}

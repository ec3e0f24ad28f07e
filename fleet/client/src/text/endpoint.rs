//! The address of a server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server: `HOST:PORT`, whose name is looked up whenever a connection is opened,
/// or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A TCP port.
    Tcp {
        /// A name or an IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Text that names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an address: use HOST:PORT, [v6]:PORT or unix:PATH")]
pub struct EndpointError(String);

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = |host: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            !host.is_empty() && host.chars().all(is_plain)
        };
        match in_brackets {
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => {
                Ok(Self::Tcp { host: v6.to_owned(), port })
            }
            None if is_host(host) => Ok(Self::Tcp { host: host.to_owned(), port }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl Endpoint {
    /// The name that the server's certificate has to have.
    pub(super) fn tls_name(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix(_) => "localhost",
        }
    }
}

//! The protocol of MariaDB and MySQL.
//!
//! | file | what it knows |
//! |---|---|
//! | packet.rs | how packets are framed |
//! | login.rs | the greeting, and logins |
//! | password.rs | mysql_native_password and caching_sha2_password |
//! | rsa.rs | how a password is encrypted |
//! | query.rs | statements, their results, and errors |
//! | log_error.rs | errors of those who read the log |

mod log_error;
mod login;
mod packet;
mod password;
mod query;
mod rsa;

use crate::{Server, SourceError, Wire};
use guira_client::text::Endpoint;
pub use login::PasswordKey;
use login::{Reach, log_in};
pub use packet::Packets;
pub use query::{each_row, execute, identifier, literal, printable, refusal, row, rows};
use std::time::Duration;

/// A connection that was silent for this long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Connects and logs in. Returns the server's version too.
pub fn connect(server: &Server) -> Result<(Packets<Wire>, String), SourceError> {
    connect_with(server, &PasswordKey::Missing)
}

/// Like [`connect`], with a key that may encrypt the password.
pub fn connect_with(server: &Server, key: &PasswordKey) -> Result<(Packets<Wire>, String), SourceError> {
    open(server, key, SILENCE_MAX)
}

/// Like [`connect`], for a connection that fails when the server is silent for `silence_max`.
pub fn connect_within(server: &Server, silence_max: Duration) -> Result<Packets<Wire>, SourceError> {
    open(server, &PasswordKey::Missing, silence_max).map(|(packets, _)| packets)
}

fn open(
    server: &Server,
    key: &PasswordKey,
    silence_max: Duration,
) -> Result<(Packets<Wire>, String), SourceError> {
    let login = server.credentials.read()?;
    let mut packets = Packets::new(Wire::connect(&server.endpoint, silence_max)?);
    let tls = server.security.tls();
    let encrypt = tls.map(|(connector, name)| move |wire: &mut Wire| wire.start_tls(connector, name));
    let reach = match server.endpoint {
        Endpoint::Unix(_) => Reach::Local,
        Endpoint::Tcp { .. } => Reach::Network,
    };
    let version = log_in(&mut packets, &login, encrypt, reach, key)?;
    Ok((packets, version))
}

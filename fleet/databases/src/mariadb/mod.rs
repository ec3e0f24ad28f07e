//! MariaDB's protocol.
//!
//! | file | what it knows |
//! |---|---|
//! | packet.rs | how packets are framed |
//! | login.rs | the greeting, and mysql_native_password |
//! | query.rs | statements, their results, and errors |

mod login;
mod packet;
mod query;

use crate::{Server, SourceError, Wire};
use login::log_in;
pub use packet::Packets;
pub use query::{each_row, execute, identifier, literal, printable, refusal, row, rows};
use std::time::Duration;

/// The connection has failed if nothing was heard for so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Connects and logs in; tells the server's version too.
pub fn connect(server: &Server) -> Result<(Packets<Wire>, String), SourceError> {
    let login = server.credentials.read()?;
    let mut packets = Packets::new(Wire::connect(&server.endpoint, SILENCE_MAX)?);
    let tls = server.security.tls();
    let encrypt = tls.map(|(connector, name)| move |wire: &mut Wire| wire.start_tls(connector, name));
    let version = log_in(&mut packets, &login, encrypt)?;
    Ok((packets, version))
}

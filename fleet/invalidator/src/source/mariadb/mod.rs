//! MariaDB's binary log, read as a replica does.
//!
//! | file | what it knows |
//! |---|---|
//! | packet.rs | how packets are framed |
//! | login.rs | the greeting, and mysql_native_password |
//! | query.rs | statements, their results, and errors |
//! | event.rs | heads of events, their kinds, checksums |
//! | table.rs, value.rs, rows.rs | tables and rows of row events |
//! | gtid.rs | positions |
//! | dump.rs | what events mean, one after the other |
//! | client.rs | a connection from its beginning on |

mod client;
mod dump;
mod event;
mod gtid;
mod login;
mod packet;
mod query;
mod rows;
mod table;
mod value;

use super::bytes;
pub(crate) use client::{MariaDb, Options, Reads, Until};

//! Which database is read, and how.

use crate::source::Until;
use guira_sql::Server;
use guira_sql::mariadb::PasswordKey;

/// A kind of database that writes a binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    MariaDb,
    MySql,
}

/// Which database is read, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) product: Product,
    pub(crate) server: Server,
    pub(crate) key: PasswordKey,
    /// The number of this replica, which no other has.
    pub(crate) server_id: u32,
    pub(crate) reads: Reads,
    pub(crate) until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Statements,
    StatementsAndRows,
}

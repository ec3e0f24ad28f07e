//! Queries: a thread with a connection to the database.

use crate::counters::{Count, Counts, Health};
use crate::judge::Tag;
use crate::pattern::{Pattern, Statement};
use crate::reply::Reply;
use crate::sight::{Content, Sight};
use guira_sql::mariadb::Packets;
use guira_sql::postgres::{Messages, Purpose};
use guira_sql::{Server, SourceError, Wire, mariadb, postgres};
use guira_sync::channel::{Receiver, Sender};
use guira_sync::stop::Stop;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    MariaDb,
    Postgres,
}

#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) kind: Kind,
    pub(crate) server: Server,
    /// The database that has the tables of queries.
    pub(crate) name: String,
}

/// A key whose row is to be read: the tag of the request, the number of the check, and the key.
pub(crate) type RowRequest = (Tag, usize, Box<[u8]>);

enum Client {
    MariaDb(Packets<Wire>),
    Postgres(Messages),
}

impl Client {
    /// Connects, read-only.
    fn open(database: &Database, stop: &Stop) -> Result<Self, SourceError> {
        match database.kind {
            Kind::MariaDb => {
                let (mut packets, _version) = mariadb::connect(&database.server)?;
                mariadb::execute(&mut packets, "SET SESSION TRANSACTION READ ONLY")?;
                // Each query has to see all commits before it, and not the snapshot of the first
                // query.
                mariadb::execute(&mut packets, "SET SESSION autocommit = 1")?;
                mariadb::execute(&mut packets, &format!("USE {}", mariadb::identifier(&database.name)))?;
                Ok(Client::MariaDb(packets))
            }
            Kind::Postgres => {
                let server = &database.server;
                let mut messages = postgres::connect(server, &database.name, Purpose::Statements, stop)?;
                postgres::query(&mut messages, "SET default_transaction_read_only = on")?;
                Ok(Client::Postgres(messages))
            }
        }
    }

    fn query(
        &mut self,
        statement: &Statement,
        values: &[&[u8]],
    ) -> Result<Option<Vec<Option<Vec<u8>>>>, SourceError> {
        match self {
            Client::MariaDb(packets) => {
                let mut first = None;
                mariadb::each_row(packets, &statement.with_literals(values), |row| {
                    let owned = || row.iter().map(|value| value.map(<[u8]>::to_vec)).collect();
                    first.get_or_insert_with(owned);
                })?;
                Ok(first)
            }
            Client::Postgres(messages) => {
                let (text, used) = statement.with_numbers();
                let values: Vec<&[u8]> = used.into_iter().map(|number| values[number]).collect();
                postgres::first_row(messages, &text, &values)
            }
        }
    }
}

/// The database, its queries, and the channel for its replies.
pub(crate) struct Queries {
    pub(crate) database: Database,
    /// The patterns of checks, with their statements if they have any.
    pub(crate) checks: Vec<(Pattern, Option<Statement>)>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) replies: Sender<Reply>,
    pub(crate) stop: Stop,
}

impl Queries {
    /// Queries the database until no more requests can come.
    pub(crate) fn run(self, requests: &Receiver<RowRequest>) {
        let mut client = None;
        while let Ok((tag, check, key)) = requests.recv() {
            self.counts.add(Count::Queries);
            let found = self.find(&mut client, check, &key);
            let health = match &found {
                Err(error) if self.stop.check().is_ok() => {
                    self.fail(error, &key);
                    if matches!(error, SourceError::Refused(_)) { Health::Up } else { Health::Down }
                }
                Err(_) => return,
                Ok(_) => Health::Up,
            };
            self.counts.set_up(health);
            if health == Health::Down {
                client = None;
            }
            if self.replies.send(Reply::Database { tag, found: found.ok() }).is_err() {
                return;
            }
        }
    }

    /// Logs the first failure of a kind, not all of them.
    fn fail(&self, error: &SourceError, key: &[u8]) {
        let is_first = self.counts.get(Count::QueryFailures) == 0;
        self.counts.add(Count::QueryFailures);
        if is_first || self.counts.is_up() && !matches!(error, SourceError::Refused(_)) {
            // Operator: Check the database and the checker's login. The key is not judged.
            tracing::error!("cannot query the database for key {}: {error}", key.escape_ascii());
        }
    }

    fn find(&self, client: &mut Option<Client>, check: usize, key: &[u8]) -> Result<Content, SourceError> {
        let (pattern, statement) = &self.checks[check];
        let (Some(values), Some(statement)) = (pattern.values(key), statement) else {
            return Err(SourceError::Malformed("a key without a query"));
        };
        let client = match client {
            Some(client) => client,
            None => client.insert(Client::open(&self.database, &self.stop)?),
        };
        let row = client.query(statement, &values)?;
        content(row).ok_or_else(|| SourceError::Refused("the version of a row is not a number".to_owned()))
    }
}

/// The content of a row: the first column is the value, and the second, if there is one, the
/// version. NULL is no value.
fn content(row: Option<Vec<Option<Vec<u8>>>>) -> Option<Content> {
    let Some(row) = row else { return Some(Content(None)) };
    let mut columns = row.into_iter();
    let Some(value) = columns.next().flatten() else { return Some(Content(None)) };
    let version = match columns.next().flatten() {
        Some(digits) => Some(str::from_utf8(&digits).ok()?.parse().ok()?),
        None => None,
    };
    Some(Content(Some(Sight::of(&value, version))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_value_and_perhaps_a_version() {
        let row =
            |columns: &[Option<&str>]| content(Some(columns.iter().map(|it| it.map(Into::into)).collect()));
        assert_eq!(row(&[Some("Ada")]), Some(Content(Some(Sight::of(b"Ada", None)))));
        assert_eq!(row(&[Some("Ada"), Some("7")]), Some(Content(Some(Sight::of(b"Ada", Some(7))))));
        assert_ne!(row(&[Some("Ada"), Some("7")]), Some(Content(Some(Sight::of(b"Ada", Some(8))))));
        assert_eq!((row(&[None, Some("7")]), content(None)), (Some(Content(None)), Some(Content(None))));
        assert_eq!(row(&[Some("Ada"), Some("x")]), None);
    }
}

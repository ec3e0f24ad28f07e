//! The database: rows with versions, in MariaDB or in a table of this process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guira_client::text::Endpoint;
use guira_sql::mariadb::{Packets, connect, connect_within, execute, row, rows};
use guira_sql::{Server, SourceError, Wire};

pub(crate) const ROWS: usize = 1000;
/// The timeout of the database.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The pause after a failed query.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn key(row: usize) -> String {
    format!("row:{row}")
}

/// The cached value of a row, without its version.
pub(crate) fn text(row: usize) -> String {
    format!("the text of row {row}")
}

/// The database has not replied.
#[derive(Debug, thiserror::Error)]
#[error("the database does not reply: {0}")]
pub(crate) struct Unanswered(#[from] SourceError);

#[derive(Debug)]
pub(crate) enum Rows {
    MariaDb(Server),
    Table(Table),
}

/// Rows in memory, and the order in which they were changed.
#[derive(Debug)]
pub(crate) struct Table {
    /// LOCK: demo_table. Leaf.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    versions: Vec<u64>,
    log: Vec<usize>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Table { state: Mutex::new(State { versions: vec![0; ROWS], log: Vec::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that were changed since this place of the log.
    pub(crate) fn changed_since(&self, place: usize) -> Vec<usize> {
        self.state().log[place..].to_vec()
    }
}

/// Executes the first statements of a new MariaDB. Clients behind a relay have the address of this
/// host.
///
/// # Errors
/// When one is refused.
pub(crate) fn prepare(socket: &Endpoint) -> Result<(), Unanswered> {
    let server =
        Server::new(socket, None, "root", None).map_err(|error| SourceError::Login(error.to_string()))?;
    let (mut session, _) = connect(&server)?;
    let values: Vec<String> = (0..ROWS).map(|row| format!("({row}, 0, '{}')", text(row))).collect();
    for statement in [
        "CREATE USER guira@localhost IDENTIFIED BY 'secret'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO guira@localhost",
        "CREATE DATABASE shop",
        "GRANT ALL ON shop.* TO guira@localhost",
        "CREATE TABLE shop.rows (id INT PRIMARY KEY, version BIGINT UNSIGNED, text VARCHAR(60))",
        "CREATE TABLE shop.marks (id BIGINT AUTO_INCREMENT PRIMARY KEY)",
        &format!("INSERT INTO shop.rows VALUES {}", values.join(",")),
    ] {
        execute(&mut session, statement)?;
    }
    Ok(())
}

/// A session of one user, which is opened again after a failure.
pub(crate) struct Door<'r> {
    rows: &'r Rows,
    session: Option<Packets<Wire>>,
}

impl<'r> Door<'r> {
    pub(crate) fn of(rows: &'r Rows) -> Self {
        Door { rows, session: None }
    }

    fn query<T>(
        &mut self,
        server: &Server,
        run: impl FnOnce(&mut Packets<Wire>) -> Result<T, SourceError>,
    ) -> Result<T, Unanswered> {
        let session = match self.session.take() {
            Some(session) => Ok(session),
            None => connect_within(server, ANSWER_MAX),
        };
        let answered = session.and_then(|mut session| {
            let answer = run(&mut session)?;
            self.session = Some(session);
            Ok(answer)
        });
        if answered.is_err() {
            std::thread::sleep(PAUSE);
        }
        Ok(answered?)
    }

    /// The version of a row, and its text.
    pub(crate) fn read(&mut self, number: usize) -> Result<(u64, String), Unanswered> {
        match self.rows {
            Rows::Table(table) => Ok((table.state().versions[number], text(number))),
            Rows::MariaDb(server) => self.query(server, |session| {
                let statement = format!("SELECT version, text FROM shop.rows WHERE id = {number}");
                let [version, text] = row(session, &statement)?;
                Ok((parsed(&version)?, text))
            }),
        }
    }

    /// Increments the version of a row, and returns it.
    pub(crate) fn write(&mut self, number: usize, comment: &str) -> Result<u64, Unanswered> {
        match self.rows {
            Rows::Table(table) => {
                let mut state = table.state();
                state.log.push(number);
                state.versions[number] += 1;
                Ok(state.versions[number])
            }
            Rows::MariaDb(server) => self.query(server, |session| {
                execute(
                    session,
                    &format!("UPDATE {comment} shop.rows SET version = LAST_INSERT_ID(version + 1) WHERE id = {number}"),
                )?;
                let [version] = row(session, "SELECT LAST_INSERT_ID()")?;
                parsed(&version)
            }),
        }
    }

    /// A place of the log behind all commits so far.
    pub(crate) fn place(&mut self) -> Result<u64, Unanswered> {
        match self.rows {
            Rows::Table(table) => Ok(table.state().log.len() as u64),
            Rows::MariaDb(server) => self.query(server, |session| {
                execute(session, "INSERT INTO shop.marks VALUES (NULL)")?;
                let [position] = row(session, "SELECT @@last_gtid")?;
                parsed(position.rsplit('-').next().unwrap_or_default())
            }),
        }
    }

    pub(crate) fn versions(&mut self) -> Result<Vec<u64>, Unanswered> {
        match self.rows {
            Rows::Table(table) => Ok(table.state().versions.clone()),
            Rows::MariaDb(server) => self.query(server, |session| {
                let found = rows(session, "SELECT version FROM shop.rows ORDER BY id")?;
                found.iter().map(|row| parsed(&row[0])).collect()
            }),
        }
    }
}

fn parsed(number: &str) -> Result<u64, SourceError> {
    number.parse().map_err(|_| SourceError::Malformed("a number"))
}

#[cfg(test)]
mod tests {
    use super::{Door, ROWS, Rows, Table, text};

    #[test]
    fn a_table_tells_what_was_changed() {
        let rows = Rows::Table(Table::new());
        let mut door = Door::of(&rows);
        assert_eq!((door.write(7, "").unwrap(), door.write(7, "").unwrap()), (1, 2));
        let place = door.place().unwrap();
        door.write(8, "").unwrap();
        assert_eq!(door.read(7).unwrap(), (2, text(7)));
        let Rows::Table(table) = &rows else { unreachable!() };
        assert_eq!((place, table.changed_since(place as usize)), (2, vec![8]));
        assert_eq!(door.versions().unwrap().len(), ROWS);
    }
}

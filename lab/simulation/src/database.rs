//! A database with one table, `shop.items`: a number and a version in each row. Programs reach it by lines of text, and
//! an invalidator reads its log (`fleet/invalidator/src/source/modelled.rs` has the lines of the log).
//!
//! | line | reply | |
//! |---|---|---|
//! | `get ID` | `version N` | |
//! | `update ID TEXT` | `version N` | commits the next version by a statement with this text |
//! | `abort ID` | `aborted` | a transaction that is rolled back |
//!
//! A database may be a replica of another, whose changes it applies some time later.

use crate::tasks::{connect, lock};
use guira_world::net::{TcpListener, TcpStream};
use guira_world::scheduler::draw;
use guira_world::thread::{sleep, spawn};
use guira_world::time;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A committed change of a row.
#[derive(Clone, Debug)]
struct Change {
    row: usize,
    version: u64,
    committed: Duration,
    /// When readers of this database see it.
    shown: Duration,
    /// The text of the statement.
    text: String,
}

/// The state, which outlives the processes of the database.
#[derive(Debug)]
pub(crate) struct Database {
    /// As readers see them.
    versions: Vec<u64>,
    log: Vec<Change>,
    /// How many of the changes readers see.
    shown: usize,
    /// The position of the first change that can be read.
    first: usize,
    /// Whether an invalidator has begun to read the log.
    is_read: bool,
    /// A replica applies no change until then.
    pub(crate) stopped: Duration,
}

impl Database {
    pub(crate) fn new(rows: usize) -> Self {
        let (versions, log) = (vec![1; rows], Vec::new());
        Database { versions, log, shown: 0, first: 0, is_read: false, stopped: Duration::ZERO }
    }

    pub(crate) fn version(&mut self, row: usize) -> u64 {
        let now = time::now();
        while let Some(change) = self.log.get(self.shown).filter(|change| change.shown <= now) {
            self.versions[change.row] = change.version;
            self.shown += 1;
        }
        self.versions[row]
    }

    /// When readers saw this version of a row first, or a later one.
    pub(crate) fn shown_at(&self, row: usize, version: u64) -> Option<Duration> {
        let change = self.log.iter().find(|change| change.row == row && change.version >= version)?;
        (change.shown <= time::now()).then_some(change.shown)
    }

    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    fn commit(&mut self, row: usize, text: &str) -> u64 {
        let (version, now) = (self.version(row) + 1, time::now());
        self.log.push(Change { row, version, committed: now, shown: now, text: text.to_owned() });
        self.version(row)
    }

    /// Removes the log but for the last changes.
    pub(crate) fn purge(&mut self) {
        self.first = self.first.max(self.log.len().saturating_sub(draw(20) as usize));
    }

    /// Whether it has, and shows, all changes of its master.
    pub(crate) fn has_all_of(&mut self, master: &Database) -> bool {
        self.version(0);
        self.shown == master.log.len()
    }
}

/// How a replica follows its master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replication {
    /// The time from the master's commit to the replica's.
    pub(crate) lag: Duration,
    /// The longest time from the replica's log to its readers.
    pub(crate) shown_after: Duration,
}

/// Has a replica apply its master's changes, in their order.
pub(crate) fn replicate(master: Arc<Mutex<Database>>, replica: Arc<Mutex<Database>>, how: Replication) {
    drop(spawn(move || {
        loop {
            sleep(Duration::from_millis(1 + draw(10)));
            let (now, applied) = (time::now(), lock(&replica).log.len());
            if now < lock(&replica).stopped {
                continue;
            }
            let due: Vec<Change> = lock(&master).log[applied..]
                .iter()
                .take_while(|change| change.committed + how.lag <= now)
                .cloned()
                .collect();
            let mut replica = lock(&replica);
            for change in due {
                let earliest = replica.log.last().map_or(now, |last| last.shown.max(now));
                let after = Duration::from_micros(draw(how.shown_after.as_micros() as u64 + 1));
                let shown = earliest.max(now + after);
                replica.log.push(Change { committed: now, shown, ..change });
            }
        }
    }));
}

/// Serves until the process is killed.
pub(crate) fn serve(database: &Arc<Mutex<Database>>, listen: SocketAddr) {
    let listener = TcpListener::bind(listen).expect("the address is free");
    loop {
        if let Ok((stream, _)) = listener.accept() {
            let database = database.clone();
            // A connection that fails ends its thread.
            drop(spawn(move || answer(&database, stream)));
        }
    }
}

fn answer(database: &Mutex<Database>, stream: TcpStream) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (verb, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        let (row, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let row = || row.parse::<usize>().map_err(io::Error::other);
        // As long as a statement takes.
        sleep(Duration::from_micros(draw(3_000)));
        let reply = match verb {
            "get" => format!("version {}\n", lock(database).version(row()?)),
            "update" => format!("version {}\n", lock(database).commit(row()?, text)),
            "abort" => "aborted\n".to_owned(),
            "log" => return follow(database, input.get_mut(), rest.parse().ok()),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        input.get_mut().write_all(reply.as_bytes())?;
    }
}

/// Sends the log from `position` on, or from its end, for as long as the connection lasts.
fn follow(database: &Mutex<Database>, stream: &mut TcpStream, position: Option<usize>) -> io::Result<()> {
    let mut at = position.unwrap_or_else(|| lock(database).log.len());
    if at < lock(database).first {
        return stream.write_all(b"gap\n");
    }
    stream.write_all(format!("at {at}\n").as_bytes())?;
    lock(database).is_read = true;
    let mut idle = 0;
    loop {
        let (mut text, now) = (String::new(), time::now().as_secs());
        {
            let database = lock(database);
            if at < database.first {
                return Ok(());
            }
            while at < database.log.len() && text.len() < 2_000 {
                // Up to three changes are a transaction.
                let end = (at + 1 + draw(3) as usize).min(database.log.len());
                for Change { row, committed, text: statement, .. } in &database.log[at..end] {
                    let when = committed.as_secs();
                    if !statement.is_empty() {
                        text += &format!("statement {when} {statement}\n");
                    }
                    text += &format!("row {row} {when}\n");
                }
                at = end;
                text += &format!("commit {at} {now}\n");
            }
        }
        idle = if text.is_empty() { idle + 1 } else { 0 };
        if idle % 50 == 1 {
            text = format!("idle {at} {now}\n");
        }
        if text.is_empty() {
            sleep(Duration::from_millis(10));
        } else {
            stream.write_all(text.as_bytes())?;
        }
    }
}

/// A connection of an application.
#[derive(Debug)]
pub(crate) struct Session {
    server: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

const TIMEOUT: Duration = Duration::from_secs(1);

impl Session {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Session { server, connection: None }
    }

    /// The version of a row.
    pub(crate) fn get(&mut self, row: usize) -> io::Result<u64> {
        self.call(&format!("get {row}\n"))
    }

    /// Commits the next version of a row.
    pub(crate) fn update(&mut self, row: usize) -> io::Result<u64> {
        self.call(&format!("update {row}\n"))
    }

    /// The same, by a statement with this text.
    pub(crate) fn update_by(&mut self, row: usize, text: &str) -> io::Result<u64> {
        self.call(&format!("update {row} {text}\n"))
    }

    /// Begins a change, and rolls it back.
    pub(crate) fn abort(&mut self, row: usize) -> io::Result<u64> {
        self.call(&format!("abort {row}\n"))
    }

    fn call(&mut self, request: &str) -> io::Result<u64> {
        let result = self.try_call(request);
        if result.is_err() {
            self.connection = None;
        }
        result
    }

    fn try_call(&mut self, request: &str) -> io::Result<u64> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(self.server, TIMEOUT)?),
        };
        connection.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(' ') {
            Some(("version", version)) => version.parse().map_err(io::Error::other),
            _ if line == "aborted\n" => Ok(0),
            _ => Err(io::Error::other(line)),
        }
    }
}

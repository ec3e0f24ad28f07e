//! The log of the simulator's database, in lines of text over TCP. Only simulated invalidators have it.
//!
//! | direction | line | meaning |
//! |---|---|---|
//! | to the database | `log POSITION`, `log end` | send what follows |
//! | to the invalidator | `at POSITION` | reading begins there |
//! | | `gap` | the log before some later position was removed |
//! | | `statement SECONDS TEXT` | a statement of the transaction |
//! | | `row ID SECONDS` | a row of the table `shop.items` was changed |
//! | | `commit POSITION SECONDS` | the rows since the previous commit belong together |
//! | | `idle POSITION SECONDS` | nothing follows at present |

use super::{Changes, Log, Place, Row, SourceError, TableNames, Tail, Value};
use guira_client::text::Endpoint;
use guira_sync::clock::Stopwatch;
use guira_transport::net::TcpStream;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) address: Endpoint,
}

/// The database sends a line each half second.
const SILENCE_MAX: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(1);

pub(crate) fn run<C: Changes>(
    options: &Options,
    tail: Tail<C>,
    position: Option<String>,
    save: impl Fn(&str) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    tail.run(position, |position| Stream::open(options, position), save)
}

#[derive(Debug)]
struct Stream {
    input: BufReader<TcpStream>,
    line: String,
    table: TableNames,
    position: u64,
    last_line: Stopwatch,
}

impl Stream {
    fn open(options: &Options, position: Option<&str>) -> Result<Self, SourceError> {
        let address: SocketAddr = options.address.to_string().parse().map_err(io::Error::other)?;
        let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        stream.write_all(format!("log {}\n", position.unwrap_or("end")).as_bytes())?;
        let table = TableNames {
            database: b"shop".to_vec(),
            table: b"items".to_vec(),
            columns: vec![b"id".to_vec()],
        };
        let (input, line) = (BufReader::new(stream), String::new());
        let mut log = Stream { input, line, table, position: 0, last_line: Stopwatch::start() };
        while !log.next()? {
            log.check_silence()?;
        }
        match log.words()? {
            ("at", Some(position), _) => log.position = position,
            ("gap", ..) => return Err(SourceError::Gap(format!("{position:?} was removed"))),
            _ => return Err(SourceError::Malformed("a log begins with at or gap")),
        }
        log.line.clear();
        Ok(log)
    }

    /// Reads on to the end of a line; false if there is none yet.
    fn next(&mut self) -> Result<bool, SourceError> {
        match self.input.read_line(&mut self.line) {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) if !self.line.ends_with('\n') => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => {
                self.last_line = Stopwatch::start();
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check_silence(&self) -> Result<(), SourceError> {
        if self.last_line.elapsed() > SILENCE_MAX {
            Err(io::Error::from(io::ErrorKind::TimedOut).into())
        } else {
            Ok(())
        }
    }

    /// The first word of the line, and up to two numbers.
    fn words(&self) -> Result<(&str, Option<u64>, Option<u64>), SourceError> {
        let mut words = self.line.split_whitespace();
        let verb = words.next().ok_or(SourceError::Malformed("an empty line"))?;
        let mut number = || words.next().and_then(|word| word.parse().ok());
        Ok((verb, number(), number()))
    }
}

impl Log for Stream {
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        if !self.next()? {
            self.check_silence()?;
            return Ok(changes.pause()?);
        }
        let mut position = None;
        match self.words()? {
            ("statement", Some(when), _) => {
                let text = self.line.trim_end().splitn(3, ' ').nth(2).unwrap_or_default();
                changes.statement(text.as_bytes(), when)?;
            }
            ("row", Some(id), Some(when)) if changes.wants(b"shop", b"items") => {
                let values = [Value::Unsigned(id)];
                changes.row(&Row { table: &self.table, old: Some(&values), new: Some(&values), when })?;
            }
            ("row", Some(_), Some(_)) => {}
            ("commit", Some(at), Some(when)) => {
                changes.committed(&at, when)?;
                position = Some(at);
            }
            ("idle", Some(at), Some(when)) => {
                changes.reached(&at, when)?;
                changes.pause()?;
                position = Some(at);
            }
            _ => return Err(SourceError::Malformed("an unknown line")),
        }
        self.position = position.unwrap_or(self.position);
        self.line.clear();
        Ok(())
    }

    fn position(&self) -> String {
        self.position.to_string()
    }

    fn place(&self) -> Place {
        Place { file: 0, offset: self.position }
    }

    fn silence(&self) -> Option<Duration> {
        Some(self.last_line.elapsed())
    }
}

//! The reaction to each reason for which MySQL ends a reader, against a fake server over TCP.

use super::options::{Options, Product, Reads};
use crate::counters::{Count, Counts};
use crate::source::{Changes, OnGap, Row, SourceError, Tail, Until};
use guira_harness::deadline::Deadline;
use guira_sql::mariadb::PasswordKey;
use guira_sql::{Credentials, Security, Server};
use guira_sync::stop::{Stop, Stopped};
use guira_transport::net::{TcpListener, TcpStream};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

const EXECUTED: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5";
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const END: &[u8] = &[0xfe, 0, 0, 2, 0];

#[derive(Debug, Default)]
struct Flushes(Vec<String>);

impl Changes for &mut Flushes {
    fn wants(&self, _: &[u8], _: &[u8]) -> bool {
        false
    }
    fn statement(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn message(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn row(&mut self, _: &Row<'_>) -> Result<(), Stopped> {
        Ok(())
    }
    fn unseen(&mut self, _: &[u8], _: &str) {}
    fn committed(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn reached(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn pause(&mut self) -> Result<(), Stopped> {
        Ok(())
    }
    fn skipped(&mut self, position: &str, _: u64) -> Result<(), Stopped> {
        self.0.push(position.to_owned());
        Ok(())
    }
}

fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut packet = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut packet)?;
    Ok(packet)
}

fn write(stream: &mut TcpStream, first: u8, packets: &[&[u8]]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        bytes.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
        bytes.push(first + number as u8);
        bytes.extend_from_slice(packet);
    }
    stream.write_all(&bytes)
}

/// Serves one reader, and ends its log with `error`, if there is one.
fn serve(stream: &mut TcpStream, error: Option<&str>) -> io::Result<()> {
    let greeting = b"\x0a8.4.0\0\x07\0\0\0challeng\0\xff\xf7\x2d\x02\0\xff\xc7\x15\0\0\0\0\0\0\0\0\0\0challengeabc\0mysql_native_password\0";
    write(stream, 0, &[greeting])?;
    read(stream)?;
    write(stream, 2, &[OK])?;
    loop {
        let command = read(stream)?;
        match &*command {
            [3, statement @ ..] if statement.starts_with(b"SELECT @@global.gtid_executed") => {
                let settings = [EXECUTED, "1", "1", "ROW", "FULL", "FULL", "1", "ON"];
                let mut row = Vec::new();
                for value in settings {
                    row.push(value.len() as u8);
                    row.extend(value.bytes());
                }
                let mut packets: Vec<&[u8]> = vec![b"\x08"];
                packets.extend([&b"def"[..]; 8]);
                packets.extend([END, &row, END]);
                write(stream, 1, &packets)?;
            }
            [3, ..] => write(stream, 1, &[OK])?,
            _ => {
                if let Some(error) = error {
                    write(stream, 1, &[&[b"\xff\xd4\x04#HY000", error.as_bytes()].concat()])?;
                }
            }
        }
    }
}

/// The result of a reader whose connections end for these reasons and whose last connection has a
/// log that continues. Also returns the flushes.
fn read_until(errors: &[&str]) -> (Result<(), SourceError>, Vec<String>, u64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options {
        product: Product::MySql,
        server: Server {
            endpoint: listener.local_addr().unwrap().to_string().parse().unwrap(),
            security: Security::Plain,
            credentials: Credentials { user: "guira".to_owned(), password_file: None },
        },
        key: PasswordKey::Missing,
        server_id: 7,
        reads: Reads::Statements,
        until: Until::Forever,
    };
    let (stop, counts) = (Stop::default(), Arc::<Counts>::default());
    let (of_tail, of_counts) = (stop.clone(), counts.clone());
    let reader = guira_sync::thread::spawn(move || {
        let mut flushes = Flushes::default();
        let tail = Tail { changes: &mut flushes, counts: of_counts, on_gap: OnGap::Flush, stop: of_tail };
        let result = super::replay(&options, tail, EXECUTED.to_owned());
        (result, flushes.0)
    });
    listener.set_nonblocking(true).unwrap();
    let mut served = 0;
    let is_over = || {
        if let Ok((mut stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            let error = errors.get(served).map(|error| (*error).to_owned());
            served += 1;
            let (stop, is_last) = (stop.clone(), error.is_none());
            guira_sync::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                let _ = serve(&mut stream, error.as_deref());
                // The last one received a request for its log, and nothing more.
                if is_last {
                    stop.set();
                }
            });
        }
        reader.is_finished().then_some(())
    };
    Deadline::after(Duration::from_secs(60)).poll(is_over).expect("an end");
    let (result, flushes) = reader.join().unwrap();
    (result, flushes, counts.get(Count::Gaps))
}

#[test]
fn a_second_reader_of_the_same_number_ends_the_first_and_flushes_nothing() {
    let text = "A replica with the same server_uuid/server_id as this replica has connected to the source; the first event '' at 4, …";
    let (result, flushes, gaps) = read_until(&[text]);
    let error = result.unwrap_err();
    assert!(error.to_string().contains("server-id"), "{error}");
    assert!(matches!(error, SourceError::Unsuitable(_)));
    assert_eq!((flushes.len(), gaps), (0, 0));
}

#[test]
fn a_reason_that_is_not_known_flushes_nothing() {
    let (result, flushes, gaps) = read_until(&["log event entry exceeded max_allowed_packet; …"]);
    assert!(matches!(result, Err(SourceError::Refused(_))));
    assert_eq!((flushes.len(), gaps), (0, 0));
}

#[test]
fn logs_that_were_purged_are_flushed_once_and_read_from_their_end() {
    let (result, flushes, gaps) =
        read_until(&["Cannot replicate because the source purged required binary logs. …"]);
    result.unwrap();
    assert_eq!((flushes, gaps), (vec![EXECUTED.to_owned()], 1));
}

#[test]
fn a_log_that_was_reset_below_its_reader_is_asked_for_again() {
    let (result, flushes, gaps) = read_until(&["could not find next log; the first event '.' at 4, …"]);
    result.unwrap();
    assert_eq!((flushes.len(), gaps), (0, 0));
}

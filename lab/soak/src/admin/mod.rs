//! Commands about the server, under load.

pub(crate) mod files;
pub(crate) mod flush;
pub(crate) mod lists;
pub(crate) mod verbs;

use std::io;
use std::time::Duration;

use crate::client::Wire;
use crate::field::Field;
use crate::link::Carrier;

/// A connection for commands; `None` if there is none to be had now.
fn wire(field: &Field, carrier: Carrier) -> Option<Wire> {
    let link = field.addresses.open(carrier).ok();
    if link.is_none() {
        // There are too many others: not at once again.
        std::thread::sleep(Duration::from_millis(20));
    }
    link.map(Wire::new)
}

/// Lines up to `END` or what else ends an answer.
fn lines(wire: &mut Wire, ends: &[&str]) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    loop {
        let line = wire.line()?;
        let is_end = ends.iter().any(|end| line.starts_with(end));
        all.push(line);
        if is_end {
            return Ok(all);
        }
    }
}

/// One number of `stats`, asked for over a new connection.
pub(crate) fn stat(field: &Field, name: &str) -> Option<u64> {
    let mut wire = wire(field, Carrier::Unix)?;
    wire.send(b"stats\r\n").ok()?;
    let lines = lines(&mut wire, &["END"]).ok()?;
    let prefix = format!("STAT {name} ");
    lines.iter().find_map(|line| line.strip_prefix(&prefix)).and_then(|number| number.parse().ok())
}

/// The one line that a command is answered with, over a new connection.
pub(crate) fn run_command(field: &Field, command: &str) -> Option<String> {
    let mut wire = wire(field, Carrier::Unix)?;
    wire.send(format!("{command}\r\n").as_bytes()).ok()?;
    wire.line().ok()
}

//! The rows of the table `shop.items`, their keys and values, and whether caches agree with a database.

use crate::database::Database;
use crate::found::Found;
use crate::programs::server;
use crate::tasks::{call, lock};
use guira_world::scheduler::draw;
use guira_world::thread::sleep;
use guira_world::time;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Some rows are written often, and most once or twice: no later delete hides that one was lost.
pub(crate) const ROWS: usize = 150;
const OFTEN: usize = 6;
/// For this long, many users use the same row.
const FOCUS: Duration = Duration::from_millis(100);
/// Keys that are stored to see whether the router uses a node.
const PROBES: u64 = 16;
/// The flags of an item that stands for none while its key is held off.
const HELD_OFF: u32 = 2_115_768_095;
/// How long after the faults caches may differ from the database: a second gap in the log within a minute empties
/// caches at the end of that minute.
const SETTLED: Duration = Duration::from_secs(75);
/// How often in a row, each half second, caches must agree with the database.
const AGREEMENTS: u32 = 6;

pub(crate) fn a_row() -> usize {
    match draw(4) {
        0 => draw(OFTEN as u64) as usize,
        1 => draw(ROWS as u64) as usize,
        _ => (time::now().as_nanos() / FOCUS.as_nanos()) as usize % ROWS,
    }
}

pub(crate) fn key(row: usize) -> String {
    format!("item:{row}")
}

pub(crate) fn text(row: usize, version: u64) -> String {
    format!("<row {row} version {version}>")
}

/// The version in a text of this row.
pub(crate) fn version_in(text: &str, row: usize) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("<row {row} version "))?;
    rest.split_once('>')?.0.parse().ok()
}

/// The caches of a database, and the router before them.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) database: Arc<Mutex<Database>>,
    pub(crate) router: u8,
    pub(crate) nodes: Vec<u8>,
    /// Replaces a node that is out.
    pub(crate) gutter: Option<u8>,
}

impl Cluster {
    /// All caches.
    pub(crate) fn caches(&self) -> Vec<u8> {
        self.nodes.iter().copied().chain(self.gutter).collect()
    }

    fn differences(&self, round: u32) -> Vec<String> {
        let caches = self.caches();
        let mut old: Vec<String> =
            caches.into_iter().flat_map(|node| differences(&self.database, node)).collect();
        old.extend(self.nodes.iter().filter_map(|node| unused(*node, self.router, round).err()));
        old
    }
}

/// Waits until each cache agrees with its database.
pub(crate) fn settle(clusters: &[Cluster], found: &Mutex<Found>) {
    let limit = time::now() + SETTLED;
    let (mut round, mut agreements) = (0, 0);
    loop {
        round += 1;
        sleep(Duration::from_millis(500));
        let old: Vec<String> = clusters.iter().flat_map(|cluster| cluster.differences(round)).collect();
        // A late delete or store may still arrive after the first agreement.
        agreements = if old.is_empty() { agreements + 1 } else { 0 };
        if agreements == AGREEMENTS {
            break;
        }
        if time::now() > limit {
            lock(found).wrong.extend(old);
            return;
        }
    }
}

/// Stores items through the router. Fails if none of them reaches the node.
fn unused(node: u8, router: u8, round: u32) -> Result<(), String> {
    let probe = |number: u64| format!("probe:{round}:{number}");
    let failed = |error: io::Error| format!("node {node} is not in use: {error}");
    for number in 0..PROBES {
        let request = format!("set {} 0 1 1\r\nx\r\nquit\r\n", probe(number));
        let reply = call(server(router), &request).map_err(failed)?;
        if reply != "STORED\r\n" {
            return Err(format!("the router replies {reply:?} to a set"));
        }
    }
    for number in 0..PROBES {
        let request = format!("get {}\r\nquit\r\n", probe(number));
        if call(server(node), &request).map_err(failed)?.starts_with("VALUE") {
            return Ok(());
        }
    }
    Err(format!("node {node} is not in use"))
}

/// Rows of which a node has another version than the database.
fn differences(database: &Mutex<Database>, node: u8) -> Vec<String> {
    let requests: String = (0..ROWS).map(|row| format!("get {}\r\n", key(row))).collect();
    let text = match call(server(node), &format!("{requests}quit\r\n")) {
        Ok(text) => text,
        Err(error) => return vec![format!("node {node} does not answer: {error}")],
    };
    // No user writes any more.
    let mut database = lock(database);
    let mut replies = text.split("END\r\n");
    let old = |row: usize| {
        let (reply, now) = (replies.next()?, database.version(row));
        let is_absent = reply.is_empty() || reply.starts_with(&format!("VALUE {} {HELD_OFF} 0", key(row)));
        let is_new = is_absent || is_value_of(reply, row) && version_in(reply, row) == Some(now);
        (!is_new).then(|| format!("node {node} has {reply:?} of row {row}; the database has version {now}"))
    };
    let wrong = (0..ROWS).filter_map(old).collect();
    if text.matches("END\r\n").count() == ROWS { wrong } else { vec![format!("node {node} sent {text:?}")] }
}

/// Whether a reply has a value of this row under the row's key.
fn is_value_of(reply: &str, row: usize) -> bool {
    reply.starts_with(&format!("VALUE {} ", key(row))) && reply.matches("<row ").count() == 1
}

//! A region: a database, an invalidator, a router, nodes, and users of the look-aside client. Faults strike while they
//! work. After the faults, within a bounded time, each cache must have the database's version of each row, or nothing.

use crate::database::{Database, Session};
use crate::faults::{Running, Swarm};
use crate::found::{ALL, Fault, Found};
use crate::programs::{Deletes, HOME, Program, ROUTER, RouterPlan, TIME, an_engine, host, server};
use crate::tasks::{call, lock};
use guira_client::lookaside::{LookAside, Value};
use guira_client::text::{Endpoint, Target};
use guira_world::hooks;
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw};
use guira_world::thread::{sleep, spawn};
use guira_world::time;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Some rows are written often, and most once or twice: no later delete hides that one was lost.
const ROWS: usize = 150;
const OFTEN: usize = 6;
/// For this long, many users use the same row.
const FOCUS: Duration = Duration::from_millis(100);
/// Keys that are stored to see whether the router uses a node.
const PROBES: u64 = 16;
const USERS: usize = 4;
const NODES: [u8; 2] = [1, 2];
const GUTTER: u8 = 3;
const DATABASE: u8 = 30;
const INVALIDATOR: u8 = 60;
/// The invalidator saves its first position in this time.
const START: Duration = Duration::from_millis(100);
/// How long after the faults caches may differ from the database: a second gap in the log within a minute empties
/// caches at the end of that minute.
const SETTLED: Duration = Duration::from_secs(75);
/// How often in a row, each half second, caches must agree with the database.
const AGREEMENTS: u32 = 6;

/// The newest version of each row whose delete was acknowledged.
type Deleted = Arc<Mutex<Vec<u64>>>;

pub(crate) fn play(found: &Arc<Mutex<Found>>) {
    set_host(current_process(), host(HOME));
    let database = Arc::new(Mutex::new(Database::new(ROWS)));
    let swarm = Swarm::draw(ALL, Some(database.clone()));
    let has_gutter = draw(2) == 0;
    let deletes = if swarm.has(Fault::Power) { Deletes::Synced } else { Deletes::Logged };
    let plan = RouterPlan { nodes: NODES.to_vec(), gutter: has_gutter.then_some(GUTTER), deletes };
    let flushed: Vec<u8> = NODES.into_iter().chain(plan.gutter).collect();
    let mut running = vec![Running::start(DATABASE, Program::Database(database.clone()))];
    running.extend(flushed.iter().map(|node| Running::start(*node, Program::Node(an_engine()))));
    running.push(Running::start(ROUTER, Program::Router(plan)));
    running.push(Running::start(
        INVALIDATOR,
        Program::Invalidator { database: DATABASE, router: ROUTER, flushed: flushed.clone() },
    ));
    // An invalidator without a saved position starts at the end of the log: earlier changes are not deleted.
    while !lock(&database).is_read() {
        sleep(START);
    }
    sleep(START);
    let deleted: Deleted = Arc::new(Mutex::new(vec![0; ROWS]));
    let users: Vec<_> = (0..USERS)
        .map(|_| {
            let user = User::new(deleted.clone(), database.clone());
            let (found, swarm) = (found.clone(), swarm.clone());
            spawn(move || user.work(&swarm, &found))
        })
        .collect();
    while time::now() < TIME {
        sleep(Duration::from_millis(draw(2_000)));
        swarm.strike(&mut running, found);
    }
    Swarm::end();
    for user in users {
        // A panic is reported by the world.
        let _ = user.join();
    }
    settle(&database, &flushed, found);
    let mut found = lock(found);
    let counts = found.counts;
    if swarm.is_calm() && (counts.failures > 0 || counts.hits < counts.reads / 4) {
        found.wrong.push(format!("without faults: {counts:?}"));
    }
}

/// Waits until each cache agrees with the database.
fn settle(database: &Mutex<Database>, nodes: &[u8], found: &Mutex<Found>) {
    let limit = time::now() + SETTLED;
    let (mut round, mut agreements) = (0, 0);
    loop {
        round += 1;
        sleep(Duration::from_millis(500));
        let mut old: Vec<String> = nodes.iter().flat_map(|node| differences(database, *node)).collect();
        old.extend(NODES.into_iter().filter_map(|node| unused(node, round).err()));
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
fn unused(node: u8, round: u32) -> Result<(), String> {
    let probe = |number: u64| format!("probe:{round}:{number}");
    let failed = |error: io::Error| format!("node {node} is not in use: {error}");
    for number in 0..PROBES {
        let request = format!("set {} 0 1 1\r\nx\r\nquit\r\n", probe(number));
        let reply = call(server(ROUTER), &request).map_err(failed)?;
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
    let database = lock(database);
    let mut replies = text.split("END\r\n");
    let old = |row: usize| {
        let (reply, now) = (replies.next()?, database.version(row));
        let is_new = reply.is_empty() || is_value_of(reply, row) && version_in(reply, row) == Some(now);
        (!is_new).then(|| format!("node {node} has {reply:?} of row {row}; the database has version {now}"))
    };
    let wrong = (0..ROWS).filter_map(old).collect();
    if text.matches("END\r\n").count() == ROWS { wrong } else { vec![format!("node {node} sent {text:?}")] }
}

/// Whether a reply has a value of this row under the row's key.
fn is_value_of(reply: &str, row: usize) -> bool {
    reply.starts_with(&format!("VALUE {} ", key(row))) && reply.matches("<row ").count() == 1
}

fn a_row() -> usize {
    match draw(4) {
        0 => draw(OFTEN as u64) as usize,
        1 => draw(ROWS as u64) as usize,
        _ => (time::now().as_nanos() / FOCUS.as_nanos()) as usize % ROWS,
    }
}

fn key(row: usize) -> String {
    format!("item:{row}")
}

fn text(row: usize, version: u64) -> String {
    format!("<row {row} version {version}>")
}

/// The version in a text of this row.
fn version_in(text: &str, row: usize) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("<row {row} version "))?;
    rest.split_once('>')?.0.parse().ok()
}

/// An application's thread.
#[derive(Debug)]
struct User {
    cache: LookAside,
    session: Session,
    deleted: Deleted,
    database: Arc<Mutex<Database>>,
}

impl User {
    fn new(deleted: Deleted, database: Arc<Mutex<Database>>) -> Self {
        let router: Endpoint = server(ROUTER).to_string().parse().expect("an address");
        let cache = LookAside::new(Target::new(router, Duration::from_millis(1_500)));
        User { cache, session: Session::new(server(DATABASE)), deleted, database }
    }

    fn work(mut self, swarm: &Swarm, found: &Mutex<Found>) {
        while time::now() < TIME && lock(found).wrong.is_empty() {
            let row = a_row();
            let result = match draw(10) {
                0 => self.session.abort(row).map(drop),
                1 => self.write(row, found),
                2 => self.write_without_delete(row, found),
                _ => self.read(row, swarm, found),
            };
            if result.is_err() {
                hooks::sometimes("request-of-a-user-failed");
                lock(found).counts.failures += 1;
            }
            sleep(Duration::from_micros(draw(30_000)));
        }
    }

    fn write(&mut self, row: usize, found: &Mutex<Found>) -> io::Result<()> {
        let (session, failed) = (&mut self.session, self.cache.counters().failed_deletes);
        let version = self.cache.write_through_delete(&[&key(row)], |_| session.update(row))?;
        tracing::debug!("row {row} has version {version}");
        lock(found).counts.writes += 1;
        if self.cache.counters().failed_deletes == failed {
            let deleted = &mut lock(&self.deleted)[row];
            *deleted = version.max(*deleted);
        }
        Ok(())
    }

    /// Writes as a program without the look-aside client does.
    fn write_without_delete(&mut self, row: usize, found: &Mutex<Found>) -> io::Result<()> {
        let version = self.session.update(row)?;
        tracing::debug!("row {row} has version {version}; not deleted");
        lock(found).counts.writes += 1;
        Ok(())
    }

    fn read(&mut self, row: usize, swarm: &Swarm, found: &Mutex<Found>) -> io::Result<()> {
        let deleted = lock(&self.deleted)[row];
        let (session, mut filled) = (&mut self.session, false);
        let value = self.cache.get_or_fill(&key(row), |_| {
            filled = true;
            let version = session.get(row)?;
            tracing::debug!("fills version {version} of row {row}");
            Ok::<_, io::Error>(Some(Value::new(text(row, version))))
        })?;
        let now = lock(&self.database).version(row);
        let data = value.map(Value::into_data).unwrap_or_default();
        let data = String::from_utf8_lossy(&data);
        let mut found = lock(found);
        found.counts.reads += 1;
        found.counts.hits += u64::from(!filled);
        match version_in(&data, row) {
            None => found.wrong.push(format!("{} has the value {data:?}", key(row))),
            Some(version) if version > now => {
                found.wrong.push(format!("{} has version {version}; the database has {now}", key(row)));
            }
            // With faults a delete may be logged by the router and delivered later.
            Some(version) if version < deleted && swarm.is_calm() => {
                let text =
                    format!("version {version} of row {row} was read after version {deleted} was deleted");
                found.wrong.push(text);
            }
            Some(_) => {}
        }
        Ok(())
    }
}

//! A user of the look-aside client beside a database.

use crate::database::{Database, Session};
use crate::faults::Swarm;
use crate::found::Found;
use crate::programs::{TIME, server};
use crate::rows::{a_row, key, text, version_in};
use crate::tasks::lock;
use guira_client::lookaside::{LookAside, Value};
use guira_client::text::{Endpoint, Target};
use guira_world::hooks;
use guira_world::scheduler::draw;
use guira_world::thread::sleep;
use guira_world::time;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The newest version of each row whose delete was acknowledged.
pub(crate) type Deleted = Arc<Mutex<Vec<u64>>>;

/// The server of a host, as users of the look-aside client reach it.
pub(crate) fn target(number: u8) -> Target {
    let server: Endpoint = server(number).to_string().parse().expect("an address");
    Target::new(server, Duration::from_millis(1_500))
}

/// An application's thread.
#[derive(Debug)]
pub(crate) struct User {
    cache: LookAside,
    session: Session,
    deleted: Deleted,
    database: Arc<Mutex<Database>>,
}

impl User {
    /// A user of the cluster behind a router, and of a database.
    pub(crate) fn new([router, host]: [u8; 2], deleted: Deleted, database: Arc<Mutex<Database>>) -> Self {
        User { cache: LookAside::new(target(router)), session: Session::new(server(host)), deleted, database }
    }

    pub(crate) fn work(mut self, swarm: &Swarm, found: &Mutex<Found>) {
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

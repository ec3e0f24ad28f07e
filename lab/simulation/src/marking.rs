//! A user of a replica region, who marks the keys of the rows that it writes at the master.

use crate::database::{Database, Session};
use crate::found::Found;
use crate::programs::{TIME, server};
use crate::rows::{ROWS, a_row, key, text, version_in};
use crate::tasks::lock;
use crate::user::target;
use guira_client::lookaside::{Counters, Database as Which, LookAside, Markers, Value};
use guira_world::scheduler::draw;
use guira_world::thread::sleep;
use guira_world::{hooks, time};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Servers count whole seconds: a marker may end so much before its limit.
const SECOND: Duration = Duration::from_secs(1);

/// What markers and deletes are good for.
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    /// How often the server of markers has lost them.
    pub(crate) losses: Arc<Mutex<u64>>,
    /// How long a marker lives.
    pub(crate) limit: Duration,
    /// Whether the router acknowledges a delete that it has only logged.
    pub(crate) is_logged: bool,
}

impl Lives {
    fn losses(&self) -> u64 {
        *lock(&self.losses)
    }
}

/// A write of this user after which it must not read an older version.
#[derive(Clone, Copy, Debug)]
struct Own {
    version: u64,
    /// The marker is not older.
    since: Duration,
    losses: u64,
}

#[derive(Debug)]
pub(crate) struct Marking {
    cache: LookAside,
    nearest: Session,
    at_master: Session,
    master: Arc<Mutex<Database>>,
    replica: Arc<Mutex<Database>>,
    lives: Lives,
    /// The last write of each row that was marked, and whose delete was acknowledged.
    own: Vec<Option<Own>>,
}

impl Marking {
    /// A user of the cluster behind a router, of the replica and the master, and of a server of markers.
    pub(crate) fn new(
        [router, nearest, at_master, markers]: [u8; 4],
        lives: Lives,
        [master, replica]: [Arc<Mutex<Database>>; 2],
    ) -> Self {
        let markers = Markers::at(target(markers)).limit(lives.limit).settling(SECOND);
        Marking {
            cache: LookAside::new(target(router)).in_replica_region(markers),
            nearest: Session::new(server(nearest)),
            at_master: Session::new(server(at_master)),
            master,
            replica,
            lives,
            own: vec![None; ROWS],
        }
    }

    pub(crate) fn work(mut self, found: &Mutex<Found>) {
        while time::now() < TIME && lock(found).wrong.is_empty() {
            let row = a_row();
            let result = match draw(20) {
                0 => self.abort(row),
                1..4 => self.write(row, found),
                4 => self.write_unmarked(row, found),
                _ => self.read(row, found),
            };
            if result.is_err() {
                hooks::sometimes("request-of-a-user-failed");
                lock(found).counts.failures += 1;
            }
            sleep(Duration::from_micros(draw(30_000)));
        }
    }

    /// A write that the master rolls back: its marker stays until its limit.
    fn abort(&mut self, row: usize) -> io::Result<()> {
        let session = &mut self.at_master;
        self.cache.write_through_delete(&[&key(row)], |_| session.abort(row)).map(drop)
    }

    fn write(&mut self, row: usize, found: &Mutex<Found>) -> io::Result<()> {
        let (before, since, losses) = (self.cache.counters(), time::now(), self.lives.losses());
        let session = &mut self.at_master;
        let write = |changed: &guira_client::lookaside::Changed| session.update_by(row, &changed.comment());
        let version = self.cache.write_through_delete(&[&key(row)], write)?;
        lock(found).counts.writes += 1;
        let Counters { failed_deletes, unmarked_writes, .. } = self.cache.counters();
        let is_marked = (failed_deletes, unmarked_writes) == (before.failed_deletes, before.unmarked_writes);
        tracing::debug!("row {row} has version {version}; marked: {is_marked}");
        if is_marked && !self.lives.is_logged {
            self.own[row] = Some(Own { version, since, losses });
        } else if !is_marked {
            hooks::sometimes("write-unmarked-or-not-deleted");
        }
        Ok(())
    }

    /// Writes as a program without the look-aside client does.
    fn write_unmarked(&mut self, row: usize, found: &Mutex<Found>) -> io::Result<()> {
        let version = self.at_master.update(row)?;
        tracing::debug!("row {row} has version {version}; neither marked nor deleted");
        lock(found).counts.writes += 1;
        Ok(())
    }

    fn read(&mut self, row: usize, found: &Mutex<Found>) -> io::Result<()> {
        let (nearest, at_master, mut filled) = (&mut self.nearest, &mut self.at_master, false);
        let value = self.cache.get_or_fill(&key(row), |which| {
            filled = true;
            let version = match which {
                Which::Nearest => nearest.get(row)?,
                Which::Master => {
                    hooks::sometimes("read-from-the-master");
                    at_master.get(row)?
                }
            };
            tracing::debug!("fills version {version} of row {row} from {which:?}");
            Ok::<_, io::Error>(Some(Value::new(text(row, version))))
        })?;
        let now = lock(&self.master).version(row);
        let data = value.map(Value::into_data).unwrap_or_default();
        let data = String::from_utf8_lossy(&data);
        let least = self.least(row);
        let mut found = lock(found);
        found.counts.reads += 1;
        found.counts.hits += u64::from(!filled);
        match version_in(&data, row) {
            None => found.wrong.push(format!("{} has the value {data:?}", key(row))),
            Some(version) if version > now => {
                found.wrong.push(format!("{} has version {version}; the master has {now}", key(row)));
            }
            Some(version) if least.is_some_and(|own| version < own.version) => {
                found.wrong.push(format!("version {version} of row {row} was read after {least:?}"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// The write of this user that a read of the row must show: its change has arrived before the marker ended, or the
    /// marker has not ended.
    fn least(&self, row: usize) -> Option<Own> {
        let own = self.own[row].filter(|own| own.losses == self.lives.losses())?;
        let end = own.since + self.lives.limit.saturating_sub(SECOND);
        let arrived = lock(&self.replica).shown_at(row, own.version).unwrap_or_else(time::now);
        hooks::sometimes("own-write-read");
        (arrived <= end).then_some(own)
    }
}

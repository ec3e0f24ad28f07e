//! The blocking client: the calling thread does the I/O.

use super::core::Reply;
use super::counters::{Counters, Counts};
use super::error::{Error, ErrorKind, cause};
use super::item::{Cas, Item, Store};
use super::operation::{self, Operation, Uniques};
use super::plan::{Builder, Common, InUse, Plan, SetupError};
use super::reload_handle::ReloadHandle;
use super::server::Server;
use super::session::Session;
use super::shared_window::SharedWindow;
use super::work::{Places, WAITS_MAX, Work};
use crate::key::KeyProblem;
use crate::text::{Connection, Endpoint, StatsReply, Target, TextError};
use guira_protocol::client::VERSION;
use guira_protocol::word::reply;
use guira_routing::Op;
use guira_routing::config::Texts;
use guira_sync::lock::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

/// The names and values of a server's statistics.
pub type Stats = Vec<(String, String)>;

/// A client of many servers that routes by itself. Clones share one client, which any number of
/// threads may use.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    common: Arc<Common>,
    in_use: InUse,
    counts: Arc<Counts>,
    window: SharedWindow,
    /// LOCK: pool_sessions. Above pool_plan.
    sessions: Mutex<Sessions>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Sessions {
    /// Unused sessions, the last used one at the end.
    idle: Vec<Session>,
    /// The number of all sessions.
    open: usize,
}

/// A session in use by a thread. It is given back on drop.
struct Lent<'c> {
    shared: &'c Shared,
    session: Option<Session>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        loop {
            let mut sessions = self.shared.sessions();
            // A thread that hands a plan out has announced the plan before it reads the idle
            // sessions under this lock.
            let other = self.session.as_ref().map(Session::plan_number);
            let other = other.and_then(|number| self.shared.in_use.other_than(number));
            if let (Some(session), Some(plan)) = (&mut self.session, other) {
                drop(sessions);
                if session.go_by(&plan).is_err() {
                    self.session = None;
                }
                continue;
            }
            match self.session.take() {
                Some(session) => sessions.idle.push(session),
                None => sessions.open -= 1,
            }
            break;
        }
        self.shared.returned.notify_one();
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    fn lend(&self) -> Result<Lent<'_>, Error> {
        let most = self.common.connections;
        let is_busy = |sessions: &mut Sessions| sessions.idle.is_empty() && sessions.open >= most;
        let mut sessions = self.returned.wait_timeout_while(self.sessions(), self.common.timeout, is_busy);
        if let Some(session) = sessions.idle.pop() {
            return Ok(Lent { shared: self, session: Some(session) });
        }
        if is_busy(&mut sessions) {
            return Err(Error::from(ErrorKind::Busy).because("all connections are in use"));
        }
        sessions.open += 1;
        drop(sessions);
        let mut lent = Lent { shared: self, session: None };
        // The configuration is known to be valid: an error is a lack of descriptors.
        let session = Session::new(&self.in_use.plan(), &self.counts, self.window.era());
        lent.session =
            Some(session.map_err(|error| Error::from(ErrorKind::Busy).because(error.to_string()))?);
        Ok(lent)
    }

    /// Makes unused sessions adopt this plan, one after the other, so that they close connections
    /// they no longer need and the next call need not wait.
    fn hand_out(&self, plan: &Arc<Plan>) -> Result<(), SetupError> {
        loop {
            let mut sessions = self.sessions();
            let Some(place) = sessions.idle.iter().position(|session| !session.has(plan)) else {
                return Ok(());
            };
            let mut lent = Lent { shared: self, session: Some(sessions.idle.remove(place)) };
            drop(sessions);
            if let Some(session) = &mut lent.session {
                session.go_by(plan)?;
            }
        }
    }
}

impl Client {
    /// A client with this configuration in mcrouter's language, and default options.
    ///
    /// # Errors
    /// If the configuration, or a server that it names, is invalid.
    pub fn from_config(text: &str) -> Result<Self, SetupError> {
        Self::new(&Builder::config(text))
    }

    /// The client that a builder describes.
    ///
    /// # Errors
    /// If the configuration, or a server that it names, is invalid.
    pub fn new(builder: &Builder) -> Result<Self, SetupError> {
        let plan = Arc::new(Plan::new(builder)?);
        plan.tree()?;
        let (common, in_use) = (Arc::clone(&plan.common), InUse::new(plan));
        let (counts, window) = (Arc::default(), SharedWindow::default());
        let (sessions, returned) = (Mutex::default(), Condvar::new());
        Ok(Self { shared: Arc::new(Shared { common, in_use, counts, window, sessions, returned }) })
    }

    /// Uses another configuration from now on; all other options stay. Calls in flight keep the
    /// previous configuration. Servers that both configurations have keep their connections and
    /// their health. New names are resolved first, within a second; a name without a result by then
    /// counts as down until it has one.
    ///
    /// # Errors
    /// If the configuration, or a server that it names, is invalid. The previous one stays in use.
    pub fn reconfigure(&self, texts: &Texts) -> Result<(), SetupError> {
        let Shared { in_use, counts, .. } = &*self.shared;
        in_use.replace(texts, counts, |plan| self.shared.hand_out(plan))
    }

    /// A handle that reconfigures the client without keeping it alive.
    #[must_use]
    pub fn reload_handle(&self) -> ReloadHandle {
        let client = Arc::downgrade(&self.shared);
        ReloadHandle::new(&self.shared.counts, move |texts| {
            Some(Client { shared: client.upgrade()? }.reconfigure(texts))
        })
    }

    /// The client's counters by name, for metrics.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counts.values()
    }

    /// The number of keys that may be in flight: the window that all calls share.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.shared.window.size()
    }

    fn execute_all(&self, operations: Vec<Operation<'_>>) -> Vec<Reply> {
        let keys = operations.len();
        match self.shared.lend() {
            Ok(mut lent) => {
                let done = lent.session.as_mut().and_then(|session| self.shared.work(session, operations));
                done.unwrap_or_else(|| {
                    // The system cannot wait for sockets: the results of the requests are unknown.
                    lent.session = None;
                    vec![Err(ErrorKind::Busy.into()); keys]
                })
            }
            Err(error) => {
                let replies = vec![Err(error); keys];
                operation::count(&operations, &replies, &self.shared.counts);
                replies
            }
        }
    }

    fn execute(&self, operation: Operation<'_>) -> Reply {
        operation::only(self.execute_all(vec![operation]))
    }

    fn store(&self, op: Op, store: &Store<'_>, unique: u64) -> Reply {
        let Shared { common, counts, .. } = &*self.shared;
        self.execute(Operation::store(op, store, unique, common.compression, counts)?)
    }

    fn items(&self, operations: Vec<Operation<'_>>, uniques: Uniques) -> Vec<Result<Option<Item>, Error>> {
        let how = self.shared.common.compression;
        self.execute_all(operations).into_iter().map(|reply| operation::item(reply, uniques, how)).collect()
    }

    /// The item of a key, if there is one.
    ///
    /// # Errors
    /// If no server has replied about the key: read the value from its source, and do not store it.
    pub fn get(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        operation::item(
            self.execute(Operation::of(Op::Get, key)),
            Uniques::Omitted,
            self.shared.common.compression,
        )
    }

    /// The item with its unique, for [`Client::cas`].
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn gets(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        operation::item(
            self.execute(Operation::of(Op::Gets, key)),
            Uniques::Included,
            self.shared.common.compression,
        )
    }

    /// The items of many keys, in their order. All servers are queried in parallel, each for all of
    /// its keys together, as far as the window allows.
    #[must_use]
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Item>, Error>> {
        self.items(keys.iter().map(|key| Operation::of(Op::Get, key.as_ref())).collect(), Uniques::Omitted)
    }

    /// The items of many keys with their uniques.
    #[must_use]
    pub fn gets_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Item>, Error>> {
        self.items(keys.iter().map(|key| Operation::of(Op::Gets, key.as_ref())).collect(), Uniques::Included)
    }

    /// The item of a key; also changes its expiration time ([`Store::expiry`]).
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn gat(&self, key: &[u8], expiry: i32) -> Result<Option<Item>, Error> {
        let reply = self.execute(Operation::expiring(Op::Gat, key, expiry));
        operation::item(reply, Uniques::Omitted, self.shared.common.compression)
    }

    /// Changes the expiration time of an item. False if there is none.
    ///
    /// # Errors
    /// If no server has acknowledged it.
    pub fn touch(&self, key: &[u8], expiry: i32) -> Result<bool, Error> {
        operation::is_done(self.execute(Operation::expiring(Op::Touch, key, expiry)))
    }

    /// Stores an item unconditionally. False if the configuration stores the key nowhere.
    ///
    /// # Errors
    /// If no server has acknowledged it; the item may still be stored.
    pub fn set(&self, store: &Store<'_>) -> Result<bool, Error> {
        operation::is_done(self.store(Op::Set, store, 0))
    }

    /// Stores many items unconditionally; the results are in their order, each as that of
    /// [`Client::set`].
    #[must_use = "what has failed may be stored or not"]
    pub fn set_many(&self, stores: &[Store<'_>]) -> Vec<Result<bool, Error>> {
        let Shared { common, counts, .. } = &*self.shared;
        let (operations, places) = operation::stores(Op::Set, stores, common.compression, counts);
        operation::are_done(places, self.execute_all(operations))
    }

    /// Stores many items at once, each if there is none; the results are in their order, each as that of [`Client::add`].
    #[must_use = "what has failed may be stored or not"]
    pub fn add_many(&self, stores: &[Store<'_>]) -> Vec<Result<bool, Error>> {
        let Shared { common, counts, .. } = &*self.shared;
        let (operations, places) = operation::stores(Op::Add, stores, common.compression, counts);
        operation::are_done(places, self.execute_all(operations))
    }

    /// Stores an item if there is none. False if there is one.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn add(&self, store: &Store<'_>) -> Result<bool, Error> {
        operation::is_done(self.store(Op::Add, store, 0))
    }

    /// Stores an item if there is one already. False if there is none.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn replace(&self, store: &Store<'_>) -> Result<bool, Error> {
        operation::is_done(self.store(Op::Replace, store, 0))
    }

    /// Stores an item if the present one still has this unique.
    ///
    /// # Errors
    /// As [`Client::set`].
    pub fn cas(&self, store: &Store<'_>, unique: u64) -> Result<Cas, Error> {
        operation::cas(self.store(Op::Cas, store, unique))
    }

    /// Appends bytes to the value of an item. False if there is none.
    ///
    /// # Errors
    /// As [`Client::set`]; also if the client compresses.
    pub fn append(&self, key: &[u8], more: &[u8]) -> Result<bool, Error> {
        operation::is_done(self.execute(Operation::joining(
            Op::Append,
            key,
            more,
            self.shared.common.compression,
        )?))
    }

    /// Prepends bytes to the value of an item. False if there is none.
    ///
    /// # Errors
    /// As [`Client::append`].
    pub fn prepend(&self, key: &[u8], more: &[u8]) -> Result<bool, Error> {
        operation::is_done(self.execute(Operation::joining(
            Op::Prepend,
            key,
            more,
            self.shared.common.compression,
        )?))
    }

    /// Deletes an item. False if there is none.
    ///
    /// # Errors
    /// If no server has acknowledged it: the old item may still exist, and may have to be deleted
    /// again.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        operation::is_done(self.execute(Operation::of(Op::Delete, key)))
    }

    /// Deletes many items at once; the results are in the order of the keys.
    #[must_use = "a delete that has failed leaves an old value"]
    pub fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<bool, Error>> {
        let operations = keys.iter().map(|key| Operation::of(Op::Delete, key.as_ref())).collect();
        self.execute_all(operations).into_iter().map(operation::is_done).collect()
    }

    /// Adds to a number in decimal digits. Returns the sum; `None` if there is no item.
    ///
    /// # Errors
    /// If no server has acknowledged it, or the item is no number.
    pub fn incr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        operation::number(self.execute(Operation::counting(Op::Incr, key, by)))
    }

    /// Subtracts from a number, down to 0. Otherwise as [`Client::incr`].
    ///
    /// # Errors
    /// As [`Client::incr`].
    pub fn decr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        operation::number(self.execute(Operation::counting(Op::Decr, key, by)))
    }

    /// Removes all items from all servers of the configuration.
    ///
    /// # Errors
    /// The worst reply, if a server has not acknowledged it.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.execute(Operation::of(Op::FlushAll, b"")).map(|_| ())
    }

    /// The versions of all servers, each over a connection of its own.
    #[must_use]
    pub fn versions(&self) -> Vec<(String, Result<String, Error>)> {
        self.each(|connection| {
            connection.send(VERSION)?;
            let line = connection.line()?;
            let version = line.strip_prefix(reply::spaced::VERSION).ok_or(ErrorKind::Broken)?;
            Ok(version.escape_ascii().to_string())
        })
    }

    /// The statistics of all servers: `stats about`, or plain `stats` if `about` is empty.
    #[must_use]
    pub fn stats(&self, about: &str) -> Vec<(String, Result<Stats, Error>)> {
        let is_word = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        let bad = about.bytes().position(|byte| !is_word(byte));
        let bad = bad.map(|at| KeyProblem::Byte { byte: about.as_bytes()[at], at });
        self.each(|connection| {
            if let Some(problem) = bad {
                return Err(ErrorKind::BadKey(problem).into());
            }
            let mut all = Vec::new();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match connection.stats(about, |name, value| all.push((text(name), text(value))))? {
                StatsReply::Sent => Ok(all),
                StatsReply::Refused(line) => Err(ErrorKind::Refused(text(&line)).into()),
            }
        })
    }

    fn each<T>(&self, send: impl Fn(&mut Connection) -> Result<T, Error>) -> Vec<(String, Result<T, Error>)> {
        let plan = self.shared.in_use.plan();
        let results = plan.in_use().map(|server| {
            let result = target(server).and_then(|target| send(&mut Connection::open(&target)?));
            (server.name.to_string(), result.map_err(|error| error.at(&server.name)))
        });
        results.collect()
    }
}

/// The settings of a separate connection to a server.
fn target(server: &Server) -> Result<Target, Error> {
    let endpoint: Endpoint = server.name.parse().map_err(|_| ErrorKind::Unreachable)?;
    let target = Target::new(endpoint, Duration::from_millis(server.timeout_ms));
    Ok(match &server.secure {
        Some(secure) => target.with_connector(secure.connector.clone(), secure.name.clone()),
        None => target,
    })
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        let of = Error::from;
        match error {
            TextError::Connect(error) => of(ErrorKind::Unreachable).because(cause(&error)),
            TextError::Late => ErrorKind::Timeout.into(),
            TextError::Login(line) => ErrorKind::Refused(line).into(),
            TextError::Io(error) => of(ErrorKind::Broken).because(cause(&error)),
            TextError::LoginFile(_) | TextError::Closed | TextError::TooLong | TextError::Malformed(_) => {
                of(ErrorKind::Broken).because(error.to_string())
            }
        }
    }
}

impl Shared {
    /// Sends requests, and waits for all replies. `None` if the session is no longer usable.
    fn work(&self, session: &mut Session, operations: Vec<Operation<'_>>) -> Option<Vec<Reply>> {
        let mut work = Work::default();
        // An error of the system occurs again in the wait.
        let _ = session.begin();
        work.settle(session, &self.window, &self.counts);
        let call = work.begin(session, operations);
        let mut waits = 0;
        loop {
            // Waiting keys use the present plan, like those of other calls.
            if let Some(plan) = self.in_use.other_than(session.plan_number()) {
                session.go_by(&plan).ok()?;
            }
            let places = work.start(session, &self.window);
            work.settle(session, &self.window, &self.counts);
            if let Some((_, replies)) =
                work.take_done(session, &self.counts).into_iter().find(|(number, _)| *number == call)
            {
                return Some(replies);
            }
            if places == Places::Enough {
                if session.turn(Duration::MAX).is_err() {
                    work.forget(&self.window);
                    return None;
                }
            } else if waits < WAITS_MAX {
                waits += 1;
                self.counts.window_waits.add(1);
                self.window.wait(self.common.timeout);
                session.update_time();
            } else {
                work.refuse(session);
            }
            work.settle(session, &self.window, &self.counts);
        }
    }
}

#[cfg(test)]
mod tests;

//! Futures for any runtime: one thread of the client does the I/O for all of them, over one
//! connection to each server.

use super::core::Reply;
use super::counters::{Counters, Counts};
use super::error::Error;
use super::item::{Cas, Item, Store};
use super::operation::{self, Operation, Uniques};
use super::plan::{Builder, Common, InUse, Plan, SetupError};
use super::promise::{Answerer, Pending, promise};
use super::reload_handle::ReloadHandle;
use super::session::{OWNERS, Session};
use super::shared_window::SharedWindow;
use super::work::{Places, WAITS_MAX, Work};
use guira_routing::config::Texts;
use guira_routing::{Op, Tree};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_transport::{Interest, Mailbox};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A client of many servers that routes by itself, whose calls are futures. A call continues even
/// if its future is not polled, since the client's thread runs it. Clones share one client; the
/// thread ends after the last clone and the last future.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    common: Arc<Common>,
    in_use: InUse,
    counts: Arc<Counts>,
    window: Arc<SharedWindow>,
    mailbox: Arc<Mailbox<Job>>,
    /// The thread has ended, and completes no further calls. Relaxed: the lock of the mailbox
    /// orders it.
    has_ended: Arc<AtomicBool>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mailbox.send(Job::Stop);
    }
}

#[derive(Debug)]
enum Job {
    Execute(Vec<Operation<'static>>, Answerer),
    /// Another configuration, and the thread's tree of it.
    Adopt(Arc<Plan>, Box<Tree>),
    Stop,
}

/// The thread of a client.
struct Driver {
    session: Session,
    mailbox: Arc<Mailbox<Job>>,
    window: Arc<SharedWindow>,
    counts: Arc<Counts>,
    work: Work<'static>,
    /// The promise of each call.
    answerers: HashMap<u32, Answerer>,
    has_ended: Arc<AtomicBool>,
    /// The longest wait of a key for room in the window.
    patience_ms: u64,
}

/// Fails all open calls, however the thread ends.
impl Drop for Driver {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.mailbox.take();
    }
}

/// Whether a thread continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    End,
}

impl Driver {
    fn run(mut self) {
        while self.round() == Next::Continue {}
    }

    fn round(&mut self) -> Next {
        let mut next = Next::Continue;
        for job in self.mailbox.take() {
            match job {
                Job::Execute(operations, answerer) => {
                    let call = self.work.begin(&mut self.session, operations);
                    self.answerers.insert(call, answerer);
                }
                Job::Adopt(plan, tree) => self.session.adopt(&plan, *tree),
                Job::Stop => next = Next::End,
            }
        }
        self.session.probe();
        // Only this thread uses the window: if it is full, some keys are in flight.
        let places = self.work.start(&mut self.session, &self.window);
        debug_assert_eq!(places, Places::Enough, "the window has room for a key if none is under way");
        self.work.refuse_overdue(&mut self.session, self.patience_ms);
        let turned = if next == Next::Continue { self.session.turn(Duration::MAX) } else { Ok(()) };
        self.work.settle(&mut self.session, &self.window, &self.counts);
        for (call, replies) in self.work.take_done(&mut self.session, &self.counts) {
            if let Some(answerer) = self.answerers.remove(&call) {
                answerer.answer(replies);
            }
        }
        if turned.is_err() { Next::End } else { next }
    }
}

impl AsyncClient {
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
    /// If the configuration, or a server that it names, is invalid; or the system has no thread.
    pub fn new(builder: &Builder) -> Result<Self, SetupError> {
        let plan = Arc::new(Plan::new(builder)?);
        let (counts, window) = (Arc::default(), Arc::new(SharedWindow::default()));
        let (mailbox, has_ended) = (Arc::new(Mailbox::new()?), Arc::<AtomicBool>::default());
        let session = Session::new(&plan, &counts, window.era())?;
        session.poll.add(&*mailbox, OWNERS, Interest::Read)?;
        let driver = Driver {
            session,
            mailbox: Arc::clone(&mailbox),
            window: Arc::clone(&window),
            counts: Arc::clone(&counts),
            work: Work::default(),
            answerers: HashMap::new(),
            has_ended: Arc::clone(&has_ended),
            patience_ms: u64::try_from(plan.common.timeout.saturating_mul(WAITS_MAX).as_millis())
                .unwrap_or(u64::MAX / 4),
        };
        guira_sync::thread::Builder::new().name("guira-client".to_owned()).spawn(move || driver.run())?;
        let (common, in_use) = (Arc::clone(&plan.common), InUse::new(plan));
        Ok(Self { shared: Arc::new(Shared { common, in_use, counts, window, mailbox, has_ended }) })
    }

    /// Like [`super::Client::reconfigure`]. It does no I/O except for name lookups; calls that
    /// begin afterwards use the new configuration.
    ///
    /// # Errors
    /// Those of [`super::Client::reconfigure`].
    pub fn reconfigure(&self, texts: &Texts) -> Result<(), SetupError> {
        let Shared { in_use, counts, mailbox, .. } = &*self.shared;
        in_use.replace(texts, counts, |plan| {
            mailbox.send(Job::Adopt(Arc::clone(plan), Box::new(plan.tree()?)));
            Ok(())
        })
    }

    /// As [`super::Client::reload_handle`].
    #[must_use]
    pub fn reload_handle(&self) -> ReloadHandle {
        let client = Arc::downgrade(&self.shared);
        ReloadHandle::new(&self.shared.counts, move |texts| {
            Some(AsyncClient { shared: client.upgrade()? }.reconfigure(texts))
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

    /// Starts a call immediately.
    fn execute_all(&self, operations: Vec<Operation<'_>>) -> Pending<Arc<Shared>> {
        let (answerer, pending) = promise(operations.len(), Arc::clone(&self.shared));
        let operations = operations.into_iter().map(Operation::into_owned).collect();
        self.shared.mailbox.send(Job::Execute(operations, answerer));
        // The thread has either taken the job, or set this flag before it ended.
        if self.shared.has_ended.load(Ordering::Relaxed) {
            self.shared.mailbox.take();
        }
        pending
    }

    async fn execute(&self, operation: Result<Operation<'_>, Error>) -> Reply {
        operation::only(self.execute_all(vec![operation?]).await)
    }

    async fn store(&self, op: Op, store: &Store<'_>, unique: u64) -> Reply {
        let Shared { common, counts, .. } = &*self.shared;
        self.execute(Operation::store(op, store, unique, common.compression, counts)).await
    }

    async fn items<K: AsRef<[u8]>>(
        &self,
        op: Op,
        keys: &[K],
        uniques: Uniques,
    ) -> Vec<Result<Option<Item>, Error>> {
        let operations = keys.iter().map(|key| Operation::of(op, key.as_ref())).collect();
        let how = self.shared.common.compression;
        self.execute_all(operations)
            .await
            .into_iter()
            .map(|reply| operation::item(reply, uniques, how))
            .collect()
    }

    /// As [`super::Client::get`].
    ///
    /// # Errors
    /// Those of [`super::Client::get`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        let reply = self.execute(Ok(Operation::of(Op::Get, key))).await;
        operation::item(reply, Uniques::Omitted, self.shared.common.compression)
    }

    /// As [`super::Client::gets`].
    ///
    /// # Errors
    /// Those of [`super::Client::gets`].
    pub async fn gets(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        let reply = self.execute(Ok(Operation::of(Op::Gets, key))).await;
        operation::item(reply, Uniques::Included, self.shared.common.compression)
    }

    /// As [`super::Client::get_many`].
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Item>, Error>> {
        self.items(Op::Get, keys, Uniques::Omitted).await
    }

    /// As [`super::Client::gets_many`].
    pub async fn gets_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Item>, Error>> {
        self.items(Op::Gets, keys, Uniques::Included).await
    }

    /// As [`super::Client::gat`].
    ///
    /// # Errors
    /// Those of [`super::Client::gat`].
    pub async fn gat(&self, key: &[u8], expiry: i32) -> Result<Option<Item>, Error> {
        let reply = self.execute(Ok(Operation::expiring(Op::Gat, key, expiry))).await;
        operation::item(reply, Uniques::Omitted, self.shared.common.compression)
    }

    /// As [`super::Client::touch`].
    ///
    /// # Errors
    /// Those of [`super::Client::touch`].
    pub async fn touch(&self, key: &[u8], expiry: i32) -> Result<bool, Error> {
        operation::is_done(self.execute(Ok(Operation::expiring(Op::Touch, key, expiry))).await)
    }

    /// As [`super::Client::set`].
    ///
    /// # Errors
    /// Those of [`super::Client::set`].
    pub async fn set(&self, store: &Store<'_>) -> Result<bool, Error> {
        operation::is_done(self.store(Op::Set, store, 0).await)
    }

    /// As [`super::Client::set_many`].
    #[must_use = "what has failed may be stored or not"]
    pub async fn set_many(&self, stores: &[Store<'_>]) -> Vec<Result<bool, Error>> {
        let Shared { common, counts, .. } = &*self.shared;
        let (operations, places) = operation::stores(Op::Set, stores, common.compression, counts);
        operation::are_done(places, self.execute_all(operations).await)
    }

    /// As [`super::Client::add`].
    ///
    /// # Errors
    /// Those of [`super::Client::add`].
    pub async fn add(&self, store: &Store<'_>) -> Result<bool, Error> {
        operation::is_done(self.store(Op::Add, store, 0).await)
    }

    /// As [`super::Client::replace`].
    ///
    /// # Errors
    /// Those of [`super::Client::replace`].
    pub async fn replace(&self, store: &Store<'_>) -> Result<bool, Error> {
        operation::is_done(self.store(Op::Replace, store, 0).await)
    }

    /// As [`super::Client::cas`].
    ///
    /// # Errors
    /// Those of [`super::Client::cas`].
    pub async fn cas(&self, store: &Store<'_>, unique: u64) -> Result<Cas, Error> {
        operation::cas(self.store(Op::Cas, store, unique).await)
    }

    /// As [`super::Client::append`].
    ///
    /// # Errors
    /// Those of [`super::Client::append`].
    pub async fn append(&self, key: &[u8], more: &[u8]) -> Result<bool, Error> {
        let operation = Operation::joining(Op::Append, key, more, self.shared.common.compression);
        operation::is_done(self.execute(operation).await)
    }

    /// As [`super::Client::prepend`].
    ///
    /// # Errors
    /// Those of [`super::Client::prepend`].
    pub async fn prepend(&self, key: &[u8], more: &[u8]) -> Result<bool, Error> {
        let operation = Operation::joining(Op::Prepend, key, more, self.shared.common.compression);
        operation::is_done(self.execute(operation).await)
    }

    /// As [`super::Client::delete`].
    ///
    /// # Errors
    /// Those of [`super::Client::delete`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        operation::is_done(self.execute(Ok(Operation::of(Op::Delete, key))).await)
    }

    /// As [`super::Client::delete_many`].
    #[must_use = "a delete that has failed leaves an old value"]
    pub async fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<bool, Error>> {
        let operations = keys.iter().map(|key| Operation::of(Op::Delete, key.as_ref())).collect();
        self.execute_all(operations).await.into_iter().map(operation::is_done).collect()
    }

    /// As [`super::Client::incr`].
    ///
    /// # Errors
    /// Those of [`super::Client::incr`].
    pub async fn incr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        operation::number(self.execute(Ok(Operation::counting(Op::Incr, key, by))).await)
    }

    /// As [`super::Client::decr`].
    ///
    /// # Errors
    /// Those of [`super::Client::decr`].
    pub async fn decr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        operation::number(self.execute(Ok(Operation::counting(Op::Decr, key, by))).await)
    }

    /// As [`super::Client::flush_all`].
    ///
    /// # Errors
    /// Those of [`super::Client::flush_all`].
    pub async fn flush_all(&self) -> Result<(), Error> {
        self.execute(Ok(Operation::of(Op::FlushAll, b""))).await.map(|_| ())
    }
}

//! Futures for any runtime: a thread of their own does the I/O of all of them, over one connection to each server.

use super::ask::{self, Ask, Uniques};
use super::core::Reply;
use super::counters::{Counters, Counts};
use super::error::Error;
use super::item::{Cas, Item, Store};
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

/// A client of many servers that routes by itself, whose calls are futures. They go on whether or not they are polled: the thread of the client has
/// them. Its clones are the same client; the thread ends with the last of them and of its futures.
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
    /// The thread has ended: it answers nobody any more. Relaxed: the lock of the mailbox orders it.
    has_ended: Arc<AtomicBool>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mailbox.send(Job::Stop);
    }
}

#[derive(Debug)]
enum Job {
    Ask(Vec<Ask<'static>>, Answerer),
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
    /// Who waits for calls.
    answerers: HashMap<u32, Answerer>,
    has_ended: Arc<AtomicBool>,
    /// How long a key waits for a place.
    patience_ms: u64,
}

/// Whatever ends the thread, nobody waits for it any more.
impl Drop for Driver {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.mailbox.take();
    }
}

/// Whether a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    On,
    Ends,
}

impl Driver {
    fn run(mut self) {
        while self.round() == Goes::On {}
    }

    fn round(&mut self) -> Goes {
        let mut goes = Goes::On;
        for job in self.mailbox.take() {
            match job {
                Job::Ask(asks, answerer) => {
                    let call = self.work.begin(&mut self.session, asks);
                    self.answerers.insert(call, answerer);
                }
                Job::Adopt(plan, tree) => self.session.adopt(&plan, *tree),
                Job::Stop => goes = Goes::Ends,
            }
        }
        self.session.core.probe();
        // All places are this thread's: if none is free, some keys are under way.
        let places = self.work.start(&mut self.session, &self.window);
        debug_assert_eq!(places, Places::Enough, "the window has room for a key if none is under way");
        self.work.refuse_overdue(&mut self.session, self.patience_ms);
        let turned = if goes == Goes::On { self.session.turn(Duration::MAX) } else { Ok(()) };
        self.work.settle(&mut self.session, &self.window, &self.counts);
        for (call, replies) in self.work.take_done(&mut self.session, &self.counts) {
            if let Some(answerer) = self.answerers.remove(&call) {
                answerer.answer(replies);
            }
        }
        if turned.is_err() { Goes::Ends } else { goes }
    }
}

impl AsyncClient {
    /// A client with this configuration, in mcrouter's language, and otherwise as usual.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with a server that it names.
    pub fn from_config(text: &str) -> Result<Self, SetupError> {
        Self::new(&Builder::config(text))
    }

    /// The client that a builder describes.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with a server that it names; or the system has no thread.
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

    /// As [`super::Client::reconfigure`]. It makes no I/O but to look names up, and calls that begin afterwards go by the new configuration.
    ///
    /// # Errors
    /// As there.
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

    /// What the client has done, by name: for metrics.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counts.told()
    }

    /// How many keys may be outstanding now: the window that all calls share.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.shared.window.size()
    }

    /// Begins a call at once.
    fn ask_all(&self, asks: Vec<Ask<'_>>) -> Pending<Arc<Shared>> {
        let (answerer, pending) = promise(asks.len(), Arc::clone(&self.shared));
        let asks = asks.into_iter().map(Ask::into_owned).collect();
        self.shared.mailbox.send(Job::Ask(asks, answerer));
        // The thread has either found it there or said before that it has ended.
        if self.shared.has_ended.load(Ordering::Relaxed) {
            self.shared.mailbox.take();
        }
        pending
    }

    async fn ask(&self, ask: Result<Ask<'_>, Error>) -> Reply {
        ask::only(self.ask_all(vec![ask?]).await)
    }

    async fn store(&self, op: Op, store: &Store<'_>, unique: u64) -> Reply {
        let Shared { common, counts, .. } = &*self.shared;
        self.ask(Ask::store(op, store, unique, common.compression, counts)).await
    }

    async fn items<K: AsRef<[u8]>>(
        &self,
        op: Op,
        keys: &[K],
        uniques: Uniques,
    ) -> Vec<Result<Option<Item>, Error>> {
        let asks = keys.iter().map(|key| Ask::of(op, key.as_ref())).collect();
        let how = self.shared.common.compression;
        self.ask_all(asks).await.into_iter().map(|reply| ask::item(reply, uniques, how)).collect()
    }

    /// As [`super::Client::get`].
    ///
    /// # Errors
    /// As there.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        let reply = self.ask(Ok(Ask::of(Op::Get, key))).await;
        ask::item(reply, Uniques::Omitted, self.shared.common.compression)
    }

    /// As [`super::Client::gets`].
    ///
    /// # Errors
    /// As there.
    pub async fn gets(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        let reply = self.ask(Ok(Ask::of(Op::Gets, key))).await;
        ask::item(reply, Uniques::Told, self.shared.common.compression)
    }

    /// As [`super::Client::get_many`].
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Item>, Error>> {
        self.items(Op::Get, keys, Uniques::Omitted).await
    }

    /// As [`super::Client::gets_many`].
    pub async fn gets_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Item>, Error>> {
        self.items(Op::Gets, keys, Uniques::Told).await
    }

    /// As [`super::Client::gat`].
    ///
    /// # Errors
    /// As there.
    pub async fn gat(&self, key: &[u8], expiry: i32) -> Result<Option<Item>, Error> {
        let reply = self.ask(Ok(Ask::expiring(Op::Gat, key, expiry))).await;
        ask::item(reply, Uniques::Omitted, self.shared.common.compression)
    }

    /// As [`super::Client::touch`].
    ///
    /// # Errors
    /// As there.
    pub async fn touch(&self, key: &[u8], expiry: i32) -> Result<bool, Error> {
        ask::is_done(self.ask(Ok(Ask::expiring(Op::Touch, key, expiry))).await)
    }

    /// As [`super::Client::set`].
    ///
    /// # Errors
    /// As there.
    pub async fn set(&self, store: &Store<'_>) -> Result<bool, Error> {
        ask::is_done(self.store(Op::Set, store, 0).await)
    }

    /// As [`super::Client::set_many`].
    #[must_use = "what has failed may be stored or not"]
    pub async fn set_many(&self, stores: &[Store<'_>]) -> Vec<Result<bool, Error>> {
        let Shared { common, counts, .. } = &*self.shared;
        let (asks, places) = ask::stores(stores, common.compression, counts);
        ask::are_done(places, self.ask_all(asks).await)
    }

    /// As [`super::Client::add`].
    ///
    /// # Errors
    /// As there.
    pub async fn add(&self, store: &Store<'_>) -> Result<bool, Error> {
        ask::is_done(self.store(Op::Add, store, 0).await)
    }

    /// As [`super::Client::replace`].
    ///
    /// # Errors
    /// As there.
    pub async fn replace(&self, store: &Store<'_>) -> Result<bool, Error> {
        ask::is_done(self.store(Op::Replace, store, 0).await)
    }

    /// As [`super::Client::cas`].
    ///
    /// # Errors
    /// As there.
    pub async fn cas(&self, store: &Store<'_>, unique: u64) -> Result<Cas, Error> {
        ask::cas(self.store(Op::Cas, store, unique).await)
    }

    /// As [`super::Client::append`].
    ///
    /// # Errors
    /// As there.
    pub async fn append(&self, key: &[u8], more: &[u8]) -> Result<bool, Error> {
        let ask = Ask::joining(Op::Append, key, more, self.shared.common.compression);
        ask::is_done(self.ask(ask).await)
    }

    /// As [`super::Client::prepend`].
    ///
    /// # Errors
    /// As there.
    pub async fn prepend(&self, key: &[u8], more: &[u8]) -> Result<bool, Error> {
        let ask = Ask::joining(Op::Prepend, key, more, self.shared.common.compression);
        ask::is_done(self.ask(ask).await)
    }

    /// As [`super::Client::delete`].
    ///
    /// # Errors
    /// As there.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        ask::is_done(self.ask(Ok(Ask::of(Op::Delete, key))).await)
    }

    /// As [`super::Client::delete_many`].
    #[must_use = "a delete that has failed leaves an old value"]
    pub async fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<bool, Error>> {
        let asks = keys.iter().map(|key| Ask::of(Op::Delete, key.as_ref())).collect();
        self.ask_all(asks).await.into_iter().map(ask::is_done).collect()
    }

    /// As [`super::Client::incr`].
    ///
    /// # Errors
    /// As there.
    pub async fn incr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        ask::number(self.ask(Ok(Ask::counting(Op::Incr, key, by))).await)
    }

    /// As [`super::Client::decr`].
    ///
    /// # Errors
    /// As there.
    pub async fn decr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        ask::number(self.ask(Ok(Ask::counting(Op::Decr, key, by))).await)
    }

    /// As [`super::Client::flush_all`].
    ///
    /// # Errors
    /// As there.
    pub async fn flush_all(&self) -> Result<(), Error> {
        self.ask(Ok(Ask::of(Op::FlushAll, b""))).await.map(|_| ())
    }
}

//! The thread on which names are looked up.

use super::book::{Book, Found, Learned, Waiting};
use super::counts::{NameCount, NameCounts, NameGauge};
use super::membership::Target;
use super::resolver::Resolver;
use guira_sync::channel as std_mpsc;
use guira_sync::clock::Stopwatch;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::thread::JoinHandle;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamesOptions {
    /// The DNS server to use instead of the system's.
    pub server: Option<SocketAddr>,
}

/// A lookup found other records than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The addresses of a host: IPv4 first, and each kind in order, so that all clients prefer the
    /// same address.
    Host(Arc<str>, Vec<IpAddr>),
    /// The targets of an SRV record.
    Service(Arc<str>, Vec<Target>),
}

type Notify = Box<dyn Fn(News) + Send>;

/// Resolves names. The thread starts with the first name.
pub struct Names {
    options: NamesOptions,
    counts: Arc<NameCounts>,
    /// LOCK: names. Leaf; held while the thread is started.
    state: Mutex<State>,
}

enum State {
    /// Before the first lookup, with the callback for changes.
    Idle(Notify),
    Running(UnboundedSender<Command>, JoinHandle<()>),
    Broken,
}

enum Command {
    Host(Arc<str>, Waiting<IpAddr>),
    Service(Arc<str>, Waiting<Target>),
    Follow { hosts: HashSet<Arc<str>>, services: HashSet<Arc<str>> },
}

const LOOKUPS_MAX: usize = 32;
/// How often the system's configuration is checked.
const LOOK: Duration = Duration::from_secs(5);

impl Names {
    /// Calls `notify` with changes, on the thread of names.
    pub fn new(
        options: NamesOptions,
        counts: Arc<NameCounts>,
        notify: impl Fn(News) + Send + 'static,
    ) -> Self {
        Names { options, counts, state: Mutex::new(State::Idle(Box::new(notify))) }
    }

    /// The addresses of hosts, or the error of each. Waits up to `patience`: later results are
    /// passed to the callback. From now on these names are resolved again when their records
    /// expire.
    pub fn hosts(
        &self,
        names: impl IntoIterator<Item = Arc<str>>,
        patience: Duration,
    ) -> HashMap<Arc<str>, Result<Vec<IpAddr>, String>> {
        self.look_up(names, Command::Host, patience)
    }

    /// The same for the targets of SRV records.
    pub fn services(
        &self,
        names: impl IntoIterator<Item = Arc<str>>,
        patience: Duration,
    ) -> HashMap<Arc<str>, Result<Vec<Target>, String>> {
        self.look_up(names, Command::Service, patience)
    }

    fn look_up<T: Send + 'static>(
        &self,
        names: impl IntoIterator<Item = Arc<str>>,
        command: fn(Arc<str>, Waiting<T>) -> Command,
        patience: Duration,
    ) -> HashMap<Arc<str>, Result<Vec<T>, String>> {
        let silent = || Err("no reply from DNS yet".to_owned());
        let mut all: HashMap<Arc<str>, _> = names.into_iter().map(|name| (name, silent())).collect();
        let (sender, receiver) = std_mpsc::channel();
        for name in all.keys() {
            let sender = sender.clone();
            // A caller whose patience has ended has dropped the receiver.
            let waiting: Waiting<T> = Box::new(move |name, result| drop(sender.send((name, result))));
            self.send(command(name.clone(), waiting));
        }
        drop(sender);
        let since = Stopwatch::start();
        while let Ok((name, result)) = receiver.recv_timeout(patience.saturating_sub(since.elapsed())) {
            all.insert(name, result);
        }
        all
    }

    /// Names that are not among these are forgotten.
    pub fn follow(&self, hosts: HashSet<Arc<str>>, services: HashSet<Arc<str>>) {
        let is_running = matches!(*self.state(), State::Running(..));
        if is_running {
            self.send(Command::Follow { hosts, services });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn send(&self, command: Command) {
        let mut state = self.state();
        if let State::Idle(_) = *state {
            let State::Idle(notify) = std::mem::replace(&mut *state, State::Broken) else { return };
            match start(self.options, self.counts.clone(), notify) {
                Ok((sender, thread)) => *state = State::Running(sender, thread),
                // Operator: Check /etc/resolv.conf and the limit of threads. Names are not resolved until
                // a restart.
                Err(error) => tracing::error!(%error, "cannot start the resolver"),
            }
        }
        if let State::Running(sender, _) = &*state {
            // A thread that has failed has dropped its receiver.
            let _ = sender.send(command);
        }
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.state(), State::Broken);
        if let State::Running(sender, thread) = state {
            drop(sender);
            // A failure of the thread was logged.
            let _ = thread.join();
        }
    }
}

fn start(
    options: NamesOptions,
    counts: Arc<NameCounts>,
    notify: Notify,
) -> io::Result<(UnboundedSender<Command>, JoinHandle<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, commands) = unbounded_channel();
    let thread = guira_sync::thread::Builder::new().name("guira-names".to_owned()).spawn(move || {
        let worker = runtime.block_on(async { Worker::new(options, counts, notify) });
        match worker {
            Ok(worker) => runtime.block_on(worker.run(commands)),
            // Operator: Check /etc/resolv.conf and the limit of threads. Names are not resolved until a
            // restart.
            Err(error) => tracing::error!(%error, "cannot start the resolver"),
        }
    })?;
    Ok((sender, thread))
}

enum Done {
    Host(Arc<str>, Result<Found<IpAddr>, String>),
    Service(Arc<str>, Result<Found<Target>, String>),
}

/// The words of the log for a kind of names.
struct Words {
    kind: &'static str,
    kept: &'static str,
}

const HOST: Words = Words { kind: "host", kept: "keeping the server's last address" };
const SERVICE: Words =
    Words { kind: "SRV record", kept: "cannot update the pool's servers; keeping the last known ones" };

struct Worker {
    options: NamesOptions,
    counts: Arc<NameCounts>,
    notify: Notify,
    resolver: Arc<Resolver>,
    hosts: Book<IpAddr>,
    services: Book<Target>,
    since: Stopwatch,
    looked: Duration,
    lookups: JoinSet<Done>,
}

impl Worker {
    fn new(options: NamesOptions, counts: Arc<NameCounts>, notify: Notify) -> io::Result<Self> {
        let resolver = Resolver::new(options.server).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Worker {
            options,
            counts,
            notify,
            resolver: Arc::new(resolver),
            hosts: Book::default(),
            services: Book::default(),
            since: Stopwatch::start(),
            looked: Duration::ZERO,
            lookups: JoinSet::new(),
        })
    }

    /// Runs until all senders of commands are dropped.
    async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        loop {
            self.look_at_files();
            self.begin();
            let now = self.since.elapsed();
            let due = self.hosts.next().into_iter().chain(self.services.next()).min();
            // A lookup beyond the limit starts when another one ends.
            let is_full = self.lookups.len() >= LOOKUPS_MAX;
            let due = due.filter(|_| !is_full).unwrap_or(now + LOOK).min(now + LOOK);
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(done) = self.lookups.join_next() => match done {
                    Ok(done) => self.learn(done),
                    // Operator: Nothing, unless it repeats: look for a defect of the DNS server.
                    Err(error) => tracing::error!(%error, "a DNS lookup failed"),
                },
                () = tokio::time::sleep(due.saturating_sub(now)) => {}
            }
            self.show();
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.since.elapsed();
        match command {
            Command::Host(name, waiting) => self.hosts.look_up(name, waiting, now),
            Command::Service(name, waiting) => self.services.look_up(name, waiting, now),
            Command::Follow { hosts, services } => {
                self.hosts.follow(&hosts);
                self.services.follow(&services);
            }
        }
    }

    /// A changed configuration of the system comes into effect.
    fn look_at_files(&mut self) {
        let now = self.since.elapsed();
        if now < self.looked + LOOK {
            return;
        }
        self.looked = now;
        if self.resolver.is_outdated() {
            match Resolver::new(self.options.server) {
                Ok(resolver) => self.resolver = Arc::new(resolver),
                Err(error) => {
                    // Operator: Correct /etc/resolv.conf.
                    return tracing::warn!(%error, "cannot reload the resolver's configuration; keeping \
                        the current one");
                }
            }
            self.hosts.expire(now);
            self.services.expire(now);
        }
    }

    fn begin(&mut self) {
        let now = self.since.elapsed();
        for name in self.services.begin(now, LOOKUPS_MAX.saturating_sub(self.lookups.len())) {
            let resolver = self.resolver.clone();
            self.lookups.spawn(async move {
                let result = resolver.service(&name).await;
                Done::Service(name, result)
            });
        }
        for name in self.hosts.begin(now, LOOKUPS_MAX.saturating_sub(self.lookups.len())) {
            let resolver = self.resolver.clone();
            self.lookups.spawn(async move {
                let result = resolver.host(&name).await;
                Done::Host(name, result)
            });
        }
    }

    fn learn(&mut self, done: Done) {
        let now = self.since.elapsed();
        self.counts.add(NameCount::Lookups);
        match done {
            Done::Host(name, result) => {
                let changed = learn(&mut self.hosts, &name, result, now, &self.counts, &HOST);
                changed.into_iter().for_each(|found| (self.notify)(News::Host(name.clone(), found)));
            }
            Done::Service(name, result) => {
                let changed = learn(&mut self.services, &name, result, now, &self.counts, &SERVICE);
                changed.into_iter().for_each(|found| (self.notify)(News::Service(name.clone(), found)));
            }
        }
    }

    fn show(&self) {
        let (stale, unknown) = self.hosts.stale_and_unknown();
        let (stale_services, unknown_services) = self.services.stale_and_unknown();
        self.counts.set(NameGauge::Followed, self.hosts.len() + self.services.len());
        self.counts.set(NameGauge::Stale, stale + stale_services);
        self.counts.set(NameGauge::Unknown, unknown + unknown_services);
    }
}

/// Stores the result of a lookup, and returns it if it has changed.
fn learn<T: Clone + Ord>(
    book: &mut Book<T>,
    name: &Arc<str>,
    result: Result<Found<T>, String>,
    now: Duration,
    counts: &NameCounts,
    words: &Words,
) -> Option<Vec<T>> {
    let reason = result.as_ref().err().cloned();
    match book.learn(name, result, now) {
        Learned::Changed(found) => {
            counts.add(NameCount::Changes);
            Some(found)
        }
        Learned::Same => None,
        Learned::Failed(times) => {
            counts.add(NameCount::Failures);
            if times == 1 {
                let reason = reason.unwrap_or_else(|| "the name has no records".to_owned());
                // Operator: Check the name and the DNS server.
                tracing::warn!(name = &**name, reason, "{} not found: {}", words.kind, words.kept);
            }
            None
        }
    }
}

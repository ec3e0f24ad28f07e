//! Clients, of several routers or without one, that change and read the same keys: what is read is no older than what was deleted before.

use guira_client::pools;
use guira_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use guira_tests::Client;
use guira_tests::random::Random;
use guira_tests::server::Address;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

const KEYS: usize = 40;

/// How a client of the model reaches the cache. None of its requests fails.
pub(crate) trait Cache: Send {
    fn value(&mut self, key: &str) -> Option<Vec<u8>>;
    fn set(&mut self, key: &str, value: &str);
    fn delete(&mut self, key: &str) -> bool;
}

impl Cache for Client {
    fn value(&mut self, key: &str) -> Option<Vec<u8>> {
        Client::value(self, key).map(|value| value.data)
    }

    fn set(&mut self, key: &str, value: &str) {
        Client::set(self, key, value);
    }

    fn delete(&mut self, key: &str) -> bool {
        ["DELETED", "NOT_FOUND"].contains(&&*self.ask(format!("delete {key}\r\n")))
    }
}

impl Cache for pools::Client {
    fn value(&mut self, key: &str) -> Option<Vec<u8>> {
        self.get(key.as_bytes()).expect("an answer").map(|item| item.value)
    }

    fn set(&mut self, key: &str, value: &str) {
        pools::Client::set(self, &pools::Store::new(key.as_bytes(), value.as_bytes())).expect("an answer");
    }

    fn delete(&mut self, key: &str) -> bool {
        pools::Client::delete(self, key.as_bytes()).is_ok()
    }
}

/// A key, and the version that the database has of it: who stores a version holds the lock, so that no store is late.
#[derive(Debug, Default)]
struct Key {
    database: Mutex<u64>,
    /// No older version may be read.
    acknowledged: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    keys: Vec<Key>,
    is_over: AtomicBool,
    reads: AtomicUsize,
    hits: AtomicUsize,
    deletes: AtomicUsize,
    outdated: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Model {
    state: Arc<State>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) reads: usize,
    pub(crate) hits: usize,
    pub(crate) deletes: usize,
}

impl Seen {
    pub(crate) fn since(self, before: Seen) -> Seen {
        let Seen { reads, hits, deletes } = before;
        Seen { reads: self.reads - reads, hits: self.hits - hits, deletes: self.deletes - deletes }
    }

    pub(crate) fn hit_share(self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }
}

impl Model {
    /// A reader and a writer for each router.
    pub(crate) fn start(routers: &[&Address]) -> Self {
        Self::start_beside(routers, &[])
    }

    /// The same, and for each client without a router.
    pub(crate) fn start_beside(routers: &[&Address], alone: &[&pools::Client]) -> Self {
        let state = Arc::new(State {
            keys: std::iter::repeat_with(Key::default).take(KEYS).collect(),
            ..State::default()
        });
        let routed = routers.iter().map(|router| [Client::connect(router), Client::connect(router)]);
        let routed = routed.map(|pair| pair.map(|client| Box::new(client) as Box<dyn Cache>));
        let alone = alone.iter().map(|client| [(*client).clone(), (*client).clone()]);
        let alone = alone.map(|pair| pair.map(|client| Box::new(client) as Box<dyn Cache>));
        let mut clients = Vec::new();
        for (number, [reader, writer]) in (0_u64..).zip(routed.chain(alone)) {
            let random = || Random::new(number + 1);
            let (reads, writes) = ((state.clone(), random()), (state.clone(), random()));
            clients.push(std::thread::spawn(move || read(&reads.0, reader, reads.1)));
            clients.push(std::thread::spawn(move || write(&writes.0, writer, writes.1)));
        }
        Model { state, clients }
    }

    pub(crate) fn seen(&self) -> Seen {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let State { reads, hits, deletes, .. } = &*self.state;
        Seen { reads: get(reads), hits: get(hits), deletes: get(deletes) }
    }

    /// Ends it; nothing outdated was read.
    #[track_caller]
    pub(crate) fn end(self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client that does not fail");
        }
        assert_eq!(*self.state.outdated.lock().expect("no client has failed"), [""; 0]);
    }
}

fn read(state: &State, mut client: Box<dyn Cache>, mut random: Random) {
    while !state.is_over.load(Ordering::Relaxed) {
        let number = random.below(KEYS as u64) as usize;
        let key = &state.keys[number];
        let name = format!("model{number}");
        let least = key.acknowledged.load(Ordering::SeqCst);
        let found = client.value(&name);
        state.reads.fetch_add(1, Ordering::Relaxed);
        let Some(value) = found else {
            let database = key.database.lock().expect("no client has failed");
            client.set(&name, &database.to_string());
            continue;
        };
        state.hits.fetch_add(1, Ordering::Relaxed);
        let version: u64 = String::from_utf8_lossy(&value).parse().expect("a version");
        if version < least {
            let told = format!("{name} has version {version}, {least} was acknowledged");
            state.outdated.lock().expect("no client has failed").push(told);
        }
    }
}

fn write(state: &State, mut client: Box<dyn Cache>, mut random: Random) {
    while !state.is_over.load(Ordering::Relaxed) {
        let number = random.below(KEYS as u64) as usize;
        let key = &state.keys[number];
        let mut database = key.database.lock().expect("no client has failed");
        *database += 1;
        if client.delete(&format!("model{number}")) {
            key.acknowledged.fetch_max(*database, Ordering::SeqCst);
        }
        drop(database);
        state.deletes.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(5));
    }
}

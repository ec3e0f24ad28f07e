//! Clients of several routers that change and read the same keys: what is read is no older than what was deleted before.

use guira_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use guira_tests::Client;
use guira_tests::random::Random;
use guira_tests::server::Address;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

const KEYS: usize = 40;

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

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Model {
    state: Arc<State>,
    clients: Vec<JoinHandle<()>>,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) reads: usize,
    pub(crate) hits: usize,
    pub(crate) deletes: usize,
}

impl Seen {
    /// Since an earlier time.
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
        let state = Arc::new(State {
            keys: std::iter::repeat_with(Key::default).take(KEYS).collect(),
            ..State::default()
        });
        let mut clients = Vec::new();
        for (number, router) in (0_u64..).zip(routers) {
            for client in [read, write] {
                let (state, router, random) = (state.clone(), (*router).clone(), Random::new(number + 1));
                clients.push(std::thread::spawn(move || client(&state, Client::connect(&router), random)));
            }
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

fn read(state: &State, mut client: Client, mut random: Random) {
    while !state.is_over.load(Ordering::Relaxed) {
        let number = random.below(KEYS as u64) as usize;
        let key = &state.keys[number];
        let name = format!("model{number}");
        let least = key.acknowledged.load(Ordering::SeqCst);
        let found = client.value(&name);
        state.reads.fetch_add(1, Ordering::Relaxed);
        let Some(value) = found else {
            let database = key.database.lock().expect("no client has failed");
            client.set(&name, database.to_string());
            continue;
        };
        state.hits.fetch_add(1, Ordering::Relaxed);
        let version: u64 = String::from_utf8_lossy(&value.data).parse().expect("a version");
        if version < least {
            let told = format!("{name} has version {version}, {least} was acknowledged");
            state.outdated.lock().expect("no client has failed").push(told);
        }
    }
}

fn write(state: &State, mut client: Client, mut random: Random) {
    while !state.is_over.load(Ordering::Relaxed) {
        let number = random.below(KEYS as u64) as usize;
        let key = &state.keys[number];
        let mut database = key.database.lock().expect("no client has failed");
        *database += 1;
        let reply = client.ask(format!("delete model{number}\r\n"));
        if ["DELETED", "NOT_FOUND"].contains(&&*reply) {
            key.acknowledged.fetch_max(*database, Ordering::SeqCst);
        }
        drop(database);
        state.deletes.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(5));
    }
}

//! Clients of a cache that check each reply against what they know, whichever way they reach it.

use crate::found::Counts;
use crate::tasks::lock;
use guira_world::scheduler::draw;
use guira_world::time;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEYS: usize = 8;

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It has failed. Whether it is executed, and when, is not known.
    Failed,
    /// No request has such a reply.
    Wrong(String),
}

pub(crate) type Reply<T> = Result<T, Trouble>;

/// A way to a cache.
pub(crate) trait Cache {
    /// Stores a value that ends after so many seconds; 0 for none.
    fn set(&mut self, key: &str, value: &[u8], seconds: u32) -> Reply<()>;

    /// Returns whether there was an item.
    fn delete(&mut self, key: &str) -> Reply<bool>;

    fn get(&mut self, key: &str) -> Reply<Option<Vec<u8>>>;

    /// The most keys of a get.
    fn keys_max(&self) -> u64 {
        1
    }

    fn get_many(&mut self, keys: &[String]) -> Vec<Reply<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Whether a reply to a delete says if a get would have found an item.
    fn has_one_place(&self) -> bool {
        true
    }

    /// Another number if keys may have moved to other servers, and `None` while they move: what was stored before says
    /// nothing then.
    fn mapping(&self) -> Option<u64> {
        Some(0)
    }
}

/// What a client may read under a key.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The value, which may have been evicted; `None` for a miss.
    value: Option<Vec<u8>>,
    /// When the value ends.
    life: Option<Life>,
    /// Keys are given up when the fate of a request is not known: it may still be executed later.
    generation: u32,
}

/// A value that ends some time after it was stored, which was between two times.
#[derive(Clone, Copy, Debug)]
struct Life {
    sent: Duration,
    stored: Duration,
    length: Duration,
}

impl Life {
    /// Nodes read the clock once for several requests.
    const LATE: Duration = Duration::from_millis(50);
    /// Nodes count whole seconds.
    const EARLY: Duration = Duration::from_secs(1);

    fn begin(seconds: u32) -> Self {
        Life { sent: time::now(), stored: Duration::MAX, length: Duration::from_secs(seconds.into()) }
    }

    fn is_over(self, at: Duration) -> bool {
        at > self.stored.saturating_add(self.length + Self::LATE)
    }

    fn may_be_over(self, at: Duration) -> bool {
        at + Self::EARLY >= self.sent + self.length
    }
}

/// Whether caches lose items, because nodes fail or items move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    Expected,
    None,
}

/// The keys of all clients, which any client may read.
pub(crate) type Peers = Arc<Mutex<Vec<String>>>;

/// A client that writes some keys alone.
#[derive(Debug)]
pub(crate) struct Client<C> {
    number: u32,
    cache: C,
    /// Where keys were when they were last stored.
    mapping: Option<u64>,
    keys: Vec<Known>,
    stored: u64,
    peers: Option<Peers>,
    losses: Losses,
    pub(crate) counts: Counts,
}

impl<C: Cache> Client<C> {
    pub(crate) fn new(number: u32, cache: C) -> Self {
        let (mapping, keys, counts) = (cache.mapping(), vec![Known::default(); KEYS], Counts::default());
        Client { number, cache, mapping, keys, stored: 0, peers: None, losses: Losses::Expected, counts }
    }

    /// The same client, of a cache that loses items, or of one that does not.
    pub(crate) fn with_losses(self, losses: Losses) -> Self {
        Client { losses, ..self }
    }

    /// The same client, which also reads other clients' keys.
    pub(crate) fn among(mut self, peers: Peers) -> Self {
        self.peers = Some(peers);
        (0..KEYS).for_each(|at| self.publish(at));
        self
    }

    fn publish(&self, at: usize) {
        if let Some(peers) = &self.peers {
            let (mut keys, place) = (lock(peers), self.number as usize * KEYS + at);
            if keys.len() <= place {
                keys.resize(place + 1, String::new());
            }
            keys[place] = self.key(at);
        }
    }

    /// Reads a key that may be another client's. Its value is not known.
    fn get_of_peer(&mut self) -> Option<Wrong> {
        let peers = self.peers.as_ref()?;
        let key = {
            let keys = lock(peers);
            keys[draw(keys.len() as u64) as usize].clone()
        };
        if key.is_empty() {
            return None;
        }
        match self.cache.get(&key) {
            Err(Trouble::Wrong(text)) => Some(Wrong { text, is_foreign: true }),
            Ok(Some(value)) if !value.starts_with(begin_of(&key).as_bytes()) => {
                let text = format!("get {key}: {:?}", begin(&value));
                Some(Wrong { text, is_foreign: true })
            }
            Ok(_) | Err(Trouble::Failed) => None,
        }
    }

    /// One request.
    ///
    /// # Errors
    /// What the client has read and must not.
    pub(crate) fn act(&mut self) -> Result<(), String> {
        self.follow();
        let at = draw(KEYS as u64) as usize;
        let wrong = match draw(8) {
            0..3 => self.set(at),
            3 => self.delete(at),
            4 if self.peers.is_some() => self.get_of_peer(),
            _ => self.get(at),
        };
        let has_moved = self.follow();
        // Where keys move, an older value may be found, but none of another key.
        match wrong {
            Some(wrong) if !has_moved || wrong.is_foreign => Err(wrong.text),
            _ => Ok(()),
        }
    }

    /// Gives all keys up if they may have moved since the last call.
    fn follow(&mut self) -> bool {
        let mapping = self.cache.mapping();
        let has_moved = mapping.is_none() || mapping != self.mapping;
        if has_moved {
            (0..KEYS).for_each(|at| self.give_up(at));
        }
        self.mapping = mapping;
        has_moved
    }

    fn key(&self, at: usize) -> String {
        format!("client-{}-{at}-{}", self.number, self.keys[at].generation)
    }

    fn give_up(&mut self, at: usize) {
        let generation = self.keys[at].generation + 1;
        self.keys[at] = Known { value: None, life: None, generation };
        self.publish(at);
    }

    /// Takes the result of a request out.
    fn taken<T>(&mut self, at: usize, reply: Reply<T>) -> Result<T, Option<Wrong>> {
        reply.map_err(|trouble| match trouble {
            Trouble::Failed => {
                self.counts.failures += 1;
                self.give_up(at);
                None
            }
            Trouble::Wrong(text) => Some(Wrong { text, is_foreign: true }),
        })
    }

    fn set(&mut self, at: usize) -> Option<Wrong> {
        let key = self.key(at);
        self.stored += 1;
        let mut value = begin_of(&key).into_bytes();
        value.extend_from_slice(format!("{}.", self.stored).as_bytes());
        // Values of many sizes have few pages each in a small cache, and evict each other.
        let most = if self.losses == Losses::None { 20 } else { 2_000 };
        value.resize(value.len() + draw(most) as usize, b'.');
        let seconds = if draw(4) == 0 { 1 + draw(4) as u32 } else { 0 };
        let life = Life::begin(seconds);
        let reply = self.cache.set(&key, &value, seconds);
        if let Err(wrong) = self.taken(at, reply) {
            return wrong;
        }
        let life = Life { stored: time::now(), ..life };
        tracing::debug!("{key} has {} bytes for {seconds} s", value.len());
        (self.keys[at].value, self.keys[at].life) = (Some(value), (seconds > 0).then_some(life));
        self.counts.writes += 1;
        None
    }

    fn delete(&mut self, at: usize) -> Option<Wrong> {
        let (key, begun) = (self.key(at), time::now());
        let reply = self.cache.delete(&key);
        let was_there = match self.taken(at, reply) {
            Err(wrong) => return wrong,
            Ok(was_there) => was_there,
        };
        self.counts.writes += 1;
        let known = self.keys[at].value.take();
        let life = self.keys[at].life.take();
        let is_over = life.is_some_and(|life| life.is_over(begun));
        if was_there && is_over {
            return Some(Wrong {
                text: format!("delete {key}: it had expired: {life:?}"),
                is_foreign: false,
            });
        }
        let text = || format!("delete {key}: an item that was not there is deleted");
        (was_there && known.is_none() && self.cache.has_one_place())
            .then(|| Wrong { text: text(), is_foreign: false })
    }

    fn get(&mut self, at: usize) -> Option<Wrong> {
        let most = self.cache.keys_max();
        let count = if most == 1 { 1 } else { 1 + draw(most) as usize };
        let places: Vec<usize> = (at..at + count).map(|at| at % KEYS).collect();
        let keys: Vec<String> = places.iter().map(|at| self.key(*at)).collect();
        let begun = time::now();
        let replies = self.cache.get_many(&keys);
        let mut wrong = (replies.len() != keys.len())
            .then(|| Wrong { text: format!("{} replies to {count} keys", replies.len()), is_foreign: true });
        for ((at, key), reply) in places.into_iter().zip(&keys).zip(replies) {
            let found = match self.taken(at, reply) {
                Ok(value) => {
                    self.counts.reads += 1;
                    self.check(at, key, value, begun)
                }
                Err(found) => found,
            };
            wrong = wrong.or(found);
        }
        wrong
    }

    fn check(&mut self, at: usize, key: &str, value: Option<Vec<u8>>, begun: Duration) -> Option<Wrong> {
        let Known { value: known, life, .. } = &mut self.keys[at];
        let Some(value) = value else {
            // Evicted, or the node was started again.
            let is_early = known.take().is_some() && !life.is_some_and(|life| life.may_be_over(time::now()));
            let text = || format!("get {key}: a miss, although nothing is lost; it lives for {life:?}");
            return (is_early && self.losses == Losses::None)
                .then(|| Wrong { text: text(), is_foreign: false });
        };
        self.counts.hits += 1;
        if known.as_ref() == Some(&value) {
            let text = || format!("get {key}: a value that had expired: {life:?}, read at {begun:?}");
            let is_over = life.is_some_and(|life| life.is_over(begun));
            return is_over.then(|| Wrong { text: text(), is_foreign: false });
        }
        let text = format!("get {key}: {:?} instead of {:?}", begin(&value), known.as_deref().map(begin));
        Some(Wrong { text, is_foreign: !value.starts_with(begin_of(key).as_bytes()) })
    }
}

/// What was read and must not.
#[derive(Debug)]
struct Wrong {
    text: String,
    /// It is of another key, or of none.
    is_foreign: bool,
}

/// How each value of a key begins.
fn begin_of(key: &str) -> String {
    format!("{key}=")
}

fn begin(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned()
}

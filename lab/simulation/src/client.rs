//! Clients of a cache that check each reply against what they know, whichever way they reach it.

use crate::found::Counts;
use crate::tasks::lock;
use guira_world::scheduler::draw;
use std::sync::{Arc, Mutex};

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
    fn set(&mut self, key: &str, value: &[u8]) -> Reply<()>;

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
    /// Keys are given up when the fate of a request is not known: it may still be executed later.
    generation: u32,
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
    pub(crate) counts: Counts,
}

impl<C: Cache> Client<C> {
    pub(crate) fn new(number: u32, cache: C) -> Self {
        let (mapping, keys, counts) = (cache.mapping(), vec![Known::default(); KEYS], Counts::default());
        Client { number, cache, mapping, keys, stored: 0, peers: None, counts }
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
        self.keys[at] = Known { value: None, generation };
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
        value.resize(value.len() + draw(2000) as usize, b'.');
        let reply = self.cache.set(&key, &value);
        match self.taken(at, reply) {
            Err(wrong) => return wrong,
            Ok(()) => self.keys[at].value = Some(value),
        }
        self.counts.writes += 1;
        None
    }

    fn delete(&mut self, at: usize) -> Option<Wrong> {
        let key = self.key(at);
        let reply = self.cache.delete(&key);
        let was_there = match self.taken(at, reply) {
            Err(wrong) => return wrong,
            Ok(was_there) => was_there,
        };
        self.counts.writes += 1;
        let known = self.keys[at].value.take();
        let text = || format!("delete {key}: an item that was not there is deleted");
        (was_there && known.is_none() && self.cache.has_one_place())
            .then(|| Wrong { text: text(), is_foreign: false })
    }

    fn get(&mut self, at: usize) -> Option<Wrong> {
        let most = self.cache.keys_max();
        let count = if most == 1 { 1 } else { 1 + draw(most) as usize };
        let places: Vec<usize> = (at..at + count).map(|at| at % KEYS).collect();
        let keys: Vec<String> = places.iter().map(|at| self.key(*at)).collect();
        let replies = self.cache.get_many(&keys);
        let mut wrong = (replies.len() != keys.len())
            .then(|| Wrong { text: format!("{} replies to {count} keys", replies.len()), is_foreign: true });
        for ((at, key), reply) in places.into_iter().zip(&keys).zip(replies) {
            let found = match self.taken(at, reply) {
                Ok(value) => {
                    self.counts.reads += 1;
                    self.check(at, key, value)
                }
                Err(found) => found,
            };
            wrong = wrong.or(found);
        }
        wrong
    }

    fn check(&mut self, at: usize, key: &str, value: Option<Vec<u8>>) -> Option<Wrong> {
        let known = &mut self.keys[at].value;
        let Some(value) = value else {
            // Evicted, or the node was started again.
            *known = None;
            return None;
        };
        self.counts.hits += 1;
        if known.as_ref() == Some(&value) {
            return None;
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

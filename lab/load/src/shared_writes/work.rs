//! The requests: both clients send them first, so that both workers have touched everything, then one client, counted.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;

use super::traced::{Client, Traced};
use crate::error::LoadError;

/// Keys that are set, read and deleted.
const KEYS: Range<u64> = 0..64;
/// Keys that are never set.
const ABSENT: Range<u64> = 10_000..10_064;
/// Gets of all keys at once, so that their counts have more than one operation.
const MULTIGETS: u64 = 8;
const CONNECTIONS: u64 = 16;

/// Keys that fill a cache of [`FULL_MEMORY`], and more.
pub(super) const FILLING: Range<u64> = 1_000_000..1_200_000;
pub(super) const FULL_MEMORY: &str = "8MiB";
/// One key in this many is read by both workers, to touch memory everywhere.
const LOOKED_AT: usize = 100;
/// Sets that evict: ten times as many as a session evicts at once.
const EVICTING: u64 = 320;

pub(super) const GET_HIT: &str = "get, hit";
pub(super) const GET_NEW_BIT: &str = "get, hit that sets a recency bit";
pub(super) const GET_FIRST: &str = "get, first hit of an item";
pub(super) const GET_MISS: &str = "get, miss";
pub(super) const MULTIGET: &str = "a key of a get of 64";
pub(super) const SET_OVER: &str = "set over an item";
pub(super) const SET_NEW: &str = "set of a new key";
pub(super) const SET_EVICTING: &str = "set that evicts";
pub(super) const DELETE: &str = "delete";
pub(super) const CONNECTION: &str = "connection: accept, one get, close";
pub(super) const ROUTED_GET: &str = "get through a router";
pub(super) const ROUTED_SET: &str = "set through a router";

const VALUE: &str = "0123456789abcdef0123456789abcdef";

fn key(number: u64) -> String {
    format!("key-{number:012}")
}

fn set_line(number: u64) -> String {
    format!("set {} 0 0 {}\r\n{VALUE}\r\n", key(number), VALUE.len())
}

fn value_line(number: u64) -> String {
    format!("VALUE {} 0 {}\r\n{VALUE}\r\n", key(number), VALUE.len())
}

/// Requests, each with the reply that it has to have.
type Exchanges = Vec<(String, String)>;

fn sets(keys: Range<u64>) -> Exchanges {
    keys.map(|number| (set_line(number), "STORED\r\n".to_owned())).collect()
}

fn gets(keys: Range<u64>) -> Exchanges {
    keys.map(|number| (request_for(number..number + 1), value_line(number) + "END\r\n")).collect()
}

fn misses(keys: Range<u64>) -> Exchanges {
    keys.map(|number| (request_for(number..number + 1), "END\r\n".to_owned())).collect()
}

fn deletes(keys: Range<u64>) -> Exchanges {
    keys.map(|number| (format!("delete {}\r\n", key(number)), "DELETED\r\n".to_owned())).collect()
}

/// A get of all keys.
fn multiget(keys: Range<u64>) -> Exchanges {
    let values: String = keys.clone().map(value_line).collect();
    vec![(request_for(keys), values + "END\r\n")]
}

fn request_for(keys: impl Iterator<Item = u64>) -> String {
    let mut request = "get".to_owned();
    for number in keys {
        // Writing to a string cannot fail.
        let _infallible = write!(request, " {}", key(number));
    }
    request + "\r\n"
}

/// Sends one request after the other.
fn each(client: &mut Client, exchanges: Exchanges) -> Result<(), LoadError> {
    exchanges.iter().try_for_each(|(request, reply)| client.exchange(request.as_bytes(), reply.as_bytes()))
}

/// Sends all requests at once: the server executes fewer instructions, all of which are printed.
fn together(client: &mut Client, exchanges: Exchanges) -> Result<(), LoadError> {
    let (requests, replies): (Vec<String>, Vec<String>) = exchanges.into_iter().unzip();
    client.exchange(requests.concat().as_bytes(), replies.concat().as_bytes())
}

/// Gets of keys all over a full cache, which may have evicted some.
fn look_at_full(client: &mut Client) -> Result<(), LoadError> {
    let keys: Vec<u64> = FILLING.step_by(LOOKED_AT).collect();
    keys.chunks(100)
        .try_for_each(|keys| client.exchange_until(request_for(keys.iter().copied()).as_bytes(), b"END\r\n"))
}

fn connections(addr: SocketAddr, count: u64) -> Result<(), LoadError> {
    (0..count).try_for_each(|number| {
        let mut client = Client::open(addr)?;
        each(&mut client, misses(ABSENT.start + number..ABSENT.start + number + 1))?;
        client.close()
    })
}

/// Everything that is counted later, so that both workers have touched what it touches.
fn warm_up(client: &mut Client, addr: SocketAddr) -> Result<(), LoadError> {
    for exchanges in [sets(KEYS), sets(KEYS), gets(KEYS), multiget(KEYS), gets(KEYS), misses(ABSENT)] {
        together(client, exchanges)?;
    }
    together(client, deletes(KEYS))?;
    connections(addr, 4)
}

/// Stops the crawler and the clock of upkeep: valgrind is so slow that each request would find upkeep due, which is due
/// every 32 ms.
fn rest(client: &mut Client) -> Result<(), LoadError> {
    client.exchange(b"lru_crawler disable\r\n", b"OK\r\n")?;
    client.exchange(b"debugtime p\r\n", b"OK\r\n")
}

/// Operations on a cache with room.
pub(super) fn with_room(traced: &mut Traced) -> Result<(), LoadError> {
    let addr = traced.addr;
    rest(&mut traced.clients[0])?;
    traced.clients.iter_mut().try_for_each(|client| warm_up(client, addr))?;
    let count = KEYS.end - KEYS.start;
    traced.count(SET_NEW, count, |client, _| each(client, sets(KEYS)))?;
    traced.count(GET_FIRST, count, |client, _| each(client, gets(KEYS)))?;
    traced.count(GET_NEW_BIT, count, |client, _| each(client, gets(KEYS)))?;
    traced.count(GET_HIT, count, |client, _| each(client, gets(KEYS)))?;
    traced.count(MULTIGET, MULTIGETS * count, |client, _| {
        (0..MULTIGETS).try_for_each(|_| each(client, multiget(KEYS)))
    })?;
    traced.count(GET_MISS, count, |client, _| each(client, misses(ABSENT)))?;
    traced.count(SET_OVER, count, |client, _| each(client, sets(KEYS)))?;
    traced.count(DELETE, count, |client, _| each(client, deletes(KEYS)))?;
    traced.count(CONNECTION, CONNECTIONS, |_, addr| connections(addr, CONNECTIONS))
}

/// Sets that evict, in a cache that was full when it was started.
pub(super) fn when_full(traced: &mut Traced) -> Result<(), LoadError> {
    rest(&mut traced.clients[0])?;
    for (client, first) in traced.clients.iter_mut().zip([2_000_000, 3_000_000]) {
        look_at_full(client)?;
        for first in (first..first + EVICTING).step_by(64) {
            together(client, sets(first..first + 64))?;
        }
    }
    traced.count(SET_EVICTING, EVICTING, |client, _| each(client, sets(4_000_000..4_000_000 + EVICTING)))
}

/// Sets all keys that fill a cache.
pub(super) fn fill(addr: SocketAddr) -> Result<(), LoadError> {
    let mut client = Client::open(addr)?;
    for first in FILLING.step_by(1000) {
        let sets: String = (first..first + 1000)
            .map(|number| set_line(number).replace(" 32\r\n", " 32 noreply\r\n"))
            .collect();
        client.send(sets.as_bytes())?;
        client.exchange_until(b"version\r\n", b"\r\n")?;
    }
    Ok(())
}

/// Requests to a router.
pub(super) fn routed(traced: &mut Traced) -> Result<(), LoadError> {
    for client in &mut traced.clients {
        together(client, sets(KEYS))?;
        together(client, gets(KEYS))?;
    }
    let count = KEYS.end - KEYS.start;
    traced.count(ROUTED_SET, count, |client, _| each(client, sets(KEYS)))?;
    traced.count(ROUTED_GET, count, |client, _| each(client, gets(KEYS)))
}

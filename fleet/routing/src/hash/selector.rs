//! A hash with its servers and its salt.

use super::ch3::{Ch3, MOST_SERVERS};
use super::const_shard::ConstShard;
use super::crc32::Crc32;
use super::error::HashError;
use super::join::joined;
use super::jump::Jump;
use super::ketama::{Ring, Walk};
use super::key_hash::KeyHash;
use super::kind::HashKind;
use super::modula::Modula;
use super::rendezvous::{Rendezvous, key_hash};
use super::server::{ServerIdentity, by_slot, index_limit};
use super::weighted_ch3::WeightedCh3;

/// The most servers that are named for a key.
pub const MOST_CHOICES: usize = 32;
const LONGEST_SALT: usize = 256;

/// The rule by which a list of servers is selected from.
#[derive(Clone, Debug)]
pub struct Selector {
    rule: Rule,
    salt: Box<[u8]>,
    /// The places of servers by slot, where these are not the same.
    places: Option<Box<[u32]>>,
}

#[derive(Clone, Debug)]
enum Rule {
    Ch3(Ch3),
    Crc32(Crc32),
    WeightedCh3(WeightedCh3),
    ConstShard(ConstShard),
    Rendezvous(Rendezvous<u64>),
    WeightedRendezvous(Rendezvous<f64>),
    Ketama(Ring, KeyHash),
    Modula(Modula, KeyHash),
    Jump(Jump, KeyHash),
}

impl Selector {
    /// `salt` is hashed as if it stood at the end of every key, so that pools of the same servers distribute keys differently.
    pub fn new(kind: HashKind, servers: &[ServerIdentity<'_>], salt: &str) -> Result<Self, HashError> {
        if salt.len() > LONGEST_SALT {
            return Err(HashError::SaltTooLong { length: salt.len(), most: LONGEST_SALT });
        }
        index_limit(servers.len(), MOST_SERVERS)?;
        let places = by_slot(servers)?;
        let sorted: Vec<_> = match &places {
            Some(places) => places.iter().map(|place| servers[*place as usize]).collect(),
            None => servers.to_vec(),
        };
        let rule = match kind {
            HashKind::Ch3 => Rule::Ch3(Ch3::new(servers.len())?),
            HashKind::Crc32 => Rule::Crc32(Crc32::new(servers.len())?),
            HashKind::WeightedCh3 => Rule::WeightedCh3(WeightedCh3::new(&sorted)?),
            HashKind::ConstShard => Rule::ConstShard(ConstShard::new(servers.len())?),
            HashKind::Rendezvous => Rule::Rendezvous(Rendezvous::new(&sorted)?),
            HashKind::WeightedRendezvous => Rule::WeightedRendezvous(Rendezvous::weighted(&sorted)?),
            HashKind::KetamaLibmemcached(by) => Rule::Ketama(Ring::unweighted(by, &sorted)?, by),
            HashKind::KetamaLibmemcachedWeighted(by) | HashKind::KetamaTwemproxy(by) => {
                Rule::Ketama(Ring::weighted(&sorted)?, by)
            }
            HashKind::Modula(by) => Rule::Modula(Modula::new(&sorted)?, by),
            HashKind::Jump(by) => Rule::Jump(Jump::new(servers.len())?, by),
        };
        Ok(Self { rule, salt: salt.as_bytes().into(), places })
    }

    /// The place in the list of the server that has `key`. Of a key with a hash stop or a hash tag, pass the part that is hashed.
    #[inline]
    pub fn pick(&self, key: &[u8]) -> usize {
        let number = if self.salt.is_empty() { self.rule.pick(key) } else { self.pick_salted(key) };
        self.place(number)
    }

    /// The server that has `key`, and after it those that are next for it, at most [`MOST_CHOICES`] and each once: by score with rendezvous
    /// hashing, by the ring with ketama. Other hashes have no order among the servers, and the iterator has one item.
    pub fn choices(&self, key: &[u8]) -> Choices<'_> {
        let order = self.salted(key, |key| match &self.rule {
            Rule::Rendezvous(rule) => Order::Rendezvous { rule, key: key_hash(key), last: None },
            Rule::WeightedRendezvous(rule) => {
                Order::WeightedRendezvous { rule, key: key_hash(key), last: None }
            }
            Rule::Ketama(ring, by) => Order::Ring(ring.walk(by.digest(key) as u32)),
            rule => Order::One(Some(rule.pick(key))),
        });
        Choices { selector: self, order, left: MOST_CHOICES }
    }

    /// Whether [`Self::choices`] names more than one server.
    pub fn has_order(&self) -> bool {
        matches!(self.rule, Rule::Rendezvous(_) | Rule::WeightedRendezvous(_) | Rule::Ketama(..))
    }

    fn salted<T>(&self, key: &[u8], hash: impl FnOnce(&[u8]) -> T) -> T {
        if self.salt.is_empty() { hash(key) } else { joined([key, &self.salt], hash) }
    }

    #[inline(never)]
    fn pick_salted(&self, key: &[u8]) -> u32 {
        joined([key, &self.salt], |key| self.rule.pick(key))
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        self.places.as_ref().map_or(number, |places| places[number as usize]) as usize
    }
}

impl Rule {
    #[inline]
    fn pick(&self, key: &[u8]) -> u32 {
        match self {
            Self::Ch3(rule) => rule.pick(key),
            Self::Crc32(rule) => rule.pick(key),
            Self::WeightedCh3(rule) => rule.pick(key),
            Self::ConstShard(rule) => rule.pick(key),
            Self::Rendezvous(rule) => rule.pick(key),
            Self::WeightedRendezvous(rule) => rule.pick(key),
            Self::Ketama(ring, by) => ring.pick(by.digest(key) as u32),
            Self::Modula(rule, by) => rule.pick(by.digest(key) as u32),
            Self::Jump(rule, by) => rule.pick(by.digest(key)),
        }
    }
}

/// The iterator that [`Selector::choices`] returns.
#[derive(Debug)]
pub struct Choices<'a> {
    selector: &'a Selector,
    order: Order<'a>,
    left: usize,
}

#[derive(Debug)]
enum Order<'a> {
    Rendezvous { rule: &'a Rendezvous<u64>, key: u64, last: Option<u32> },
    WeightedRendezvous { rule: &'a Rendezvous<f64>, key: u64, last: Option<u32> },
    Ring(Walk<'a>),
    One(Option<u32>),
}

impl Iterator for Choices<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let number = match &mut self.order {
            Order::Rendezvous { rule, key, last } => {
                *last = Some(rule.next(*key, *last)?);
                *last
            }
            Order::WeightedRendezvous { rule, key, last } => {
                *last = Some(rule.next(*key, *last)?);
                *last
            }
            Order::Ring(walk) => walk.next(),
            Order::One(one) => one.take(),
        };
        number.map(|number| self.selector.place(number))
    }
}

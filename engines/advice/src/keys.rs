//! The sampled keys that any miniature holds, numbered.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type Id = u32;

/// What is known of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) hash: u64,
    pub(crate) weight: u32,
    /// The second in which it expires, `u32::MAX` for never.
    pub(crate) expires: u32,
    /// Whether the server did not have it when it was last asked for it.
    pub(crate) missed: bool,
}

/// A hash is its own hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        // All sampled hashes begin with zeros, where the table looks for differences.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[derive(Debug)]
pub(crate) struct Keys {
    ids: HashMap<u64, Id, BuildHasherDefault<AsItIs>>,
    known: Vec<Option<Known>>,
    vacant: Vec<Id>,
    most: usize,
}

impl Keys {
    /// Room for `most` keys.
    pub(crate) fn new(most: usize) -> Self {
        Keys { ids: HashMap::default(), known: Vec::new(), vacant: Vec::new(), most }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    pub(crate) fn find(&self, hash: u64) -> Option<Id> {
        self.ids.get(&hash).copied()
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Known> {
        self.known.get(id as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Known> {
        self.known.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn add(&mut self, known: Known) -> Id {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.known.push(None);
            self.known.len() as Id - 1
        });
        self.ids.insert(known.hash, id);
        self.known[id as usize] = Some(known);
        id
    }

    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(known) = self.known[id as usize].take() {
            self.ids.remove(&known.hash);
            self.vacant.push(id);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Id, &Known)> {
        let numbered = self.known.iter().enumerate();
        numbered.filter_map(|(id, known)| known.as_ref().map(|known| (id as Id, known)))
    }

    /// What a key takes of memory on average; `None` if there are none.
    pub(crate) fn mean_weight(&self) -> Option<f64> {
        let sum: f64 = self.all().map(|(_, known)| f64::from(known.weight)).sum();
        (self.len() > 0).then(|| sum / self.len() as f64)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        // A table of `std` keeps an eighth of its places free, and a byte for each.
        let table = self.ids.capacity() * 8 / 7 * (size_of::<(u64, Id)>() + 1);
        table + self.known.capacity() * size_of::<Option<Known>>() + self.vacant.capacity() * size_of::<Id>()
    }
}

//! The prefixes that were flushed, while items may be left that they killed.
//!
//! A prefix that was flushed at the beginning of generation *g* kills the items of earlier generations whose keys begin with it. A table of slots holds the
//! prefixes; readers look through it without waiting for anybody. The empty prefix is a flush of everything.

use crate::item::GENERATIONS;
use crate::key_words::KeyWords;
use guira_contract::{KEY_MAX, PREFIXES_MAX};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::words::{self, WORD};

const WORDS: usize = KEY_MAX.div_ceil(WORD);

/// As many prefixes as one request may name, and a flush of everything for each generation.
const SLOTS: usize = PREFIXES_MAX + GENERATIONS as usize;

/// How many generations before `current` is `generation`?
fn age(generation: u32, current: u32) -> u32 {
    current.wrapping_sub(generation) % GENERATIONS
}

/// What a slot holds.
///
/// ```text
/// | changes 32 | generation 8 | in use 8 | length 8 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u64);

impl Tag {
    fn changes(self) -> u64 {
        self.0 >> 32
    }

    fn generation(self) -> u32 {
        (self.0 >> 16) as u32 & 0xff
    }

    fn is_in_use(self) -> bool {
        self.0 >> 8 & 1 != 0
    }

    fn len(self) -> usize {
        usize::from(self.0 as u8)
    }

    fn freed(self) -> Self {
        Tag(self.changes().wrapping_add(1) << 32)
    }

    fn filled(self, generation: u32, length: usize) -> Self {
        Tag(self.freed().0 | u64::from(generation) << 16 | 1 << 8 | length as u64)
    }
}

#[derive(Debug)]
struct Slot {
    tag: AtomicU64,
    bytes: [AtomicU64; WORDS],
}

impl Slot {
    fn empty() -> Self {
        Slot { tag: AtomicU64::new(0), bytes: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    fn tag(&self) -> Tag {
        // Acquire: pairs with the Release in `fill`: a reader that sees the tag sees the prefix.
        Tag(self.tag.load(Ordering::Acquire))
    }

    fn fill(&self, generation: u32, prefix: &[u8]) {
        // Release fence: pairs with the Acquire fence in `kills`: a reader that saw a byte of this prefix sees that the tag has changed.
        fence(Ordering::Release);
        words::copy_in(&self.bytes, 0, prefix);
        self.tag.store(self.tag().filled(generation, prefix.len()).0, Ordering::Release);
    }

    fn free(&self) {
        self.tag.store(self.tag().freed().0, Ordering::Release);
    }

    /// Whether this prefix kills an item of `generation` with this key. A slot that changes meanwhile does not: the crawler has asked the prefix that it held
    /// about every item, and the one that it is going to hold is not in force yet.
    #[inline(always)]
    fn kills(&self, generation: u32, current: u32, key: KeyWords<'_>) -> bool {
        let tag = self.tag();
        let is_later = tag.is_in_use() && age(tag.generation(), current) < age(generation, current);
        if !is_later || !key.begins_with(&self.bytes, tag.len()) {
            return false;
        }
        // Acquire fence: pairs with the Release fence in `fill`.
        fence(Ordering::Acquire);
        self.tag.load(Ordering::Relaxed) == tag.0
    }

    fn prefix(&self) -> Vec<u8> {
        let mut prefix = vec![0; self.tag().len()];
        words::copy_out(&self.bytes, 0, &mut prefix);
        prefix
    }
}

/// The table. It is changed under the flush lock.
#[derive(Debug)]
pub struct Prefixes {
    /// A bit for each slot in use: so that who looks through the table passes over the others.
    used: AtomicU64,
    slots: Box<[Slot; SLOTS]>,
}

const _: () = assert!(SLOTS < u64::BITS as usize);

impl Default for Prefixes {
    fn default() -> Self {
        Prefixes { used: AtomicU64::new(0), slots: Box::new(std::array::from_fn(|_| Slot::empty())) }
    }
}

impl Prefixes {
    #[inline(always)]
    fn in_use(&self) -> impl Iterator<Item = &Slot> {
        // Acquire: pairs with the Release in `add`.
        let mut used = self.used.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // There is none with the number that an empty set has.
            let slot = self.slots.get(used.trailing_zeros() as usize)?;
            used &= used - 1;
            Some(slot)
        })
    }

    /// How many more it can hold.
    pub fn room(&self) -> usize {
        SLOTS - self.used.load(Ordering::Relaxed).count_ones() as usize
    }

    /// Adds a prefix that kills items of the generations before `generation`. Returns false if there is no room.
    ///
    /// # Panics
    /// If the prefix is longer than a key.
    pub fn add(&self, generation: u32, prefix: &[u8]) -> bool {
        assert!(prefix.len() <= KEY_MAX);
        let free = (!self.used.load(Ordering::Relaxed)).trailing_zeros() as usize;
        let Some(slot) = self.slots.get(free) else {
            return false;
        };
        slot.fill(generation, prefix);
        // Release: pairs with the Acquire in `in_use`.
        self.used.fetch_or(1 << free, Ordering::Release);
        true
    }

    /// Whether an item of `generation` with this key is dead, if `current` is the generation of new items.
    #[inline(always)]
    pub fn kill(&self, generation: u32, current: u32, key: KeyWords<'_>) -> bool {
        self.in_use().any(|slot| slot.kills(generation, current, key))
    }

    /// No item is left of a generation before `oldest`: forgets the prefixes that can kill nothing any more.
    pub fn forget_before(&self, oldest: u32, current: u32) {
        for (number, slot) in self.slots.iter().enumerate() {
            let tag = slot.tag();
            if tag.is_in_use() && age(tag.generation(), current) >= age(oldest, current) {
                self.used.fetch_and(!(1 << number), Ordering::Release);
                slot.free();
            }
        }
    }

    /// The prefixes, to be saved.
    pub fn saved(&self) -> SavedPrefixes {
        SavedPrefixes(self.in_use().map(|slot| (slot.tag().generation(), slot.prefix())).collect())
    }
}

/// Up to eight bytes as a number.
fn number_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Prefixes that were saved: each with the generation that it was flushed at the beginning of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedPrefixes(Vec<(u32, Vec<u8>)>);

impl SavedPrefixes {
    /// The most bytes that they take when they are written.
    pub const BYTES_MAX: usize = WORD + SLOTS * (1 + WORDS) * WORD;

    /// As they are written: their number, and of each the generation, the length and the bytes.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers = vec![self.0.len() as u64];
        for (generation, prefix) in &self.0 {
            numbers.push(u64::from(*generation) << 8 | prefix.len() as u64);
            numbers.extend(prefix.chunks(WORD).map(number_of));
        }
        numbers
    }

    /// What [`SavedPrefixes::numbers`] has made, read number by number.
    ///
    /// # Errors
    /// That of `number`, or `None` if there can be no such prefixes.
    pub fn read<E>(mut number: impl FnMut() -> Result<u64, E>) -> Result<Option<Self>, E> {
        let count = number()?;
        if count > SLOTS as u64 {
            return Ok(None);
        }
        let mut all = Vec::new();
        for _ in 0..count {
            let head = number()?;
            let (generation, length) = ((head >> 8) as u32, head as usize & 0xff);
            if head >> 8 >= u64::from(GENERATIONS) || length > KEY_MAX {
                return Ok(None);
            }
            let mut prefix = Vec::with_capacity(length.next_multiple_of(WORD));
            for _ in 0..length.div_ceil(WORD) {
                prefix.extend(number()?.to_le_bytes());
            }
            prefix.truncate(length);
            all.push((generation, prefix));
        }
        Ok(Some(SavedPrefixes(all)))
    }

    /// A flush of everything, at the beginning of `generation`.
    pub fn all_before(generation: u32) -> Self {
        SavedPrefixes(vec![(generation, Vec::new())])
    }

    /// Adds them to an empty table.
    pub fn restore(&self, prefixes: &Prefixes) {
        for (generation, prefix) in &self.0 {
            prefixes.add(*generation, prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the key dies, wherever it begins in its item.
    fn kill(prefixes: &Prefixes, generation: u32, current: u32, key: &[u8]) -> bool {
        let dies = |at| {
            let words: Vec<_> = (0..WORDS + 4).map(|_| AtomicU64::new(u64::MAX)).collect();
            words::copy_in(&words, at, key);
            prefixes.kill(generation, current, KeyWords::new(&words, at, key.len()))
        };
        assert!((8..25).all(|at| dies(at) == dies(8)), "{key:?} of generation {generation}");
        dies(8)
    }

    #[test]
    fn a_prefix_kills_earlier_items_whose_keys_begin_with_it() {
        let prefixes = Prefixes::default();
        assert!(prefixes.add(3, b"user:"));
        for (generation, key, dies) in [
            (2, "user:1", true),
            (2, "user:", true),
            (2, "user", false),
            (2, "users:1", false),
            (3, "user:1", false),
            (4, "user:1", false),
            (6, "user:1", true),
        ] {
            assert_eq!(
                kill(&prefixes, generation, 5, key.as_bytes()),
                dies,
                "{key} of generation {generation}"
            );
        }
    }

    #[test]
    fn the_table_holds_so_many_and_forgets_what_is_of_no_use() {
        let prefixes = Prefixes::default();
        for number in 0..SLOTS {
            assert!(prefixes.add(6 + number as u32 % 2, format!("{number:02}").as_bytes()));
        }
        assert!(!prefixes.add(7, b"x") && prefixes.room() == 0);
        // Generation 0 comes after 7. No item is left of those before 7.
        prefixes.forget_before(6, 0);
        assert_eq!(prefixes.room(), SLOTS / 2);
        assert!(!kill(&prefixes, 5, 0, b"00") && kill(&prefixes, 5, 0, b"01"));
        let long = [b'x'; KEY_MAX];
        assert!(prefixes.add(0, &long) && kill(&prefixes, 7, 0, &long) && !kill(&prefixes, 7, 0, &long[1..]));
    }

    #[test]
    fn prefixes_of_all_lengths_are_told_apart_by_their_last_byte() {
        let key: Vec<u8> = (0..KEY_MAX as u8).collect();
        for length in 1..=KEY_MAX {
            let prefixes = Prefixes::default();
            let mut other = key[..length].to_vec();
            other[length - 1] ^= 0x80;
            assert!(prefixes.add(3, &other));
            assert!(!kill(&prefixes, 2, 3, &key), "{length}");
            assert!(prefixes.add(3, &key[..length]));
            assert!(kill(&prefixes, 2, 3, &key) && !kill(&prefixes, 2, 3, &key[..length - 1]), "{length}");
        }
    }

    #[test]
    fn what_is_saved_is_read_again_and_nonsense_is_refused() {
        let prefixes = Prefixes::default();
        for (generation, prefix) in [(1, b"".as_slice()), (2, b"exactly8"), (7, b"more than eight")] {
            prefixes.add(generation, prefix);
        }
        let saved = prefixes.saved().numbers();
        let read = |numbers: &[u64]| {
            let mut numbers = numbers.iter();
            SavedPrefixes::read(|| numbers.next().copied().ok_or(()))
        };
        let again = Prefixes::default();
        read(&saved).unwrap().unwrap().restore(&again);
        assert_eq!(again.saved(), prefixes.saved());
        assert!(read(&saved[..saved.len() - 1]).is_err());
        assert_eq!(read(&[SLOTS as u64 + 1]), Ok(None));
        assert_eq!(read(&[1, u64::from(GENERATIONS) << 8]), Ok(None));
        assert_eq!(read(&[1, 251]), Ok(None));
    }
}

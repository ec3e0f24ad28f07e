//! Where keys lie, and how they are compared.
//!
//! ```text
//! bytes  0..8    the next item of the chain (memcached has its pointer in the item too)
//! bytes 16..32   the key
//! ```

use guira_memory::{HugePages, Offset, Region};
use guira_sync::atomic::AtomicU64;
use guira_sync::words;

use crate::experiment::Failure;

/// Sixteen bytes, as two words.
pub(in crate::memc3) type Key = [u64; 2];

/// Bytes of an item: half a cache line, so that none lies in two.
const ITEM_BYTES: u64 = 32;
const KEY_AT: usize = 16;

/// Which pages of the system a table lies in.
pub(in crate::memc3) trait Pages: Sync {
    /// `bytes` of memory in such pages.
    fn region(bytes: usize) -> Result<Region, Failure>;
}

/// Pages of 4 KiB.
#[derive(Debug)]
pub(in crate::memc3) struct Small;

/// Pages of 2 MiB, as far as the system has them.
#[derive(Debug)]
pub(in crate::memc3) struct Huge;

fn reserved(bytes: usize, pages: HugePages) -> Result<Region, Failure> {
    Region::anonymous(bytes, pages).map_err(|error| Failure::Other(format!("no memory for a table: {error}")))
}

/// Commits all of it, so that no page fault is measured later.
fn touch(region: &Region) {
    for at in (0..region.reserved()).step_by(4096) {
        words::store(region.word(Offset::from_bytes(at as u64)), 0);
    }
}

impl Pages for Small {
    fn region(bytes: usize) -> Result<Region, Failure> {
        let region = reserved(bytes, HugePages::No)?;
        // A system that gives huge pages to everybody gives none to this one.
        region.commit_finely(0, region.reserved());
        touch(&region);
        Ok(region)
    }
}

impl Pages for Huge {
    fn region(bytes: usize) -> Result<Region, Failure> {
        let region = reserved(bytes, HugePages::Requested)?;
        touch(&region);
        Ok(region)
    }
}

pub(in crate::memc3) trait Compare: Sync {
    /// Whether the key of an item is `key`.
    fn same(item: &[AtomicU64; 4], key: Key) -> bool;
}

/// By the C library's `memcmp`, which gets the length at run time, as in memcached.
#[derive(Debug)]
pub(in crate::memc3) struct Bytes;

#[derive(Debug)]
pub(in crate::memc3) struct Integers;

impl Compare for Bytes {
    #[inline(always)]
    fn same(item: &[AtomicU64; 4], key: Key) -> bool {
        let mut stored = [0; 16];
        words::copy_out(item, KEY_AT, &mut stored);
        let mut wanted = [0; 16];
        wanted[..8].copy_from_slice(&key[0].to_le_bytes());
        wanted[8..].copy_from_slice(&key[1].to_le_bytes());
        // The compiler would make two words of a comparison whose length it knows.
        let length = std::hint::black_box(stored.len());
        stored[..length] == wanted[..length]
    }
}

impl Compare for Integers {
    #[inline(always)]
    fn same(item: &[AtomicU64; 4], key: Key) -> bool {
        words::load(&item[2]) == key[0] && words::load(&item[3]) == key[1]
    }
}

/// All items of a table, numbered from 1.
#[derive(Debug)]
pub(in crate::memc3) struct Items {
    region: Region,
}

impl Items {
    /// Room for items up to the number `count`.
    pub(super) fn new<P: Pages>(count: u32) -> Result<Self, Failure> {
        Ok(Self { region: P::region((count as usize + 1) * ITEM_BYTES as usize)? })
    }

    /// The words of an item. `None` if there is no such item: the number may come from a race.
    #[inline(always)]
    pub(super) fn words(&self, number: u32) -> Option<&[AtomicU64; 4]> {
        self.region.window(Offset::from_bytes(u64::from(number) * ITEM_BYTES))
    }

    /// Whether item `number` has this key.
    #[inline(always)]
    pub(super) fn same<C: Compare>(&self, number: u32, key: Key) -> bool {
        self.words(number).is_some_and(|item| C::same(item, key))
    }

    pub(super) fn key(&self, number: u32) -> Key {
        self.words(number).map_or([0; 2], |item| [words::load(&item[2]), words::load(&item[3])])
    }

    #[inline(always)]
    pub(super) fn put(&self, number: u32, key: Key) {
        if let Some(item) = self.words(number) {
            words::store(&item[2], key[0]);
            words::store(&item[3], key[1]);
        }
    }
}

//! The items of an engine: where they lie, whether they are alive, and what their keys hash to.

use guira_contract::{ItemSpec, ItemView, KeyHash, MissKind};
use guira_items::{Fields, Flushes, Item, ItemHeaderSpec, Pieces, Shell};
use guira_memory::{Offset, Region};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Ticket;

/// The Region, and what says which of its items are alive.
#[derive(Debug)]
pub(crate) struct Items {
    shell: Shell,
    flushes: Flushes<Ticket>,
    /// Fields that every item has.
    fields: Fields,
}

impl Items {
    pub(crate) fn new(shell: Shell, fields: Fields) -> Self {
        Items { shell, flushes: Flushes::default(), fields }
    }

    #[inline(always)]
    pub(crate) fn shell(&self) -> &Shell {
        &self.shell
    }

    /// Ends the engine: its Region is to be closed.
    pub(crate) fn into_shell(self) -> Shell {
        self.shell
    }

    pub(crate) fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        self.shell.region()
    }

    #[inline(always)]
    pub(crate) fn flushes(&self) -> &Flushes<Ticket> {
        &self.flushes
    }

    /// The item at `at`, if there is one. It may be changing.
    #[inline(always)]
    pub(crate) fn at(&self, at: Offset, now: Seconds) -> Option<Item<'_>> {
        Item::at(self.shell.region(), at, now)
    }

    /// Why `item` is no longer there, if it is dead.
    #[inline(always)]
    pub(crate) fn dead(&self, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        self.flushes.dead_as_of(self.flushes.generation(), item, now)
    }

    /// Whether the item at `at` was stored before the last flush, dead or alive.
    pub(crate) fn is_of_before(&self, at: Offset) -> bool {
        let generation = self.flushes.generation();
        self.at(at, Seconds(0)).is_some_and(|item| item.header.generation() != generation)
    }

    /// Whether there is an item at `at`, and it is dead.
    pub(crate) fn is_dead(&self, at: Offset, now: Seconds) -> bool {
        self.at(at, now).is_some_and(|item| self.dead(&item, now).is_some())
    }

    /// The hash of the key of the item at `at`, which may be changing.
    pub(crate) fn hash_at(&self, at: Offset) -> Option<KeyHash> {
        let item = self.at(at, Seconds(0))?;
        let mut buffer = [0; 256];
        Some(self.shell.hash(item.key(&mut buffer)))
    }

    /// All chunks of the item at `at`, which no thread changes.
    pub(crate) fn chunks_of(&self, at: Offset) -> Vec<Offset> {
        let item = self.at(at, Seconds(0));
        let mut chunks = item.map_or_else(Vec::new, |item| Pieces::chunks(self.region(), &item));
        chunks.push(at);
        chunks
    }

    /// The same of an item that is being freed.
    pub(crate) fn freed_chunks_of(&self, at: Offset) -> Vec<Offset> {
        let item = self.at(at, Seconds(0));
        let mut chunks = item.map_or_else(Vec::new, |item| Pieces::freed(self.region(), &item));
        chunks.push(at);
        chunks
    }

    /// How long ago an item was last read or stored, in seconds.
    pub(crate) fn idle(&self, item: &Item<'_>) -> u64 {
        let now = self.shell.time_seen();
        u64::from(now.0.saturating_sub(item.header.last_access(now).0))
    }

    /// The fields of an item by `spec`, with a value of `value_len` bytes.
    #[inline(always)]
    pub(crate) fn fields(&self, spec: &ItemHeaderSpec<'_>, value_len: usize) -> Fields {
        ItemHeaderSpec::fields(self.fields, spec.flags, spec.expiry, spec.cas, value_len)
    }

    /// The fields of an item that is going to be stored.
    #[inline(always)]
    pub(crate) fn fields_of(&self, spec: &ItemSpec) -> Fields {
        ItemHeaderSpec::fields(self.fields, spec.flags, spec.expiry, spec.cas, spec.value_len)
    }

    /// What an item counts for in `bytes`.
    #[inline(always)]
    pub(crate) fn bytes_of(item: &Item<'_>) -> u64 {
        (item.size_before_value() + item.value_len()) as u64
    }

    /// Items stored at the moment. Sums over sessions are no snapshot, so a little more or less.
    pub(crate) fn count(&self) -> u64 {
        self.shell.registry().items()
    }
}

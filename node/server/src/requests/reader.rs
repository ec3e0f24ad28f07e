//! The reader: reads requests into batches, and prefetches the buckets of their keys.

use super::batch::{Batch, Kind};
use super::runner::Runner;
use crate::profile::Profile;
use guira_commands::{Effect, Item};
use guira_contract::{KeyHash, Session};
use guira_protocol::{Command, Fault, KeyBuffer, MetaKey};

/// Reads requests into batches. What it reads of each protocol is in the file of the protocol.
#[derive(Debug)]
pub(crate) struct Reader<'w, S: Session> {
    runner: &'w Runner<S>,
}

impl<S: Session> Clone for Reader<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Session> Copy for Reader<'_, S> {}

impl<'w, S: Session> Reader<'w, S> {
    #[inline(always)]
    pub(crate) fn new(runner: &'w Runner<S>) -> Self {
        Reader { runner }
    }

    /// The fault that the server's profile makes of the command in a line of this length.
    #[inline(always)]
    pub(crate) fn refusal(self, command: &Command<'_>, length: usize) -> Option<Fault> {
        match self.runner.profile {
            Profile::None => None,
            profile => profile.refusal(command, length),
        }
    }

    /// Adds a request about the item under `key` to a batch.
    #[inline(always)]
    pub(crate) fn push<'a, const N: usize>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        key: &[u8],
        item: Item<'a>,
        end: usize,
    ) {
        let hash = self.hash_and_prefetch(key, || item.effect());
        batch.push(Kind::Item(hash, item), end);
    }

    #[inline(always)]
    pub(crate) fn push_meta<'a, const N: usize>(
        self,
        batch: &mut Batch<Kind<'a>, S::Guess, N>,
        key: &MetaKey<'_>,
        item: Item<'a>,
        end: usize,
    ) {
        let mut buffer: KeyBuffer = [0; 336];
        self.push(batch, key.bytes(&mut buffer), item, end);
    }

    /// Returns the hash of a key. Prefetches the buckets of the key if this worker executes the request.
    #[inline(always)]
    pub(crate) fn hash_and_prefetch(self, key: &[u8], effect: impl FnOnce() -> Effect) -> KeyHash {
        let Runner { executor, forwarding, .. } = self.runner;
        let hash = executor.hash(key);
        if forwarding.is_local(hash, effect) {
            executor.prefetch_hash(hash);
        }
        hash
    }
}

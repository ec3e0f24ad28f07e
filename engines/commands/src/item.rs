//! A request about one item, in any protocol.

use crate::executor::Executor;
use crate::retrieve::Answered;
use crate::store::Data;
use guira_contract::{Key, KeyHash, Session};
use guira_protocol::binary::{ItemOperation, Packet};
use guira_protocol::{Arithmetic, Delete, GetForm, Meta, MetaKey, MetaSet, Noreply, Replies, Store, Touch};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The item stays as it is, except its cas unique and recency.
    Read,
    Write,
}

/// One key of a get, gets, gat, gats or lease-get.
#[derive(Clone, Copy, Debug)]
pub struct GetKey<'a> {
    pub key: &'a [u8],
    pub form: GetForm,
}

#[derive(Clone, Copy, Debug)]
pub struct ItemPacket<'a> {
    pub packet: Packet,
    pub key: &'a [u8],
    pub operation: ItemOperation,
    /// Empty unless the operation stores.
    pub value: &'a [u8],
}

/// A complete request about one item.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    Get(GetKey<'a>),
    /// One key of a get of several. Its reply has no END.
    KeyOfGet(GetKey<'a>),
    /// set, add, replace, append, prepend, cas, lease-set; with the data block and its line end
    Store(Store<'a>, &'a [u8]),
    Delete(Delete<'a>),
    /// incr, decr
    Arithmetic(Arithmetic<'a>),
    Touch(Touch<'a>),
    /// mg, md, ma; and ms, with the data block and its line end
    Meta(Meta<'a>, &'a [u8]),
    MetaDebug(MetaKey<'a>),
    /// A packet of the binary protocol.
    Packet(ItemPacket<'a>),
}

/// The most borrowed slices of an [`Item`]: key, flags and data of ms.
pub const PIECES_MAX: usize = 3;

impl<'a> Item<'a> {
    pub fn effect(&self) -> Effect {
        match self {
            Item::Get(get) | Item::KeyOfGet(get) => get.effect(),
            Item::Meta(Meta::Get(get), _) => {
                let changes = get.flags.has(b'T') || get.flags.has(b'N') || get.flags.has(b'R');
                if changes { Effect::Write } else { Effect::Read }
            }
            Item::MetaDebug(_) => Effect::Read,
            Item::Packet(packet) => match packet.operation {
                ItemOperation::Get { touch: None, .. } => Effect::Read,
                ItemOperation::Get { touch: Some(_), .. }
                | ItemOperation::Store(_)
                | ItemOperation::Delete
                | ItemOperation::Arithmetic { .. } => Effect::Write,
            },
            Item::Meta(Meta::Set(_) | Meta::Delete(_) | Meta::Arithmetic(..), _)
            | Item::Store(..)
            | Item::Delete(_)
            | Item::Arithmetic(_)
            | Item::Touch(_) => Effect::Write,
        }
    }

    /// The same request with other bytes: passes each borrowed slice to `place`, always in the same order.
    pub fn relocate<'b>(&self, place: &mut impl FnMut(&'a [u8]) -> &'b [u8]) -> Item<'b> {
        match self {
            Item::Get(get) => Item::Get(get.relocate(place)),
            Item::KeyOfGet(get) => Item::KeyOfGet(get.relocate(place)),
            Item::Store(store, block) => Item::Store(store.relocate(place), place(block)),
            Item::Delete(delete) => Item::Delete(delete.relocate(place)),
            Item::Arithmetic(arithmetic) => Item::Arithmetic(arithmetic.relocate(place)),
            Item::Touch(touch) => Item::Touch(touch.relocate(place)),
            Item::Meta(meta, block) => Item::Meta(meta.relocate(place), place(block)),
            Item::MetaDebug(key) => Item::MetaDebug(key.relocate(place)),
            Item::Packet(ItemPacket { packet, key, operation, value }) => Item::Packet(ItemPacket {
                packet: *packet,
                key: place(key),
                operation: *operation,
                value: place(value),
            }),
        }
    }
}

impl<'a> GetKey<'a> {
    #[inline(always)]
    pub fn effect(&self) -> Effect {
        if let GetForm::Plain(_) = self.form { Effect::Read } else { Effect::Write }
    }

    fn relocate<'b>(&self, place: &mut impl FnMut(&'a [u8]) -> &'b [u8]) -> GetKey<'b> {
        GetKey { key: place(self.key), form: self.form }
    }
}

/// The value of a data block; `None` if the block does not end with `\r\n`.
#[inline(always)]
fn value_of(block: &[u8]) -> Option<&[u8]> {
    block.strip_suffix(b"\r\n")
}

/// Writes the reply to a data block that does not end with `\r\n`.
pub fn refuse_block<R: Replies>(noreply: Noreply, replies: &mut R) {
    if noreply == Noreply::No {
        replies.buffer().line("CLIENT_ERROR bad data chunk");
    }
}

impl<S: Session> Executor<S> {
    /// Executes a request. `hash` is that of its key.
    #[inline(always)]
    pub fn execute<R>(&mut self, item: &Item<'_>, hash: KeyHash, guess: S::Guess, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        match item {
            Item::Get(get) => {
                if self.get_key(get, hash, guess, replies) == Answered::Wholly {
                    replies.buffer().put_short(*b"END\r\n");
                }
            }
            // Other workers answer the other keys, and END follows: an error line would stand between values. So the
            // reply is a miss.
            Item::KeyOfGet(get) => {
                let mark = replies.buffer().len();
                if self.get_key(get, hash, guess, replies) == Answered::Refused {
                    replies.buffer().truncate(mark);
                }
            }
            Item::Store(store, block) => match value_of(block) {
                Some(value) => {
                    self.store_bytes(Key { bytes: store.key, hash }, guess, store, value, replies);
                }
                None => refuse_block(store.noreply, replies),
            },
            Item::Delete(delete) => self.delete(Key { bytes: delete.key, hash }, delete, replies),
            Item::Arithmetic(command) => self.arithmetic(Key { bytes: command.key, hash }, command, replies),
            Item::Touch(touch) => self.touch(Key { bytes: touch.key, hash }, touch, replies),
            Item::Meta(meta, block) => self.meta(meta, block, hash, guess, replies),
            Item::MetaDebug(key) => {
                let mut buffer = [0; 336];
                self.meta_debug(Key { bytes: key.bytes(&mut buffer), hash }, replies);
            }
            Item::Packet(ItemPacket { packet, key, operation, value }) => {
                self.binary(*packet, operation, Key { bytes: key, hash }, guess, value, replies);
            }
        }
    }

    #[inline(always)]
    pub fn get_key<R>(
        &mut self,
        get: &GetKey<'_>,
        hash: KeyHash,
        guess: S::Guess,
        replies: &mut R,
    ) -> Answered
    where
        R: Replies<Pin = S::Pin>,
    {
        let key = Key { bytes: get.key, hash };
        match get.form {
            GetForm::Plain(unique) => self.get(key, guess, unique, replies),
            GetForm::Touch(unique, time) => self.get_and_touch(key, time, unique, replies),
            GetForm::Lease => self.lease_get(key, guess, replies),
        }
    }

    fn meta<R>(&mut self, meta: &Meta<'_>, block: &[u8], hash: KeyHash, guess: S::Guess, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let asked = match meta {
            Meta::Get(get) | Meta::Delete(get) | Meta::Arithmetic(get, _) => &get.key,
            Meta::Set(MetaSet { key, .. }) => key,
        };
        let mut buffer = [0; 336];
        let key = Key { bytes: asked.bytes(&mut buffer), hash };
        match meta {
            Meta::Get(get) => self.meta_get(key, guess, get, replies),
            Meta::Delete(delete) => self.meta_delete(key, delete, replies),
            Meta::Arithmetic(command, direction) => self.meta_arithmetic(key, command, *direction, replies),
            // A bad block is reported even if the ms is quiet.
            Meta::Set(set) => match value_of(block) {
                Some(value) => self.meta_set(key, guess, set, Data::Bytes(value), replies),
                None => refuse_block(Noreply::No, replies),
            },
        }
    }
}

//! Operations, and the meaning of their replies for an application: the same for the blocking and for the async client.

use super::compress::Compression;
use super::core::Reply;
use super::counters::Counts;
use super::error::{Error, ErrorKind};
use super::item::{Cas, Item, KeyForm, Store};
use crate::key::{problem, problem_in_base64};
use guira_routing::{Dialect, Op, Outcome, Request};
use guira_upstream::VALUE_MAX;
use std::borrow::Cow;

#[derive(Clone, Debug)]
pub(super) struct Operation<'a> {
    op: Op,
    key: Cow<'a, [u8]>,
    value: Cow<'a, [u8]>,
    flags: u32,
    expiry: i32,
    number: u64,
    /// The flags of a meta command, of a store whose key is sent in base64.
    meta: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uniques {
    Included,
    Omitted,
}

impl<'a> Operation<'a> {
    /// An operation with only a key.
    pub(super) fn of(op: Op, key: &'a [u8]) -> Self {
        let (value, meta) = (Cow::Borrowed(&b""[..]), Vec::new());
        Self { op, key: key.into(), value, flags: 0, expiry: 0, number: 0, meta }
    }

    pub(super) fn expiring(op: Op, key: &'a [u8], expiry: i32) -> Self {
        Self { expiry, ..Self::of(op, key) }
    }

    pub(super) fn counting(op: Op, key: &'a [u8], number: u64) -> Self {
        Self { number, ..Self::of(op, key) }
    }

    /// A store, compressed if it is large enough.
    ///
    /// # Errors
    /// If the item cannot be stored.
    pub(super) fn store(
        op: Op,
        store: &Store<'a>,
        unique: u64,
        how: Compression,
        counts: &Counts,
    ) -> Result<Self, Error> {
        if store.value.len() > VALUE_MAX as usize {
            return Err(Error::too_large());
        }
        let (value, flags) = how.pack(store.value, store.flags)?;
        counts.compressed.add(usize::from(matches!(value, Cow::Owned(_))));
        let meta = match store.form {
            KeyForm::Word => Vec::new(),
            KeyForm::Base64 => in_base64(op, flags, unique),
        };
        Ok(Self { value, flags, expiry: store.expiry, number: unique, meta, ..Self::of(op, store.key) })
    }

    /// An append or prepend.
    ///
    /// # Errors
    /// If the client compresses: joining bytes would damage a compressed value.
    pub(super) fn joining(op: Op, key: &'a [u8], value: &'a [u8], how: Compression) -> Result<Self, Error> {
        if value.len() > VALUE_MAX as usize {
            return Err(Error::too_large());
        }
        if how.is_on() {
            return Err(ErrorKind::Refused("a client that compresses does not append".to_owned()).into());
        }
        Ok(Self { value: value.into(), ..Self::of(op, key) })
    }

    pub(super) fn into_owned(self) -> Operation<'static> {
        let (key, value) = (Cow::Owned(self.key.into_owned()), Cow::Owned(self.value.into_owned()));
        let Self { op, flags, expiry, number, meta, .. } = self;
        Operation { op, key, value, flags, expiry, number, meta }
    }

    /// The fault of a key that cannot be sent.
    pub(super) fn problem(&self) -> Option<Error> {
        if self.op == Op::FlushAll {
            return None;
        }
        let problem = if self.meta.is_empty() { problem(&self.key) } else { problem_in_base64(&self.key) };
        problem.map(|problem| ErrorKind::BadKey(problem).into())
    }

    pub(super) fn request(&self) -> Request<'_> {
        let dialect = if self.meta.is_empty() { Dialect::Classic } else { Dialect::Meta };
        Request {
            dialect,
            meta: &self.meta,
            flags: self.flags.into(),
            exptime: self.expiry,
            number: self.number,
            value: &self.value,
            ..Request::classic(self.op, &self.key)
        }
    }
}

/// The flags of a store whose key is sent in base64.
fn in_base64(op: Op, flags: u32, unique: u64) -> Vec<u8> {
    let mode = match op {
        Op::Add => " ME",
        Op::Replace => " MR",
        _ => "",
    };
    let unique = if op == Op::Cas { format!(" C{unique}") } else { String::new() };
    format!("b{mode} F{flags}{unique}").into_bytes()
}

/// The operations of many stores, and the index of each: stores that cannot be sent are left out.
pub(super) fn stores<'a>(
    op: Op,
    stores: &[Store<'a>],
    how: Compression,
    counts: &Counts,
) -> (Vec<Operation<'a>>, Vec<Result<(), Error>>) {
    let mut operations = Vec::new();
    let places = stores.iter().map(|store| {
        operations.push(Operation::store(op, store, 0, how, counts)?);
        Ok(())
    });
    let places = places.collect();
    (operations, places)
}

/// The results of many stores, in their order.
pub(super) fn are_done(places: Vec<Result<(), Error>>, replies: Vec<Reply>) -> Vec<Result<bool, Error>> {
    let mut replies = replies.into_iter();
    let reply = |place: Result<(), Error>| {
        place.and_then(|()| is_done(replies.next().unwrap_or(Err(ErrorKind::Broken.into()))))
    };
    places.into_iter().map(reply).collect()
}

/// Counts the results of gets and of changes.
pub(super) fn count(operations: &[Operation<'_>], replies: &[Reply], counts: &Counts) {
    for (operation, reply) in operations.iter().zip(replies) {
        let is_get = matches!(operation.op, Op::Get | Op::Gets | Op::Gat | Op::Gats);
        let (all, failed) = if is_get {
            (&counts.keys, &counts.failed_keys)
        } else {
            (&counts.changes, &counts.failed_changes)
        };
        all.add(1);
        match reply {
            Err(_) => failed.add(1),
            Ok(reply) => counts.hits.add(usize::from(is_get && reply.item.is_some())),
        }
    }
}

pub(super) fn item(reply: Reply, uniques: Uniques, how: Compression) -> Result<Option<Item>, Error> {
    let reply = reply?;
    let Some((value, flags)) = reply.item else { return Ok(None) };
    let flags = u32::try_from(flags).map_err(|_| ErrorKind::Broken)?;
    let (value, flags) = how.unpack(value, flags)?;
    let unique = (uniques == Uniques::Included).then_some(reply.number);
    Ok(Some(Item { value, flags, unique }))
}

pub(super) fn is_done(reply: Reply) -> Result<bool, Error> {
    Ok(!matches!(reply?.outcome, Outcome::NotStored | Outcome::NotFound | Outcome::Exists))
}

pub(super) fn number(reply: Reply) -> Result<Option<u64>, Error> {
    let reply = reply?;
    Ok((reply.outcome == Outcome::Found).then_some(reply.number))
}

pub(super) fn cas(reply: Reply) -> Result<Cas, Error> {
    Ok(match reply?.outcome {
        Outcome::Exists => Cas::Changed,
        Outcome::NotFound | Outcome::NotStored => Cas::Missing,
        _ => Cas::Stored,
    })
}

/// The only reply.
pub(super) fn only(replies: Vec<Reply>) -> Reply {
    replies.into_iter().next().unwrap_or(Err(ErrorKind::Broken.into()))
}

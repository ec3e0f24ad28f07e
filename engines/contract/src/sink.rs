//! Where a read puts the item that it finds.

use crate::item::{ItemView, Meta, Recency};
use guira_memory::ValuePin;
use std::marker::PhantomData;

/// Which part of an item a sink wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The value, with its metadata.
    Value,
    /// Metadata only.
    Meta,
}

/// Receives the item that a read finds.
pub trait Sink {
    /// A pinned value of the engine.
    type Pin: ValuePin;

    /// Which part it wants. A long value is pinned only if it is wanted.
    fn wants(&self) -> Want;

    /// An item was found. Another session may be changing it: see [`Sink::undo`].
    fn found<I: ItemView>(&mut self, item: &I);

    /// The item last found changed while it was read. The sink discards what it took from it.
    fn undo(&mut self);

    /// Whether the read counts for eviction. Called after the item was found.
    fn recency(&self) -> Recency;

    /// An item with a long value was found, and its value is pinned. The engine does not undo this.
    fn pinned(&mut self, meta: &Meta, pin: Self::Pin);
}

/// The sink of a read that only asks whether there is an item. The read counts for eviction.
#[derive(Debug)]
pub struct Presence<P>(PhantomData<P>);

impl<P> Default for Presence<P> {
    fn default() -> Self {
        Presence(PhantomData)
    }
}

impl<P: ValuePin> Sink for Presence<P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Meta
    }

    fn found<I: ItemView>(&mut self, _item: &I) {}

    fn undo(&mut self) {}

    fn recency(&self) -> Recency {
        Recency::Bump
    }

    fn pinned(&mut self, _meta: &Meta, _pin: P) {}
}

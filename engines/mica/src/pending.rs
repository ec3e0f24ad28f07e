//! Values that arrive in pieces. They are kept outside the log, which would overtake a slow sender, and copied there when they are complete.

use crate::core::Core;
use crate::store::{ItemStore, Log};
use guira_contract::PendingValue;
use std::sync::Arc;

/// Bytes that are taken at once.
const PIECE: usize = 64 << 10;

/// Memory for one value that is not there yet.
#[derive(Debug)]
pub struct MicaPending<S: ItemStore = Log> {
    core: Arc<Core<S>>,
    total: usize,
    arrived: usize,
    /// All but the last are full.
    pieces: Vec<Vec<u8>>,
    /// Their bytes.
    charged: usize,
}

impl<S: ItemStore> MicaPending<S> {
    /// Memory for a value of `total` bytes.
    pub(crate) fn new(core: Arc<Core<S>>, total: usize) -> Self {
        MicaPending { core, total, arrived: 0, pieces: Vec::new(), charged: 0 }
    }

    /// Appends `bytes`. False if there is no memory.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> bool {
        assert!(bytes.len() <= self.missing(), "more than the value has room for");
        while !bytes.is_empty() {
            if self.pieces.last().is_none_or(|piece| piece.len() == piece.capacity()) {
                let length = PIECE.min(self.total - self.arrived);
                if !self.core.sizing.take_for_arrival(length, || self.core.used()) {
                    return false;
                }
                self.charged += length;
                self.pieces.push(Vec::with_capacity(length));
            }
            if let Some(piece) = self.pieces.last_mut() {
                let part = bytes.len().min(piece.capacity() - piece.len());
                piece.extend_from_slice(&bytes[..part]);
                bytes = &bytes[part..];
                self.arrived += part;
            }
        }
        true
    }

    /// The bytes that have arrived.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(Vec::as_slice)
    }
}

impl<S: ItemStore> PendingValue for MicaPending<S> {
    fn missing(&self) -> usize {
        self.total - self.arrived
    }

    fn value_len(&self) -> usize {
        self.total
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        self.pieces().for_each(|piece| bytes.extend_from_slice(piece));
    }
}

impl<S: ItemStore> Drop for MicaPending<S> {
    fn drop(&mut self) {
        self.core.sizing.give_after_arrival(self.charged);
    }
}

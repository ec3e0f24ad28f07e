//! The buffer in which a session puts values together.

use std::cell::Cell;
use std::fmt;

/// A session's buffer. It keeps its memory from one value to the next.
#[derive(Default)]
pub(crate) struct ScratchBuffer(Cell<Vec<u8>>);

impl fmt::Debug for ScratchBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ScratchBuffer")
    }
}

impl ScratchBuffer {
    /// The buffer with what `fill` appends to it.
    pub(crate) fn filled(&self, fill: impl FnOnce(&mut Vec<u8>)) -> Scratch<'_> {
        let mut bytes = self.0.take();
        bytes.clear();
        fill(&mut bytes);
        Scratch { buffer: self, bytes }
    }

    pub(crate) fn release(&self) {
        self.0.take();
    }
}

/// A value in the session's buffer. Dropping it returns the buffer.
#[derive(Debug)]
pub(crate) struct Scratch<'s> {
    buffer: &'s ScratchBuffer,
    bytes: Vec<u8>,
}

impl Scratch<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        self.buffer.0.set(std::mem::take(&mut self.bytes));
    }
}

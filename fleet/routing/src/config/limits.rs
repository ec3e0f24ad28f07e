//! Limits on the cost of a configuration. Each limit is far above the needs of real configurations;
//! without them a few lines of macros could occupy the router for hours, or all of its memory.

use std::cell::Cell;

use super::json::{ConfigError, Place};

/// Bytes of one file.
pub(super) const FILE_BYTES: usize = 32 << 20;
/// Arrays and objects within each other in a file.
pub(super) const FILE_NESTING: usize = 128;
/// Values, macros and calls within each other while they are expanded: mcrouter's own limit, counted as it counts.
pub(super) const EXPANSION_NESTING: usize = 250;
/// The nesting of arrays and objects in the result.
pub(super) const RESULT_NESTING: usize = 500;
/// The values that are made, read or copied, and pieces of [`STEP_BYTES`] of text, for a file with
/// all its imports.
pub(super) const STEPS: u64 = 2_000_000;
/// The steps for a server of a pool: its data is larger than a value.
pub(super) const SERVER_STEPS: u64 = 4;
/// Values in the result, and pieces of [`STEP_BYTES`] of text.
pub(super) const RESULT_SIZE: u64 = 1_000_000;
pub(super) const IMPORT_NESTING: usize = 32;
pub(super) const IMPORTS: usize = 1000;
/// The length of a chain of inheriting pools.
pub(super) const POOL_ANCESTORS: usize = 32;

const STEP_BYTES: u64 = 32;

#[derive(Debug)]
pub(super) struct Budget(Cell<u64>);

impl Budget {
    pub(super) fn new() -> Self {
        Self(Cell::new(STEPS))
    }

    pub(super) fn spend(&self, steps: u64, place: &Place) -> Result<(), ConfigError> {
        match self.0.get().checked_sub(steps) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => {
                // Code that catches the error gets no further steps either.
                self.0.set(0);
                Err(place.error(format!("the configuration takes more than {STEPS} steps to read")))
            }
        }
    }
}

/// The steps that a value takes whose text or name has this many bytes.
pub(super) fn steps(bytes: usize) -> u64 {
    1 + bytes as u64 / STEP_BYTES
}

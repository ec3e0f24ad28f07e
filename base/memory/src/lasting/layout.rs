//! Sizes of the parts of a Region's file.

/// Bytes of the head; the engine's part of the Region begins here.
pub const HEAD_BYTES: usize = 64 << 10;
/// Bytes of a block: that of a slab page, so that a damaged block costs one page.
pub const BLOCK_BYTES: usize = 256 << 10;

//! Buffers for the datagrams of a burst.

use super::{BURST_MAX, PAYLOAD_MAX};

/// The distance of two buffers, in bytes.
const STRIDE: usize = 1536;

/// Bytes of a [`BurstBuffers`].
pub(super) const BURST_BUFFERS_BYTES: usize = BURST_MAX * STRIDE;

#[derive(Debug)]
pub(super) struct BurstBuffers {
    bytes: Box<[u8]>,
    /// The length of each datagram; 0 if there is none.
    lengths: [u16; BURST_MAX],
}

impl Default for BurstBuffers {
    fn default() -> Self {
        BurstBuffers { bytes: vec![0; BURST_BUFFERS_BYTES].into_boxed_slice(), lengths: [0; BURST_MAX] }
    }
}

impl BurstBuffers {
    #[inline(always)]
    pub(super) fn buffer(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * STRIDE..][..PAYLOAD_MAX]
    }

    /// Sets the length of the datagram in a buffer.
    #[inline(always)]
    pub(super) fn fill(&mut self, index: usize, length: usize) {
        assert!(length <= PAYLOAD_MAX, "no more than the buffer");
        self.lengths[index] = length as u16;
    }

    #[inline(always)]
    pub(super) fn length(&self, index: usize) -> usize {
        usize::from(self.lengths[index])
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        &self.bytes[index * STRIDE..][..usize::from(self.lengths[index])]
    }

    /// Discards the first `count` datagrams.
    pub(super) fn clear(&mut self, count: usize) {
        self.lengths[..count].fill(0);
    }
}

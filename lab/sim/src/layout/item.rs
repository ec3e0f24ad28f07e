//! What an object takes as an item of the engines.

use guira_contract::Expiry;
use guira_items::{Fields, ItemHeaderSpec, Shape};
use guira_sync::clock::Seconds;

/// The second in which nothing expires.
pub(super) const NEVER: u32 = u32::MAX;

/// Bytes of a key: its number. What the stream tells of key and value together is split so that their sum is right.
pub(super) const KEY_BYTES: usize = size_of::<u32>();

/// The largest item, in bytes as memcached counts them, unless half of memory is less.
const ITEM_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Object {
    /// Bytes of key and value.
    pub(super) bytes: u32,
    /// The second in which it expires, or [`NEVER`].
    pub(super) expires: u32,
}

impl Object {
    pub(super) fn value_bytes(self) -> usize {
        (self.bytes as usize).saturating_sub(KEY_BYTES)
    }

    pub(super) fn expiry(self) -> Expiry {
        // The engine's clock begins at 1.
        if self.expires == NEVER { Expiry::Never } else { Expiry::At(seconds(self.expires)) }
    }

    /// Bytes of the item, with the header and the fields that the engine gives it.
    pub(super) fn item_bytes(self) -> u64 {
        let value = self.value_bytes();
        let fields = ItemHeaderSpec::fields(Fields::default(), 0, self.expiry(), None, value);
        // A header tells of less than a megabyte; the place of the value does not depend on how long it is beyond that.
        let shape =
            Shape { key_len: KEY_BYTES as u8, value_len: value.min(ITEM_MAX as usize) as u32, fields };
        (shape.value_at() + value) as u64
    }

    /// Whether a cache with `memory` bytes takes it.
    pub(super) fn is_accepted(self, memory: u64) -> bool {
        guira_contract::counted_size(KEY_BYTES, 0, self.value_bytes()) <= item_max(memory)
    }
}

/// The largest item of a cache with `memory` bytes, as memcached counts.
pub(super) fn item_max(memory: u64) -> usize {
    ITEM_MAX.min(memory / 2) as usize
}

/// A second of the stream on the engine's clock.
pub(super) fn seconds(second: u32) -> Seconds {
    Seconds(second.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::{NEVER, Object};

    #[test]
    fn an_item_is_header_key_and_value_and_four_bytes_more_if_it_expires() {
        let bytes = |bytes, expires| Object { bytes, expires }.item_bytes();
        assert_eq!(bytes(100, NEVER), 108);
        assert_eq!(bytes(100, 60), 112);
        assert_eq!(bytes(0, NEVER), 12, "a key that has a number takes its four bytes");
        assert_eq!(bytes(260, NEVER), 272, "a value of 256 bytes begins at a multiple of 8");
    }

    #[test]
    fn what_is_longer_than_a_mebibyte_or_half_of_memory_is_refused() {
        let is_accepted = |bytes, memory| Object { bytes, expires: NEVER }.is_accepted(memory);
        assert!(is_accepted(1_000_000, 1 << 30) && !is_accepted(1 << 20, 1 << 30));
        assert!(is_accepted(900, 2000) && !is_accepted(1000, 2000));
    }
}

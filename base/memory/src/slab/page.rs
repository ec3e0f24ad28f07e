//! Pages and their descriptors.

use super::classes::ClassId;

/// Bytes in a page. Smaller than memcached's MiB, so that a new class costs little, and a page that changes its class
/// evicts little.
pub const PAGE_BYTES: usize = 256 << 10;

/// A page, by its index in the page area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    Free,
    Serving(ClassId),
    /// Its chunks are only freed.
    Draining(ClassId),
}

/// A page's descriptor, one word in the Region; written under the lock of its class, read without.
///
/// ```text
///  63            32 31       16 15    8 7        0
/// | stamp          | free      | state | class+1  |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor(pub(super) u64);

const DRAINING: u64 = 1 << 8;

impl Descriptor {
    pub(super) const FREE: Descriptor = Descriptor(0);

    pub(super) fn serving(class: ClassId, free: u32, stamp: u32) -> Self {
        Descriptor(u64::from(class.0) + 1).with_free(free).with_stamp(stamp)
    }

    #[inline(always)]
    pub(super) fn class(self) -> Option<ClassId> {
        (self.0 as u8).checked_sub(1).map(ClassId)
    }

    #[inline(always)]
    pub(super) fn state(self) -> PageState {
        match self.class() {
            None => PageState::Free,
            Some(class) if self.0 & DRAINING != 0 => PageState::Draining(class),
            Some(class) => PageState::Serving(class),
        }
    }

    pub(super) fn draining(self) -> Self {
        Descriptor(self.0 | DRAINING)
    }

    pub(super) fn serving_again(self) -> Self {
        Descriptor(self.0 & !DRAINING)
    }

    pub(super) fn free(self) -> u32 {
        (self.0 >> 16) as u32 & 0xffff
    }

    pub(super) fn with_free(self, free: u32) -> Self {
        debug_assert!(free <= 0xffff);
        Descriptor((self.0 & !0xffff_0000) | (u64::from(free) << 16))
    }

    pub(super) fn stamp(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn with_stamp(self, stamp: u32) -> Self {
        Descriptor((self.0 & 0xffff_ffff) | (u64::from(stamp) << 32))
    }
}

// The free count of a page of the smallest chunks fits its field.
const _: () = assert!(PAGE_BYTES / 24 <= 0xffff);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_descriptor_do_not_touch_each_other() {
        let descriptor =
            Descriptor::serving(ClassId(254), 0xffff, u32::MAX).with_free(3).draining().with_stamp(9);
        assert_eq!(descriptor.state(), PageState::Draining(ClassId(254)));
        assert_eq!((descriptor.free(), descriptor.stamp()), (3, 9));
        assert_eq!(Descriptor::FREE.state(), PageState::Free);
    }
}

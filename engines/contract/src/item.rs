//! Items as commands see them, and what commands decide about them.

use guira_sync::clock::Seconds;

/// When an item stops being there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never by itself.
    #[default]
    Never,
    /// From this second on.
    At(Seconds),
}

impl Expiry {
    /// Whether an item with this expiry is gone at `now`.
    #[inline(always)]
    pub fn passed(self, now: Seconds) -> bool {
        matches!(self, Expiry::At(at) if at <= now)
    }
}

/// Facts about an item, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemState(pub u8);

impl ItemState {
    /// No fact.
    pub const NONE: Self = ItemState(0);
    /// It was read since it was stored.
    pub const FETCHED: Self = ItemState(1);
    /// It was marked as outdated and may still be served.
    pub const STALE: Self = ItemState(2);
    /// A client was asked to renew it (meta's win flag, or a lease).
    pub const TOKEN_SENT: Self = ItemState(4);
    /// Its key was given in base64, and is given back so.
    pub const BINARY_KEY: Self = ItemState(8);
    /// Only leases, mg and who names its cas unique see it: a key that a client was asked to fill, or a deleted value that may still be served as stale. Neither stale nor
    /// with a token sent, it is a tombstone.
    pub const HIDDEN: Self = ItemState(16);

    /// How many bits the facts take.
    pub const BITS: u32 = 5;
    /// Every fact.
    pub const ALL: Self = ItemState((1 << Self::BITS) - 1);

    /// Whether all of `facts` hold.
    #[inline(always)]
    pub fn has(self, facts: Self) -> bool {
        self.0 & facts.0 == facts.0
    }

    /// Whether they are those of a tombstone: the key was deleted, and until this item expires nothing may be added under it.
    #[inline(always)]
    pub fn is_tombstone(self) -> bool {
        let told_apart = Self::HIDDEN.with(Self::STALE).with(Self::TOKEN_SENT);
        self.0 & told_apart.0 == Self::HIDDEN.0
    }

    /// These facts and those of `other`.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        ItemState(self.0 | other.0)
    }

    /// These facts without those of `other`.
    #[inline(always)]
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        ItemState(self.0 & !other.0)
    }
}

/// Everything about an item but its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Length of the value, in bytes.
    pub value_len: usize,
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// The cas unique, if one was ever asked for or given.
    pub cas: Option<u64>,
    /// When it was last read, or stored.
    pub last_access: Seconds,
    /// Facts.
    pub state: ItemState,
    /// Bytes of memory that it occupies.
    pub size: usize,
    /// Its slab class, or 0 in an engine without classes.
    pub class: u8,
}

/// An item that an engine has found. During [`crate::Session::read`] what it shows may be torn, until the engine says
/// that the read was valid.
pub trait ItemView {
    /// Length of the value, in bytes.
    fn value_len(&self) -> usize;
    /// The client's flags.
    fn flags(&self) -> u32;
    /// The cas unique, if the item has one.
    fn cas(&self) -> Option<u64>;
    /// Facts.
    fn state(&self) -> ItemState;
    /// Everything about it.
    fn meta(&self) -> Meta;
    /// Copies the bytes of the value from `from` on. Bytes past its end are left as they are.
    fn copy_value(&self, from: usize, out: &mut [u8]);
}

/// Whether a read counts as one for eviction, `h` and `l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recency {
    /// It counts.
    Bump,
    /// It leaves no trace.
    Leave,
}

/// Bytes of an item as memcached counts them against `-I`.
pub fn counted_size(key_len: usize, flags: u32, value_len: usize) -> usize {
    const HEADER: usize = 48;
    const CAS: usize = 8;
    HEADER + CAS + key_len + 1 + if flags == 0 { 0 } else { 4 } + value_len + 2
}

/// What to do about a key: the answer of the function given to [`crate::Session::update`].
#[derive(Debug)]
pub enum Decision<'d> {
    /// Leave it as it is.
    Keep,
    /// Change the metadata of the item that is there, or overwrite its value with one of equal length.
    Amend(Amendment),
    /// Store an item, in place of the one that is there if any.
    Put(NewItem<'d>),
    /// Remove the item.
    Remove,
}

/// Changes to an item that stays. What is `None` stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Amendment {
    /// A new expiry.
    pub expiry: Option<Expiry>,
    /// A new cas unique, not 0.
    pub cas: Option<u64>,
    /// Facts that hold from now on.
    pub set: ItemState,
    /// Facts that no longer hold.
    pub clear: ItemState,
    /// A number to write over the value, padded with blanks to the value's length. It is no longer than that.
    pub overwrite: Option<Digits>,
    /// Whether this counts as a read.
    pub recency: Recency,
}

impl Default for Amendment {
    /// No change, no bump.
    fn default() -> Self {
        Amendment {
            expiry: None,
            cas: None,
            set: ItemState::NONE,
            clear: ItemState::NONE,
            overwrite: None,
            recency: Recency::Leave,
        }
    }
}

/// An item to store.
#[derive(Clone, Copy, Debug)]
pub struct NewItem<'d> {
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// Its cas unique, not 0; without one it gets one when a client asks.
    pub cas: Option<u64>,
    /// Facts that hold from the start.
    pub state: ItemState,
    /// The value.
    pub value: Value<'d>,
}

/// A number in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    bytes: [u8; 20],
    length: u8,
}

impl Digits {
    /// The digits of `number`.
    pub fn of(number: u64) -> Self {
        let mut bytes = [b'0'; 20];
        let mut rest = number;
        let mut at = bytes.len();
        while rest > 0 || at == bytes.len() {
            at -= 1;
            bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        bytes.copy_within(at.., 0);
        Digits { bytes, length: (20 - at) as u8 }
    }

    /// As text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Where the value of a new item comes from.
#[derive(Clone, Copy, Debug)]
pub enum Value<'d> {
    /// From here.
    Bytes(&'d [u8]),
    /// A number.
    Digits(Digits),
    /// From the pending value given to [`crate::Session::update`].
    Pending,
    /// From the item that is there, with bytes before and after its value.
    Joined {
        /// What comes before.
        before: &'d [u8],
        /// What comes after.
        after: &'d [u8],
    },
}

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(Digits::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}

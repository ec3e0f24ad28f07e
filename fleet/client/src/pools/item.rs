//! Items that callers store and find.

/// An item that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The decompressed value.
    pub value: Vec<u8>,
    /// The application's flags.
    pub flags: u32,
    /// The unique for `cas`; only `gets` returns it.
    pub unique: Option<u64>,
}

/// An item that is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) flags: u32,
    pub(super) expiry: i32,
}

impl<'a> Store<'a> {
    /// A value without flags that lives until it is evicted.
    #[must_use]
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { key, value, flags: 0, expiry: 0 }
    }

    /// Sets the flags. A compressing client uses one bit of them: [`super::COMPRESSED`].
    #[must_use]
    pub fn flags(self, flags: u32) -> Self {
        Self { flags, ..self }
    }

    /// Sets the expiration time as memcached has it: up to 30 days in seconds, beyond that a UNIX
    /// time; 0 is never.
    #[must_use]
    pub fn expiry(self, expiry: i32) -> Self {
        Self { expiry, ..self }
    }
}

/// The result of a conditional store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cas {
    /// It is stored.
    Stored,
    /// The item has changed since; nothing is stored.
    Changed,
    /// The item no longer exists; nothing is stored.
    Missing,
}

//! Items as callers store and find them.

/// An item that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value, as it was before it was compressed.
    pub value: Vec<u8>,
    /// The application's flags.
    pub flags: u32,
    /// By which `cas` knows whether the item has changed: of `gets` alone.
    pub unique: Option<u64>,
}

/// An item that is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) flags: u32,
    pub(super) expiry: i32,
    pub(super) form: KeyForm,
}

/// How a key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// As it is: a word of a line.
    Word,
    Base64,
}

impl<'a> Store<'a> {
    /// A value without flags that lives until it is evicted.
    #[must_use]
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { key, value, flags: 0, expiry: 0, form: KeyForm::Word }
    }

    /// The same with flags. One bit of them is the client's while it compresses: [`super::COMPRESSED`].
    #[must_use]
    pub fn flags(self, flags: u32) -> Self {
        Self { flags, ..self }
    }

    /// The same with an expiration time, as memcached has it: seconds up to 30 days, beyond that the UNIX time; never if it is 0.
    #[must_use]
    pub fn expiry(self, expiry: i32) -> Self {
        Self { expiry, ..self }
    }

    /// The same with a key of any bytes, at most 186: it is sent in base64, and servers mark the item as one with a binary key.
    #[must_use]
    pub fn binary_key(self) -> Self {
        Self { form: KeyForm::Base64, ..self }
    }
}

/// What came of a store that was to replace one certain item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cas {
    /// It is stored.
    Stored,
    /// The item has changed since: nothing is stored.
    Changed,
    /// There is no such item any more: nothing is stored.
    Missing,
}

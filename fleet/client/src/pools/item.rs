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

    /// The same with a key of any bytes, at most 186: it is sent in base64, and servers mark the item as one with a binary key.
    #[must_use]
    pub fn binary_key(self) -> Self {
        Self { form: KeyForm::Base64, ..self }
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

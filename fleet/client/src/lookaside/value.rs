//! Cached values, and their format in items.

/// A flag of items: the database has nothing under this key.
const ABSENT: u32 = 1 << 31;

/// A flag of items: the first eight bytes are the version, the highest byte first.
const VERSIONED: u32 = 1 << 30;

const VERSION_LENGTH: usize = 8;

/// A value of the cache: bytes, an application's flags, and a version if it has given one.
///
/// A version orders the values of a key, as a counter of the row or a commit timestamp does. A value that is older than one
/// that the cache has shown is not stored over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    data: Vec<u8>,
    flags: u32,
    version: Option<u64>,
}

impl Value {
    /// These bytes, without flags and version.
    #[must_use]
    pub fn new(data: impl Into<Vec<u8>>) -> Self {
        Self { data: data.into(), flags: 0, version: None }
    }

    /// With flags, which the application may use to say how the bytes are to be read.
    ///
    /// # Panics
    /// If `flags` is not below 2^30: the two highest bits are this client's.
    #[must_use]
    pub fn with_flags(self, flags: u32) -> Self {
        assert!(flags < VERSIONED, "flags are below 2^30, not {flags}");
        Self { flags, ..self }
    }

    /// With a version, which takes eight bytes of the item.
    #[must_use]
    pub fn with_version(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// The bytes.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The bytes, without a copy.
    #[must_use]
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The application's flags.
    #[must_use]
    pub const fn flags(&self) -> u32 {
        self.flags
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> Option<u64> {
        self.version
    }

    /// Decodes an item with these flags and bytes that a look-aside client stored: a value, or the
    /// fact that the database has none (`Some(None)`). `None` if no such client can have stored it.
    #[must_use]
    pub fn of_item(flags: u32, data: &[u8]) -> Option<Option<Self>> {
        Item { flags, data: data.to_vec() }.value().ok()
    }

    /// Whether both have versions, and this one's is lower.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.version.zip(other.version).is_some_and(|(own, other)| own < other)
    }
}

/// An item as the cache has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) flags: u32,
    pub(super) data: Vec<u8>,
}

impl Item {
    /// The item of what a database has under a key.
    pub(super) fn of(value: Option<&Value>) -> Self {
        let Some(value) = value else { return Self { flags: ABSENT, data: Vec::new() } };
        let Some(version) = value.version else {
            return Self { flags: value.flags, data: value.data.clone() };
        };
        let data = [&version.to_be_bytes()[..], &value.data].concat();
        Self { flags: value.flags | VERSIONED, data }
    }

    /// The value that the database had for the key; `Err` if no look-aside client stored the item.
    pub(super) fn value(mut self) -> Result<Option<Value>, Unreadable> {
        match (self.flags & ABSENT != 0, self.flags & VERSIONED != 0) {
            (true, false) => Ok(None),
            (false, false) => Ok(Some(Value { data: self.data, flags: self.flags, version: None })),
            (false, true) => {
                let version = *self.data.first_chunk::<VERSION_LENGTH>().ok_or(Unreadable)?;
                self.data.drain(..VERSION_LENGTH);
                let version = Some(u64::from_be_bytes(version));
                Ok(Some(Value { data: self.data, flags: self.flags & !VERSIONED, version }))
            }
            (true, true) => Err(Unreadable),
        }
    }
}

/// An item that says something about itself that is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        for value in [
            None,
            Some(Value::new("")),
            Some(Value::new("x").with_flags(7)),
            Some(Value::new("").with_version(0)),
            Some(Value::new("xyz").with_version(u64::MAX).with_flags((1 << 30) - 1)),
        ] {
            assert_eq!(Item::of(value.as_ref()).value(), Ok(value));
        }
        let item = Item::of(Some(&Value::new("x").with_version(258).with_flags(1)));
        assert_eq!(item, Item { flags: (1 << 30) + 1, data: b"\0\0\0\0\0\0\x01\x02x".to_vec() });
        assert_eq!(Item::of(None).flags, 2_147_483_648);
    }

    #[test]
    fn items_that_others_have_stored_are_values_or_unreadable() {
        let value = |flags, data: &[u8]| Item { flags, data: data.to_vec() }.value();
        assert_eq!(value(5, b"x"), Ok(Some(Value::new("x").with_flags(5))));
        assert_eq!(Value::of_item(5, b"x"), Some(Some(Value::new("x").with_flags(5))));
        assert_eq!((Value::of_item(ABSENT, b""), Value::of_item(VERSIONED, b"1")), (Some(None), None));
        assert_eq!(value(VERSIONED, b"1234567"), Err(Unreadable));
        assert_eq!(value(u32::MAX, b"12345678"), Err(Unreadable));
    }

    #[test]
    fn only_versions_order_values() {
        let [one, two] = [1, 2].map(|version| Value::new("x").with_version(version));
        let plain = Value::new("x");
        assert!(one.is_older_than(&two));
        for (value, other) in [(&two, &one), (&one, &one), (&plain, &two), (&two, &plain)] {
            assert!(!value.is_older_than(other));
        }
    }
}

//! The keys that a statement has to name.

/// The keys that a statement names for the invalidator, which deletes them in every region once the
/// change has arrived there.
///
/// Send it to the database with the statement that changes the rows: without it a failed delete
/// leaves an old value in the cache, and the caches of other regions are not notified at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    keys: String,
}

impl Changed {
    pub(super) fn new<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        Self { keys: keys.into_iter().collect::<Vec<_>>().join(" ") }
    }

    /// A comment for a statement of MariaDB, such as `/* mc: user:7 */`; empty if there is no key. It belongs before any
    /// quoted text, and may hold whatever keys hold: a driver must not look for parameters in it.
    #[must_use]
    pub fn comment(&self) -> String {
        if self.keys.is_empty() { String::new() } else { format!("/* mc: {} */", self.keys) }
    }

    /// The keys between blanks, for PostgreSQL: `SELECT pg_logical_emit_message(true, 'mc', $1)`.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::Changed;

    #[test]
    fn keys_stand_between_blanks() {
        let changed = Changed::new(["a", "b"]);
        assert_eq!((&*changed.comment(), changed.message()), ("/* mc: a b */", "a b"));
        assert_eq!(Changed::new([]).comment(), "");
    }
}
